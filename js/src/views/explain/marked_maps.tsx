// Maps with marks over them: the window of a patch, and the explained pixel.
import { useRef } from "preact/hooks";
import { type AxisTap, tapPosition, type WindowTaps } from "../../explain/window.ts";
import { NO_MARGINS, type WindowMargins } from "../../explain/window_margins.ts";
import { displayStyle } from "../../network/display_kind.ts";
import { formatExact } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { pointerPosition, useViews } from "../context.ts";
import { fitScale, px, tileSide } from "../layout.ts";
import { Maps } from "../maps.tsx";

/** The most CSS pixels of one pixel of a tiny map, and the least CSS pixels of a picture. */
const MAX_PIXEL_SIZE = 28;
const MIN_PICTURE_SIZE = 120;
/** CSS pixels of height of a one-dimensional signal, drawn as colours and as a curve. */
const SIGNAL_STRIP_HEIGHT = 28;
const CURVE_HEIGHT = 96;
/** With more values per CSS pixel than this, a curve is drawn as the minimum and maximum of each stretch. */
const MAX_POINTS_PER_PIXEL = 2;
/** The most lines drawn from padding pixels to the pixels that they repeat; more would be indistinguishable. */
const MAX_REPEAT_LINES = 64;

/**
 * The scale of a map in a square of `room` CSS pixels, at least MIN_PICTURE_SIZE large, and the CSS pixels that the map
 * takes; `fillsRoom`: fill the room as far as whole pixels allow, even for a map of few pixels.
 */
export function mapSize(
  value: Value,
  room: number,
  pixelRatio: number,
  margins: WindowMargins = NO_MARGINS,
  fillsRoom = false,
) {
  const [, , height, width] = value.nchw;
  const pixels = Math.max(
    height + margins.top + margins.bottom,
    width + margins.left + margins.right,
  );
  const [least, most] = [
    Math.ceil(MIN_PICTURE_SIZE * pixelRatio),
    fillsRoom ? Infinity : Math.round(MAX_PIXEL_SIZE * pixelRatio),
  ];
  let scale = Math.min(
    fitScale(pixels, room * pixelRatio),
    Math.max(most, Math.ceil(least / pixels)),
  );
  while (tileSide(pixels, scale) < least) scale = scale < 1 ? 1 / (1 / scale - 1) : scale + 1;
  const side = (pixels: number): number => tileSide(pixels, scale) / pixelRatio;
  const pad = {
    top: (margins.top * scale) / pixelRatio,
    bottom: (margins.bottom * scale) / pixelRatio,
    left: (margins.left * scale) / pixelRatio,
    right: (margins.right * scale) / pixelRatio,
  };
  const own = {
    width: side(width),
    height: height === 1 && width > 1 ? SIGNAL_STRIP_HEIGHT : side(height),
  };
  return {
    ...{ scale, pad, ...own },
    /** The size including the window's margins around the map. */
    outer: {
      width: own.width + pad.left + pad.right,
      height: own.height + pad.top + pad.bottom,
    },
  };
}

/** The same for a signal that is drawn as a curve: it takes all of the room's width. */
function curveSize(
  value: Value,
  room: number,
  pixelRatio: number,
  { left, right }: WindowMargins = NO_MARGINS,
) {
  const along = room / (value.nchw[3] + left + right);
  const own = { width: along * value.nchw[3], height: CURVE_HEIGHT };
  const pad = { top: 0, bottom: 0, left: left * along, right: right * along };
  return { scale: pixelRatio, pad, ...own, outer: { width: room, height: CURVE_HEIGHT } };
}

interface SingleMapProps {
  value: Value;
  channel: number;
  room: number;
  label: string;
  /** The values of a one-dimensional signal, which is then drawn as a curve. */
  signal?: Float32Array | null;
  /** Fill the room even if the map has few pixels. */
  fillsRoom?: boolean;
}

/** The scale and size that the map is drawn at. */
export function drawnSize(
  { value, room, signal, fillsRoom = false }: Omit<SingleMapProps, "channel" | "label">,
  pixelRatio: number,
  margins?: WindowMargins,
) {
  return signal
    ? curveSize(value, room, pixelRatio, margins)
    : mapSize(value, room, pixelRatio, margins, fillsRoom);
}

