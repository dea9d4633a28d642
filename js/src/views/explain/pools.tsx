// A pool's number: which of a window's numbers is passed on, or what their mean is.
import type { Pooled } from "../../explain/pool.ts";
import type { Value } from "../../plan.ts";
import { useViews } from "../context.ts";
import { exact, full } from "../format.ts";
import { largest, px } from "../layout.ts";
import { useShown } from "./colors.ts";
import { type Cell, Figure, Matrix } from "./matrix.tsx";
import { Num } from "./number.tsx";
import { InputMap, mapSize } from "./pixel.tsx";

const INPUT = 240;
const GAP = 40;
const MOST_CELLS = 1024;

export function PoolPicture(props: {
  source: Value;
  pooled: Pooled;
  channel: number;
  width: number;
  wide: boolean;
}) {
  const { source, pooled, channel, width, wide } = props;
  const { ratio } = useViews();
  const { lines, cells, winner, kind } = pooled;
  const [rows, columns] = [lines.rows.length, lines.columns.length];
  const room = wide ? INPUT : Math.min(INPUT, width);
  const size = mapSize(source, room, ratio.value);
  const left = wide ? Math.min(420, width - size.width - GAP) : width;
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
    <div class="nbg-flowing">
      <div class="nbg-from" style={wide ? { width: px(size.width), marginRight: px(GAP) } : {}}>
        <Figure
          title={source.key}
          text={`channel ${channel} of ${source.shape.slice(1).join("×")}`}
        >
          <InputMap
            value={source}
            channel={channel}
            room={room}
            lines={lines}
            callout={wide && few ? { gap: GAP, height: rows * cell } : null}
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
