// One small picture per layer, so that one always knows where one is.

import { useEffect, useRef } from "preact/hooks";
import { contents, displayOf, frameOf } from "../../network/display.ts";
import { brief, within } from "../../network/names.ts";
import { type Network, picturedAs } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";
import { NumberPicture } from "../bars.tsx";
import { Bent } from "../bent.tsx";
import { useStatistics, useViews } from "../context.ts";
import { Thumb } from "../kinds/thumb.tsx";
import { byVariation, fitScale } from "../layout.ts";
import { Maps } from "../maps.tsx";

const SIDE = 28;
/** Of a layer's name: a longer one would part the pictures. */
const LETTERS = 14;
const INPUTS = "\0in"; // no module's name

interface Entry {
  readonly value: Value;
  readonly drawn: Value;
  /** Its name within the module around it. */
  readonly word: string;
  readonly group: string;
}

/** Inputs and layers in order, those of a module together. */
function entriesOf(network: Network): { group: string; entries: Entry[] }[] {
  const layers = network.layers.flatMap((layer) => {
    const value = network.values.get(layer.name);
    const stage = network.stages.find((one) => one.layers.includes(layer));
    const group = stage?.group ?? "";
    const word = within(layer.name, group);
    return value ? [{ value, drawn: picturedAs(network, value), word, group }] : [];
  });
  const inputs = network.inputs.map((value) => ({
    value,
    drawn: value,
    word: value.key,
    group: INPUTS,
  }));
  const groups: { group: string; entries: Entry[] }[] = [];
  for (const entry of [...inputs, ...layers]) {
    const last = groups.at(-1);
    if (last?.group === entry.group) last.entries.push(entry);
    else groups.push({ group: entry.group, entries: [entry] });
  }
  return groups;
}

export function Rail(props: { network: Network; current: string; pictures: boolean }) {
  const { network, current, pictures } = props;
  const list = useRef<HTMLDivElement>(null);
  const width = useViews().width.value;
  // Only the rail scrolls; scrollIntoView would move the notebook too.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another layer or width is what moves it
  useEffect(() => {
    const rail = list.current;
    const item = rail?.querySelector<HTMLElement>("[aria-current=true]");
    if (!rail || !item) return;
    const left = item.offsetLeft - rail.offsetLeft;
    if (left < rail.scrollLeft || left + item.offsetWidth > rail.scrollLeft + rail.clientWidth) {
      rail.scrollLeft = left - rail.clientWidth / 2;
    }
  }, [current, width]);
  const groups = entriesOf(network);
  // One module needs no heading: its name stands nowhere else either.
  const headed = groups.filter(({ group }) => group !== INPUTS).length > 1;
  return (
    <nav class="nbg-rail" aria-label="Layers">
      <div class="nbg-rail-list" ref={list}>
        {groups.map(({ group, entries }) => (
          <div class="nbg-rail-group" key={entries[0]?.value.key}>
            {headed && <span class="nbg-second">{group === INPUTS ? "" : group}</span>}
            <div class="nbg-rail-items">
              {entries.map((entry) => (
                <Item
                  key={entry.value.key}
                  entry={entry}
                  current={entry.value.key === current}
                  pictures={pictures}
                />
              ))}
            </div>
          </div>
        ))}
      </div>
      <span class="nbg-hint" aria-hidden="true">
        <span>
          <kbd>←</kbd> <kbd>→</kbd> layer
        </span>
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> channel
        </span>
      </span>
    </nav>
  );
}

function Item(props: { entry: Entry; current: boolean; pictures: boolean }) {
  const { current, pictures } = props;
  const { value, drawn, word } = props.entry;
  const { selected } = useViews().state;
  return (
    <button
      type="button"
      class="nbg-rail-item"
      aria-current={current}
      title={`${value.key}, ${contents(value)}`}
      tabIndex={current ? 0 : -1}
      onClick={() => {
        selected.value = { layer: value.key, channel: null };
      }}
    >
      <span class="nbg-rail-picture">{pictures && <RailPicture value={drawn} />}</span>
      <span>{brief(word, LETTERS)}</span>
      <Bent layer={value.key} />
    </button>
  );
}

/** The channel that varies most; bars of a vector, the number of a scalar. */
function RailPicture({ value }: { value: Value }) {
  const ratio = useViews().ratio.value;
  const channels = value.nchw[1];
  const { height, width } = frameOf(value);
  const { name, each, drawn, image } = displayOf(value);
  const statistics = useStatistics(each ? value : null);
  const side = SIDE * ratio;
  if (value.shape.includes(0)) return null;
  if (name === "number") return <NumberPicture value={value} />;
  if (drawn === undefined) {
    return <Thumb value={value} side={SIDE} />;
  }
  const liveliest = statistics && byVariation(statistics.channels)[0];
  const shown = image ? Array.from({ length: channels }, (_, i) => i) : [liveliest ?? 0];
  const scale = drawn === "curves" ? side / width : fitScale(Math.max(height, width), side);
  return <Maps value={value} channels={shown} columns={1} scale={scale} label={value.key} still />;
}
