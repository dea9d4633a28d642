// Explains one output value of a pool: the maximum or the mean of its window.

import type { PoolWindow } from "../../explain/pool.ts";
import { windowMargins } from "../../explain/window_margins.ts";
import { formatExact, formatInteger } from "../../number_format.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import { useValueColor } from "../explain/colors.ts";
import { Figure, Matrix, type MatrixCell } from "../explain/matrix.tsx";
import { Num } from "../explain/number.tsx";
import {
  type DrawContext,
  GAP,
  type MarkedSource,
  SourceAndResult,
} from "../explain/source_result.tsx";
import { maxAbs } from "../layout.ts";

/** CSS pixels of the text beside the pictures. */
const TEXT_WIDTH = 200;
const MAX_CELLS = 1024;

export function PoolView(props: {
  layer: Layer;
  source: Value;
  pooled: PoolWindow;
  channel: number;
  drawn: DrawContext;
}) {
  const { layer, source, pooled, channel, drawn } = props;
  const { taps, cells, argmax, kind } = pooled;
  const [rows, columns] = [taps.rows.length, taps.columns.length];
  const markLabel = "the window";
  const from: MarkedSource = {
    value: source,
    channel,
    taps,
    margins: windowMargins(layer),
    markLabel,
  };
  const cell = Math.max(6, Math.min(54, Math.floor(drawn.width / columns), Math.floor(300 / rows)));
  const color = useValueColor(source, maxAbs(cells.map((one) => one.input)) || 1);
  const shown = cells.map(({ input, state }, i): MatrixCell => {
    if (kind !== "max") return { value: input, state };
    if (state !== "input") return { value: input, state, empty: true };
    return { value: input, state, mark: i === argmax ? "ring" : "struck" };
  });
  const inside = cells.filter((one) => one.state === "input").length;
  const few = cells.length <= MAX_CELLS;
  return (
    <SourceAndResult
      sources={[from]}
      context={drawn}
      asideWidth={columns * cell + GAP + TEXT_WIDTH}
    >
      {few && (
        <Figure title="Window" text={`${rows}×${columns}`}>
          <Matrix
            label="Window of the input"
            columns={columns}
            cell={cell}
            cells={shown}
            color={color}
            cellTooltip={(i) =>
              i === argmax && kind === "max" ? "passed on" : formatExact(cells[i]?.input ?? 0)
            }
          />
        </Figure>
      )}
      <p class="nbg-pool-text">
        {kind === "max" ? (
          <>
            The largest of {formatInteger(inside)}: <Num value={pooled.value} strong />.{" "}
            <span class="nbg-second">
              {inside === 2
                ? "The other value is discarded."
                : `The other ${formatInteger(inside - 1)} values are discarded.`}
            </span>
          </>
        ) : (
          <>
            Their sum <Num value={pooled.sum} strong />, divided by {formatInteger(pooled.divisor)}.{" "}
            <span class="nbg-second">
              {pooled.divisor > inside
                ? "Padding counts as zeros."
                : "Pooling discards their positions."}
            </span>
          </>
        )}
      </p>
    </SourceAndResult>
  );
}
