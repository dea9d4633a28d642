// The channels of a layer as selectable tiles: by click, Shift-click, a dragged rectangle, and keys.
import { useId, useRef, useState } from "preact/hooks";
import { channelNoun, channelPictureSize, displayStyle } from "../../../network/display_kind.ts";
import { formatPercent, formatShort } from "../../../number_format.ts";
import type { Statistics } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import { useExampleValues } from "../../../views/bar_chart.tsx";
import { useViews } from "../../../views/context.ts";
import { CheckIcon } from "../../../views/icons.tsx";
import { hasUnitRange } from "../../../views/image_limits.ts";
import { fitScale, maxAbs, px, tileSide } from "../../../views/layout.ts";
import { Maps } from "../../../views/maps.tsx";
import type { ChannelSelection } from "./channel_selection.ts";

/** CSS pixels of pointer movement before a drag draws a rectangle. */
const DRAG_THRESHOLD = 4;
/** Size in CSS pixels of a vector's element. */
const ELEMENT_SIZE = { width: 56, height: 30, gap: 6 };

/** Approximate tile size in CSS pixels, for few channels and for many. */
const TILE_SIZE = { few: 92, many: 58, gap: 6, most: 12 };

/** The tile layout for a width, if possible without gaps in the last row. */
function layoutSelectionTiles(
  map: { width: number },
  count: number,
  width: number,
  pixelRatio: number,
) {
  const room = Math.floor(width * pixelRatio);
  const least = Math.round(TILE_SIZE.gap * pixelRatio);
  const side = (count <= 12 ? TILE_SIZE.few : TILE_SIZE.many) * pixelRatio;
  const scale = fitScale(map.width, side);
  const tile = tileSide(map.width, scale);
  const most = Math.max(1, Math.min(count, Math.floor((room + least) / (tile + least))));
  const full = [most, most - 1, most - 2].find((one) => one >= most * 0.85 && count % one === 0);
  const columns = full ?? most;
  const spread = columns > 1 ? Math.floor((room - columns * tile) / (columns - 1)) : least;
  return { columns, scale, gap: Math.min(spread, Math.round(TILE_SIZE.most * pixelRatio)) };
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

interface LassoDrag {
  readonly startPoint: readonly [number, number];
  /** Whether the drag adds channels: the tile where it began was not selected. */
  readonly isAdding: boolean;
  readonly tileBoxes: readonly (readonly [number, Box])[];
  dragBox: Box | null;
  hitChannels: readonly number[];
}

export function SelectionGrid(props: {
  value: Value;
  /** In display order. */
  channels: readonly number[];
  statistics: Statistics | null;
  currentChannel: number;
  selection: ChannelSelection;
  width: number;
}) {
  const { value, channels, statistics, currentChannel, selection } = props;
  const { selected, select } = selection;
  const { state, pixelRatio: ratioOf, zoom } = useViews();
  const id = useId();
  const place = useRef<HTMLDivElement>(null);
  const drag = useRef<LassoDrag | null>(null);
  const anchor = useRef<number | null>(null);
  const [lasso, setLasso] = useState<LassoDrag | null>(null);
  const ratio = ratioOf.value;
  const flat = displayStyle(value).drawMode === undefined;
  const map = channelPictureSize(value);
  const own = layoutSelectionTiles(map, channels.length, props.width, ratio);
  const across = Math.max(
    1,
    Math.floor((props.width + ELEMENT_SIZE.gap) / (ELEMENT_SIZE.width + ELEMENT_SIZE.gap)),
  );
  const columns = flat ? Math.min(across, channels.length) : own.columns;
  const width = flat ? ELEMENT_SIZE.width : tileSide(map.width, own.scale) / ratio;
  const gap = flat ? ELEMENT_SIZE.gap : own.gap / ratio;
  const rows: (readonly number[])[] = [];
  for (let i = 0; i < channels.length; i += columns) rows.push(channels.slice(i, i + columns));
  const shown = new Set(selected);
  for (const one of lasso?.hitChannels ?? []) lasso?.isAdding ? shown.add(one) : shown.delete(one);

  const toggled = (channel: number): Set<number> => {
    const now = new Set(selected);
    if (!now.delete(channel)) now.add(channel);
    return now;
  };
  /** The selection plus all channels from the last clicked one to this one. */
  const upTo = (channel: number): Set<number> => {
    const [a, b] = [channels.indexOf(anchor.current ?? currentChannel), channels.indexOf(channel)];
    return new Set([...selected, ...channels.slice(Math.min(a, b), Math.max(a, b) + 1)]);
  };
  const choose = (channel: number, range: boolean): void => {
    select(range ? upTo(channel) : toggled(channel));
    if (!range) anchor.current = channel;
    state.selected.value = { layer: value.key, channel };
  };

  const begin = (event: PointerEvent): void => {
    // Touch scrolls the page; a tap selects.
    if (event.button !== 0 || event.pointerType === "touch" || event.altKey) return;
    const tiles = [...(place.current?.querySelectorAll<HTMLElement>("[data-pick]") ?? [])];
    const tileBoxes = tiles.map(
      (one) => [Number(one.dataset.pick), one.getBoundingClientRect()] as const,
    );
    const [x, y] = [event.clientX, event.clientY];
    const at = tileBoxes.find(([, box]) => overlaps(box, { left: x, right: x, top: y, bottom: y }));
    const isAdding = at === undefined || !selected.has(at[0]);
    drag.current = { startPoint: [x, y], isAdding, tileBoxes, dragBox: null, hitChannels: [] };
  };
  const go = (event: PointerEvent): void => {
    const now = drag.current;
    if (now === null) return;
    const [x, y] = now.startPoint;
    const far = Math.hypot(event.clientX - x, event.clientY - y) >= DRAG_THRESHOLD;
    if (now.dragBox === null && !far) return;
    if (now.dragBox === null) place.current?.setPointerCapture(event.pointerId);
    const dragBox = {
      left: Math.min(x, event.clientX),
      right: Math.max(x, event.clientX),
      top: Math.min(y, event.clientY),
      bottom: Math.max(y, event.clientY),
    };
    const hitChannels = now.tileBoxes
      .filter(([, tile]) => overlaps(tile, dragBox))
      .map(([channel]) => channel);
    drag.current = { ...now, dragBox, hitChannels };
    setLasso(drag.current);
  };
  const end = (event: PointerEvent): void => {
    const now = drag.current;
    drag.current = null;
    setLasso(null);
    if (now === null || now.dragBox === null || event.type !== "pointerup") return;
    const set = new Set(selected);
    for (const one of now.hitChannels) now.isAdding ? set.add(one) : set.delete(one);
    select(set);
  };

  const press = (event: KeyboardEvent, channel: number): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = channels.indexOf(channel);
    const { key } = event;
    const steps: Record<string, number> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -columns,
      ArrowDown: columns,
      Home: -at,
      End: channels.length - 1 - at,
    };
    const step = steps[key];
    if (key === " " || key === "Enter") choose(channel, event.shiftKey);
    else if (step === undefined) return;
    else {
      const to = channels[at + step];
      if (to !== undefined) {
        if (event.shiftKey) {
          anchor.current ??= channel;
          select(new Set([...selected, channel, to]));
        } else anchor.current = to;
        state.selected.value = { layer: value.key, channel: to };
        place.current?.querySelector<HTMLElement>(`[data-pick="${to}"]`)?.focus();
      }
    }
    event.preventDefault();
    event.stopPropagation(); // other handlers would select another layer
  };

  const cells = (row: readonly number[], i: number) => (
    // biome-ignore lint/a11y/useFocusableInteractive: its cells have the focus
    <span class="nbg-frames" role="row" id={`${id}-${i}`} style={{ gap: px(gap) }}>
      {row.map((channel) => (
        <span
          key={channel}
          class="nbg-frame nbg-tile-pick"
          role="gridcell"
          data-pick={channel}
          data-of={value.key}
          data-channel={channel}
          aria-selected={shown.has(channel)}
          aria-label={channelLabel(value, channel, statistics)}
          tabIndex={channel === currentChannel ? 0 : -1}
          style={{ width: px(width) }}
          onClick={(event) => choose(channel, event.shiftKey)}
          onKeyDown={(event) => press(event, channel)}
        >
          {shown.has(channel) && (
            <span class="nbg-tick">
              <CheckIcon />
            </span>
          )}
        </span>
      ))}
    </span>
  );
  const box = lasso?.dragBox ?? null;
  const around = place.current?.getBoundingClientRect();
  return (
    <div
      class="nbg-picking"
      ref={place}
      onPointerDown={begin}
      onPointerMove={go}
      onPointerUp={end}
      onPointerCancel={end}
      data-columns={columns}
    >
      {/* The rows stay inside the map elements, so that hovering a tile hovers its map. */}
      <div
        role="grid"
        aria-multiselectable="true"
        aria-label={`Channels of ${value.key} to bend`}
        aria-owns={rows.map((_, i) => `${id}-${i}`).join(" ")}
      />
      {rows.map((elementIndices, i) => (
        <div key={elementIndices[0]}>
          {flat ? (
            <VectorElements {...{ value, elementIndices, width }}>
              {cells(elementIndices, i)}
            </VectorElements>
          ) : (
            <Maps
              value={value}
              channels={elementIndices}
              columns={columns}
              scale={own.scale}
              gap={own.gap}
              isRgb={false}
              label={`channels ${elementIndices.join(", ")} of ${value.key}`}
            >
              {cells(elementIndices, i)}
            </Maps>
          )}
          <div class="nbg-captions" style={{ gap: px(gap) }} aria-hidden="true">
            {elementIndices.map((channel) => (
              <span
                key={channel}
                class={shown.has(channel) ? "nbg-cell-caption nbg-picked" : "nbg-cell-caption"}
                style={{ width: px(width) }}
              >
                {channel}
              </span>
            ))}
          </div>
        </div>
      ))}
      {box !== null && around !== undefined && (
        <span
          class="nbg-lasso"
          style={{
            left: px((box.left - around.left) / zoom.value),
            top: px((box.top - around.top) / zoom.value),
            width: px((box.right - box.left) / zoom.value),
            height: px((box.bottom - box.top) / zoom.value),
          }}
        />
      )}
    </div>
  );
}

