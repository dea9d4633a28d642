// A histogram: blue and orange bars, and one grey bar for exact zeros.

import { formatFixed, formatInteger } from "../number_format.ts";
import type { Histogram as Found } from "../plan/runtime.ts";

export function Histogram(props: {
  histogram: Found | null;
  width: number;
  height: number;
  /** A value to mark with a line. */
  markedValue?: number | undefined;
  label: string;
}) {
  const { histogram, width, height, markedValue, label } = props;
  if (histogram === null) return null;
  const { low, high, zeros, counts } = histogram;
  const bins = counts.length;
  const most = Math.sqrt(Math.max(1, ...counts));
  const span = high - low || 1;
  const step = width / bins;
  const isOne = low === high;
  const place = (value: number) => (isOne ? 0.5 : (value - low) / span) * width;
  // The tall bar of a ReLU's zeros would flatten all others: it has its own scale, and its count as text.
  const tall = zeros > 0 ? Math.min(height, (Math.sqrt(zeros) / most) * height) : 0;
  const decimals = isOne ? 2 : span >= 100 ? 0 : span >= 1 ? 1 : 2;
  return (
    <div class="nbg-histogram" style={{ width: `${width}px` }}>
      <svg width={width} height={height} role="img" aria-label={label}>
        {counts.map((number, i) => {
          const size = (Math.sqrt(number) / most) * height;
          if (isOne && number === 0) return null;
          const middle = isOne ? low : low + ((i + 0.5) * span) / bins;
          return (
            <rect
              key={middle}
              class={middle < 0 ? "nbg-negative" : "nbg-positive"}
              x={isOne ? (width - step) / 2 : i * step + 0.5}
              y={height - size}
              width={Math.max(1, step - 1)}
              height={size}
            />
          );
        })}
        {zeros > 0 && (
          <rect
            class="nbg-zeros"
            x={Math.min(width - 4, Math.max(0, place(0) - 2))}
            y={height - tall}
            width={4}
            height={tall}
          >
            <title>{formatInteger(zeros)} values are exactly 0</title>
          </rect>
        )}
        <line class="nbg-zero" x1={0} x2={width} y1={height} y2={height} />
        {markedValue !== undefined && Number.isFinite(markedValue) && (
          <line
            class="nbg-pin"
            x1={place(markedValue)}
            x2={place(markedValue)}
            y1={0}
            y2={height}
          />
        )}
      </svg>
      <span>{formatFixed(low, decimals)}</span>
      {!isOne && <span>{formatFixed(high, decimals)}</span>}
    </div>
  );
}
