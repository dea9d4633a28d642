// The Compare tab: a layer of A, of B and their difference; its channels; and a table of all layers' differences.
import { useEffect, useState } from "preact/hooks";
import { contentsText, displayStyle } from "../../../network/display_kind.ts";
import { longType, type Network } from "../../../network/network.ts";
import { formatShort } from "../../../number_format.ts";
import type { Comparison, LayerPair, Value } from "../../../plan/schema.ts";
import { ChannelGrid } from "../../../views/channel_grid.tsx";
import { PAGE_SIZE } from "../../../views/channel_order.ts";
import { Choice, Select } from "../../../views/choice.tsx";
import { ColorMapSelect } from "../../../views/color_controls.tsx";
import { useStatistics, useViews } from "../../../views/context.ts";
import { Pagination } from "../../../views/pagination.tsx";
import { ComparedPictures, type CompareMode } from "./compared_pictures.tsx";
import { DifferenceTable, useDifferences } from "./difference_table.tsx";
import {
  type LayerDifference,
  rankByDifference,
  relativeText,
  selectedPair,
} from "./layer_pairs.ts";

const COMPARE_MODES: readonly (readonly [CompareMode, string])[] = [
  ["beside", "Side by side"],
  ["wipe", "Wipe"],
  ["hold", "Hold A"],
];
const CHANNEL_ORDERS = [
  ["difference", "Difference"],
  ["number", "Number"],
] as const;
const RANGE_MODES = [
  ["channel", "Channel"],
  ["layer", "Layer"],
  ["fixed", "Fixed"],
] as const;
/** Width in CSS pixels of the table beside the channels. */
const TABLE_WIDTH = 400;

export function CompareView({ network }: { network: Network }) {
  const { state } = useViews();
  const comparison = state.plan.value?.comparison;
  return comparison ? <LayerComparison network={network} comparison={comparison} /> : null;
}

function LayerComparison(props: { network: Network; comparison: Comparison }) {
  const { network, comparison } = props;
  const { state, width } = useViews();
  const [showing, setShowing] = useState<CompareMode>("beside");
  const changes = useDifferences(network, comparison);
  const pair = selectedPair(network, state.selected.value);
  const difference = network.values.get(pair?.difference ?? "");
  const statistics = useStatistics(difference ?? null);
  if (pair === undefined || difference === undefined) return null;
  const wide = width.value >= 760;
  const room = width.value - 48 - (wide ? TABLE_WIDTH + 28 : 0);
  const channels = difference.nchw[1];
  // By default, the channel with the largest difference.
  const [most = 0] = statistics === null ? [] : rankByDifference(statistics);
  const channel = Math.min(state.selected.value?.channel ?? most, channels - 1);
  const several = channels > 1;
  return (
    <div class="nbg-compare" data-pair={pair.name}>
      <div class="nbg-head">
        <div class="nbg-title">
          <strong class="nbg-big">{pair.name}</strong>
          <span class="nbg-second">{pairDescription(network, pair, difference)}</span>
        </div>
        <Choice
          label="How A and B are shown"
          items={COMPARE_MODES}
          selected={showing}
          choose={setShowing}
        />
      </div>
      <p class="nbg-difference-text">{differenceText(changes.get(pair))}</p>
      <ComparedPictures
        network={network}
        comparison={comparison}
        pair={pair}
        channel={channel}
        compareMode={showing}
      />
      <div class="nbg-two">
        <div class="nbg-aside">
          <h3>Layers</h3>
          <DifferenceTable network={network} differences={changes} shownPair={pair} />
          <UnpairedLayers comparison={comparison} />
        </div>
        {several && (
          <div class="nbg-main">
            <DifferenceChannels key={pair.name} value={difference} channel={channel} width={room} />
          </div>
        )}
      </div>
    </div>
  );
}

/** The subtitle of a pair: "Conv2d · 32 channels of 14×14 · in B body.2, BatchNorm2d". */
function pairDescription(network: Network, pair: LayerPair, difference: Value): string {
  const [a, b] = [pair.a, pair.b].map((key) => network.layers.find((one) => one.name === key));
  const type = a ? [longType(a)] : [];
  const other = pair.b.slice(2);
  const differs = other !== pair.name || (a && b && longType(a) !== longType(b));
  const against = differs ? [`in B ${other}${b ? `, ${longType(b)}` : ""}`] : [];
  return [...type, contentsText(difference), ...against].join(" · ");
}

function differenceText(difference: LayerDifference | undefined): string {
  if (difference === undefined) return "…";
  if (difference.max === 0) return "A and B are equal here.";
  const relative = `${relativeText(difference.relative)} of mean |A|`;
  return `Mean |B − A|: ${formatShort(difference.mean)} (${relative}); maximum: ${formatShort(difference.max)}.`;
}

/** All channels of the difference; the selected one is shown above. */
function DifferenceChannels(props: { value: Value; channel: number; width: number }) {
  const { value, channel, width } = props;
  const views = useViews();
  const { state } = views;
  const statistics = useStatistics(value);
  const [by, setBy] = useState<"number" | "difference">("difference");
  const [page, setPage] = useState(0);
  const length = value.nchw[1];
  const numbers = Array.from({ length }, (_, i) => i);
  const order = by === "difference" && statistics ? rankByDifference(statistics) : numbers;
  const pages = Math.ceil(length / PAGE_SIZE);
  useEffect(() => {
    views.channelOrder.value = order;
  });
  return (
    <>
      <h3>B − A of each channel</h3>
      <div class="nbg-controls">
        <Select label="Sort" items={CHANNEL_ORDERS} selected={by} choose={setBy} />
        {displayStyle(value).isPerChannel && (
          <>
            <span class="nbg-labelled">
              <span class="nbg-second">Range</span>
              <Choice
                label="Range"
                items={RANGE_MODES}
                selected={state.rangeMode.value}
                choose={(mode) => {
                  state.rangeMode.value = mode;
                }}
              />
            </span>
            <ColorMapSelect />
          </>
        )}
      </div>
      <ChannelGrid
        value={value}
        channels={order.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE)}
        statistics={statistics}
        selectedChannel={channel}
        comparedChannels={[]}
        bounds={null}
        width={width}
        colorMap="signed"
      />
      {pages > 1 && <Pagination page={page} pageCount={pages} go={setPage} />}
    </>
  );
}

/** List the layers without a counterpart in the other network. */
function UnpairedLayers({ comparison }: { comparison: Comparison }) {
  const of = (letter: string, keys: readonly string[]) =>
    keys.length > 0 && (
      <p class="nbg-second" key={letter}>
        Only in {letter}: {keys.map((key) => key.slice(2)).join(", ")}
      </p>
    );
  return (
    <>
      {of("A", comparison.only_a)}
      {of("B", comparison.only_b)}
    </>
  );
}
