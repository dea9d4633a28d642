// Bars below each stage of the graph with the relative difference of two networks.
import type { Layer } from "../../../plan/schema.ts";
import { useValues, useViews } from "../../../views/context.ts";
import { layerDifference, relativeText } from "./layer_pairs.ts";

/** The relative difference of the last compared layer among `layers`; a click opens its comparison. */
export function DifferenceBar({ layers }: { layers: readonly Layer[] }) {
  const { state, network } = useViews();
  const now = network.value;
  const table = useValues(now?.values.get(state.plan.value?.comparison?.table ?? "") ?? null);
  const pair = layers
    .map(({ name }) => now?.comparisonPairs.get(name))
    .findLast((one) => one !== undefined);
  if (now === null || pair === undefined || table === null) return null;
  const example = Math.min(state.example.value, now.batchSize - 1);
  const { max, relative } = layerDifference(table, pair, now.batchSize, example);
  const text = max === 0 ? "equal" : `± ${relativeText(relative)}`;
  const share = Number.isNaN(relative) ? 1 : Math.min(1, relative);
  const words = max === 0 ? "A and B are equal" : `A and B differ by ${relativeText(relative)}`;
  return (
    <button
      type="button"
      class="nbg-cost nbg-difference-bar"
      tabIndex={-1}
      data-relative={relative}
      title={`${pair.name}: ${words} of mean |A|. Click to compare.`}
      aria-label={`${pair.name}: ${words}`}
      onClick={() => {
        state.selected.value = { layer: pair.difference, channel: null };
        state.tab.value = "compare";
      }}
    >
      <span class="nbg-cost-track">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span>{text}</span>
    </button>
  );
}
