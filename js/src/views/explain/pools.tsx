// A pool's number: which of a window's numbers is passed on, or what their mean is.
import { aroundOf } from "../../explain/around.ts";
import type { Pooled } from "../../explain/pool.ts";
import { exact, full } from "../../format.ts";
import type { Layer, Value } from "../../plan.ts";
import { useViews } from "../context.ts";
import { largest, px } from "../layout.ts";
import { useShown } from "./colors.ts";
import { type Cell, Figure, Matrix, NUMBERED } from "./matrix.tsx";
import { Num } from "./number.tsx";
import { InputMap, mapSize } from "./pixel.tsx";

const INPUT = 240;
const GAP = 40;
/** CSS pixels of the words beside, and of a caption. */
const SAID = 250;
const CAPTION = 112;
/** A window of so many columns stands below rather than without its numbers. */
const MOST_BESIDE = 7;
const MOST_CELLS = 1024;

export function PoolPicture(props: {
  layer: Layer;
  source: Value;
  pooled: Pooled;
  channel: number;
  width: number;
}) {
  const { layer, source, pooled, channel, width } = props;
  const { ratio } = useViews();
  const { lines, cells, winner, kind } = pooled;
  const [rows, columns] = [lines.rows.length, lines.columns.length];
  const room = Math.min(INPUT, width);
  const around = aroundOf(layer);
  const from = Math.max(120, mapSize(source, room, ratio.value, around).outer.width);
  const side = width - from - GAP - SAID;
  const beside = side >= CAPTION && side >= Math.min(columns, MOST_BESIDE) * NUMBERED;
  const left = Math.min(420, beside ? side : width);
  const cell = Math.max(6, Math.min(54, Math.floor(left / columns), Math.floor(300 / rows)));
  const color = useShown(source, largest(cells.map((one) => one.input)) || 1);
  const marked = cells.map(({ input, state }, i): Cell => {
    if (kind === "mean") return { value: input, state };
    if (state !== "input") return { value: input, state, empty: true };
    return { value: input, state, mark: i === winner ? "ring" : "struck" };
  });
  const inside = cells.filter((one) => one.state === "input").length;
  const few = cells.length <= MOST_CELLS;
  return (
    <div class={`nbg-flowing nbg-way-${beside ? "beside" : "below"}`}>
      <div class="nbg-from" style={{ width: px(from) }}>
        <Figure
          title={source.key}
          text={`channel ${channel} of ${source.shape.slice(1).join("×")}`}
        >
          <InputMap
            value={source}
            channel={channel}
            room={room}
            lines={lines}
            around={around}
            callout={few && beside ? { gap: GAP, height: rows * cell } : null}
            label={`channel ${channel} of ${source.key}, with the window marked`}
          />
        </Figure>
      </div>
      {few && (
        <Figure title="Window" text={`${rows}×${columns}`}>
          <Matrix
            label="Window of the input"
            columns={columns}
            cell={cell}
            cells={marked}
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
    </div>
  );
}
