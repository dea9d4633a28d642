// The Profile tab: the cost of each layer, the time to get a picture to the screen, and runs per second.
import { useEffect, useState } from "preact/hooks";
import { lastRun } from "../../engine/signals.ts";
import { exampleShapeText } from "../../network/display_kind.ts";
import { layerCountText, longType, type Network } from "../../network/network.ts";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatInteger,
  formatPassCount,
  formatPercent,
  formatShort,
} from "../../number_format.ts";
import type { RunInfo } from "../../plan/runtime.ts";
import type { Layer, PlanHeader } from "../../plan/schema.ts";
import { layerSectionNames } from "../../plan/sections.ts";
import type { CostMetric, ParityResult, ViewerState } from "../../state.ts";
import { reportFailure, useAfterFirstPaint, useViews, type Views } from "../context.ts";
import { LayerBadge, parityRow, useParity } from "../parity.tsx";
import { isExpectedError } from "../run_queries.ts";
import { WordBreak } from "../word_break.tsx";
import { TransferTimes } from "./canvas_transfer.tsx";
import { COST_METRIC_ITEMS, costText, type LayerCost, layerCosts } from "./costs.ts";

const CLOCK_TEXT = {
  "gpu timer": "the GPU timer",
  fence: "a GPU fence",
  wall: "the wall clock",
} as const;

/** The sum of the layers may exceed the run's time by this factor without a note. */
const MAX_LAYER_SUM_RATIO = 1.05;

type Column = "number" | "name" | "type" | "shape" | CostMetric | "error";

interface ProfileRow {
  readonly layer: Layer;
  readonly number: number;
  readonly cost: LayerCost;
  /** The section of the Plan that runs the layer; "" if there is only one. */
  readonly section: string;
}

