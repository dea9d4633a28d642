// A picture of a value: maps in a mosaic, or an image, in one canvas that reacts to the pointer.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { channelPictureSize, displayStyle } from "../network/display_kind.ts";
import { clippingLimits } from "../pictures/clipping.ts";
import { baseKey } from "../plan/derived_values.ts";
import type { ColorMapName, ColorRange, Summary } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import type { ColorLimits } from "../state/colors.ts";
import { imageIndex, pointerPosition, useStatistics, useViews } from "./context.ts";
import { dataLimits, declaredLimits, imageLimits } from "./image_limits.ts";
import { type Mosaic, px, tileSide } from "./layout.ts";
import type { Drawing } from "./painter.ts";
import { TokenMarks } from "./value_views/token_marks.tsx";

/** Milliseconds that a touch must be held before it shows values: slightly less than the browser's long press. */
const TOUCH_HOLD_MS = 400;

interface MapsProps {
  value: Value;
  /** In display order. */
  channels: readonly number[];
  columns: number;
  /** Canvas pixels per map pixel, and of the gap between maps. */
  scale: number;
  gap?: number;
  /** CSS pixels per canvas pixel; by default one device pixel. */
  zoom?: number;
  /** The picture's height in CSS pixels if it is not proportional: for one-dimensional signals. */
  cssHeight?: number;
  /** The size of a curve in CSS pixels. */
  curveSize?: { readonly width: number; readonly height: number };
  /** The label for screen readers. */
  label: string;
  /** The tooltip shows the rank within the map, and the pixel is marked. */
  showRank?: boolean;
  /** Show no marks on the picture. */
  hidesMarks?: boolean;
  /** Draw hairlines between the maps. */
  hasHairlines?: boolean;
  /** True: one RGB picture; false: each channel separately; by default the value's display kind decides. */
  isRgb?: boolean;
  /** A colour map and a range that override the selected ones. */
  colorMap?: ColorMapName | undefined;
  range?: ColorRange | undefined;
  /** Called for a click on a pixel. */
  pickPixel?: (y: number, x: number) => void;
  children?: ComponentChildren;
}

