// Left: the channels to pick from, and buttons for sets of them.
import type { FunctionComponent } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { full } from "../../../format.ts";
import { unitOf } from "../../../network/display.ts";
import type { Statistics } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import { useImageValues } from "../../../views/bars.tsx";
import { useViews } from "../../../views/context.ts";
import { isReadable } from "../../../views/measures.ts";
import { PAGE } from "../../../views/order.ts";
import { Pages } from "../../../views/pages.tsx";
import { PickGrid } from "./grid.tsx";
import { type Picks, pickingOf } from "./picks.ts";
import { all, type By, clusters, every, half, inverse, top } from "./sets.ts";
import { calledOf } from "./stack.ts";

const STATISTICS: readonly (readonly [By, string])[] = [
  ["mean", "8 largest by mean"],
  ["max", "8 largest by maximum"],
  ["std", "8 largest by deviation"],
];

interface Props {
  value: Value;
  statistics: Statistics | null;
  current: number;
  picks: Picks;
  width: number;
}

export function ChannelPicker(props: Props) {
  const { value, picks } = props;
  const views = useViews();
  const { of: name } = pickingOf(views.state);
  const [asked, setPage] = useState(0);
  const count = value.nchw[1];
  const order = useMemo(() => all(count), [count]);
  const pages = Math.ceil(count / PAGE);
  const page = Math.min(asked, pages - 1);
  useEffect(() => {
    views.order.value = order;
  }, [views, order]);
  const { of, picked } = picks;
  return (
    <section class="nbg-bend-channels" aria-label="Channels to bend">
      <header class="nbg-bend-heading">
        <h3>
          {of === null ? "Channels to bend" : `Channels of ${calledOf(of)}`}{" "}
          <span class="nbg-mine" aria-live="polite" data-picked={picked.size}>
            {full(picked.size)} picked
          </span>
        </h3>
        {of === null ? (
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
      <PickGrid {...props} channels={order.slice(page * PAGE, (page + 1) * PAGE)} />
      {pages > 1 && <Pages page={page} pages={pages} go={setPage} />}
      {count > 1 && <Sets {...props} />}
    </section>
  );
}

const Sets: FunctionComponent<Props> = ({ value, statistics, picks }) => {
  const { picked, pick } = picks;
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
    return half(count, seed);
  };
  return (
    <>
      <div class="nbg-bend-sets" role="group" aria-label="Sets of channels">
        {button("All", () => all(count))}
        {button("None", () => [])}
        {button("Invert", () => inverse(picked, count))}
        {button("Every 2nd", () => every(2, count))}
        {button("Random", random, "a random half; again, another one")}
        <select
          class="nbg-select"
          aria-label="By a statistic"
          disabled={statistics === null}
          value=""
          onChange={(event) => {
            const by = STATISTICS.find(([one]) => one === event.currentTarget.value)?.[0];
            if (by !== undefined && statistics !== null) pick(top(statistics, by));
            event.currentTarget.value = "";
          }}
        >
          <option value="" hidden>
            By mean
          </option>
          {STATISTICS.map(([by, word]) => (
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
            title="groups of channels whose maps are alike (k-means)"
            onClick={() => setGrouped(!grouped)}
          >
            By cluster
          </button>
        )}
      </div>
      {grouped && <Clusters value={value} pick={pick} picked={picked} />}
    </>
  );
};

/** Groups of similar maps, as they were when they were asked for: a bend would change them. */
function Clusters(props: { value: Value; picked: ReadonlySet<number>; pick: Picks["pick"] }) {
  const { value, picked, pick } = props;
  const values = useImageValues(value);
  const here = values !== null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the numbers of later runs are no news
  const groups = useMemo(
    () => (values === null ? [] : clusters(values, value.nchw[1])),
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
          aria-pressed={group.length === picked.size && group.every((one) => picked.has(one))}
          title={group.join(", ")}
          aria-label={`Cluster ${i + 1}: ${unitOf(value)}s ${group.join(", ")}`}
          onClick={() => pick(group)}
        >
          {group.length} like {group[0]}
        </button>
      ))}
    </div>
  );
}
