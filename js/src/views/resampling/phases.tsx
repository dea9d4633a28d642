// The filter weights that each phase of a transposed convolution uses; those of the current phase are marked.

import type { TransposedTaps } from "../../explain/window.ts";
import { Figure } from "../explain/matrix.tsx";

/** CSS pixels: of the diagram's longer side, the most of one weight, and the least of one with a letter. */
const DIAGRAM_SIDE = 132;
const MAX_CELL_SIZE = 26;
const MIN_LETTER_CELL_SIZE = 20;

/** Letters for the phases, if there are few enough. */
const PHASE_LETTERS = "ABCDEFGHIJKLMNOP";

export function PhaseDiagram(props: {
  transposedTaps: TransposedTaps;
  dilations: readonly number[];
  rows: number;
  columns: number;
}) {
  const { transposedTaps, dilations, rows, columns } = props;
  const { phaseTaps, strides } = transposedTaps;
  const [sy, sx] = strides;
  const [dy, dx] = [dilations.at(-2) ?? 1, dilations.at(-1) ?? 1];
  const cell = Math.min(MAX_CELL_SIZE, DIAGRAM_SIDE / Math.max(rows, columns));
  const own = [
    new Set(phaseTaps.rows.map(({ tap }) => tap)),
    new Set(phaseTaps.columns.map(({ tap }) => tap)),
  ];
  const taps = Array.from({ length: rows * columns }, (_, i) => ({
    y: Math.floor(i / columns),
    x: i % columns,
  }));
  const isOwn = ({ y, x }: { y: number; x: number }): boolean =>
    (own[0]?.has(y) ?? false) && (own[1]?.has(x) ?? false);
  const letters = cell >= MIN_LETTER_CELL_SIZE && sy * sx <= PHASE_LETTERS.length;
  const many = taps.filter(isOwn).length;
  return (
    <Figure
      title="Phases"
      text={`this phase uses ${many} of the filter’s ${taps.length} weights${letters ? "; equal letters mark the weights of one phase" : ""}`}
    >
      <svg
        class="nbg-phases"
        width={columns * cell}
        height={rows * cell}
        role="img"
        aria-label={`The filter’s ${rows}×${columns} weights; phase (${transposedTaps.phase.join(", ")}) has ${many} of them`}
      >
        {taps.map((tap) => (
          <g key={`${tap.y} ${tap.x}`} class={isOwn(tap) ? "nbg-own" : ""}>
            <rect
              x={tap.x * cell + 0.5}
              y={tap.y * cell + 0.5}
              width={cell - 1}
              height={cell - 1}
            />
            {letters && (
              <text x={(tap.x + 0.5) * cell} y={(tap.y + 0.5) * cell + 4}>
                {PHASE_LETTERS[((tap.y * dy) % sy) * sx + ((tap.x * dx) % sx)]}
              </text>
            )}
          </g>
        ))}
      </svg>
    </Figure>
  );
}