/** The maps of one value, with a tooltip for the number under the pointer. */
export function Maps(props: MapsProps) {
  const {
    value,
    channels,
    columns,
    label,
    showRank = false,
    hasHairlines = false,
    children,
  } = props;
  const views = useViews();
  const { state, painter, hover } = views;
  const canvas = useRef<HTMLCanvasElement>(null);
  const network = views.network.value;
  const defaultDrawMode = displayStyle(value).drawMode ?? "maps";
  const isOne = defaultDrawMode === "rgb" || defaultDrawMode === "classes";
  const isPart = isOne && (props.isRgb === false || channels.length < value.nchw[1]);
  const part = defaultDrawMode === "rgb" ? "grey" : "maps"; // one colour is grey, in the picture's range
  const picture = props.isRgb ? "rgb" : isPart ? part : defaultDrawMode;
  const isWhole = picture === "rgb" || picture === "classes";
  const image = network ? imageIndex(value, network, state.example.value) : 0;
  const gap = props.gap ?? 0;
  const asked = props.zoom ?? 1 / views.pixelRatio.value;
  // A picture that the browser enlarges has one canvas pixel per element: marks over pixels need the full size.
  const isCurve = picture === "curves";
  const enlarged = props.scale === 1 && gap === 0 && !isCurve;
  const times = enlarged ? Math.round(asked * views.pixelRatio.value) : 1;
  const own = useColorRange(value);
  const range = props.range ?? own;
  const statistics = useStatistics(times > 1 ? value : null);
  const isImage = picture === "rgb" || picture === "grey";
  const needsFullSize =
    statistics !== null &&
    (statistics.layer.nan > 0 || (isImage && isClipped(range, statistics.layer)));
  const scale = isCurve ? 1 : needsFullSize ? times : props.scale;
  // A curve is drawn at device resolution, whatever its size.
  const zoom = isCurve ? 1 / views.pixelRatio.value : needsFullSize ? asked / times : asked;
  const [, , height, width] = value.nchw;
  const cell = isCurve
    ? curveCanvasSize(props, asked * views.pixelRatio.value, views.pixelRatio.value)
    : undefined;
  const tiles = isWhole ? 1 : channels.length;
  const [tileWidth, tileHeight] = cell ?? [tileSide(width, scale), tileSide(height, scale)];
  const shown = { columns: Math.min(columns, tiles), rows: Math.ceil(tiles / columns) };
  const across = shown.columns * (tileWidth + gap) - gap;
  const down = shown.rows * (tileHeight + gap) - gap;
  const tokens = state.plan.value?.tokens ?? [];
  const linked =
    !props.hidesMarks &&
    (value.display_kind === "attention" || tokens.some(({ input }) => input === value.key));
  const size = { width: px(across * zoom), height: px(props.cssHeight ?? down * zoom) };

  const drawing: Drawing = {
    key: value.key,
    image,
    channels,
    columns: shown.columns,
    gap,
    scale,
    colormap: props.colorMap ?? state.colormap.value,
    theme: views.theme.value,
    range,
    drawMode: picture,
    curveSize: cell,
  };

  useEffect(() => {
    if (canvas.current !== null) painter.show(canvas.current, drawing);
  });
  useEffect(() => {
    const element = canvas.current;
    return () => {
      if (element !== null) painter.forget(element);
    };
  }, [painter]);

  /** The channel and pixel under the pointer; null between maps, undefined if it cannot be determined. */
  const under = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    if (box === undefined || box.width === 0) return undefined;
    const column = ((event.clientX - box.left) / box.width) * across;
    const row = ((event.clientY - box.top) / box.height) * down;
    const i = Math.floor(column / (tileWidth + gap));
    const j = Math.floor(row / (tileHeight + gap));
    const places = isCurve ? Math.max(height, width) : width;
    const [perX, perY] = cell ? [cell[0] / places, cell[1]] : [scale, scale];
    const x = Math.floor((column - i * (tileWidth + gap)) / perX);
    const y = Math.floor((row - j * (tileHeight + gap)) / perY);
    const at = j * shown.columns + i;
    const inside =
      x >= 0 && y >= 0 && x < places && y < (isCurve ? 1 : height) && at >= 0 && at < tiles;
    const channel = channels[at];
    if (!inside || channel === undefined) return null;
    return isCurve
      ? { channel, ...(height > 1 ? { y: x, x: 0 } : { y: 0, x }) }
      : { channel, y, x };
  };
  const point = (event: PointerEvent): void => {
    const at = under(event);
    if (at === undefined) return;
    if (at === null) {
      hover.value = null;
      return;
    }
    hover.value = {
      value,
      channels: isWhole ? channels : [at.channel],
      y: at.y,
      x: at.x,
      ...pointerPosition(event, views),
      showRank,
    };
  };
  const { pickPixel } = props;
  const click = (event: MouseEvent): void => {
    const at = event.detail > 0 && under(event); // a click by keyboard has no position
    if (at) pickPixel?.(at.y, at.x);
  };
  const leave = (): void => {
    hover.value = null;
  };

  // After a long press, moving the finger shows values; any other touch scrolls the page.
  const began = useRef(0);
  const begin = (event: TouchEvent): void => {
    began.current = event.timeStamp;
  };
  const hold = (event: TouchEvent): void => {
    if (event.timeStamp - began.current < TOUCH_HOLD_MS) began.current = Number.POSITIVE_INFINITY;
    else if (event.cancelable) event.preventDefault();
  };

  return (
    <span
      class={hasHairlines ? "nbg-maps nbg-lines" : "nbg-maps"}
      style={size}
      onTouchStart={begin}
      onTouchMove={hold}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={leave}
      {...(pickPixel && { onClick: click })}
    >
      <canvas
        ref={canvas}
        role="img"
        aria-label={label}
        data-maps={value.key}
        data-channels={tiles}
        data-columns={shown.columns}
        style={size}
      />
      {showRank && (
        <PixelMark value={value} isCurve={isCurve} showsSelection={pickPixel !== undefined} />
      )}
      {linked && (
        <TokenMarks
          value={value}
          mosaic={{
            count: tiles,
            columns: shown.columns,
            width: tileWidth,
            height: tileHeight,
            gap,
          }}
        />
      )}
      {children}
    </span>
  );
}

/** Canvas pixels of a curve: `zoom` times its frame, or the requested `curveSize` or `cssHeight`. */
function curveCanvasSize(
  props: MapsProps,
  zoom: number,
  pixelRatio: number,
): readonly [number, number] {
  const [, , h, w] = props.value.nchw;
  const round = (side: number) => Math.max(1, Math.round(side));
  if (props.curveSize)
    return [round(props.curveSize.width * pixelRatio), round(props.curveSize.height * pixelRatio)];
  const times = props.scale * zoom;
  if (props.cssHeight !== undefined)
    return [round(Math.max(h, w) * times), round(props.cssHeight * pixelRatio)];
  const { width, height } = channelPictureSize(props.value);
  return [round(width * times), round(height * times)];
}

