// One stage of the network: its picture, and below it what it is.

import type { ComponentChildren } from "preact";
import { contents, displayOf, frameOf, imageShape } from "../network/display.ts";
import { within } from "../network/names.ts";
import { describe, longType, type Network, type Stage, shortType } from "../network/network.ts";
import type { Layer, Value } from "../plan/schema.ts";
import { BARS_WIDTH, NumberPicture, TallBars } from "./bars.tsx";
import { useViews } from "./context.ts";
import { Arrow } from "./icons.tsx";
import { boxMosaic, type Maps, type Mosaic } from "./layout.ts";
import { Badge } from "./parity.tsx";
import { StageMaps } from "./picture.tsx";
import { StageBar } from "./profile/bars.tsx";
import { useHovered } from "./select.ts";

/** CSS pixels of a stage's picture where each has its own scale. */
export const BOX = 132;

/** The layer of a stage that is shown: the selected one, else the last. */
export function shownLayer(stage: Stage, selected: string | undefined): string {
  return stage.layers.find((layer) => layer.name === selected)?.name ?? stage.key;
}

/** A value's maps for the layout; null for what is shown otherwise. */
export const mapsOf = (value: Value | undefined): Maps | null => {
  if (value === undefined || !displayOf(value).each) return null;
  return { channels: value.nchw[1], ...frameOf(value) };
};

export const ArrowColumn = () => (
  <div class="nbg-arrow">
    <Arrow />
  </div>
);

/** One stage: its picture, and below it what it is. */
export function StageView(props: {
  network: Network;
  stage: Stage;
  mosaic: Mosaic | null;
  gap: number;
  height: number;
  /** The module whose heading it stands under. */
  group?: string;
}) {
  const { network, stage, gap, height, group = "" } = props;
  const views = useViews();
  const hovered = useHovered();
  const selected = views.state.selected.value?.layer;
  const name = shownLayer(stage, selected);
  const value = network.values.get(name) ?? network.values.get(stage.key);
  if (value === undefined) return null;
  const maps = mapsOf(value);
  // The layout was made for the stage's last layer; another one of it may have maps of another size.
  const fits =
    maps !== null && JSON.stringify(maps) === JSON.stringify(mapsOf(network.values.get(stage.key)));
  const mosaic = fits ? props.mosaic : null;
  const own =
    maps !== null && mosaic === null
      ? boxMosaic(
          maps,
          { width: BOX * views.ratio.value, height: BOX * views.ratio.value },
          gap,
          Math.round(20 * views.ratio.value),
        )
      : null;
  const chosen = stage.layers.some((layer) => layer.name === selected);
  const select = (layer: string): void => {
    views.state.selected.value = { layer, channel: null };
    // The pointer is on what it clicked, whatever the stage showed when it came.
    if (views.pointed.peek() !== null) views.pointed.value = layer;
  };
  const open = (): void => {
    select(name);
    views.state.tab.value = "layer";
  };
  const drawn = mosaic ?? own;
  return (
    <div
      class={chosen ? "nbg-stage nbg-chosen" : "nbg-stage"}
      data-layer={name}
      onPointerEnter={() => hovered.enter(name)}
      onPointerLeave={() => hovered.leave(name)}
    >
      <div class="nbg-shown">
        <button
          type="button"
          class="nbg-picture"
          aria-pressed={chosen}
          aria-label={`${name}, ${contents(value)}`}
          tabIndex={chosen || (selected === undefined && stage === network.stages[0]) ? 0 : -1}
          onClick={() => select(name)}
          onDblClick={open}
        >
          {drawn !== null ? (
            <StageMaps value={value} mosaic={drawn} gap={gap} />
          ) : (
            <SmallPicture value={value} height={height} />
          )}
        </button>
      </div>
      <div class="nbg-caption">
        <span class="nbg-named">
          <Title text={within(stage.title, group)} /> <Badge layer={name} />
        </span>
        <span>{imageShape(value)}</span>
        <Parts stage={stage} shown={name} select={select} word={describe} />
        {drawn !== null && drawn.shown < value.nchw[1] && (
          <span>
            {drawn.shown} of {value.nchw[1]}
          </span>
        )}
        <Reads stage={stage} group={group} />
        <StageBar layers={stage.layers} />
      </div>
    </div>
  );
}

/** What a stage reads, where that isn't simply what stands before it. */
export const Reads = ({ stage, group }: { stage: Stage; group: string }) =>
  stage.reads.length === 0 ? null : (
    <span class="nbg-reads">
      reads {broken(stage.reads.map((name) => within(name, group)).join(", "))}
    </span>
  );

/** A name that may go on in the next line at its separators. */
export const broken = (name: string): ComponentChildren =>
  name.split(/(?<=[._–/ ])|(?=_)/).map((part, i) => [i > 0 && <wbr />, part]);

export const isShort = (title: string): boolean => title.length <= 14;

/** A short name stays on one line; a long one may break, anywhere if it must. */
export const Title = ({ text }: { text: string }) => (
  <strong class={isShort(text) ? "nbg-name nbg-keep" : "nbg-name"}>
    {isShort(text) ? text : broken(text)}
  </strong>
);

/** What isn't maps: bars of a vector, or a number. */
function SmallPicture({ value, height }: { value: Value; height: number }) {
  if (displayOf(value).name === "number") return <NumberPicture value={value} />;
  const label = `${value.key}, ${contents(value)}`;
  return <TallBars value={value} width={BARS_WIDTH} height={height} label={label} />;
}

/** Conv·BN·ReLU, each a way to show that layer. */
export function Parts(props: {
  stage: Stage;
  shown: string;
  select: (layer: string) => void;
  /** What each is called. */
  word?: (layer: Layer) => string;
}) {
  const { stage, shown, select, word = shortType } = props;
  const part = (layer: Layer) => (
    <button
      type="button"
      key={layer.name}
      class={layer.name === shown ? "nbg-part nbg-current" : "nbg-part"}
      tabIndex={-1}
      title={`${layer.name} ${longType(layer)}${layer.description ? `(${layer.description})` : ""}`}
      onClick={() => select(layer.name)}
    >
      {word(layer)}
    </button>
  );
  return <span class="nbg-parts">{stage.layers.map(part)}</span>;
}
