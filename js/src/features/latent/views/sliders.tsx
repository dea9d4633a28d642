// A slider for each number of the code; of very many those that are scrolled to.
import { useMemo, useRef, useState } from "preact/hooks";
import { exact, full, short } from "../../../format.ts";
import { useViews } from "../../../views/context.ts";
import { NARROW } from "../../../views/layout.ts";
import type { LatentRecord } from "../../sources/records.ts";
import type { Codes } from "./codes.ts";
import { sliderRange } from "./plane.ts";

/** CSS pixels of a slider's row, where there is little room that of a finger; and so many rows are there at once. */
const ROW = 24;
const HIGH = 40;
const MOST = 64;
const STEPS = 400;

export function Sliders(props: {
  codes: Codes | null;
  now: readonly number[];
  /** With the code that it began with: where no data says how far a slider goes. */
  first: LatentRecord;
  move: (code: readonly number[]) => void;
}) {
  const { codes, now, move } = props;
  const { width } = useViews();
  const row = width.value < NARROW ? HIGH : ROW;
  const begun = useRef(props.first.code);
  const [top, setTop] = useState(0);
  const ranges = useMemo(
    () => begun.current.map((value, at) => sliderRange(codes, at, value)),
    [codes],
  );
  const many = now.length > MOST;
  const from = many ? Math.min(Math.max(0, Math.floor(top / row) - 16), now.length - MOST) : 0;
  const shown = now.slice(from, from + MOST);
  const set = (at: number, value: number): void => {
    move(now.map((one, k) => (k === at ? Math.fround(value) : one)));
  };
  return (
    <div
      class="nbg-latent-sliders nbg-latent-moves"
      role="group"
      aria-label={`Numbers of the code, ${full(now.length)}`}
      onScroll={(event) => many && setTop(event.currentTarget.scrollTop)}
    >
      <div style={{ height: `${now.length * row}px`, paddingTop: `${from * row}px` }}>
        {shown.map((value, k) => {
          const at = from + k;
          const [low, high] = ranges[at] ?? [-1, 1];
          const [least, most] = [Math.min(low, value), Math.max(high, value)];
          return (
            <label key={at} class="nbg-latent-number" style={{ height: `${row}px` }}>
              <span class="nbg-second">{at}</span>
              <input
                type="range"
                min={least}
                max={most}
                step={(most - least) / STEPS}
                value={value}
                aria-label={`Number ${at}`}
                aria-valuetext={short(value)}
                title="Double click: 0"
                onInput={(event) => set(at, Number(event.currentTarget.value))}
                onDblClick={() => set(at, 0)}
              />
              <output title={exact(value)}>{short(value)}</output>
            </label>
          );
        })}
      </div>
    </div>
  );
}
