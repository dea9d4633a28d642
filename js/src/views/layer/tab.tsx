// The Layer tab: a layer selector, the selector of a view, and that view of the layer.

import { contentsText, displayStyle } from "../../network/display_kind.ts";
import {
  initiallySelectedValue,
  layerText,
  longType,
  type Network,
  type Stage,
} from "../../network/network.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import type { LayerSection } from "../../state.ts";
import { Choice } from "../choice.tsx";
import { ColorMapSelect } from "../color_controls.tsx";
import { useAfterFirstPaint, useViews } from "../context.ts";
import { ExplainView } from "../explain/view.tsx";
import { InputTrail } from "../explain_trail/view.tsx";
import { Filters } from "../filters/filters.tsx";
import { parametersOf } from "../layer_weights.ts";
import { LayerBadge } from "../parity.tsx";
import { PythonNote } from "../python_layers.tsx";
import { Slot, useIsSlotFilled } from "../slot.tsx";
import { withWordBreaks } from "../stage.tsx";
import { MapsView } from "./maps_view.tsx";
import { LayerRail } from "./rail.tsx";

const LAYER_SECTION_ITEMS: readonly (readonly [LayerSection, string])[] = [
  ["maps", "Maps"],
  ["filters", "Filters"],
  ["explain", "Explain"],
  ["bend", "Bend"],
];
export function LayerTab({ network }: { network: Network }) {
  const { state } = useViews();
  const { layerSection } = state;
  const hasPainted = useAfterFirstPaint();
  const canBend = useIsSlotFilled("bend");
  const name = state.selected.value?.layer;
  const value = network.values.get(name ?? "") ?? initiallySelectedValue(network);
  const plan = state.plan.value;
  if (value === undefined || plan === null) {
    return (
      <p class="nbg-note">No layer’s values are kept: the network was compiled for its outputs.</p>
    );
  }
  const layer = network.layers.find((one) => one.name === value.key);
  const stage = network.stages.find((one) => layer !== undefined && one.layers.includes(layer));
  const hasFilters =
    stage?.layers.some((one) => parametersOf(plan, network, one).length > 0) ?? false;
  const isThere = { filters: hasFilters, bend: canBend, maps: true, explain: true };
  const shown = isThere[layerSection.value] ? layerSection.value : "maps";
  return (
    <div class="nbg-layer" data-layer={value.key}>
      <LayerRail network={network} currentKey={value.key} showsPictures={hasPainted} />
      <div class="nbg-head">
        <div class="nbg-title">
          <strong class="nbg-big">{withWordBreaks(value.key)}</strong>{" "}
          <LayerBadge layer={value.key} />
          <span class="nbg-second">{withWordBreaks(layerDescription(value, layer, stage))}</span>
        </div>
        {shown === "bend" && <Slot name="bendTools" slotProps={{ value }} />}
        <Choice
          label="Section of the layer"
          items={LAYER_SECTION_ITEMS.filter(([name]) => name !== "bend" || canBend)}
          selected={shown}
          disabledItem={!hasFilters && "filters"}
          choose={(one) => {
            layerSection.value = one;
          }}
        />
      </div>
      {shown !== "explain" && <PythonNote layer={value.key} />}
      {shown === "maps" && (
        <MapsView key={value.key} {...{ network, value, stage, layer, hasPainted }} />
      )}
      {shown === "filters" && stage && <FiltersView {...{ network, stage, value }} />}
      {shown === "explain" && <ExplainView network={network} value={value} stage={stage} />}
      {shown === "bend" && <Slot name="bend" slotProps={{ network, value }} />}
      {shown === "explain" && value.kind === "input" && (
        <InputTrail network={network} value={value} />
      )}
    </div>
  );
}

/** The layer's description, e.g. "ReLU · 32 channels of 14×14 · after encoder.0 Conv2d and encoder.1 BatchNorm2d". */
function layerDescription(
  value: Value,
  layer: Layer | undefined,
  stage: Stage | undefined,
): string {
  if (layer === undefined) return contentsText(value);
  const before = stage?.layers.slice(0, stage.layers.indexOf(layer)) ?? [];
  const names = before.map((one) => `${one.name} ${longType(one)}`);
  const after = names.length > 0 ? [`after ${names.join(" and ")}`] : [];
  const told = layerText(layer, longType(layer));
  // PyTorch's own description if there is no shorter one.
  const described = told === longType(layer) && layer.description !== "" ? [layer.description] : [];
  return [told, contentsText(value), ...described, ...after].join(" · ");
}

function FiltersView(props: { network: Network; stage: Stage; value: Value }) {
  const { network, stage, value } = props;
  const { width } = useViews();
  return (
    <>
      {displayStyle(value).drawMode !== "curves" && (
        <div class="nbg-controls">
          <ColorMapSelect />
        </div>
      )}
      <Filters network={network} stage={stage} width={width.value - 48} />
    </>
  );
}
