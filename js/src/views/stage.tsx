// One stage of the network: its picture and caption.

import type { ComponentChildren } from "preact";
import {
  channelPictureSize,
  contentsText,
  displayStyle,
  imageShapeText,
} from "../network/display_kind.ts";
import { relativeName } from "../network/layer_names.ts";
import { layerCaption, longType, type Network, type Stage, shortType } from "../network/network.ts";
import type { Layer, Value } from "../plan/schema.ts";
import { BAR_COLUMN_WIDTH, BarColumn, NumberPicture } from "./bar_chart.tsx";
import { useViews } from "./context.ts";
import { ArrowIcon } from "./icons.tsx";
import { useLayerHover } from "./layer_hover.ts";
import { boxMosaic, type MapShape, type Mosaic } from "./layout.ts";
import { LayerBadge } from "./parity.tsx";
import { StageCostBar } from "./profile/cost_bar.tsx";
import { StageMaps } from "./value_picture.tsx";

/** CSS pixels of a stage's picture if each stage has its own scale. */
export const STAGE_SIDE = 132;

/** The layer of a stage that is shown: the selected one, else the last. */
export function shownLayer(stage: Stage, selectedLayer: string | undefined): string {
  return stage.layers.find((layer) => layer.name === selectedLayer)?.name ?? stage.valueKey;
}

/** The shape of a value's maps for the layout; null if the value is not shown as maps. */
export const mapShapeOf = (value: Value | undefined): MapShape | null => {
  if (value === undefined || !displayStyle(value).isPerChannel) return null;
  return { channels: value.nchw[1], ...channelPictureSize(value) };
};

export const ArrowColumn = () => (
  <div class="nbg-arrow">
    <ArrowIcon />
  </div>
);

/** One stage: its picture and caption. */
export function StageView(props: {
  network: Network;
  stage: Stage;
  mosaic: Mosaic | null;
  gap: number;
  height: number;
  /** The module in whose section the stage is shown. */
  group?: string;
}) {
  const { network, stage, gap, height, group = "" } = props;
  const views = useViews();
  const hovered = useLayerHover();
  const selected = views.state.selected.value?.layer;
  const name = shownLayer(stage, selected);
  const value = network.values.get(name) ?? network.values.get(stage.valueKey);
  if (value === undefined) return null;
  const maps = mapShapeOf(value);
  // The mosaic was computed for the stage's last layer; the maps of another layer may have another size.
  const fits =
    maps !== null &&
    JSON.stringify(maps) === JSON.stringify(mapShapeOf(network.values.get(stage.valueKey)));
  const mosaic = fits ? props.mosaic : null;
  const own =
    maps !== null && mosaic === null
      ? boxMosaic(
          maps,
          {
            width: STAGE_SIDE * views.pixelRatio.value,
            height: STAGE_SIDE * views.pixelRatio.value,
          },
          gap,
          Math.round(20 * views.pixelRatio.value),
        )
      : null;
  const chosen = stage.layers.some((layer) => layer.name === selected);
  const select = (layer: string): void => {
    views.state.selected.value = { layer, channel: null };
    // The pointer hovers over the clicked layer, whatever layer the stage showed on enter.
    if (views.hoveredLayer.peek() !== null) views.hoveredLayer.value = layer;
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
          aria-label={`${name}, ${contentsText(value)}`}
          tabIndex={chosen || (selected === undefined && stage === network.stages[0]) ? 0 : -1}
          onClick={() => select(name)}
          onDblClick={open}
        >
          {drawn !== null ? (
            <StageMaps value={value} mosaic={drawn} gap={gap} />
          ) : (
            <NonMapPicture value={value} height={height} />
          )}
        </button>
      </div>
      <div class="nbg-caption">
        <span class="nbg-named">
          <StageTitle text={relativeName(stage.title, group)} /> <LayerBadge layer={name} />
        </span>
        <span>{imageShapeText(value)}</span>
        <StageLayers stage={stage} currentLayer={name} select={select} label={layerCaption} />
        {drawn !== null && drawn.shownCount < value.nchw[1] && (
          <span>
            {drawn.shownCount} of {value.nchw[1]}
          </span>
        )}
        <StageInputs stage={stage} group={group} />
        <StageCostBar layers={stage.layers} />
      </div>
    </div>
  );
}

/** The inputs of a stage, if it does not simply read the preceding stage. */
export const StageInputs = ({ stage, group }: { stage: Stage; group: string }) =>
  stage.inputTitles.length === 0 ? null : (
    <span class="nbg-reads">
      reads {withWordBreaks(stage.inputTitles.map((name) => relativeName(name, group)).join(", "))}
    </span>
  );

/** A name that may wrap at its separators. */
export const withWordBreaks = (name: string): ComponentChildren =>
  name.split(/(?<=[._–/ ])|(?=_)/).map((part, i) => [i > 0 && <wbr />, part]);

export const isShortTitle = (title: string): boolean => title.length <= 14;

/** A short name does not wrap; a long one may wrap, anywhere if necessary. */
export const StageTitle = ({ text }: { text: string }) => (
  <strong class={isShortTitle(text) ? "nbg-name nbg-keep" : "nbg-name"}>
    {isShortTitle(text) ? text : withWordBreaks(text)}
  </strong>
);

/** A value without maps: bars of a vector, or a number. */
function NonMapPicture({ value, height }: { value: Value; height: number }) {
  if (displayStyle(value).name === "number") return <NumberPicture value={value} />;
  const label = `${value.key}, ${contentsText(value)}`;
  return <BarColumn value={value} width={BAR_COLUMN_WIDTH} height={height} label={label} />;
}

/** "Conv·BN·ReLU": buttons that select each layer of a stage. */
export function StageLayers(props: {
  stage: Stage;
  currentLayer: string;
  select: (layer: string) => void;
  /** The label of a layer. */
  label?: (layer: Layer) => string;
}) {
  const { stage, currentLayer, select, label = shortType } = props;
  const part = (layer: Layer) => (
    <button
      type="button"
      key={layer.name}
      class={layer.name === currentLayer ? "nbg-part nbg-current" : "nbg-part"}
      tabIndex={-1}
      title={`${layer.name} ${longType(layer)}${layer.description ? `(${layer.description})` : ""}`}
      onClick={() => select(layer.name)}
    >
      {label(layer)}
    </button>
  );
  return <span class="nbg-parts">{stage.layers.map(part)}</span>;
}
