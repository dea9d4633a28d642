// The Maps view of a layer: all channels in a selectable order, one of them enlarged, and the layer's values.

import { useEffect, useState } from "preact/hooks";
import { channelCount, channelCountText, displayStyle } from "../../network/display_kind.ts";
import { displayedValue, type Network, type Stage } from "../../network/network.ts";
import { formatInteger } from "../../number_format.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import type { ChannelOrder } from "../../state.ts";
import { activationBounds, type ChannelFlag, flagOf } from "../channel_flags.ts";
import { channelOrder, PAGE_SIZE } from "../channel_order.ts";
import { Select } from "../choice.tsx";
import { ColorMapSelect, RangeModeChoice } from "../color_controls.tsx";
import { useStatistics, useViews } from "../context.ts";
import { CompactFilters } from "../filters/compact_filters.tsx";
import { stageKernels } from "../layer_weights.ts";
import { pictureSize } from "../layout.ts";
import { Legend } from "../legend.tsx";
import { Maps } from "../maps.tsx";
import { Pagination } from "../pagination.tsx";
import { ChannelInspector } from "./channel_inspector.tsx";
import { LayerChannels } from "./channels.tsx";
import {
  LayerHistogram,
  SimilarChannels,
  useChannelSimilarities,
} from "./similarity_and_histogram.tsx";

const CHANNEL_ORDER_ITEMS: readonly (readonly [ChannelOrder, string])[] = [
  ["number", "Number"],
  ["mean", "Mean"],
  ["max", "Maximum"],
  ["variance", "Variance"],
  ["similarity", "Similarity"],
];
/** The filter on the shown channels. */
type ShownChannelsMode = "all" | "live" | ChannelFlag;
const SHOWN_CHANNELS_ITEMS: readonly (readonly [ShownChannelsMode, string])[] = [
  ["all", "All"],
  ["live", "Active"],
  ["dead", "Dead"],
  ["sat", "Saturated"],
];
export function MapsView(props: {
  network: Network;
  value: Value;
  stage: Stage | undefined;
  layer: Layer | undefined;
  /** Whether to render the rest of the view too, after the first paint of the channels. */
  hasPainted: boolean;
}) {
  const { network, value, stage, layer, hasPainted } = props;
  const views = useViews();
  const { state } = views;
  const statistics = useStatistics(value);
  const [asked, setPage] = useState(0);
  const [which, setWhich] = useState<ShownChannelsMode>("all");
  const length = channelCount(value);
  const chosen = state.selected.value?.channel;
  const by = state.channelOrder.value;
  const plain = channelOrder(length, by, statistics);
  const channel = chosen ?? plain[0] ?? 0;
  const similarities = useChannelSimilarities(
    hasPainted || by === "similarity" ? value : null,
    channel,
  );
  const bounds = activationBounds(layer);
  const flags = statistics?.channels.map((one) => flagOf(one, bounds)) ?? [];
  const flagged = flags.some((flag) => flag !== null);
  const order = (
    by === "similarity" ? channelOrder(length, by, statistics, similarities) : plain
  ).filter((one) => which === "all" || (flags[one] ?? "live") === which);
  const { name, drawMode, isImage } = displayStyle(value);
  const vector = name === "bars";
  const pages = Math.ceil(order.length / PAGE_SIZE);
  const page = Math.min(asked, Math.max(0, pages - 1));
  const shown = order.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE);
  const comparedChannels =
    state.comparedChannels.value?.layer === value.key ? state.comparedChannels.value.channels : [];
  const pictured = displayStyle(displayedValue(network, value)).isImage;
  const colours = name === "maps" && length === 3 && !pictured;
  const wide = views.width.value >= 760;
  const presenting = state.isPresenting.value;
  const width = views.width.value - 48 - (wide ? 28 + (presenting ? 480 : 300) : 0);
  const plan = state.plan.value;
  const kernels = plan && stage && layer ? stageKernels(plan, network, stage) : null;
  const own = kernels !== null && kernels.outputCount === length ? kernels : null;
  useEffect(() => {
    views.channelOrder.value = order;
  });
  return (
    <>
      <div class="nbg-controls">
        {name !== "number" && (
          <Select
            label="Sort"
            items={CHANNEL_ORDER_ITEMS}
            selected={state.channelOrder.value}
            choose={(by) => {
              state.channelOrder.value = by;
            }}
          />
        )}
        {name !== "number" && (flagged || which !== "all") && (
          <Select label="Show" items={SHOWN_CHANNELS_ITEMS} selected={which} choose={setWhich} />
        )}
        {drawMode !== undefined && !isImage && (
          <RangeModeChoice showsCurves={drawMode === "curves"} />
        )}
        {drawMode !== undefined && drawMode !== "curves" && !isImage && <ColorMapSelect />}
        {drawMode !== undefined && (
          <Legend value={value} statistics={statistics} channel={channel} />
        )}
        <span class="nbg-space" />
        <span class="nbg-second">
          {shown.length < length && `${formatInteger(shown.length)} of `}
          {name !== "number" && channelCountText(value, length)}
        </span>
      </div>
      <div class="nbg-two">
        <div class="nbg-main">
          <LayerChannels
            value={value}
            channels={shown}
            statistics={statistics}
            selectedChannel={channel}
            comparedChannels={comparedChannels}
            bounds={bounds}
            width={width}
          />
          {shown.length === 0 && <p class="nbg-note">No channel matches this filter.</p>}
          {hasPainted && (
            <>
              {colours && <RgbPicture value={value} />}
              {pages > 1 && <Pagination page={page} pageCount={pages} go={setPage} />}
              {!presenting && (
                <>
                  {own !== null && <CompactFilters kernels={own} order={shown} width={width} />}
                  {!vector && <SimilarChannels {...{ value, channel, width, similarities }} />}
                  <LayerHistogram {...{ value, width, statistics }} />
                </>
              )}
            </>
          )}
        </div>
        {hasPainted && (
          <ChannelInspector
            {...{ value, statistics, channel, comparedChannels, channelOrder: order }}
            kernels={own}
          />
        )}
      </div>
    </>
  );
}

/** Three channels as the red, green and blue of one picture. */
function RgbPicture({ value }: { value: Value }) {
  const { pixelRatio } = useViews();
  const [, , height, width] = value.nchw;
  const { scale } = pictureSize(height, width, {
    width: 168 * pixelRatio.value,
    height: 168 * pixelRatio.value,
  });
  return (
    <section class="nbg-block">
      <h3>
        The three channels as one picture <span class="nbg-second">red, green, blue</span>
      </h3>
      <Maps
        value={value}
        channels={[0, 1, 2]}
        columns={1}
        scale={scale}
        label={`the channels of ${value.key} as red, green and blue`}
        isRgb
      />
    </section>
  );
}