/** A one-dimensional signal as a curve, from its minimum to its maximum. */
function SignalCurve(props: {
  numbers: Float32Array;
  width: number;
  label: string;
  children: preact.ComponentChildren;
}) {
  const { numbers, width, label, children } = props;
  const views = useViews();
  const finite = numbers.filter(Number.isFinite);
  const [low, high] = [
    finite.reduce((a, b) => Math.min(a, b), 0),
    finite.reduce((a, b) => Math.max(a, b), 0),
  ];
  const along = width / numbers.length;
  const up = (y: number): number =>
    CURVE_HEIGHT - 4 - ((y - low) / (high - low || 1)) * (CURVE_HEIGHT - 8);
  const every = Math.max(1, Math.floor(numbers.length / (width * MAX_POINTS_PER_PIXEL)));
  const points: string[] = [];
  for (let i = 0; i < numbers.length; i += every) {
    // Long signals: the minimum and maximum of each stretch.
    const some = numbers.subarray(i, i + every).filter(Number.isFinite);
    if (some.length === 0) continue;
    const ends = every > 1 ? [Math.min(...some), Math.max(...some)] : [some[0] ?? 0];
    for (const y of ends) points.push(`${((i + 0.5) * along).toFixed(1)} ${up(y).toFixed(1)}`);
  }
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const i = Math.floor(((event.clientX - box.left) / box.width) * numbers.length);
    const value = numbers[i];
    views.tooltip.value =
      value === undefined
        ? null
        : { title: formatExact(value), text: `x ${i}`, ...pointerPosition(event, views) };
  };
  const leave = (): void => {
    views.tooltip.value = null;
  };
  return (
    <div class="nbg-signal" onPointerMove={point} onPointerDown={point} onPointerLeave={leave}>
      <svg class="nbg-curve" width={width} height={CURVE_HEIGHT} role="img" aria-label={label}>
        <path class="nbg-zero" d={`M0 ${up(0)}H${width}`} />
        <path class="nbg-line-of" d={points.length > 0 ? `M${points.join("L")}` : ""} />
      </svg>
      {children}
    </div>
  );
}

/** One channel of a map, or an image, with an overlay. */
export function SingleMap(
  props: SingleMapProps & { margins?: WindowMargins; children: preact.ComponentChildren },
) {
  const { value, channel, label, signal, margins, children } = props;
  const ratio = useViews().pixelRatio.value;
  const { scale, width, height } = drawnSize(props, ratio, margins);
  if (signal) {
    return (
      <SignalCurve numbers={signal} width={width} label={label}>
        {children}
      </SignalCurve>
    );
  }
  const channels =
    displayStyle(value).drawMode === "rgb"
      ? Array.from({ length: value.nchw[1] }, (_, i) => i)
      : [channel];
  return (
    <Maps
      value={value}
      channels={channels}
      columns={1}
      scale={Math.min(1, scale)}
      zoom={Math.max(1, scale) / ratio}
      cssHeight={height}
      label={label}
    >
      {children}
    </Maps>
  );
}

/** The connection from the window's box to the patch beside it: the distance to the patch and the patch's height. */
export interface Callout {
  readonly gap: number;
  readonly height: number;
}

/** The input with the window drawn at its position, over the map or over the padding around it. */
export function InputMap(
  props: SingleMapProps & {
    windowTaps: WindowTaps;
    callout: Callout | null;
    margins?: WindowMargins;
  },
) {
  const { value, windowTaps, callout, margins = NO_MARGINS } = props;
  const ratio = useViews().pixelRatio.value;
  const [, , mapHeight, mapWidth] = value.nchw;
  const size = drawnSize(props, ratio, margins);
  const { pad } = size;
  const [along, down] = [size.width / mapWidth, size.height / mapHeight];
  const ends = (at: readonly AxisTap[], pixel: number) => {
    const places = at.map(tapPosition);
    const [first, last] = [Math.min(...places), Math.max(...places)];
    return { from: first * pixel, length: (last - first + 1) * pixel };
  };
  const none = windowTaps.rows.length === 0 || windowTaps.columns.length === 0;
  const [y, x] = [ends(windowTaps.rows, down), ends(windowTaps.columns, along)];
  const apart = (at: readonly AxisTap[]): boolean =>
    at.some((line, i) => Math.abs(tapPosition(line) - tapPosition(at[i - 1] ?? line)) > 1);
  const box = `M${x.from} ${y.from}h${x.length}v${y.length}h${-x.length}z`;
  const taps =
    apart(windowTaps.rows) || apart(windowTaps.columns)
      ? windowTaps.rows.flatMap((row) =>
          windowTaps.columns.map(
            (column) =>
              `M${tapPosition(column) * along} ${tapPosition(row) * down}h${along}v${down}h${-along}z`,
          ),
        )
      : [];
  const repeated = repeatedPixelPath(windowTaps, along, down);
  const right = x.from + x.length;
  const to = size.width + pad.right + (callout?.gap ?? 0);
  const rays =
    callout === null
      ? ""
      : `M${right} ${y.from}L${to} ${0.5 - pad.top}M${right} ${y.from + y.length}L${to} ${callout.height - 0.5 - pad.top}`;
  const picture = (
    <SingleMap {...props}>
      {!none && (
        <svg class="nbg-overlay" width={size.width} height={size.height} aria-hidden="true">
          {["nbg-halo", "nbg-ink"].map((name) => (
            <g key={name} class={name}>
              <path class="nbg-ray" d={rays} />
              <path class="nbg-ray" d={taps.join("")} />
              {repeated !== "" && <path class="nbg-ray nbg-source" d={repeated} />}
              <path d={box} />
            </g>
          ))}
        </svg>
      )}
    </SingleMap>
  );
  const sides = [pad.top, pad.right, pad.bottom, pad.left];
  if (sides.every((side) => side === 0)) return picture;
  return (
    <div class="nbg-padded" style={{ padding: sides.map(px).join(" ") }}>
      {picture}
    </div>
  );
}

