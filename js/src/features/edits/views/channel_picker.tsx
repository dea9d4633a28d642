// The left column: the channels to select from, and buttons for sets of them.
import type { FunctionComponent } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { channelNoun } from "../../../network/display_kind.ts";
import { formatInteger } from "../../../number_format.ts";
import type { Statistics } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import { useExampleValues } from "../../../views/bar_chart.tsx";
import { PAGE_SIZE } from "../../../views/channel_order.ts";
import { useViews } from "../../../views/context.ts";
import { Pagination } from "../../../views/pagination.tsx";
import { isReadable } from "../../../views/run_queries.ts";
import { bendViewState, type ChannelSelection } from "./channel_selection.ts";
import {
  allChannels,
  type ChannelStatistic,
  clusterChannels,
  everyNthChannel,
  invertChannels,
  randomHalf,
  topChannels,
} from "./channel_sets.ts";
import { editTitle } from "./edit_operations.ts";
import { SelectionGrid } from "./selection_grid.tsx";

const TOP_CHANNEL_STATISTICS: readonly (readonly [ChannelStatistic, string])[] = [
  ["mean", "8 largest by mean"],
  ["max", "8 largest by maximum"],
  ["std", "8 largest by standard deviation"],
];

interface ChannelPickerProps {
  value: Value;
  statistics: Statistics | null;
  currentChannel: number;
  selection: ChannelSelection;
  width: number;
}

export function ChannelPicker(props: ChannelPickerProps) {
  const { value, selection } = props;
  const views = useViews();
  const { editedBendName: name } = bendViewState(views.state);
  const [asked, setPage] = useState(0);
  const count = value.nchw[1];
  const order = useMemo(() => allChannels(count), [count]);
  const pages = Math.ceil(count / PAGE_SIZE);
  const page = Math.min(asked, pages - 1);
  useEffect(() => {
    views.channelOrder.value = order;
  }, [views, order]);
  const { bend, selected } = selection;
  return (
    <section class="nbg-bend-channels" aria-label="Channels to bend">
      <header class="nbg-bend-heading">
        <h3>
          {bend === null ? "Channels to bend" : `Channels of ${editTitle(bend)}`}{" "}
          <span class="nbg-mine" aria-live="polite" data-picked={selected.size}>
            {formatInteger(selected.size)} selected
          </span>
        </h3>
        {bend === null ? (
          <span class="nbg-second nbg-wide">click, drag or Shift-click</span>
        ) : (
          <button
            type="button"
            class="nbg-button"
            onClick={() => {
              name.value = "";
            }}
          >
            Done
          </button>
        )}
      </header>
      <SelectionGrid {...props} channels={order.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE)} />
      {pages > 1 && <Pagination page={page} pageCount={pages} go={setPage} />}
      {count > 1 && <ChannelSets {...props} />}
    </section>
  );
}

const ChannelSets: FunctionComponent<ChannelPickerProps> = ({ value, statistics, selection }) => {
  const { selected, select: pick } = selection;
  const [seed, setSeed] = useState(0);
  const [grouped, setGrouped] = useState(false);
  const count = value.nchw[1];
  const button = (word: string, channels: () => Iterable<number>, title?: string) => (
    <button type="button" class="nbg-button" title={title} onClick={() => pick(channels())}>
      {word}
    </button>
  );
  const random = (): number[] => {
    setSeed(seed + 1);
    return randomHalf(count, seed);
  };
  return (
    <>
      <div class="nbg-bend-sets" role="group" aria-label="Sets of channels">
        {button("All", () => allChannels(count))}
        {button("None", () => [])}
        {button("Invert", () => invertChannels(selected, count))}
        {button("Every 2nd", () => everyNthChannel(2, count))}
        {button("Random", random, "a random half; click again for another one")}
        <select
          class="nbg-select"
          aria-label="By a statistic"
          disabled={statistics === null}
          value=""
          onChange={(event) => {
            const by = TOP_CHANNEL_STATISTICS.find(
              ([one]) => one === event.currentTarget.value,
            )?.[0];
            if (by !== undefined && statistics !== null) pick(topChannels(statistics, by));
            event.currentTarget.value = "";
          }}
        >
          <option value="" hidden>
            By mean
          </option>
          {TOP_CHANNEL_STATISTICS.map(([by, word]) => (
            <option key={by} value={by}>
              {word}
            </option>
          ))}
        </select>
        {count > 3 && isReadable(value) && (
          <button
            type="button"
            class="nbg-button"
            aria-expanded={grouped}
            title="groups of channels with similar maps (k-means)"
            onClick={() => setGrouped(!grouped)}
          >
            By cluster
          </button>
        )}
      </div>
      {grouped && (
        <ChannelClusters value={value} selectChannels={pick} selectedChannels={selected} />
      )}
    </>
  );
};

/** Clusters of similar maps, computed once when opened: a bend would change them. */
function ChannelClusters(props: {
  value: Value;
  selectedChannels: ReadonlySet<number>;
  selectChannels: ChannelSelection["select"];
}) {
  const { value, selectedChannels, selectChannels } = props;
  const values = useExampleValues(value);
  const here = values !== null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the numbers of later runs are no news
  const groups = useMemo(
    () => (values === null ? [] : clusterChannels(values, value.nchw[1])),
    [here, value.key],
  );
  if (!here) return <p class="nbg-second">…</p>;
  return (
    <div class="nbg-bend-sets" role="group" aria-label="Clusters of similar channels">
      {groups.map((group, i) => (
        <button
          type="button"
          key={group[0]}
          class="nbg-button"
          aria-pressed={
            group.length === selectedChannels.size &&
            group.every((one) => selectedChannels.has(one))
          }
          title={group.join(", ")}
          aria-label={`Cluster ${i + 1}: ${channelNoun(value)}s ${group.join(", ")}`}
          onClick={() => selectChannels(group)}
        >
          {group.length} like {group[0]}
        </button>
      ))}
    </div>
  );
}
