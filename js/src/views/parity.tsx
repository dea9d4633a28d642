// Whether a layer matches the framework's own values: a mark beside its name, computed on this page's GPU.
import type { Parity } from "../state.ts";
import { useViews } from "./context.ts";
import { short } from "./format.ts";
import { Differs, Matches } from "./icons.tsx";

/** The largest error of all layers. */
export const worst = ({ layers }: Parity): number =>
  Math.max(0, ...layers.map(([, error]) => error));

/** A layer's error and whether it matches; undefined for one that was not compared. */
export const rowOf = (parity: Parity | null, layer: string) =>
  parity?.layers.find(([name]) => name === layer);

/** "matches PyTorch, max error 7e−7", or null for a layer that was not compared. */
export function verdictOf(parity: Parity | null, layer: string): [string, boolean] | null {
  const row = rowOf(parity, layer);
  if (!parity || row === undefined) return null;
  const [, error, matches] = row;
  const words = `${matches ? "matches" : "differs from"} ${parity.reference}, max error ${short(error)}`;
  return [parity.sampled ? `${words} in samples` : words, matches];
}

export function Badge({ layer }: { layer: string }) {
  const verdict = verdictOf(useViews().state.parity.value, layer);
  if (verdict === null) return null;
  const [words, matches] = verdict;
  return (
    <span
      class={matches ? "nbg-badge nbg-ok" : "nbg-badge nbg-warn"}
      role="img"
      aria-label={words}
      title={words}
      data-matches={matches}
    >
      {matches ? <Matches /> : <Differs />}
    </span>
  );
}
