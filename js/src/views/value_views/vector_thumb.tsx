// A vector as a thumbnail of bars: as many as can be distinguished, each for a run of elements.
import type { Value } from "../../plan/schema.ts";
import { NonFiniteBar, useExampleValues } from "../bar_chart.tsx";
import { hasUnitRange } from "../image_limits.ts";
import { maxAbs } from "../layout.ts";

interface Bar {
  readonly low: number;
  readonly high: number;
  /** A NaN or infinite element of the run, if any. */
  readonly nonFinite: number | undefined;
}

/** Split the elements into one run per bar; each bar has its run's extent on both sides of zero. */
function groupBars(values: Float32Array, maxBars: number): Bar[] {
  const count = Math.min(values.length, maxBars);
  return Array.from({ length: count }, (_, i) => {
    const from = Math.floor((i * values.length) / count);
    const own = values.subarray(from, Math.floor(((i + 1) * values.length) / count));
    return {
      low: own.reduce((a, b) => Math.min(a, b), 0),
      high: own.reduce((a, b) => Math.max(a, b), 0),
      nonFinite: own.find((one) => !Number.isFinite(one)),
    };
  });
}

/** In a square: negative bars extend left of zero; for shares of 1, zero is at the left. */
export function VectorThumb({ value, side }: { value: Value; side: number }) {
  const values = useExampleValues(value);
  if (values === null) return null;
  const bars = groupBars(values, side); // each bar is at least one CSS pixel
  const each = side / bars.length;
  const thick = each < 3 ? each : each - 1;
  const shares = hasUnitRange(value);
  const zero = shares ? 0 : side / 2;
  const reach = (side - zero) / (shares ? 1 : maxAbs(values) || 1);
  return (
    <svg class="nbg-bars" width={side} height={side} data-thumb={value.key} aria-hidden="true">
      {bars.map(({ low, high, nonFinite }, i) => {
        const place = { y: i * each + (each - thick) / 2, height: thick };
        if (nonFinite !== undefined) {
          return <NonFiniteBar key={i} number={nonFinite} x={0} width={side} {...place} />;
        }
        const [left, right] = [-low, high].map((end) => Math.min(side, end * reach)) as [
          number,
          number,
        ];
        return (
          <g key={i}>
            {left > 0 && <rect class="nbg-negative" x={zero - left} width={left} {...place} />}
            {right > 0 && <rect class="nbg-positive" x={zero} width={right} {...place} />}
          </g>
        );
      })}
      <line class="nbg-zero" x1={zero} x2={zero} y1={0} y2={side} />
    </svg>
  );
}
