// The table of layers and their differences, sortable by any measure.
import { useEffect, useRef, useState } from "preact/hooks";
import { contentsText } from "../../../network/display_kind.ts";
import type { Network } from "../../../network/network.ts";
import { formatExact, formatShort } from "../../../number_format.ts";
import type { Comparison, LayerPair } from "../../../plan/schema.ts";
import { useValues, useViews } from "../../../views/context.ts";
import { type LayerDifference, layerDifference, listedPairs, relativeText } from "./layer_pairs.ts";

type DifferenceMeasure = keyof LayerDifference;
const MEASURES: readonly (readonly [DifferenceMeasure, string, string])[] = [
  ["mean", "mean |B − A|", "The mean of |B − A|"],
  ["max", "max |B − A|", "The largest |B − A|"],
  ["relative", "relative", "The mean of |B − A| divided by the mean of |A|"],
];

/** The differences of every pair for the shown example, computed by the Plan on the GPU. */
export function useDifferences(
  network: Network,
  comparison: Comparison,
): ReadonlyMap<LayerPair, LayerDifference> {
  const { state } = useViews();
  const table = useValues(network.values.get(comparison.table) ?? null);
  const example = Math.min(state.example.value, network.batchSize - 1);
  if (table === null) return new Map();
  return new Map(
    comparison.pairs.map((pair) => [
      pair,
      layerDifference(table, pair, network.batchSize, example),
    ]),
  );
}

export function DifferenceTable(props: {
  network: Network;
  differences: ReadonlyMap<LayerPair, LayerDifference>;
  shownPair: LayerPair;
}) {
  const { network, differences, shownPair } = props;
  const { state } = useViews();
  const [by, setBy] = useState<DifferenceMeasure | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const pairs = listedPairs(network);
  const measure = by ?? "relative";
  const size = (pair: LayerPair, of: DifferenceMeasure): number => {
    const number = differences.get(pair)?.[of] ?? 0;
    return Number.isNaN(number) ? Number.POSITIVE_INFINITY : number;
  };
  const rows = by === null ? pairs : [...pairs].sort((a, b) => size(b, by) - size(a, by) || 0);
  const most = Math.max(0, ...pairs.map((pair) => size(pair, measure)).filter(Number.isFinite));
  const name = shownPair.name;
  // Only the table scrolls; scrollIntoView would move the notebook too.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another shown layer is what moves it
  useEffect(() => {
    const row = box.current?.querySelector<HTMLElement>("[data-shown=true]");
    if (!box.current || !row) return;
    const { offsetTop: top, offsetHeight: height } = row;
    const { scrollTop, clientHeight } = box.current;
    if (top - 28 < scrollTop || top + height > scrollTop + clientHeight) {
      box.current.scrollTop = top - clientHeight / 2;
    }
  }, [name]);
  const select = (pair: LayerPair): void => {
    state.selected.value = { layer: pair.difference, channel: null };
  };
  return (
    <div class="nbg-changes" ref={box}>
      <table class="nbg-table" aria-label="How much each layer differs">
        <thead>
          <tr>
            <th scope="col" aria-sort={by === null ? "ascending" : "none"}>
              <button type="button" title="In the order of the network" onClick={() => setBy(null)}>
                layer{by === null && " ↓"}
              </button>
            </th>
            {MEASURES.map(([one, word, title]) => (
              <th scope="col" key={one} aria-sort={by === one ? "descending" : "none"}>
                <button type="button" title={title} onClick={() => setBy(one)}>
                  {word}
                  {by === one && " ↓"}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((pair) => {
            const change = differences.get(pair);
            const chosen = pair.row === shownPair.row;
            const share = most > 0 ? Math.min(1, size(pair, measure) / most) : 0;
            return (
              <tr key={pair.name} data-shown={chosen} onClick={() => select(pair)}>
                <th scope="row">
                  <button
                    type="button"
                    class="nbg-change"
                    data-pair={pair.name}
                    aria-pressed={chosen}
                    tabIndex={chosen ? 0 : -1}
                    title={pairTitle(network, pair)}
                  >
                    {pair.name}
                  </button>
                  <span class="nbg-change-track">
                    <span style={{ width: `${share * 100}%` }} />
                  </span>
                </th>
                {MEASURES.map(([one]) => (
                  <td key={one} class={one === measure ? "nbg-strong" : ""}>
                    <data value={change?.[one]} title={change ? formatExact(change[one]) : ""}>
                      {change
                        ? (one === "relative" ? relativeText : formatShort)(change[one])
                        : "…"}
                    </data>
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function pairTitle(network: Network, pair: LayerPair): string {
  const value = network.values.get(pair.difference);
  const other = pair.b.slice(2);
  const against = other === pair.name ? "" : `, with ${other} of B`;
  return `${pair.name}${against}${value ? `, ${contentsText(value)}` : ""}`;
}
