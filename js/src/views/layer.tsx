// The Layer tab: the rail, one layer's title, and its maps or filters.
import { useEffect, useState } from "preact/hooks";
import { full } from "../format.ts";
import type { ColorMapName } from "../gl/types.ts";
import { channelsOf, contents, displayOf, unitsOf } from "../network/display.ts";
import { firstValue, longType, type Network, type Stage, said } from "../network/network.ts";
import type { Layer, Value } from "../plan.ts";
import type { Order, RangeMode, Section } from "../state.ts";
import type * as bend from "./bend/room.ts";
import { Channels } from "./channels.tsx";
import { Choice, Select } from "./choice.tsx";
import { useLater, useStatistics, useViews } from "./context.ts";
import type * as explain from "./explain/room.ts";
import type * as filters from "./filters/room.ts";
import { boundsOf, type Flag, flagOf } from "./flags.ts";
import type * as inspector from "./inspector/room.ts";
import { pictureSize } from "./layout.ts";
import { Legend } from "./legend.tsx";
import { Maps } from "./maps.tsx";
import { orderOf, PAGE } from "./order.ts";
import { Pages } from "./pages.tsx";
import { Badge } from "./parity.tsx";
import { PythonNote } from "./python.tsx";
import { Rail } from "./rail.tsx";
import { Room, roomOf } from "./rooms.tsx";
import type * as trail from "./trail/room.ts";
import { LayerValues, Similar, useSimilarity } from "./values.tsx";
import { parametersOf, weighted } from "./weights.ts";

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
const ORDERS: readonly (readonly [Order, string])[] = [
  ["number", "Number"],
  ["mean", "Mean"],
  ["max", "Maximum"],
  ["variance", "Variance"],
  ["similarity", "Similarity"],
];
/** Which channels are shown. */
type Shown = "all" | "live" | Flag;
const SHOWN: readonly (readonly [Shown, string])[] = [
  ["all", "All"],
  ["live", "Neither dead nor saturated"],
  ["dead", "Dead"],
  ["sat", "Saturated"],
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
          <strong class="nbg-big">{value.key}</strong> <Badge layer={value.key} />
          <span class="nbg-second">{titleOf(value, layer, stage)}</span>
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
        <MapsView key={value.key} {...{ network, value, stage, layer, later }} />
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

function MapsView(props: {
  network: Network;
  value: Value;
  stage: Stage | undefined;
  layer: Layer | undefined;
  /** Not only the channels. */
  later: boolean;
}) {
  const { network, value, stage, layer, later } = props;
  const views = useViews();
  const { state } = views;
  const statistics = useStatistics(value);
  const [asked, setPage] = useState(0);
  const [which, setWhich] = useState<Shown>("all");
  const length = channelsOf(value);
  const chosen = state.selected.value?.channel;
  const by = state.order.value;
  const plain = orderOf(length, by, statistics);
  const channel = chosen ?? plain[0] ?? 0;
  const alike = useSimilarity(later || by === "similarity" ? value : null, channel);
  const bounds = boundsOf(layer);
  const flags = statistics?.channels.map((one) => flagOf(one, bounds)) ?? [];
  const flagged = flags.some((flag) => flag !== null);
  const order = (by === "similarity" ? orderOf(length, by, statistics, alike) : plain).filter(
    (one) => which === "all" || (flags[one] ?? "live") === which,
  );
  const { name, drawn } = displayOf(value);
  const vector = name === "bars";
  const pages = Math.ceil(order.length / PAGE);
  const page = Math.min(asked, Math.max(0, pages - 1));
  const shown = order.slice(page * PAGE, (page + 1) * PAGE);
  const compared = state.compared.value?.layer === value.key ? state.compared.value.channels : [];
  const colours = name === "maps" && length === 3;
  const wide = views.width.value >= 760;
  const presenting = state.presenting.value;
  const width = views.width.value - 48 - (wide ? 28 + (presenting ? 480 : 300) : 0);
  const plan = state.plan.value;
  const kernels = plan && stage && layer ? weighted(plan, network, stage) : null;
  const own = kernels !== null && kernels.outputs === length ? kernels : null;
  const room = roomOf<typeof filters>("filters");
  useEffect(() => {
    views.order.value = order;
  });
  return (
    <>
      <div class="nbg-controls">
        {name !== "number" && (
          <Select
            label="Sort"
            items={ORDERS}
            now={state.order.value}
            choose={(by) => {
              state.order.value = by;
            }}
          />
        )}
        {name !== "number" && (flagged || which !== "all") && (
          <Select label="Show" items={SHOWN} now={which} choose={setWhich} />
        )}
        {drawn !== undefined && <RangeChoice curves={drawn === "curves"} />}
        {drawn !== undefined && drawn !== "curves" && <ColorChoice />}
        {drawn !== undefined && <Legend value={value} statistics={statistics} channel={channel} />}
        <span class="nbg-space" />
        <span class="nbg-second">
          {shown.length < length && `${full(shown.length)} of `}
          {name !== "number" && unitsOf(value, length)}
        </span>
      </div>
      <div class="nbg-two">
        <div class="nbg-main">
          <Channels
            value={value}
            channels={shown}
            statistics={statistics}
            selected={channel}
            compared={compared}
            bounds={bounds}
            width={width}
          />
          {shown.length === 0 && <p class="nbg-note">No channel of this picture is.</p>}
          {later && (
            <>
              {colours && <Colours value={value} />}
              {pages > 1 && <Pages page={page} pages={pages} go={setPage} />}
              {!presenting && (
                <>
                  {own !== null && room && (
                    <room.SmallFilters kernels={own} order={shown} width={width} />
                  )}
                  {!vector && <Similar {...{ value, channel, width, alike }} />}
                  <LayerValues {...{ value, width, statistics }} />
                </>
              )}
            </>
          )}
        </div>
        {later && (
          <Room<typeof inspector> name="inspector">
            {({ Inspector }) => (
              <Inspector {...{ value, statistics, channel, compared, order }} kernels={own} />
            )}
          </Room>
        )}
      </div>
    </>
  );
}

/** Three channels as red, green and blue of one picture. */
function Colours({ value }: { value: Value }) {
  const { ratio } = useViews();
  const [, , height, width] = value.nchw;
  const { scale } = pictureSize(height, width, {
    width: 168 * ratio.value,
    height: 168 * ratio.value,
  });
  return (
    <section class="nbg-block">
      <h3>
        The three as one picture <span class="nbg-second">red, green, blue</span>
      </h3>
      <Maps
        value={value}
        channels={[0, 1, 2]}
        columns={1}
        scale={scale}
        label={`the channels of ${value.key} as red, green and blue`}
        rgb
      />
    </section>
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
