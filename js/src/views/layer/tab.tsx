// The Layer tab: which layer, what of it, and that.

import { contents, displayOf } from "../../network/display.ts";
import { firstValue, longType, type Network, type Stage, said } from "../../network/network.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import type { Section } from "../../state.ts";
import { Choice } from "../choice.tsx";
import { ColorChoice } from "../coloring.tsx";
import { useLater, useViews } from "../context.ts";
import { ExplainView } from "../explain/view.tsx";
import { Filters } from "../filters/filters.tsx";
import { Badge } from "../parity.tsx";
import { PythonNote } from "../python.tsx";
import { Slot, useFilled } from "../slot.tsx";
import { broken } from "../stage.tsx";
import { End } from "../trail/view.tsx";
import { parametersOf } from "../weights.ts";
import { MapsView } from "./maps.tsx";
import { Rail } from "./rail.tsx";

const SECTIONS: readonly (readonly [Section, string])[] = [
  ["maps", "Maps"],
  ["filters", "Filters"],
  ["explain", "Explain"],
  ["bend", "Bend"],
];
export function LayerView({ network }: { network: Network }) {
  const { state } = useViews();
  const { section } = state;
  const later = useLater();
  const canBend = useFilled("bend");
  const name = state.selected.value?.layer;
  const value = network.values.get(name ?? "") ?? firstValue(network);
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
  const shown = isThere[section.value] ? section.value : "maps";
  return (
    <div class="nbg-layer" data-layer={value.key}>
      <Rail network={network} current={value.key} pictures={later} />
      <div class="nbg-head">
        <div class="nbg-title">
          <strong class="nbg-big">{broken(value.key)}</strong> <Badge layer={value.key} />
          <span class="nbg-second">{broken(titleOf(value, layer, stage))}</span>
        </div>
        {shown === "bend" && <Slot name="bendTools" of={{ value }} />}
        <Choice
          label="What of the layer"
          items={SECTIONS.filter(([name]) => name !== "bend" || canBend)}
          now={shown}
          off={!hasFilters && "filters"}
          choose={(one) => {
            section.value = one;
          }}
        />
      </div>
      {shown !== "explain" && <PythonNote layer={value.key} />}
      {shown === "maps" && (
        <MapsView key={value.key} {...{ network, value, stage, layer, later }} />
      )}
      {shown === "filters" && stage && <FiltersView {...{ network, stage, value }} />}
      {shown === "explain" && <ExplainView network={network} value={value} stage={stage} />}
      {shown === "bend" && <Slot name="bend" of={{ network, value }} />}
      {shown === "explain" && value.kind === "input" && <End network={network} value={value} />}
    </div>
  );
}

/** "ReLU · 32 channels of 14×14 · after encoder.0 Conv2d and encoder.1 BatchNorm2d". */
function titleOf(value: Value, layer: Layer | undefined, stage: Stage | undefined): string {
  if (layer === undefined) return contents(value);
  const before = stage?.layers.slice(0, stage.layers.indexOf(layer)) ?? [];
  const names = before.map((one) => `${one.name} ${longType(one)}`);
  const after = names.length > 0 ? [`after ${names.join(" and ")}`] : [];
  const told = said(layer, longType(layer));
  // PyTorch's own words where there are no shorter ones.
  const described = told === longType(layer) && layer.description !== "" ? [layer.description] : [];
  return [told, contents(value), ...described, ...after].join(" · ");
}

function FiltersView(props: { network: Network; stage: Stage; value: Value }) {
  const { network, stage, value } = props;
  const { width } = useViews();
  return (
    <>
      {displayOf(value).drawn !== "curves" && (
        <div class="nbg-controls">
          <ColorChoice />
        </div>
      )}
      <Filters network={network} stage={stage} width={width.value - 48} />
    </>
  );
}