/** The pixel under the pointer, or the selected one, outlined with a halo so that it is visible on any colour map. */
function PixelMark({
  value,
  isCurve,
  showsSelection,
}: {
  value: Value;
  isCurve: boolean;
  showsSelection: boolean;
}) {
  const { hover, network, state } = useViews();
  const { key, nchw } = value;
  const [, , h, w] = nchw;
  const pointed = hover.value?.showRank ? hover.value : null;
  const pair = network.value?.comparisonPairs.get(key);
  const compared =
    pair !== undefined && pair === network.value?.comparisonPairs.get(pointed?.value.key ?? "");
  const chosen = state.pixel.value;
  const fits = showsSelection && chosen?.mapHeight === h && chosen.mapWidth === w;
  const place = pointed?.value.key === key || compared ? pointed : fits ? chosen : null;
  if (place === null) return null;
  const [places, at] = isCurve ? [Math.max(h, w), Math.max(place.y, place.x)] : [w, place.x];
  const style = {
    left: `${(at / places) * 100}%`,
    top: isCurve ? "0" : `${(place.y / h) * 100}%`,
    width: `${100 / places}%`,
    height: isCurve ? "100%" : `${100 / h}%`,
  };
  return <span class="nbg-mark" style={style} />;
}

/** Maps of a value in a mosaic computed by `layout.ts`. */
export function MosaicMaps(props: {
  value: Value;
  channels: readonly number[];
  mosaic: Mosaic;
  gap: number;
  label: string;
}) {
  const { mosaic, channels, ...rest } = props;
  return (
    <Maps
      {...rest}
      channels={channels.slice(0, mosaic.shownCount)}
      columns={mosaic.columns}
      scale={mosaic.scale}
      hasHairlines
    />
  );
}

/** The colour range of a picture: an image's own, or the selected mode for maps. */
export function useColorRange(value: Value): ColorRange {
  const { state } = useViews();
  const { isImage } = displayStyle(value);
  const mode = state.rangeMode.value;
  const kept = state.colorLimits.value.get(value.key);
  const settle = !isImage && mode === "fixed" && kept === undefined;
  const isClasses = displayStyle(value).name === "classes";
  const choice = state.imageRanges.value[baseKey(value.key)];
  const known = isImage && choice !== "layer" ? imageLimits(value, undefined, choice) : null;
  const asks = (isImage && !isClasses && known === null) || settle;
  const statistics = useStatistics(asks ? value : null);
  useEffect(() => {
    if (!settle || statistics === null || Number.isNaN(statistics.layer.min)) return;
    const { min: low, max: high } = statistics.layer;
    state.colorLimits.value = new Map([...state.colorLimits.peek(), [value.key, { low, high }]]);
  });
  const symmetric = state.isSymmetric.value;
  if (!isImage && mode === "fixed")
    return { mode: "layer", ...(kept && { mode, ...kept }), symmetric };
  if (!isImage) return { mode, symmetric };
  if (isClasses) return { mode: "fixed" }; // class indices have no range
  const ends = known ?? imageLimits(value, statistics?.layer, choice);
  return ends === null ? { mode: "layer" } : { mode: "fixed", ...ends }; // all elements are NaN
}

/**
 * The range that two pictures of a value share: the value's own range, but with the minimum and maximum of `pairLimits`
 * if the range comes from the data.
 */
export function useSharedLimits(
  value: Value | null,
  pairLimits: ColorLimits | null,
): ColorLimits | null {
  const { state } = useViews();
  const summary = useStatistics(value)?.layer;
  if (value === null || summary === undefined) return pairLimits;
  const ends = imageLimits(value, summary, state.imageRanges.value[baseKey(value.key)]);
  const own = dataLimits({ low: summary.min, high: summary.max });
  const isOwn = ends !== null && ends.low === own.low && ends.high === own.high;
  return isOwn && pairLimits !== null && declaredLimits(value) === null
    ? dataLimits(pairLimits)
    : ends;
}

/** Whether a picture has values outside its range, which are clipped and marked. */
function isClipped({ mode, low, high }: ColorRange, { min, max }: Summary): boolean {
  if (mode !== "fixed" || low === undefined || high === undefined) return false;
  const beyond = clippingLimits({ low, high });
  return min < beyond.low || max > beyond.high;
}
