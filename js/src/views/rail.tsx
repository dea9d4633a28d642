// One small picture per layer, so that one always knows where one is.
import { useEffect, useRef } from "preact/hooks";
import { contents, leafName, type Network, pictureOf } from "../network/network.ts";
import type { Value } from "../plan.ts";
import { useStatistics, useViews } from "./context.ts";
import { byVariation, fitScale } from "./layout.ts";
import { Maps } from "./maps.tsx";

const SIDE = 28;

/** Inputs, layers and outputs in order, with the module that holds them. */
function entriesOf(network: Network) {
  const layers = network.layers.flatMap((layer) => {
    const value = network.values.get(layer.name);
    const stage = network.stages.find((one) => one.layers.includes(layer));
    // The layer that makes the output is drawn as the output is, as an image.
    const output = network.outputs.find((one) => one.texture === value?.texture);
    const word = leafName(layer.name);
    return value ? [{ value, drawn: output ?? value, word, group: stage?.group ?? "" }] : [];
  });
  const many = network.inputs.length > 1;
  const inputs = network.inputs.map((value) => ({
    value,
    drawn: value,
    word: many ? value.key : "in",
    group: "\0in",
  }));
  return [...inputs, ...layers];
}

export function Rail(props: { network: Network; current: string; pictures: boolean }) {
  const { network, current, pictures } = props;
  const { state } = useViews();
  const list = useRef<HTMLDivElement>(null);
  // Only the rail scrolls; scrollIntoView would move the notebook too.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another current layer is what moves it
  useEffect(() => {
    const rail = list.current;
    const item = rail?.querySelector<HTMLElement>("[aria-current=true]");
    if (!rail || !item) return;
    const left = item.offsetLeft - rail.offsetLeft;
    if (left < rail.scrollLeft || left + item.offsetWidth > rail.scrollLeft + rail.clientWidth) {
      rail.scrollLeft = left - rail.clientWidth / 2;
    }
  }, [current]);
  const entries = entriesOf(network);
  return (
    <nav class="nbg-rail" aria-label="Layers">
      <div class="nbg-rail-list" ref={list}>
        {entries.map(({ value, drawn, word, group }, i) => (
          <button
            type="button"
            key={value.key}
            class={
              i > 0 && entries[i - 1]?.group !== group ? "nbg-rail-item nbg-first" : "nbg-rail-item"
            }
            aria-current={value.key === current}
            title={`${value.key}, ${contents(value)}`}
            tabIndex={value.key === current ? 0 : -1}
            onClick={() => {
              state.selected.value = { layer: value.key, channel: null };
            }}
          >
            <span class="nbg-rail-picture">{pictures && <RailPicture value={drawn} />}</span>
            <span>{word}</span>
          </button>
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

/** The channel that varies most; a vector as a square of its values. */
function RailPicture({ value }: { value: Value }) {
  const ratio = useViews().ratio.value;
  const [, channels, height, width] = value.frame;
  const picture = pictureOf(value);
  const statistics = useStatistics(picture === "maps" ? value : null);
  const side = SIDE * ratio;
  if (picture === "bars" || picture === "number") {
    const columns = Math.ceil(Math.sqrt(Math.min(channels, 256)));
    return (
      <Maps
        value={value}
        channels={Array.from({ length: Math.min(channels, 256) }, (_, i) => i)}
        columns={columns}
        scale={Math.max(1, Math.floor(side / columns))}
        label={value.key}
      />
    );
  }
  const liveliest = statistics && byVariation(statistics.channels)[0];
  const shown = picture === "rgb" ? [0, 1, 2] : [liveliest ?? 0];
  const scale = fitScale(Math.max(height, width), side);
  return <Maps value={value} channels={shown} columns={1} scale={scale} label={value.key} />;
}
