// The state of a training, keyed by tensor names: it outlives the Plan whose textures hold it.
import type { Session } from "../../plan/runtime.ts";
import type { PlanHeader, Value } from "../../plan/schema.ts";
import type { PackedTensor, PackedTensors } from "./checkpoints.ts";

/** The parameters that a Plan changes. */
const trainedParameters = ({ parameters, carries }: PlanHeader): Value[] => {
  const targets = new Set(carries.map(({ target }) => target));
  return parameters.filter(({ texture }) => targets.has(texture));
};

/** Key a state by tensor names; `rows` holds it by texture. */
export function tensorsByName(
  plan: PlanHeader,
  rows: ReadonlyMap<number, Float32Array>,
): PackedTensors {
  const found = new Map<string, PackedTensor>();
  for (const { key, texture, layout } of trainedParameters(plan)) {
    const packed = rows.get(texture);
    if (packed !== undefined) found.set(key, { textureRows: packed, layout });
  }
  return found;
}

/** Read the current state of a session. */
export const readTensors = async (session: Session): Promise<PackedTensors> =>
  tensorsByName(session.plan, await session.committedState());

/**
 * Whether a state from another Plan fits this one: it has all of `trainedNames`, in the same layouts. (Optimizer state
 * of a parameter that was frozen starts at zero.)
 */
export const isStateCompatible = (
  plan: PlanHeader,
  tensors: PackedTensors,
  trainedNames: readonly string[],
): boolean =>
  trainedParameters(plan).every(({ key, layout }) => {
    const packed = tensors.get(key);
    if (packed === undefined) return !trainedNames.includes(key);
    return JSON.stringify(packed.layout) === JSON.stringify(layout);
  });

/** Load a state into a session. */
export function loadTensors(
  session: Session,
  tensors: PackedTensors,
  initialRows: ReadonlyMap<number, Float32Array>,
): void {
  for (const { key, texture } of trainedParameters(session.plan)) {
    const rows = tensors.get(key)?.textureRows ?? initialRows.get(texture)?.map(() => 0);
    if (rows !== undefined) session.setWeight(texture, rows);
  }
}