/** Lines from each padding pixel to the pixel that it repeats, and a frame around the latter. */
function repeatedPixelPath(
  { rows, columns }: WindowTaps,
  pixelWidth: number,
  pixelHeight: number,
): string {
  const found = rows.flatMap((row) =>
    columns.flatMap((column) => {
      if (row.outsideIndex === undefined && column.outsideIndex === undefined) return [];
      const [x, y] = [column.inputIndex * pixelWidth, row.inputIndex * pixelHeight];
      const from = `M${(tapPosition(column) + 0.5) * pixelWidth} ${(tapPosition(row) + 0.5) * pixelHeight}`;
      return [
        `${from}L${x + pixelWidth / 2} ${y + pixelHeight / 2}M${x} ${y}h${pixelWidth}v${pixelHeight}h${-pixelWidth}z`,
      ];
    }),
  );
  return found.length > MAX_REPEAT_LINES ? "" : found.join("");
}

interface PixelMapProps extends SingleMapProps {
  y: number;
  x: number;
  choose: (y: number, x: number) => void;
}

const ARROW_KEY_STEPS = new Map([
  ["ArrowLeft", [0, -1]],
  ["ArrowRight", [0, 1]],
  ["ArrowUp", [-1, 0]],
  ["ArrowDown", [1, 0]],
] as const);

/** The map that contains the explained pixel: a click or the arrow keys select another pixel. */
export function PixelMap(props: PixelMapProps) {
  const { value, y, x, choose, label } = props;
  const ratio = useViews().pixelRatio.value;
  const own = useRef<HTMLButtonElement>(null);
  const [, , mapHeight, mapWidth] = value.nchw;
  const size = drawnSize(props, ratio);
  const [along, down] = [size.width / mapWidth, size.height / mapHeight];
  const click = (event: MouseEvent): void => {
    const box = own.current?.getBoundingClientRect();
    if (box === undefined || event.detail === 0) return;
    const row = Math.floor(((event.clientY - box.top) / box.height) * mapHeight);
    const column = Math.floor(((event.clientX - box.left) / box.width) * mapWidth);
    choose(Math.min(mapHeight - 1, Math.max(0, row)), Math.min(mapWidth - 1, Math.max(0, column)));
  };
  const move = (event: KeyboardEvent): void => {
    const step = [...ARROW_KEY_STEPS].find(([key]) => key === event.key)?.[1];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation(); // otherwise these keys would change the layer or channel
    event.preventDefault();
    choose(
      Math.min(mapHeight - 1, Math.max(0, y + step[0])),
      Math.min(mapWidth - 1, Math.max(0, x + step[1])),
    );
  };
  const mark = `M${x * along} ${y * down}h${along}v${down}h${-along}z`;
  return (
    <button
      type="button"
      ref={own}
      class="nbg-pick"
      aria-label={`${label}, at y ${y}, x ${x}: arrow keys go to the pixels beside it`}
      onClick={click}
      onKeyDown={move}
    >
      <SingleMap {...props}>
        <svg class="nbg-overlay" width={size.width} height={size.height} aria-hidden="true">
          <path class="nbg-halo" d={mark} />
          <path class="nbg-ink" d={mark} />
        </svg>
      </SingleMap>
    </button>
  );
}
