// The state of a training by the names of its tensors: it outlives the Plan whose textures hold it.
import type { Session } from "../../plan/runtime.ts";
import type { PlanHeader, Value } from "../../plan/schema.ts";
import type { PackedTensor, Tensors } from "./checkpoints.ts";

/** The parameters of a Plan that change. */
const trainedParameters = ({ parameters, carries }: PlanHeader): Value[] => {
  const targets = new Set(carries.map(({ target }) => target));
  return parameters.filter(({ texture }) => targets.has(texture));
};

/** A state given by textures. */
export function tensorsByName(plan: PlanHeader, rows: ReadonlyMap<number, Float32Array>): Tensors {
  const found = new Map<string, PackedTensor>();
  for (const { key, texture, layout } of trainedParameters(plan)) {
    const own = rows.get(texture);
    if (own !== undefined) found.set(key, { rows: own, layout });
  }
  return found;
}

/** All of a session's state as it is now. */
export const readTensors = async (session: Session): Promise<Tensors> =>
  tensorsByName(session.plan, await session.committedState());

/**
 * Whether a state of another Plan can be this one's: it has all `trained`, which lie as they did. (What an optimizer
 * keeps of a parameter that was frozen then begins with zeros.)
 */
export const fits = (plan: PlanHeader, tensors: Tensors, trained: readonly string[]): boolean =>
  trainedParameters(plan).every(({ key, layout }) => {
    const own = tensors.get(key);
    if (own === undefined) return !trained.includes(key);
    return JSON.stringify(own.layout) === JSON.stringify(layout);
  });

/** Makes a state that fits that of a session. */
export function loadTensors(
  session: Session,
  tensors: Tensors,
  initial: ReadonlyMap<number, Float32Array>,
): void {
  for (const { key, texture } of trainedParameters(session.plan)) {
    const rows = tensors.get(key)?.rows ?? initial.get(texture)?.map(() => 0);
    if (rows !== undefined) session.setWeight(texture, rows);
  }
}
