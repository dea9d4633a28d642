// A vector as a small picture of its bars: so many as can be told apart, each of the elements that it stands for.
import type { Value } from "../../plan/schema.ts";
import { NonFiniteBar, useExampleValues } from "../bar_chart.tsx";
import { hasUnitRange } from "../image_limits.ts";
import { maxAbs } from "../layout.ts";

interface Bar {
  readonly low: number;
  readonly high: number;
  /** Of its elements one that is NaN or infinite. */
  readonly nonFinite: number | undefined;
}

/** The elements in order, in as many runs as there are bars: how far each reaches to both sides of zero. */
function groupBars(values: Float32Array, most: number): Bar[] {
  const count = Math.min(values.length, most);
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

/** In a square: negative bars grow to the left of zero, which of shares is at the left. */
export function VectorThumb({ value, side }: { value: Value; side: number }) {
  const values = useExampleValues(value);
  if (values === null) return null;
  const bars = groupBars(values, side); // of a CSS pixel at least
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
