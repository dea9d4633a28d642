// Whether a layer matches the framework's own values, as computed on this page's GPU: a badge beside its name.

import { formatShort, nonFiniteCountText } from "../number_format.ts";
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
 * The comparison with the framework's values. Null until this page has run: Python keeps the comparison across page
 * reloads, but then no values are on screen yet. A page that cannot run shows Python's pictures, and the comparison, at
 * once.
 */
export function useParity(): ParityResult | null {
  const { parity, run, status } = useViews().state;
  const waits = run.value === null && status.value.phase !== "unsupported";
  return waits ? null : parity.value;
}

/** A layer's error and whether it matches; undefined if it was not compared. */
export const parityRow = (parity: ParityResult | null, layer: string) =>
  parity?.layers.find(([name]) => name === layer);

/** The verdict for a layer: whether it matches, and whether all its elements are finite. */
export interface ParityVerdict {
  readonly text: string;
  readonly matches: boolean;
  readonly isAllFinite: boolean;
}

/** "matches PyTorch, max error 7e−7"; null if the layer was not compared. */
export function parityVerdict(parity: ParityResult | null, layer: string): ParityVerdict | null {
  const row = parityRow(parity, layer);
  if (!parity || row === undefined) return null;
  const [, error, matches] = row;
  const found = `${matches ? "matches" : "differs from"} ${parity.reference}, max error ${formatShort(error)}`;
  const flaw = parity.non_finite.find(([name]) => name === layer);
  const words = [parity.isSampled ? `${found} in samples` : found, flaw && nonFiniteRowText(flaw)];
  return { text: words.filter(Boolean).join("; "), matches, isAllFinite: flaw === undefined };
}

/** The text of a layer's non-finite elements, e.g. "12 NaN, 1 infinity, first in channel 2". */
function nonFiniteRowText([, nan, inf, channel]: ParityResult["non_finite"][number]): string {
  const first = channel >= 0 ? [`first in channel ${channel}`] : [];
  return [nonFiniteCountText({ nan, inf }), ...first].join(", ");
}

/** The rows of layers, without the modules and outputs that duplicate them; all rows if no layer is kept. */
export function comparedLayerRows(parity: ParityResult, plan: PlanHeader) {
  const names = new Set(plan.layers.map(({ name }) => name));
  const rows = parity.layers.filter(([name]) => names.has(name));
  return rows.length > 0 ? { rows, noun: "layers" } : { rows: parity.layers, noun: "values" };
}

/** "3 layers have NaN or infinity, first NaN: features.3, channel 2"; null if all elements are finite. */
export function nonFiniteSummary(parity: ParityResult, plan: PlanHeader): string | null {
  const counted = new Set(comparedLayerRows(parity, plan).rows.map(([name]) => name));
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

/** Badges beside a layer's name: whether Python computes it, else whether it matches. */
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

function ParityMark({ text, matches, isAllFinite }: ParityVerdict) {
  return (
    <span
      class={matches && isAllFinite ? "nbg-badge nbg-ok" : "nbg-badge nbg-warn"}
      role="img"
      aria-label={text}
      title={text}
      data-matches={matches}
      data-finite={isAllFinite}
    >
      {matches && isAllFinite ? <CheckCircleIcon /> : <AlertCircleIcon />}
    </span>
  );
}
