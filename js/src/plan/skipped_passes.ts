// Passes that a latent makes unnecessary, because nothing after its code needs them, and the stale values; as in
// features/edits/skipped_passes.py.

import { isActive } from "./edit_stacks.ts";
import type { Edit } from "./edits.ts";
import type { Pass, PlanHeader } from "./schema.ts";

type PassTables = Pick<PlanHeader, "carries" | "passes" | "values">;

/** Passes of a Plan that can be skipped, and the values they would compute, by number. */
export interface SkippedPasses {
  readonly passIndices: ReadonlySet<number>;
  readonly valueIndices: ReadonlySet<number>;
}

const NO_SKIPPED_PASSES: SkippedPasses = { passIndices: new Set(), valueIndices: new Set() };

/**
 * Find the passes that can be skipped while edits with `skips_upstream` replace their layers' values. These passes are
 * still needed: those that depend on the replaced values; those that provide their other operands, such as the other
 * end of a skip connection; and those that compute carried state.
 */
export function findSkippedPasses(plan: PassTables, edits: readonly Edit[]): SkippedPasses {
  const layers = edits
    .filter((edit) => edit.skips_upstream && isActive(edit))
    .map(({ layer }) => layer);
  if (layers.length === 0) return NO_SKIPPED_PASSES;
  const replaced = new Set([...plan.values.keys()].filter((k) => layers.includes(keyOf(plan, k))));
  const isDownstreamAlias = plan.values.map((_, number) => isAliasOf(plan, number, replaced));
  const needed = markNeededPasses(
    plan,
    isDownstreamAlias,
    markDownstreamPasses(plan, isDownstreamAlias),
  );
  const last = new Map(plan.passes.map(({ output }, number) => [output, number]));
  const old = [...plan.values.entries()].filter(([number, { texture }]) => {
    const writer = last.get(texture);
    return !isDownstreamAlias[number] && writer !== undefined && !needed[writer];
  });
  const skippedPasses = [...plan.passes.keys()].filter((number) => !needed[number]);
  return {
    passIndices: new Set(skippedPasses),
    valueIndices: new Set(old.map(([number]) => number)),
  };
}

const keyOf = ({ values }: PassTables, valueIndex: number): string => values[valueIndex]?.key ?? "";

/** Whether a value is in `replaced`, or is an alias or a view of one. */
function isAliasOf(
  { values }: PassTables,
  valueIndex: number,
  replaced: ReadonlySet<number>,
): boolean {
  for (let at = valueIndex; at >= 0; at = values[at]?.view_of ?? -1)
    if (replaced.has(at)) return true;
  return false;
}

/** Whether the pass reads its k-th texture as one of the replaced values. */
const readsLatent = (
  { input_values }: Pass,
  inputIndex: number,
  isDownstreamAlias: readonly boolean[],
): boolean => isDownstreamAlias[input_values[inputIndex] ?? -1] ?? false;

/** For each pass, whether it depends on the replaced values. */
function markDownstreamPasses(
  { passes }: PassTables,
  isDownstreamAlias: readonly boolean[],
): boolean[] {
  const textures = new Set<number>(); // textures that hold dependent values at this point
  return passes.map((pass) => {
    const follows = pass.inputs.some(
      (one, k) => readsLatent(pass, k, isDownstreamAlias) || textures.has(one),
    );
    if (follows) textures.add(pass.output);
    else textures.delete(pass.output);
    return follows;
  });
}

/** For each pass, whether it is dependent or computes an operand of a needed pass. */
function markNeededPasses(
  { passes, carries }: PassTables,
  isDownstreamAlias: readonly boolean[],
  isDownstream: readonly boolean[],
): boolean[] {
  const whole = new Map<number, number>();
  for (const { output, viewport } of passes) {
    whole.set(output, Math.max(whole.get(output) ?? 0, viewport[0] * viewport[1]));
  }
  const wanted = new Set(carries.map(({ source }) => source));
  const found = passes.map(() => false);
  for (const [number, pass] of [...passes.entries()].reverse()) {
    const { inputs, output, viewport } = pass;
    if (!isDownstream[number] && !wanted.has(output)) continue;
    found[number] = true;
    // A pass that writes the whole texture overwrites earlier contents.
    if (viewport[0] * viewport[1] === whole.get(output)) wanted.delete(output);
    for (const [k, one] of inputs.entries())
      if (!readsLatent(pass, k, isDownstreamAlias)) wanted.add(one);
  }
  return found;
}
