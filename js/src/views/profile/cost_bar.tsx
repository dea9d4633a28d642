// Below each stage of the network: its share of the run time, or of another selected cost.

import { formatPercent } from "../../number_format.ts";
import type { Layer } from "../../plan/schema.ts";
import { useViews } from "../context.ts";
import { Slot, useIsSlotFilled } from "../slot.tsx";
import { COST_METRIC_ITEMS, costText, type LayerCost } from "./costs.ts";

/** A bar for a group of layers: their cost, or in a comparison their difference. */
export function StageCostBar(props: { layers: readonly Layer[] }) {
  const isCompared = (useViews().network.value?.comparisonPairs.size ?? 0) > 0;
  const isFilled = useIsSlotFilled("difference");
  return isCompared && isFilled ? (
    <Slot name="difference" slotProps={props} />
  ) : (
    <CostBar {...props} />
  );
}

/** The cost bar; a click switches all bars to another cost. */
function CostBar({ layers }: { layers: readonly Layer[] }) {
  const { state, costs } = useViews();
  const plan = state.plan.value;
  const cost = state.costMetric.value;
  if (plan === null) return null;
  if (cost === "ms" && layers.length > 0 && layers.every(({ python }) => python)) return null;
  const all = costs.value;
  const total = all.reduce((sum, one) => sum + (one[cost] ?? 0), 0);
  const own = all
    .filter((_, k) => layers.includes(plan.layers[k] as Layer))
    .reduce(addCosts, NO_COST);
  const share = total > 0 ? (own[cost] ?? 0) / total : 0;
  const at = COST_METRIC_ITEMS.findIndex(([one]) => one === cost);
  const [next = cost, word = ""] = COST_METRIC_ITEMS[(at + 1) % COST_METRIC_ITEMS.length] ?? [];
  const estimated = cost === "ms" && !own.isMeasured;
  const name = toSentenceCase(COST_METRIC_ITEMS[at]?.[1] ?? "");
  // Estimated milliseconds would change with every run.
  const words = estimated ? formatPercent(share) : costText(cost, own);
  const text = `${estimated ? "" : `${words}, `}${formatPercent(share)} of ${name}${estimated ? ", estimated" : ""}`;
  return (
    <button
      type="button"
      class="nbg-cost"
      tabIndex={-1}
      title={`${text}. Click for ${toSentenceCase(word)}.`}
      aria-label={text}
      onClick={() => {
        state.costMetric.value = next;
      }}
    >
      <span class="nbg-cost-track">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span class={estimated ? "nbg-estimated" : ""}>{words}</span>
    </button>
  );
}

const NO_COST: LayerCost = { ms: 0, isMeasured: true, passes: 0, parameters: 0, macs: 0, bytes: 0 };

const addCosts = (a: LayerCost, b: LayerCost): LayerCost => ({
  ms: a.ms === null || b.ms === null ? null : a.ms + b.ms,
  isMeasured: a.isMeasured && (b.isMeasured || b.passes === 0),
  passes: a.passes + b.passes,
  parameters: a.parameters + b.parameters,
  macs: a.macs + b.macs,
  bytes: a.bytes + b.bytes,
});

/** A cost's name inside a sentence: "memory", but "MACs". */
const toSentenceCase = (name: string) => (/^[A-Z]{2}/.test(name) ? name : name.toLowerCase());