export function ProfileView({ network }: { network: Network }) {
  const views = useViews();
  const { state } = views;
  const later = useAfterFirstPaint();
  const plan = state.plan.value;
  const session = state.session.value;
  const ready = session !== null && state.run.value !== null;
  const [measuring, setMeasuring] = useState<AbortController | null>(null);
  const start = (): void => {
    const abort = new AbortController();
    setMeasuring(abort);
    measureLayers(views, abort.signal).finally(() => setMeasuring(null));
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, as soon as there is something to measure
  useEffect(() => {
    const known = state.layerTimes.peek()?.size ?? 0;
    if (later && ready && known <= (plan?.layers.length ?? 0)) start();
  }, [session, ready, later]);
  useEffect(() => () => measuring?.abort(), [measuring]);
  if (plan === null) return null;
  const costs = layerCosts(plan, state.layerTimes.value, timedRun(state)?.ms ?? null);
  const rows = plan.layers.map((layer, k) => ({
    layer,
    number: k,
    cost: costs[k] as LayerCost,
    section: layerSectionNames(plan, k).join(", "),
  }));
  const rest = costs.at(-1);
  return (
    <div class="nbg-profile">
      <div class="nbg-controls">
        <Headline costs={costs} plan={plan} />
        <span class="nbg-space" />
        <button
          type="button"
          class="nbg-button"
          disabled={!ready}
          onClick={measuring === null ? start : () => measuring.abort()}
        >
          {measuring === null ? "Measure again" : "Stop measuring"}
        </button>
      </div>
      <div class="nbg-scrolling">
        <CostTable rows={rows} plan={plan} />
      </div>
      {rest !== undefined && rest.passes > 0 && rest.ms !== null && (
        <p class="nbg-note nbg-second">
          <span title={`${formatPassCount(rest.passes)} on the GPU that belong to no layer`}>
            Time outside layers:
          </span>{" "}
          {rest.isMeasured ? (
            formatDuration(rest.ms)
          ) : (
            <em>about {formatDuration(rest.ms)}, estimated</em>
          )}
        </p>
      )}
      {later && <TransferTimes network={network} />}
    </div>
  );
}

/** The last run, unless its time includes building pipelines. */
function timedRun(state: ViewerState): RunInfo | null {
  const run = lastRun(state);
  return run?.hasBuiltPipelines ? null : run;
}

/** Measure all layers of the network; results are shown as they arrive. */
async function measureLayers(views: Views, signal: AbortSignal): Promise<void> {
  const { state } = views;
  const session = state.session.peek();
  if (session === null) return;
  state.layerTimes.value = new Map();
  const stop = new AbortController();
  const gone = state.session.subscribe((now) => {
    if (now !== session) stop.abort();
  });
  try {
    const run = await session.profile(
      (layer, time) => {
        if (!stop.signal.aborted)
          state.layerTimes.value = new Map(state.layerTimes.peek()).set(layer, time);
      },
      AbortSignal.any([signal, stop.signal]),
    );
    if (state.session.peek() === session) {
      state.run.value = run;
      state.remeasuredRun.value = null;
    }
  } catch (error) {
    if (!isExpectedError(error)) reportFailure(views, error);
  } finally {
    gone();
  }
}

function Headline({ costs, plan }: { costs: readonly LayerCost[]; plan: PlanHeader }) {
  const { state } = useViews();
  const run = timedRun(state);
  const sum = costs.reduce((s, cost) => s + (cost.ms ?? 0), 0);
  const done = costs.every((cost) => cost.isMeasured);
  // The last entry is for passes of no layer.
  const measured = costs.slice(0, -1).filter((cost) => cost.isMeasured).length;
  const clock = [...(state.layerTimes.value?.values() ?? [])].find((one) => one.passes > 0)?.clock;
  return (
    <p aria-live="polite">
      {run === null ? (
        state.run.value === null ? (
          "The network has not run yet."
        ) : (
          "First run: preparing the GPU…"
        )
      ) : (
        <>
          <strong
            title={`Measured with ${CLOCK_TEXT[run.clock]}: ${formatPassCount(run.passes)} on the GPU`}
          >
            One run takes {formatDuration(run.ms)}
          </strong>{" "}
          <span class="nbg-second">
            {plan.batch > 1 &&
              `for a batch of ${formatInteger(plan.batch)}, like all costs here; outputs are per example · `}
            at most {formatShort(1000 / run.ms)} runs/s
            {state.runsPerSecond.value > 0 &&
              ` · now ${formatInteger(state.runsPerSecond.value)} runs/s`}
            {done && clock !== undefined && (
              <>
                {" "}
                <span title={`Each layer is timed alone, repeatedly, with ${CLOCK_TEXT[clock]}`}>
                  · sum of the layers {formatDuration(sum)}
                </span>
                {sum > MAX_LAYER_SUM_RATIO * run.ms &&
                  ", more than one run. The machine was busy during the measurement. Measure again."}
              </>
            )}
            {!done && state.layerTimes.value === null && " · times of the layers are estimated"}
            {!done &&
              state.layerTimes.value !== null &&
              ` · ${measured} of ${layerCountText(plan)} measured`}
          </span>
        </>
      )}
    </p>
  );
}

const COLUMN_HEADS: readonly (readonly [Column, string, string])[] = [
  ["number", "#", "order of computation"],
  ["name", "Layer", ""],
  ["type", "Type", ""],
  ["shape", "Output", "channels × height × width"],
  ["ms", "Time", "milliseconds that the layer takes"],
  ["parameters", "Parameters", "number of trainable parameters"],
  ["macs", "MACs", "multiply–accumulate operations of one run"],
  ["bytes", "Memory", "bytes of its output as float32"],
  ["error", "Error", "largest difference from the reference"],
];
const NUMERIC_COLUMNS: readonly Column[] = ["ms", "parameters", "macs", "bytes", "error"];

function sortRows(
  rows: readonly ProfileRow[],
  column: Column,
  isDescending: boolean,
  parity: ParityResult | null,
): ProfileRow[] {
  const key = ({ layer, number, cost }: ProfileRow): number | string => {
    if (column === "number") return number;
    if (column === "name") return layer.name;
    if (column === "type") return longType(layer);
    if (column === "shape") return layer.output_shape.reduce((a, b) => a * b, 1);
    if (column === "error") return parityRow(parity, layer.name)?.[1] ?? -1;
    return cost[column] ?? 0;
  };
  const order = [...rows].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === y) return a.number - b.number;
    return (x < y ? -1 : 1) * (isDescending ? -1 : 1);
  });
  return order;
}

