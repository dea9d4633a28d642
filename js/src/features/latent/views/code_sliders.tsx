// A slider for each unit of the code; long codes are virtualised to the visible rows.
import { useMemo, useRef, useState } from "preact/hooks";
import { formatExact, formatPlural, formatShort } from "../../../number_format.ts";
import { useViews } from "../../../views/context.ts";
import { NARROW } from "../../../views/layout.ts";
import type { LatentRecord } from "../../sources/records.ts";
import type { LatentCodes } from "./latent_codes.ts";
import { sliderRange } from "./latent_plane.ts";

/** Row height in CSS pixels, larger for touch in narrow views; and the most rows rendered at once. */
const ROW_HEIGHT = 24;
const TOUCH_ROW_HEIGHT = 40;
const MAX_ROWS = 64;
const SLIDER_STEPS = 400;

export function CodeSliders(props: {
  codes: LatentCodes | null;
  now: readonly number[];
  /** The latent with its initial code, which sets the slider ranges if there is no data set. */
  first: LatentRecord;
  move: (code: readonly number[]) => void;
}) {
  const { codes, now, move } = props;
  const { width } = useViews();
  const row = width.value < NARROW ? TOUCH_ROW_HEIGHT : ROW_HEIGHT;
  const begun = useRef(props.first.code);
  const [top, setTop] = useState(0);
  const ranges = useMemo(
    () => begun.current.map((value, at) => sliderRange(codes, at, value)),
    [codes],
  );
  const many = now.length > MAX_ROWS;
  const from = many ? Math.min(Math.max(0, Math.floor(top / row) - 16), now.length - MAX_ROWS) : 0;
  const shown = now.slice(from, from + MAX_ROWS);
  const set = (at: number, value: number): void => {
    move(now.map((one, k) => (k === at ? Math.fround(value) : one)));
  };
  return (
    <div
      class="nbg-latent-sliders nbg-latent-moves"
      role="group"
      aria-label={`Code, ${formatPlural(now.length, "value")}`}
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
                step={(most - least) / SLIDER_STEPS}
                value={value}
                aria-label={`Unit ${at}`}
                aria-valuetext={formatShort(value)}
                title="Double click: 0"
                onInput={(event) => set(at, Number(event.currentTarget.value))}
                onDblClick={() => set(at, 0)}
              />
              <output title={formatExact(value)}>{formatShort(value)}</output>
            </label>
          );
        })}
      </div>
    </div>
  );
}
