// A small plot of a function of one number, with the evaluated point marked.

const [WIDTH, HEIGHT] = [76, 60];
const SAMPLE_STEPS = 60;

export function FunctionCurve({
  evaluate,
  markedX,
}: {
  evaluate: (x: number) => number;
  markedX: number;
}) {
  if (!Number.isFinite(markedX)) return null;
  // Zero is in the middle, and the point is inside the range.
  const reach = Math.max(3, Math.abs(markedX) * 1.3);
  const xs = Array.from(
    { length: SAMPLE_STEPS + 1 },
    (_, i) => (i / SAMPLE_STEPS - 0.5) * 2 * reach,
  );
  const ys = xs.map(evaluate);
  const finite = [...ys, evaluate(markedX), 0].filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const along = (x: number): number => 2 + ((x + reach) / (2 * reach)) * (WIDTH - 4);
  const up = (y: number): number => HEIGHT - 4 - ((y - low) / (high - low || 1)) * (HEIGHT - 8);
  const points = xs.flatMap((x, i) => {
    const y = ys[i];
    return y !== undefined && Number.isFinite(y)
      ? [`${along(x).toFixed(1)} ${up(y).toFixed(1)}`]
      : [];
  });
  return (
    <svg class="nbg-curve" width={WIDTH} height={HEIGHT} aria-hidden="true">
      <path class="nbg-zero" d={`M${along(0)} 0V${HEIGHT}M0 ${up(0)}H${WIDTH}`} />
      <path class="nbg-line-of" d={`M${points.join("L")}`} />
      <circle class="nbg-dot" cx={along(markedX)} cy={up(evaluate(markedX))} r="4" />
    </svg>
  );
}
