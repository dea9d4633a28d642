// Maps with something marked in them: where a patch lies, and the pixel that is explained.
import { useRef } from "preact/hooks";
import { type Around, NOTHING } from "../../explain/around.ts";
import { type Line, type Lines, standsAt } from "../../explain/window.ts";
import { exact } from "../../format.ts";
import { displayOf } from "../../network/display.ts";
import type { Value } from "../../plan/schema.ts";
import { placeOf, useViews } from "../context.ts";
import { fitScale, px, tileSide } from "../layout.ts";
import { Maps } from "../maps.tsx";

/** CSS pixels that a pixel of a tiny map has at most, and that a picture has at least. */
const MOST = 28;
const LEAST = 120;
/** How tall a line of numbers is drawn as colours, and as a curve. */
const LINE = 28;
const CURVE = 96;
/** A curve of more numbers goes up and down within each CSS pixel. */
const PER_PIXEL = 2;
/** Lines from a border's pixels to those that they repeat; more could not be told apart. */
const MOST_REPEATED = 64;

/**
 * The scale of a map in a square room that nothing less than LEAST is shown in, and the CSS pixels that it takes;
 * `large`: as much of the room as whole pixels take, however few they are.
 */
export function mapSize(
  value: Value,
  room: number,
  ratio: number,
  around: Around = NOTHING,
  large = false,
) {
  const [, , height, width] = value.nchw;
  const pixels = Math.max(height + around.top + around.bottom, width + around.left + around.right);
  const [least, most] = [Math.ceil(LEAST * ratio), large ? Infinity : Math.round(MOST * ratio)];
  let scale = Math.min(fitScale(pixels, room * ratio), Math.max(most, Math.ceil(least / pixels)));
  while (tileSide(pixels, scale) < least) scale = scale < 1 ? 1 / (1 / scale - 1) : scale + 1;
  const side = (pixels: number): number => tileSide(pixels, scale) / ratio;
  const pad = {
    top: (around.top * scale) / ratio,
    bottom: (around.bottom * scale) / ratio,
    left: (around.left * scale) / ratio,
    right: (around.right * scale) / ratio,
  };
  const own = { width: side(width), height: height === 1 && width > 1 ? LINE : side(height) };
  return {
    ...{ scale, pad, ...own },
    /** With what the window reaches around the map. */
    outer: {
      width: own.width + pad.left + pad.right,
      height: own.height + pad.top + pad.bottom,
    },
  };
}

/** The same of a line of numbers that is drawn as a curve: all of the room's width. */
function curveSize(value: Value, room: number, ratio: number, { left, right }: Around = NOTHING) {
  const along = room / (value.nchw[3] + left + right);
  const own = { width: along * value.nchw[3], height: CURVE };
  const pad = { top: 0, bottom: 0, left: left * along, right: right * along };
  return { scale: ratio, pad, ...own, outer: { width: room, height: CURVE } };
}

interface Place {
  value: Value;
  channel: number;
  room: number;
  label: string;
  /** The numbers of a line, which is then drawn as a curve. */
  line?: Float32Array | null;
  /** However few pixels it has, it takes the room. */
  large?: boolean;
}

/** How large it is drawn. */
export function sizeIn(
  { value, room, line, large = false }: Omit<Place, "channel" | "label">,
  ratio: number,
  around?: Around,
) {
  return line ? curveSize(value, room, ratio, around) : mapSize(value, room, ratio, around, large);
}

/** A line of numbers as a curve, from the least to the greatest. */
function Signal(props: {
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
  const up = (y: number): number => CURVE - 4 - ((y - low) / (high - low || 1)) * (CURVE - 8);
  const every = Math.max(1, Math.floor(numbers.length / (width * PER_PIXEL)));
  const points: string[] = [];
  for (let i = 0; i < numbers.length; i += every) {
    // Of many numbers the least and the greatest of each stretch.
    const some = numbers.subarray(i, i + every).filter(Number.isFinite);
    if (some.length === 0) continue;
    const ends = every > 1 ? [Math.min(...some), Math.max(...some)] : [some[0] ?? 0];
    for (const y of ends) points.push(`${((i + 0.5) * along).toFixed(1)} ${up(y).toFixed(1)}`);
  }
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const i = Math.floor(((event.clientX - box.left) / box.width) * numbers.length);
    const value = numbers[i];
    views.note.value =
      value === undefined
        ? null
        : { title: exact(value), text: `x ${i}`, ...placeOf(event, views) };
  };
  const leave = (): void => {
    views.note.value = null;
  };
  return (
    <div class="nbg-signal" onPointerMove={point} onPointerDown={point} onPointerLeave={leave}>
      <svg class="nbg-curve" width={width} height={CURVE} role="img" aria-label={label}>
        <path class="nbg-zero" d={`M0 ${up(0)}H${width}`} />
        <path class="nbg-line-of" d={points.length > 0 ? `M${points.join("L")}` : ""} />
      </svg>
      {children}
    </div>
  );
}

