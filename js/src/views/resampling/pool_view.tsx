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
  type MarkedSource,
  PICTURE_GAP,
  SourceAndResult,
} from "../explain/source_result.tsx";
import { maxAbs } from "../layout.ts";

/** CSS pixels of the text beside the pictures. */
const TEXT_WIDTH = 200;
const MAX_WINDOW_CELLS = 1024;

export function PoolView(props: {
  layer: Layer;
  source: Value;
  poolWindow: PoolWindow;
  channel: number;
  context: DrawContext;
}) {
  const { layer, source, poolWindow, channel, context } = props;
  const { taps, cells, argmax, kind } = poolWindow;
  const [rows, columns] = [taps.rows.length, taps.columns.length];
  const markLabel = "the window";
  const from: MarkedSource = {
    value: source,
    channel,
    taps,
    margins: windowMargins(layer),
    markLabel,
  };
  const cell = Math.max(
    6,
    Math.min(54, Math.floor(context.width / columns), Math.floor(300 / rows)),
  );
  const color = useValueColor(source, maxAbs(cells.map((one) => one.input)) || 1);
  const shown = cells.map(({ input, state }, i): MatrixCell => {
    if (kind !== "max") return { value: input, state };
    if (state !== "input") return { value: input, state, empty: true };
    return { value: input, state, mark: i === argmax ? "ring" : "struck" };
  });
  const inside = cells.filter((one) => one.state === "input").length;
  const few = cells.length <= MAX_WINDOW_CELLS;
  return (
    <SourceAndResult
      sources={[from]}
      context={context}
      asideWidth={columns * cell + PICTURE_GAP + TEXT_WIDTH}
    >
      {few && (
        <Figure title="Window" text={`${rows}×${columns}`}>
          <Matrix
            label="Window of the input"
            columns={columns}
            cellSide={cell}
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
            The largest of {formatInteger(inside)}: <Num value={poolWindow.value} strong />.{" "}
            <span class="nbg-second">
              {inside === 2
                ? "The other value is discarded."
                : `The other ${formatInteger(inside - 1)} values are discarded.`}
            </span>
          </>
        ) : (
          <>
            Their sum <Num value={poolWindow.sum} strong />, divided by{" "}
            {formatInteger(poolWindow.divisor)}.{" "}
            <span class="nbg-second">
              {poolWindow.divisor > inside
                ? "Padding counts as zeros."
                : "Pooling discards their positions."}
            </span>
          </>
        )}
      </p>
    </SourceAndResult>
  );
}
