// The network in a narrow view: the input and output pictures on top, then one row per stage.

import {
  channelPictureSize,
  contentsText,
  displayStyle,
  imageShapeText,
} from "../network/display_kind.ts";
import { leafName, relativeName } from "../network/layer_names.ts";
import { layerCaption, layerSettingsText, type Network, type Stage } from "../network/network.ts";
import type { Value } from "../plan/schema.ts";
import { BarChart, NumberPicture } from "./bar_chart.tsx";
import { useViews } from "./context.ts";
import { Endpoints } from "./endpoints.tsx";
import { RightIcon } from "./icons.tsx";
import { boxMosaic } from "./layout.ts";
import { LayerBadge } from "./parity.tsx";
import { StageInputs, StageTitle, shownLayer } from "./stage.tsx";
import { moduleGroups } from "./stage_rows.tsx";
import { StageMaps } from "./value_picture.tsx";

export function StageList({ network, stages }: { network: Network; stages: readonly Stage[] }) {
  const { state, width } = useViews();
  const groups = moduleGroups(stages);
  const side = Math.max(60, Math.floor((width.value - 24 - 12) / 2));
  return (
    <div class="nbg-list" role="group" aria-label="Network, from input to output">
      <div class="nbg-both">
        <Endpoints values={network.inputs} network={network} side={side} label="Input" />
        <Endpoints values={network.outputs} network={network} side={side} label="Output" />
      </div>
      {groups.map((group) => [
        // A single module needs no heading: its name is in every row.
        groups.length > 2 && <h3 key={group.name}>{group.name || state.plan.value?.name}</h3>,
        group.stages.map((stage) => (
          <StageListItem
            key={stage.valueKey}
            network={network}
            stage={stage}
            group={groups.length > 2 ? group.name : ""}
          />
        )),
      ])}
    </div>
  );
}

function StageListItem({
  network,
  stage,
  group,
}: {
  network: Network;
  stage: Stage;
  group: string;
}) {
  const { state, width, pixelRatio } = useViews();
  const name = shownLayer(stage, state.selected.value?.layer);
  const value = network.values.get(name);
  if (value === undefined) return null;
  const chosen = stage.layers.some((layer) => layer.name === state.selected.value?.layer);
  const room = width.value - 20 - 104 - 32;
  const head = stage.layers.find((layer) => layerSettingsText(layer) !== "") ?? stage.layers[0];
  const open = (): void => {
    state.selected.value = { layer: name, channel: null };
    state.tab.value = "layer";
  };
  return (
    <button
      type="button"
      class={chosen ? "nbg-row nbg-chosen" : "nbg-row"}
      data-layer={name}
      aria-label={`Open ${name}, ${contentsText(value)}`}
      onClick={open}
    >
      <span class="nbg-caption">
        <span class="nbg-named">
          <StageTitle text={relativeName(stage.title, group)} /> <LayerBadge layer={name} />
        </span>
        <span>{head && layerCaption(head)}</span>
        <span>{imageShapeText(value)}</span>
        <StageInputs stage={stage} group={group} />
      </span>
      <span class="nbg-six">
        <RowMaps value={value} width={room} pixelRatio={pixelRatio.value} />
      </span>
      <RightIcon />
    </button>
  );
}

/** As many maps as fit a row, usually six; a vector as upright bars. */
function RowMaps({
  value,
  width,
  pixelRatio,
}: {
  value: Value;
  width: number;
  pixelRatio: number;
}) {
  const label = `${leafName(value.key)}, ${contentsText(value)}`;
  const { name } = displayStyle(value);
  if (name === "number") return <NumberPicture value={value} />;
  if (name === "bars") {
    const most = Math.floor(width / 6);
    return (
      <BarChart value={value} width={width} height={44} maxBars={most} upright label={label} />
    );
  }
  const channels = value.nchw[1];
  const { height: mapHeight, width: mapWidth } = channelPictureSize(value);
  const gap = Math.round(pixelRatio);
  const tile = Math.floor((width * pixelRatio - 5 * gap) / 6);
  const box = { width: width * pixelRatio, height: Math.max(tile, 24 * pixelRatio) };
  const maps = { channels: Math.min(6, channels), height: mapHeight, width: mapWidth };
  const scale =
    Math.max(mapHeight, mapWidth) <= tile
      ? Math.floor(tile / Math.max(mapHeight, mapWidth))
      : 1 / Math.ceil(Math.max(mapHeight, mapWidth) / tile);
  const shownCount = maps.channels;
  const mosaic = {
    ...boxMosaic(maps, box, gap, tile),
    shownCount,
    columns: shownCount,
    rows: 1,
    scale,
  };
  return <StageMaps value={value} mosaic={mosaic} gap={gap} />;
}
