// A mean, sum or maximum along any axes: all numbers that are joined, as bars.
import type { Pooled } from "../../explain/pool.ts";
import type { Value } from "../../plan.ts";
import type * as Kit from "../explain/kit.ts";

export function Joined(props: { kit: typeof Kit; source: Value; pooled: Pooled; width: number }) {
  const { kit, source, pooled, width } = props;
  const numbers = Float64Array.from(pooled.cells, ({ input }) => input);
  return (
    <kit.Contributions
      contributions={numbers}
      first={0}
      noun="number"
      words={`of ${source.key} that are joined to one`}
      chosen={Math.max(0, pooled.winner)}
      width={width}
    />
  );
}
