// Code of sessions that may come later than the first picture, and those who wait for it.
import { PlanError } from "./types.ts";

interface Waiting<T> {
  readonly take: (made: T) => void;
  readonly fail: (error: Error) => void;
}

/** `what` cannot be while the code is not here, in words. */
export function later<T>(what: string) {
  let made: T | undefined;
  const waiting: Waiting<T>[] = [];
  return {
    /** The code where it is here. */
    here: (): T | undefined => made,
    /** The code, once it is here; PlanError where it is not to come. */
    offered: (): Promise<T> =>
      made === undefined
        ? new Promise((take, fail) => waiting.push({ take, fail }))
        : Promise.resolve(made),
    /** The code is here. */
    offer(given: T): void {
      made = given;
      for (const { take } of waiting.splice(0)) take(given);
    },
    /** The code has not come, and who waits for it shall not wait for ever. */
    miss(why: string): void {
      const error = new PlanError(`${what}: ${why}`);
      for (const { fail } of waiting.splice(0)) fail(error);
    },
  };
}