function CostTable({ rows, plan }: { rows: readonly ProfileRow[]; plan: PlanHeader }) {
  const parity = useParity();
  const [[by, down], setOrder] = useState<readonly [Column, boolean]>(["number", false]);
  const most = (cost: CostMetric): number => Math.max(...rows.map((row) => row.cost[cost] ?? 0));
  const tops = Object.fromEntries(COST_METRIC_ITEMS.map(([cost]) => [cost, most(cost)]));
  const total = (cost: CostMetric): number =>
    rows.reduce((s, { cost: of, layer }) => s + (of[cost] ?? 0) - sharedCost(cost, layer), 0);
  const estimated = rows.some(({ cost }) => !cost.isMeasured && cost.passes > 0);
  return (
    <table class="nbg-table nbg-costs" aria-label="Costs of all layers">
      <thead>
        <tr>
          {COLUMN_HEADS.map(([column, word, title]) => (
            <th
              key={column}
              scope="col"
              data-column={column}
              aria-sort={column !== by ? "none" : down ? "descending" : "ascending"}
            >
              <button
                type="button"
                title={title}
                onClick={() =>
                  setOrder([column, column === by ? !down : NUMERIC_COLUMNS.includes(column)])
                }
              >
                {word}
                <span aria-hidden="true">{column !== by ? "" : down ? " ↓" : " ↑"}</span>
              </button>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {sortRows(rows, by, down, parity).map((row) => (
          <LayerRow key={row.number} row={row} maxCosts={tops} />
        ))}
      </tbody>
      <tfoot>
        <tr>
          <td data-column="number" />
          <th scope="row">{layerCountText(plan)}</th>
          <td data-column="type" />
          <td data-column="shape" />
          <td data-column="ms" class={estimated ? "nbg-estimated" : ""}>
            {formatDuration(total("ms"))}
          </td>
          <td data-column="parameters">{formatCount(total("parameters"))}</td>
          <td data-column="macs">{formatCount(total("macs"))}</td>
          <td data-column="bytes">{formatBytes(total("bytes"))}</td>
          <td data-column="error" />
        </tr>
      </tfoot>
    </table>
  );
}

/** The part of a cost that an earlier row already counts. */
const sharedCost = (metric: CostMetric, layer: Layer): number =>
  metric === "parameters" ? layer.shared : 0;

function LayerRow({
  row,
  maxCosts,
}: {
  row: ProfileRow;
  maxCosts: Readonly<Record<string, number>>;
}) {
  const { state } = useViews();
  const { layer, number, cost, section } = row;
  const drawn = state.plan.value?.values.some((value) => value.key === layer.name) ?? false;
  const chosen = state.selected.value?.layer === layer.name;
  const compared = parityRow(useParity(), layer.name);
  const open = (): void => {
    state.selected.value = { layer: layer.name, channel: null };
    state.tab.value = "layer";
  };
  return (
    <tr class={chosen ? "nbg-chosen" : ""} data-row={layer.name}>
      <td data-column="number">{number}</td>
      <th scope="row" data-column="name">
        {drawn ? (
          <button type="button" class="nbg-link" onClick={open}>
            <WordBreak text={layer.name} />
          </button>
        ) : (
          <WordBreak text={layer.name} />
        )}
        {section !== "" && <span class="nbg-second"> {section}</span>}
      </th>
      <td class="nbg-word" data-column="type" title={layer.description}>
        {longType(layer)}
      </td>
      <td data-column="shape">
        {exampleShapeText(layer.output_shape, state.plan.value?.batch ?? 1)}
      </td>
      {COST_METRIC_ITEMS.map(([one]) => (
        <CostCell
          key={one}
          metric={one}
          layerCost={cost}
          maxCost={maxCosts[one] ?? 0}
          isComputedInPython={layer.python !== ""}
        />
      ))}
      <td data-column="error">
        {compared === undefined ? (
          "–"
        ) : (
          <span class="nbg-verdict">
            {formatShort(compared[1])} <LayerBadge layer={layer.name} />
          </span>
        )}
      </td>
    </tr>
  );
}

function CostCell(props: {
  metric: CostMetric;
  layerCost: LayerCost;
  maxCost: number;
  isComputedInPython: boolean;
}) {
  const { metric, layerCost, maxCost, isComputedInPython } = props;
  const share = maxCost > 0 ? (layerCost[metric] ?? 0) / maxCost : 0;
  const nothing = metric === "ms" ? layerCost.passes === 0 : layerCost[metric] === 0;
  const estimated = metric === "ms" && !layerCost.isMeasured;
  const title = nothing
    ? metric === "ms"
      ? isComputedInPython
        ? "computed in Python, not in the page"
        : "no own time: fused into another layer, or nothing to compute"
      : undefined
    : `${formatPercent(share)} of the largest${estimated ? ", estimated from its share of the operations" : ""}`;
  return (
    <td data-column={metric} data-cost={metric} data-value={layerCost[metric] ?? ""} title={title}>
      {nothing ? (
        "–"
      ) : (
        <span class="nbg-costed">
          <span class={estimated ? "nbg-cost-track nbg-guess" : "nbg-cost-track"}>
            <span style={{ width: `${share * 100}%` }} />
          </span>
          {estimated ? (
            <em class="nbg-estimated">{costText(metric, layerCost)}</em>
          ) : (
            costText(metric, layerCost)
          )}
        </span>
      )}
    </td>
  );
}
