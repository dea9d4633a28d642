// A slider for each unit of the code; long codes are virtualised to the visible rows.
import { useMemo, useRef, useState } from "preact/hooks";
import { formatExact, formatPlural, formatShort } from "../../../number_format.ts";
import { useViews } from "../../../views/context.ts";
import { NARROW_WIDTH } from "../../../views/layout.ts";
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
  currentCode: readonly number[];
  /** The latent with its initial code, which sets the slider ranges if there is no data set. */
  initialRecord: LatentRecord;
  move: (code: readonly number[]) => void;
}) {
  const { codes, currentCode, move } = props;
  const { width } = useViews();
  const row = width.value < NARROW_WIDTH ? TOUCH_ROW_HEIGHT : ROW_HEIGHT;
  const begun = useRef(props.initialRecord.code);
  const [top, setTop] = useState(0);
  const ranges = useMemo(
    () => begun.current.map((value, at) => sliderRange(codes, at, value)),
    [codes],
  );
  const many = currentCode.length > MAX_ROWS;
  const from = many
    ? Math.min(Math.max(0, Math.floor(top / row) - 16), currentCode.length - MAX_ROWS)
    : 0;
  const shown = currentCode.slice(from, from + MAX_ROWS);
  const set = (at: number, value: number): void => {
    move(currentCode.map((one, k) => (k === at ? Math.fround(value) : one)));
  };
  return (
    <div
      class="nbg-latent-sliders nbg-latent-moves"
      role="group"
      aria-label={`Code, ${formatPlural(currentCode.length, "value")}`}
      onScroll={(event) => many && setTop(event.currentTarget.scrollTop)}
    >
      <div style={{ height: `${currentCode.length * row}px`, paddingTop: `${from * row}px` }}>
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
