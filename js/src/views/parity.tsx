// Whether a layer matches the framework's own values: a mark beside its name, computed on this page's GPU.

import { formatShort, nonFiniteCounts } from "../number_format.ts";
import type { PlanHeader } from "../plan/schema.ts";
import type { ParityResult } from "../state.ts";
import { useViews } from "./context.ts";
import { EditBadgeSlot } from "./edit_badge_slot.tsx";
import { AlertCircleIcon, CheckCircleIcon } from "./icons.tsx";
import { PythonBadge } from "./python_layers.tsx";

/** The largest error of all layers. */
export const maxError = ({ layers }: ParityResult): number =>
  Math.max(0, ...layers.map(([, error]) => error));

/**
 * The comparison with the framework's own values, once this page has run what it is of: Python keeps it where a page is
 * loaded again, and then there is nothing to see yet. A page that runs nothing shows Python's own pictures.
 */
export function useParity(): ParityResult | null {
  const { parity, run, status } = useViews().state;
  const waits = run.value === null && status.value.phase !== "unsupported";
  return waits ? null : parity.value;
}

/** A layer's error and whether it matches; undefined for one that was not compared. */
export const parityRow = (parity: ParityResult | null, layer: string) =>
  parity?.layers.find(([name]) => name === layer);

/** What is said of a layer: whether it matches, and whether all of it is finite. */
export interface ParityVerdict {
  readonly text: string;
  readonly matches: boolean;
  readonly finite: boolean;
}

/** "matches PyTorch, max error 7e−7", or null for a layer that was not compared. */
export function parityVerdict(parity: ParityResult | null, layer: string): ParityVerdict | null {
  const row = parityRow(parity, layer);
  if (!parity || row === undefined) return null;
  const [, error, matches] = row;
  const found = `${matches ? "matches" : "differs from"} ${parity.reference}, max error ${formatShort(error)}`;
  const flaw = parity.non_finite.find(([name]) => name === layer);
  const words = [parity.isSampled ? `${found} in samples` : found, flaw && flawText(flaw)];
  return { text: words.filter(Boolean).join("; "), matches, finite: flaw === undefined };
}

/** "12 NaN, 1 infinity, first in channel 2". */
function flawText([, nan, inf, channel]: ParityResult["non_finite"][number]): string {
  const first = channel >= 0 ? [`first in channel ${channel}`] : [];
  return [nonFiniteCounts({ nan, inf }), ...first].join(", ");
}

/** The rows that count: those of layers, which modules and outputs repeat; all where no layer is kept. */
export function countedRows(parity: ParityResult, plan: PlanHeader) {
  const names = new Set(plan.layers.map(({ name }) => name));
  const rows = parity.layers.filter(([name]) => names.has(name));
  return rows.length > 0 ? { rows, noun: "layers" } : { rows: parity.layers, noun: "values" };
}

/** "3 layers have NaN or infinity, first NaN: features.3, channel 2"; null where all is finite. */
export function nonFiniteSummary(parity: ParityResult, plan: PlanHeader): string | null {
  const counted = new Set(countedRows(parity, plan).rows.map(([name]) => name));
  const rows = parity.non_finite.filter(([name]) => counted.has(name));
  const [first] = rows;
  if (first === undefined) return null;
  const said = ([name, , , channel]: ParityResult["non_finite"][number]) =>
    channel >= 0 ? `${name}, channel ${channel}` : name;
  const nan = rows.find(([, count]) => count > 0);
  const places = first[1] > 0 ? [] : [`first infinity: ${said(first)}`];
  if (nan !== undefined) places.push(`first NaN: ${said(nan)}`);
  const count = rows.length === 1 ? "1 layer has" : `${rows.length} layers have`;
  return `${count} NaN or infinity, ${places.join("; ")}`;
}

/** Beside a layer's name: whether Python computes it, else whether it matches. */
export function LayerBadge({ layer }: { layer: string }) {
  const verdict = parityVerdict(useParity(), layer);
  return (
    <>
      <PythonBadge layer={layer} />
      <EditBadgeSlot layer={layer} />
      {verdict !== null && <ParityMark {...verdict} />}
    </>
  );
}

function ParityMark({ text, matches, finite }: ParityVerdict) {
  return (
    <span
      class={matches && finite ? "nbg-badge nbg-ok" : "nbg-badge nbg-warn"}
      role="img"
      aria-label={text}
      title={text}
      data-matches={matches}
      data-finite={finite}
    >
      {matches && finite ? <CheckCircleIcon /> : <AlertCircleIcon />}
    </span>
  );
}
