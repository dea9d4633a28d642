// Maps of a layer: all its channels in an order, one of them large, the values of the layer.

import { useEffect, useState } from "preact/hooks";
import { full } from "../../format.ts";
import { channelsOf, displayOf, unitsOf } from "../../network/display.ts";
import { type Network, picturedAs, type Stage } from "../../network/network.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import type { Order } from "../../state.ts";
import { Select } from "../choice.tsx";
import { ColorChoice, RangeChoice } from "../coloring.tsx";
import { useStatistics, useViews } from "../context.ts";
import { SmallFilters } from "../filters/small.tsx";
import { boundsOf, type Flag, flagOf } from "../flags.ts";
import { pictureSize } from "../layout.ts";
import { Legend } from "../legend.tsx";
import { Maps } from "../maps.tsx";
import { orderOf, PAGE } from "../order.ts";
import { Pages } from "../pages.tsx";
import { weighted } from "../weights.ts";
import { Channels } from "./channels.tsx";
import { Inspector } from "./inspector.tsx";
import { LayerValues, Similar, useSimilarity } from "./values.tsx";

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
export function MapsView(props: {
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
  const { name, drawn, image } = displayOf(value);
  const vector = name === "bars";
  const pages = Math.ceil(order.length / PAGE);
  const page = Math.min(asked, Math.max(0, pages - 1));
  const shown = order.slice(page * PAGE, (page + 1) * PAGE);
  const compared = state.compared.value?.layer === value.key ? state.compared.value.channels : [];
  const pictured = displayOf(picturedAs(network, value)).image;
  const colours = name === "maps" && length === 3 && !pictured;
  const wide = views.width.value >= 760;
  const presenting = state.presenting.value;
  const width = views.width.value - 48 - (wide ? 28 + (presenting ? 480 : 300) : 0);
  const plan = state.plan.value;
  const kernels = plan && stage && layer ? weighted(plan, network, stage) : null;
  const own = kernels !== null && kernels.outputs === length ? kernels : null;
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
        {drawn !== undefined && !image && <RangeChoice curves={drawn === "curves"} />}
        {drawn !== undefined && drawn !== "curves" && !image && <ColorChoice />}
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
                  {own !== null && <SmallFilters kernels={own} order={shown} width={width} />}
                  {!vector && <Similar {...{ value, channel, width, alike }} />}
                  <LayerValues {...{ value, width, statistics }} />
                </>
              )}
            </>
          )}
        </div>
        {later && <Inspector {...{ value, statistics, channel, compared, order }} kernels={own} />}
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
