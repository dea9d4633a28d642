// A mean, sum or maximum over any axes: all reduced elements as bars.

import type { PoolWindow } from "../../explain/pool.ts";
import type { Value } from "../../plan/schema.ts";
import { Contributions } from "../explain/contributions.tsx";

/** The index of the largest absolute value. */
const argmaxAbs = (numbers: Float64Array): number =>
  numbers.reduce((best, one, k) => (Math.abs(one) > Math.abs(numbers[best] ?? 0) ? k : best), 0);

export function ReductionView(props: { source: Value; poolWindow: PoolWindow; width: number }) {
  const { source, poolWindow, width } = props;
  const numbers = Float64Array.from(poolWindow.cells, ({ input }) => input);
  return (
    <Contributions
      contributions={numbers}
      firstChannel={0}
      noun="number"
      text={`of ${source.key} that are reduced to one`}
      chosen={poolWindow.kind === "max" ? poolWindow.argmax : argmaxAbs(numbers)}
      sortsByValue={poolWindow.kind === "max"}
      width={width}
    />
  );
}
