// Maps with something marked in them: where a patch lies, and the pixel that is explained.
import { useRef } from "preact/hooks";
import { type Around, NOTHING } from "../../explain/around.ts";
import type { Lines } from "../../explain/window.ts";
import { displayOf } from "../../network/network.ts";
import type { Value } from "../../plan.ts";
import { useViews } from "../context.ts";
import { fitScale, px, tileSide } from "../layout.ts";
import { Maps } from "../maps.tsx";

/** CSS pixels that a pixel of a tiny map has at most, and that a picture has at least. */
const MOST = 28;
const LEAST = 120;
/** How tall a line of numbers is drawn: its one row alone could not be seen. */
const LINE = 28;

/** The scale of a map in a square room that nothing less than LEAST is shown in, and the CSS pixels that it takes. */
export function mapSize(value: Value, room: number, ratio: number, around: Around = NOTHING) {
  const [, , height, width] = value.nchw;
  const pixels = Math.max(height + around.top + around.bottom, width + around.left + around.right);
  const [least, most] = [Math.ceil(LEAST * ratio), Math.round(MOST * ratio)];
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

interface Place {
  value: Value;
  channel: number;
  room: number;
  label: string;
}

/** One channel of a map, or an image, with something over it. */
export function OneMap(props: Place & { around?: Around; children: preact.ComponentChildren }) {
  const { value, channel, room, label, around, children } = props;
  const ratio = useViews().ratio.value;
  const { scale, height } = mapSize(value, room, ratio, around);
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
  const { value, lines, room, callout, around = NOTHING } = props;
  const ratio = useViews().ratio.value;
  const [, , mapHeight, mapWidth] = value.nchw;
  const size = mapSize(value, room, ratio, around);
  const { pad } = size;
  const [along, down] = [size.width / mapWidth, size.height / mapHeight];
  const ends = (at: readonly { at: number }[], pixel: number) => {
    const places = at.map((line) => line.at);
    const [first, last] = [Math.min(...places), Math.max(...places)];
    return { from: first * pixel, length: (last - first + 1) * pixel };
  };
  const none = lines.rows.length === 0 || lines.columns.length === 0;
  const [y, x] = [ends(lines.rows, down), ends(lines.columns, along)];
  const apart = (at: readonly { at: number }[]): boolean =>
    at.some((line, i) => i > 0 && Math.abs(line.at - (at[i - 1]?.at ?? 0)) > 1);
  const box = `M${x.from} ${y.from}h${x.length}v${y.length}h${-x.length}z`;
  const taps =
    apart(lines.rows) || apart(lines.columns)
      ? lines.rows.flatMap((row) =>
          lines.columns.map(
            (column) => `M${column.at * along} ${row.at * down}h${along}v${down}h${-along}z`,
          ),
        )
      : [];
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
  const { value, room, y, x, choose, label } = props;
  const ratio = useViews().ratio.value;
  const own = useRef<HTMLButtonElement>(null);
  const [, , mapHeight, mapWidth] = value.nchw;
  const size = mapSize(value, room, ratio);
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
