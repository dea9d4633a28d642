// What a latent spares: the passes that nothing behind its code needs, and the values old then; as features/edits/skipped_passes.py.

import { isActive } from "./edit_stacks.ts";
import type { Edit } from "./edits.ts";
import type { Pass, PlanHeader } from "./schema.ts";

type PassTables = Pick<PlanHeader, "carries" | "passes" | "values">;

/** Passes of a Plan that need not run, and the values that they would make, by their numbers. */
export interface SkippedPasses {
  readonly passes: ReadonlySet<number>;
  readonly values: ReadonlySet<number>;
}

const NONE_SKIPPED: SkippedPasses = { passes: new Set(), values: new Set() };

/**
 * What need not run while edits that skip stand in the place of their layers' values: all but what follows from these,
 * what that needs besides them, as the other end of a skip connection, and whatever makes a state that is carried on.
 */
export function findSkippedPasses(plan: PassTables, edits: readonly Edit[]): SkippedPasses {
  const layers = edits
    .filter((edit) => edit.skips_upstream && isActive(edit))
    .map(({ layer }) => layer);
  if (layers.length === 0) return NONE_SKIPPED;
  const given = new Set([...plan.values.keys()].filter((k) => layers.includes(keyOf(plan, k))));
  const behind = plan.values.map((_, number) => isAliasOf(plan, number, given));
  const needed = neededPasses(plan, behind, downstreamPasses(plan, behind));
  const last = new Map(plan.passes.map(({ output }, number) => [output, number]));
  const old = [...plan.values.entries()].filter(([number, { texture }]) => {
    const writer = last.get(texture);
    return !behind[number] && writer !== undefined && !needed[writer];
  });
  const spared = [...plan.passes.keys()].filter((number) => !needed[number]);
  return { passes: new Set(spared), values: new Set(old.map(([number]) => number)) };
}

const keyOf = ({ values }: PassTables, number: number): string => values[number]?.key ?? "";

/** Whether it is a given value, or another name or a view of one. */
function isAliasOf({ values }: PassTables, number: number, given: ReadonlySet<number>): boolean {
  for (let at = number; at >= 0; at = values[at]?.view_of ?? -1) if (given.has(at)) return true;
  return false;
}

/** Which textures of a pass are read as values that stand behind the given ones. */
const readsLatent = ({ input_values }: Pass, k: number, behind: readonly boolean[]): boolean =>
  behind[input_values[k] ?? -1] ?? false;

/** Which passes follow from the given values. */
function downstreamPasses({ passes }: PassTables, behind: readonly boolean[]): boolean[] {
  const textures = new Set<number>(); // that hold what follows, up to here
  return passes.map((pass) => {
    const follows = pass.inputs.some((one, k) => readsLatent(pass, k, behind) || textures.has(one));
    if (follows) textures.add(pass.output);
    else textures.delete(pass.output);
    return follows;
  });
}

/** Those, and which others make what they read. */
function neededPasses(
  { passes, carries }: PassTables,
  behind: readonly boolean[],
  follows: readonly boolean[],
): boolean[] {
  const whole = new Map<number, number>();
  for (const { output, viewport } of passes) {
    whole.set(output, Math.max(whole.get(output) ?? 0, viewport[0] * viewport[1]));
  }
  const wanted = new Set(carries.map(({ source }) => source));
  const found = passes.map(() => false);
  for (const [number, pass] of [...passes.entries()].reverse()) {
    const { inputs, output, viewport } = pass;
    if (!follows[number] && !wanted.has(output)) continue;
    found[number] = true;
    // What was there before is written over.
    if (viewport[0] * viewport[1] === whole.get(output)) wanted.delete(output);
    for (const [k, one] of inputs.entries()) if (!readsLatent(pass, k, behind)) wanted.add(one);
  }
  return found;
}