const overlaps = (a: Box, b: Box): boolean =>
  a.left <= b.right && a.right >= b.left && a.top <= b.bottom && a.bottom >= b.top;

/** A channel's label: "channel 21, mean 0.23, max 2.60, 71 % zero". */
function channelLabel(value: Value, channel: number, statistics: Statistics | null): string {
  const called = `${channelNoun(value)} ${channel}`;
  const summary = statistics?.channels[channel];
  if (summary === undefined) return called;
  const { mean, max, zeroFraction } = summary;
  return `${called}, mean ${formatShort(mean)}, max ${formatShort(max)}, ${formatPercent(zeroFraction)} zero`;
}

/** A vector's elements, each as a number above a bar. */
function VectorElements(props: {
  value: Value;
  elementIndices: readonly number[];
  width: number;
  children: preact.ComponentChildren;
}) {
  const { value, elementIndices, width, children } = props;
  const values = useExampleValues(value);
  const most = values === null || hasUnitRange(value) ? 1 : maxAbs(values) || 1;
  return (
    <div
      class="nbg-bend-elements"
      style={{ height: px(ELEMENT_SIZE.height), gap: px(ELEMENT_SIZE.gap) }}
    >
      {elementIndices.map((channel) => {
        const number = values?.[channel] ?? 0;
        const share = Number.isFinite(number) ? Math.min(1, Math.abs(number) / most) : 1;
        return (
          <span key={channel} class="nbg-bend-element" style={{ width: px(width) }}>
            {values === null ? "…" : formatShort(number)}
            <span
              class={number < 0 ? "nbg-bend-bar nbg-below" : "nbg-bend-bar"}
              style={{ width: `${share * 100}%` }}
            />
          </span>
        );
      })}
      {children}
    </div>
  );
}
