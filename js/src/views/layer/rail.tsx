// The layer rail: one small picture per layer, with the current layer marked.

import { useEffect, useRef } from "preact/hooks";
import { channelPictureSize, contentsText, displayStyle } from "../../network/display_kind.ts";
import { relativeName, shortenName } from "../../network/layer_names.ts";
import { displayedValue, type Network } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";
import { NumberPicture } from "../bar_chart.tsx";
import { useStatistics, useViews } from "../context.ts";
import { EditBadgeSlot } from "../edit_badge_slot.tsx";
import { fitScale, rankByVariation } from "../layout.ts";
import { Maps } from "../maps.tsx";
import { VectorThumb } from "../value_views/vector_thumb.tsx";

const PICTURE_SIDE = 28;
/** The most characters of a layer's label: a longer one would push the pictures apart. */
const MAX_LABEL_LENGTH = 14;
const INPUT_GROUP = "\0in"; // cannot be the name of a module

interface RailEntry {
  readonly value: Value;
  readonly picturedValue: Value;
  /** The name relative to the surrounding module. */
  readonly label: string;
  readonly group: string;
}

/** Inputs and layers in order, grouped by module. */
function railGroups(network: Network): { group: string; entries: RailEntry[] }[] {
  const layers = network.layers.flatMap((layer) => {
    const value = network.values.get(layer.name);
    const stage = network.stages.find((one) => one.layers.includes(layer));
    const group = stage?.groupModule ?? "";
    const label = relativeName(layer.name, group);
    return value ? [{ value, picturedValue: displayedValue(network, value), label, group }] : [];
  });
  const inputs = network.inputs.map((value) => ({
    value,
    picturedValue: value,
    label: value.key,
    group: INPUT_GROUP,
  }));
  const groups: { group: string; entries: RailEntry[] }[] = [];
  for (const entry of [...inputs, ...layers]) {
    const last = groups.at(-1);
    if (last?.group === entry.group) last.entries.push(entry);
    else groups.push({ group: entry.group, entries: [entry] });
  }
  return groups;
}

export function LayerRail(props: { network: Network; currentKey: string; showsPictures: boolean }) {
  const { network, currentKey, showsPictures } = props;
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
  }, [currentKey, width]);
  const groups = railGroups(network);
  // A single module needs no heading.
  const headed = groups.filter(({ group }) => group !== INPUT_GROUP).length > 1;
  return (
    <nav class="nbg-rail" aria-label="Layers">
      <div class="nbg-rail-list" ref={list}>
        {groups.map(({ group, entries }) => (
          <div class="nbg-rail-group" key={entries[0]?.value.key}>
            {headed && <span class="nbg-second">{group === INPUT_GROUP ? "" : group}</span>}
            <div class="nbg-rail-items">
              {entries.map((entry) => (
                <RailItem
                  key={entry.value.key}
                  entry={entry}
                  isCurrent={entry.value.key === currentKey}
                  showsPictures={showsPictures}
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

function RailItem(props: { entry: RailEntry; isCurrent: boolean; showsPictures: boolean }) {
  const { isCurrent, showsPictures } = props;
  const { value, picturedValue, label } = props.entry;
  const { selected } = useViews().state;
  return (
    <button
      type="button"
      class="nbg-rail-item"
      aria-current={isCurrent}
      title={`${value.key}, ${contentsText(value)}`}
      tabIndex={isCurrent ? 0 : -1}
      onClick={() => {
        selected.value = { layer: value.key, channel: null };
      }}
    >
      <span class="nbg-rail-picture">{showsPictures && <RailPicture value={picturedValue} />}</span>
      <span>{shortenName(label, MAX_LABEL_LENGTH)}</span>
      <EditBadgeSlot layer={value.key} />
    </button>
  );
}

/** The channel with the largest variance; bars of a vector, the number of a scalar. */
function RailPicture({ value }: { value: Value }) {
  const ratio = useViews().pixelRatio.value;
  const channels = value.nchw[1];
  const { height, width } = channelPictureSize(value);
  const { name, isPerChannel, drawMode, isImage } = displayStyle(value);
  const statistics = useStatistics(isPerChannel ? value : null);
  const side = PICTURE_SIDE * ratio;
  if (value.shape.includes(0)) return null;
  if (name === "number") return <NumberPicture value={value} />;
  if (drawMode === undefined) {
    return <VectorThumb value={value} side={PICTURE_SIDE} />;
  }
  const liveliest = statistics && rankByVariation(statistics.channels)[0];
  const shown = isImage ? Array.from({ length: channels }, (_, i) => i) : [liveliest ?? 0];
  const scale = drawMode === "curves" ? side / width : fitScale(Math.max(height, width), side);
  return (
    <Maps value={value} channels={shown} columns={1} scale={scale} label={value.key} hidesMarks />
  );
}
