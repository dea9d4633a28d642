// The Compare tab: a layer of A, of B and their difference, its channels, and how much each layer differs.
import { useEffect, useState } from "preact/hooks";
import { short } from "../../../format.ts";
import { contents, displayOf } from "../../../network/display.ts";
import { longType, type Network } from "../../../network/network.ts";
import type { Comparison, Pair, Value } from "../../../plan/schema.ts";
import { Choice, Select } from "../../../views/choice.tsx";
import { ColorChoice } from "../../../views/coloring.tsx";
import { useStatistics, useViews } from "../../../views/context.ts";
import { Grid } from "../../../views/grid.tsx";
import { PAGE } from "../../../views/order.ts";
import { Pages } from "../../../views/pages.tsx";
import { Changes, useChanges } from "./changes.tsx";
import { byDifference, type Change, relativeText, shownPair } from "./pairs.ts";
import { Pictures, type Showing } from "./pictures.tsx";

const SHOWINGS: readonly (readonly [Showing, string])[] = [
  ["beside", "Side by side"],
  ["wipe", "Wipe"],
  ["hold", "Hold A"],
];
const ORDERS = [
  ["difference", "Difference"],
  ["number", "Number"],
] as const;
const RANGES = [
  ["channel", "Channel"],
  ["layer", "Layer"],
  ["fixed", "Fixed"],
] as const;
/** CSS pixels of the table beside the channels. */
const TABLE = 400;

export function CompareView({ network }: { network: Network }) {
  const { state } = useViews();
  const comparison = state.plan.value?.comparison;
  return comparison ? <Compared network={network} comparison={comparison} /> : null;
}

function Compared(props: { network: Network; comparison: Comparison }) {
  const { network, comparison } = props;
  const { state, width } = useViews();
  const [showing, setShowing] = useState<Showing>("beside");
  const changes = useChanges(network, comparison);
  const pair = shownPair(network, state.selected.value);
  const difference = network.values.get(pair?.difference ?? "");
  const statistics = useStatistics(difference ?? null);
  if (pair === undefined || difference === undefined) return null;
  const wide = width.value >= 760;
  const room = width.value - 48 - (wide ? TABLE + 28 : 0);
  const channels = difference.nchw[1];
  // Until one is chosen, the channel that differs most.
  const [most = 0] = statistics === null ? [] : byDifference(statistics);
  const channel = Math.min(state.selected.value?.channel ?? most, channels - 1);
  const several = channels > 1;
  return (
    <div class="nbg-compare" data-pair={pair.name}>
      <div class="nbg-head">
        <div class="nbg-title">
          <strong class="nbg-big">{pair.name}</strong>
          <span class="nbg-second">{aboutPair(network, pair, difference)}</span>
        </div>
        <Choice label="How A and B are shown" items={SHOWINGS} now={showing} choose={setShowing} />
      </div>
      <p class="nbg-differs">{saidOf(changes.get(pair))}</p>
      <Pictures
        network={network}
        comparison={comparison}
        pair={pair}
        channel={channel}
        showing={showing}
      />
      <div class="nbg-two">
        <div class="nbg-aside">
          <h3>Layers</h3>
          <Changes network={network} changes={changes} shown={pair} />
          <Alone comparison={comparison} />
        </div>
        {several && (
          <div class="nbg-main">
            <Channels key={pair.name} value={difference} channel={channel} width={room} />
          </div>
        )}
      </div>
    </div>
  );
}

/** "Conv2d · 32 channels of 14×14 · B: BatchNorm2d body.2". */
function aboutPair(network: Network, pair: Pair, difference: Value): string {
  const [a, b] = [pair.a, pair.b].map((key) => network.layers.find((one) => one.name === key));
  const type = a ? [longType(a)] : [];
  const other = pair.b.slice(2);
  const differs = other !== pair.name || (a && b && longType(a) !== longType(b));
  const against = differs ? [`in B ${other}${b ? `, ${longType(b)}` : ""}`] : [];
  return [...type, contents(difference), ...against].join(" · ");
}

function saidOf(change: Change | undefined): string {
  if (change === undefined) return "…";
  if (change.max === 0) return "A and B are equal here.";
  const relative = `${relativeText(change.relative)} of A’s mean size`;
  return `|B − A| is ${short(change.mean)} in the mean, ${relative}, and ${short(change.max)} at most.`;
}

/** All channels of the difference; the chosen one is shown above. */
function Channels(props: { value: Value; channel: number; width: number }) {
  const { value, channel, width } = props;
  const views = useViews();
  const { state } = views;
  const statistics = useStatistics(value);
  const [by, setBy] = useState<"number" | "difference">("difference");
  const [page, setPage] = useState(0);
  const length = value.nchw[1];
  const numbers = Array.from({ length }, (_, i) => i);
  const order = by === "difference" && statistics ? byDifference(statistics) : numbers;
  const pages = Math.ceil(length / PAGE);
  useEffect(() => {
    views.order.value = order;
  });
  return (
    <>
      <h3>B − A of each channel</h3>
      <div class="nbg-controls">
        <Select label="Sort" items={ORDERS} now={by} choose={setBy} />
        {displayOf(value).each && (
          <>
            <span class="nbg-labelled">
              <span class="nbg-second">Range</span>
              <Choice
                label="Range"
                items={RANGES}
                now={state.range.value}
                choose={(mode) => {
                  state.range.value = mode;
                }}
              />
            </span>
            <ColorChoice />
          </>
        )}
      </div>
      <Grid
        value={value}
        channels={order.slice(page * PAGE, (page + 1) * PAGE)}
        statistics={statistics}
        selected={channel}
        compared={[]}
        bounds={null}
        width={width}
        map="signed"
      />
      {pages > 1 && <Pages page={page} pages={pages} go={setPage} />}
    </>
  );
}

/** What has no partner is said, not left out. */
function Alone({ comparison }: { comparison: Comparison }) {
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