/** One channel of a map, or an image, with something over it. */
export function OneMap(props: Place & { around?: Around; children: preact.ComponentChildren }) {
  const { value, channel, label, line, around, children } = props;
  const ratio = useViews().ratio.value;
  const { scale, width, height } = sizeIn(props, ratio, around);
  if (line) {
    return (
      <Signal numbers={line} width={width} label={label}>
        {children}
      </Signal>
    );
  }
  const channels =
    displayOf(value).drawn === "rgb"
      ? Array.from({ length: value.nchw[1] }, (_, i) => i)
      : [channel];
  return (
    <Maps
      value={value}
      channels={channels}
      columns={1}
      scale={Math.min(1, scale)}
      zoom={Math.max(1, scale) / ratio}
      high={height}
      label={label}
    >
      {children}
    </Maps>
  );
}

/** From a box to the patch beside it: how far away that is, and how tall. */
export interface Callout {
  readonly gap: number;
  readonly height: number;
}

/** The input with the window drawn where it lies, on the map or on the padding around it. */
export function InputMap(
  props: Place & { lines: Lines; callout: Callout | null; around?: Around },
) {
  const { value, lines, callout, around = NOTHING } = props;
  const ratio = useViews().ratio.value;
  const [, , mapHeight, mapWidth] = value.nchw;
  const size = sizeIn(props, ratio, around);
  const { pad } = size;
  const [along, down] = [size.width / mapWidth, size.height / mapHeight];
  const ends = (at: readonly Line[], pixel: number) => {
    const places = at.map(standsAt);
    const [first, last] = [Math.min(...places), Math.max(...places)];
    return { from: first * pixel, length: (last - first + 1) * pixel };
  };
  const none = lines.rows.length === 0 || lines.columns.length === 0;
  const [y, x] = [ends(lines.rows, down), ends(lines.columns, along)];
  const apart = (at: readonly Line[]): boolean =>
    at.some((line, i) => Math.abs(standsAt(line) - standsAt(at[i - 1] ?? line)) > 1);
  const box = `M${x.from} ${y.from}h${x.length}v${y.length}h${-x.length}z`;
  const taps =
    apart(lines.rows) || apart(lines.columns)
      ? lines.rows.flatMap((row) =>
          lines.columns.map(
            (column) =>
              `M${standsAt(column) * along} ${standsAt(row) * down}h${along}v${down}h${-along}z`,
          ),
        )
      : [];
  const repeated = repeatedBy(lines, along, down);
  const right = x.from + x.length;
  const to = size.width + pad.right + (callout?.gap ?? 0);
  const rays =
    callout === null
      ? ""
      : `M${right} ${y.from}L${to} ${0.5 - pad.top}M${right} ${y.from + y.length}L${to} ${callout.height - 0.5 - pad.top}`;
  const picture = (
    <OneMap {...props}>
      {!none && (
        <svg class="nbg-over" width={size.width} height={size.height} aria-hidden="true">
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
    </OneMap>
  );
  const sides = [pad.top, pad.right, pad.bottom, pad.left];
  if (sides.every((side) => side === 0)) return picture;
  return (
    <div class="nbg-padded" style={{ padding: sides.map(px).join(" ") }}>
      {picture}
    </div>
  );
}

/** From each pixel of a border to the one that it repeats, with a frame around that one. */
function repeatedBy({ rows, columns }: Lines, along: number, down: number): string {
  const found = rows.flatMap((row) =>
    columns.flatMap((column) => {
      if (row.stands === undefined && column.stands === undefined) return [];
      const [x, y] = [column.at * along, row.at * down];
      const from = `M${(standsAt(column) + 0.5) * along} ${(standsAt(row) + 0.5) * down}`;
      return [`${from}L${x + along / 2} ${y + down / 2}M${x} ${y}h${along}v${down}h${-along}z`];
    }),
  );
  return found.length > MOST_REPEATED ? "" : found.join("");
}

interface PixelProps extends Place {
  y: number;
  x: number;
  choose: (y: number, x: number) => void;
}

const STEPS = new Map([
  ["ArrowLeft", [0, -1]],
  ["ArrowRight", [0, 1]],
  ["ArrowUp", [-1, 0]],
  ["ArrowDown", [1, 0]],
] as const);

/** The map whose pixel is explained: a click or the arrow keys choose another one. */
export function PixelMap(props: PixelProps) {
  const { value, y, x, choose, label } = props;
  const ratio = useViews().ratio.value;
  const own = useRef<HTMLButtonElement>(null);
  const [, , mapHeight, mapWidth] = value.nchw;
  const size = sizeIn(props, ratio);
  const [along, down] = [size.width / mapWidth, size.height / mapHeight];
  const click = (event: MouseEvent): void => {
    const box = own.current?.getBoundingClientRect();
    if (box === undefined || event.detail === 0) return;
    const row = Math.floor(((event.clientY - box.top) / box.height) * mapHeight);
    const column = Math.floor(((event.clientX - box.left) / box.width) * mapWidth);
    choose(Math.min(mapHeight - 1, Math.max(0, row)), Math.min(mapWidth - 1, Math.max(0, column)));
  };
  const move = (event: KeyboardEvent): void => {
    const step = [...STEPS].find(([key]) => key === event.key)?.[1];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation(); // elsewhere these keys go to other layers and channels
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
      <OneMap {...props}>
        <svg class="nbg-over" width={size.width} height={size.height} aria-hidden="true">
          <path class="nbg-halo" d={mark} />
          <path class="nbg-ink" d={mark} />
        </svg>
      </OneMap>
    </button>
  );
}
