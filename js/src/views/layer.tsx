import type { ColorMapName } from "../gl/types.ts";
import { contents, displayOf } from "../network/display.ts";
import { firstValue, longType, type Network, type Stage, said } from "../network/network.ts";
import type { Layer, Value } from "../plan.ts";
import type { RangeMode, Section } from "../state.ts";
import type * as bend from "./bend/room.ts";
import type * as channels from "./channels/room.ts";
import { Choice, Select } from "./choice.tsx";
import { useLater, useViews } from "./context.ts";
import type * as explain from "./explain/room.ts";
import type * as filters from "./filters/room.ts";
import { Badge } from "./parity.tsx";
import { PythonNote } from "./python.tsx";
import { Rail } from "./rail.tsx";
import { Room, roomOf } from "./rooms.tsx";
import { broken } from "./stage.tsx";
import type * as trail from "./trail/room.ts";
import { parametersOf } from "./weights.ts";

const SECTIONS: readonly (readonly [Section, string])[] = [
  ["maps", "Maps"],
  ["filters", "Filters"],
  ["explain", "Explain"],
  ["bend", "Bend"],
];
const COLORS: readonly (readonly [ColorMapName, string])[] = [
  ["signed", "Signed"],
  ["viridis", "Viridis"],
  ["cividis", "Cividis"],
  ["magma", "Magma"],
  ["grey", "Grey"],
];
const RANGES: readonly (readonly [RangeMode, string])[] = [
  ["channel", "Channel"],
  ["layer", "Layer"],
  ["fixed", "Fixed"],
];

export function LayerView({ network }: { network: Network }) {
  const { state } = useViews();
  const { section } = state;
  const later = useLater();
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
  const shown = section.value === "filters" && !hasFilters ? "maps" : section.value;
  const bending = shown === "bend" && roomOf<typeof bend>("bend");
  return (
    <div class="nbg-layer" data-layer={value.key}>
      <Rail network={network} current={value.key} pictures={later} />
      <div class="nbg-head">
        <div class="nbg-title">
          <strong class="nbg-big">{broken(value.key)}</strong> <Badge layer={value.key} />
          <span class="nbg-second">{broken(titleOf(value, layer, stage))}</span>
        </div>
        {bending && <bending.Tools value={value} />}
        <Choice
          label="What of the layer"
          items={SECTIONS}
          now={shown}
          off={!hasFilters && "filters"}
          choose={(one) => {
            section.value = one;
          }}
        />
      </div>
      {shown !== "explain" && <PythonNote layer={value.key} />}
      {shown === "maps" && (
        <Room<typeof channels> name="channels">
          {({ MapsView }) => (
            <MapsView key={value.key} {...{ network, value, stage, layer, later }} />
          )}
        </Room>
      )}
      {shown === "filters" && stage && <FiltersView {...{ network, stage, value }} />}
      {shown === "explain" && (
        <Room<typeof explain> name="explain">
          {({ ExplainView }) => <ExplainView network={network} value={value} stage={stage} />}
        </Room>
      )}
      {shown === "bend" && (
        <Room<typeof bend> name="bend">
          {({ BendView }) => <BendView network={network} value={value} />}
        </Room>
      )}
      {shown === "explain" && value.kind === "input" && (
        <Room<typeof trail> name="trail">
          {({ End }) => <End network={network} value={value} />}
        </Room>
      )}
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

export function ColorChoice() {
  const { colormap } = useViews().state;
  return (
    <Select
      label="Colour"
      items={COLORS}
      now={colormap.value}
      choose={(map) => {
        colormap.value = map;
      }}
    />
  );
}

export function RangeChoice({ curves = false }: { curves?: boolean }) {
  const { range, colormap, symmetric } = useViews().state;
  // Curves have no colour map.
  const signed = colormap.value === "signed" && !curves;
  return (
    <>
      <div class="nbg-labelled">
        <span class="nbg-second">Range</span>
        <Choice
          label="Range"
          items={RANGES}
          now={range.value}
          choose={(mode) => {
            range.value = mode;
          }}
        />
      </div>
      <label
        class="nbg-labelled"
        title={signed ? "the signed colour map always is" : "as far below zero as above"}
      >
        <input
          type="checkbox"
          checked={signed || symmetric.value}
          disabled={signed}
          onChange={(event) => {
            symmetric.value = event.currentTarget.checked;
          }}
        />
        <span class="nbg-second">± around zero</span>
      </label>
    </>
  );
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
      <Room<typeof filters> name="filters">
        {({ Filters }) => <Filters network={network} stage={stage} width={width.value - 48} />}
      </Room>
    </>
  );
}
