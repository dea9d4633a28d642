// A pool's number: which of a window's numbers is passed on, or what their mean is.

import { aroundOf } from "../../explain/around.ts";
import type { Pooled } from "../../explain/pool.ts";
import { exact, full } from "../../format.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import { useShown } from "../explain/colors.ts";
import { type Drawn, Ends, GAP, type Source } from "../explain/ends.tsx";
import { type Cell, Figure, Matrix } from "../explain/matrix.tsx";
import { Num } from "../explain/number.tsx";
import { largest } from "../layout.ts";

/** CSS pixels of the words beside. */
const SAID = 200;
const MOST_CELLS = 1024;

export function PoolPicture(props: {
  layer: Layer;
  source: Value;
  pooled: Pooled;
  channel: number;
  drawn: Drawn;
}) {
  const { layer, source, pooled, channel, drawn } = props;
  const { lines, cells, winner, kind } = pooled;
  const [rows, columns] = [lines.rows.length, lines.columns.length];
  const marked = "the window";
  const from: Source = { value: source, channel, lines, around: aroundOf(layer), marked };
  const cell = Math.max(6, Math.min(54, Math.floor(drawn.width / columns), Math.floor(300 / rows)));
  const color = useShown(source, largest(cells.map((one) => one.input)) || 1);
  const shown = cells.map(({ input, state }, i): Cell => {
    if (kind !== "max") return { value: input, state };
    if (state !== "input") return { value: input, state, empty: true };
    return { value: input, state, mark: i === winner ? "ring" : "struck" };
  });
  const inside = cells.filter((one) => one.state === "input").length;
  const few = cells.length <= MOST_CELLS;
  return (
    <Ends sources={[from]} drawn={drawn} needs={columns * cell + GAP + SAID}>
      {few && (
        <Figure title="Window" text={`${rows}×${columns}`}>
          <Matrix
            label="Window of the input"
            columns={columns}
            cell={cell}
            cells={shown}
            color={color}
            note={(i) =>
              i === winner && kind === "max" ? "passed on" : exact(cells[i]?.input ?? 0)
            }
          />
        </Figure>
      )}
      <p class="nbg-said">
        {kind === "max" ? (
          <>
            The largest of {full(inside)}: <Num value={pooled.value} strong />.{" "}
            <span class="nbg-second">
              {full(inside - 1)} of {full(inside)} values are not passed on.
            </span>
          </>
        ) : (
          <>
            Their sum <Num value={pooled.sum} strong />, divided by {full(pooled.divisor)}.{" "}
            <span class="nbg-second">
              {pooled.divisor > inside
                ? "Padding counts as zeros here."
                : "Where each was is not passed on."}
            </span>
          </>
        )}
      </p>
    </Ends>
  );
}
