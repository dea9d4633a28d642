// Zoom and pan of the graph: the visible part, and the gestures that change it.
import type { Signal } from "@preact/signals";
import type { Camera } from "../../state.ts";
import { NODE_SIDE } from "./node_boxes.ts";

export interface Size {
  readonly width: number;
  readonly height: number;
}

const WINDOW_MARGIN = 20;
/** At the lowest zoom a node's picture has 44 pixels; only fitting all of a large graph goes below. */
const ZOOM_LIMITS = { least: 44 / NODE_SIDE, most: 4 };
/** The highest zoom that a small graph is enlarged to. */
const MAX_FIT_ZOOM = 1.25;
/** The initial zoom of a graph whose names would be unreadable if it were fitted; the user pans through it. */
const INITIAL_ZOOM = 0.75;

/** A graph's size, and the lowest zoom at which its names are readable. */
export interface GraphSize extends Size {
  readonly minReadableZoom: number;
}

const isReadable = ({ minReadableZoom }: GraphSize, zoom: number): boolean =>
  zoom >= Math.max(ZOOM_LIMITS.least, Math.min(INITIAL_ZOOM, minReadableZoom));

const fitWidthZoom = (graphSize: Size, width: number): number =>
  Math.min(MAX_FIT_ZOOM, (width - 2 * WINDOW_MARGIN) / graphSize.width);

/** Height of the tools beside the window, in a viewer of limited height. */
const TOOLBAR_HEIGHT = 48;
const MIN_WINDOW_HEIGHT = 160;

/**
 * The window's height for a graph of this size: the whole graph, limited to most of a notebook cell and, in a viewer of
 * limited height, to its `availableHeight`.
 */
export function windowHeight(
  size: GraphSize,
  width: number,
  availableHeight: number | null = null,
): number {
  const whole = fitWidthZoom(size, width);
  const zoom = isReadable(size, whole) ? whole : INITIAL_ZOOM;
  const cell = Math.min(720, Math.max(320, width * 0.62));
  const most =
    availableHeight === null
      ? cell
      : Math.max(MIN_WINDOW_HEIGHT, Math.min(cell, availableHeight - TOOLBAR_HEIGHT));
  return Math.round(Math.min(most, size.height * zoom + 2 * WINDOW_MARGIN));
}

/** The camera at this zoom: the graph is centred, or starts at its beginning if it is larger than the window. */
function cameraAt(graphSize: Size, viewport: Size, zoom: number): Camera {
  const start = (length: number, room: number): number =>
    Math.max(WINDOW_MARGIN, (room - length) / 2);
  const x = start(graphSize.width * zoom, viewport.width);
  return { zoom, x, y: start(graphSize.height * zoom, viewport.height) };
}

const fitZoom = (graphSize: Size, viewport: Size): number =>
  Math.min(
    fitWidthZoom(graphSize, viewport.width),
    (viewport.height - 2 * WINDOW_MARGIN) / graphSize.height,
  );

/** Fit all of the graph, however small. */
export const fitCamera = (graphSize: Size, viewport: Size): Camera =>
  cameraAt(graphSize, viewport, fitZoom(graphSize, viewport));

/** The initial camera: all of the graph if its names are readable then, else its beginning. */
export function initialCamera(graphSize: GraphSize, viewport: Size): Camera {
  const zoom = fitZoom(graphSize, viewport);
  return cameraAt(graphSize, viewport, isReadable(graphSize, zoom) ? zoom : INITIAL_ZOOM);
}

/** Whether part of the graph is outside the window. */
export const overflows = ({ zoom, x, y }: Camera, graphSize: Size, viewport: Size): boolean =>
  x < 0 ||
  y < 0 ||
  x + graphSize.width * zoom > viewport.width ||
  y + graphSize.height * zoom > viewport.height;

/** Pan, but not beyond the graph's ends; returns the same camera if nothing changes. */
export function pan(
  camera: Camera,
  dx: number,
  dy: number,
  graphSize: Size,
  viewport: Size,
): Camera {
  const along = (start: number, by: number, length: number, room: number): number => {
    const [low, high] = [
      Math.min(WINDOW_MARGIN, room - WINDOW_MARGIN - length),
      Math.max(WINDOW_MARGIN, start),
    ];
    return Math.min(Math.max(high, WINDOW_MARGIN), Math.max(Math.min(low, start), start + by));
  };
  const { zoom } = camera;
  const x = along(camera.x, dx, graphSize.width * zoom, viewport.width);
  const y = along(camera.y, dy, graphSize.height * zoom, viewport.height);
  return x === camera.x && y === camera.y ? camera : { zoom, x, y };
}

/** Centre the window on a point of the graph. */
export function centerCamera({ zoom }: Camera, viewport: Size, x: number, y: number): Camera {
  return { zoom, x: viewport.width / 2 - x * zoom, y: viewport.height / 2 - y * zoom };
}

/** Zoom by a factor; the graph's point under the window's point (px, py) stays in place. */
export function zoomAt(
  { zoom, x, y }: Camera,
  factor: number,
  pointX: number,
  pointY: number,
): Camera {
  const next = Math.min(
    ZOOM_LIMITS.most,
    Math.max(Math.min(ZOOM_LIMITS.least, zoom), zoom * factor),
  );
  const grown = next / zoom;
  return { zoom: next, x: pointX - (pointX - x) * grown, y: pointY - (pointY - y) * grown };
}

/** Pan until a box of the graph is inside the window; returns the same camera if it already is. */
export function reveal(
  camera: Camera,
  viewport: Size,
  box: Size & { readonly x: number; readonly y: number },
): Camera {
  const along = (start: number, length: number, room: number): number => {
    const end = start + length;
    if (start < WINDOW_MARGIN) return WINDOW_MARGIN - start;
    return end > room - WINDOW_MARGIN
      ? Math.max(WINDOW_MARGIN - start, room - WINDOW_MARGIN - end)
      : 0;
  };
  const { zoom } = camera;
  const dx = along(camera.x + box.x * zoom, box.width * zoom, viewport.width);
  const dy = along(camera.y + box.y * zoom, box.height * zoom, viewport.height);
  return dx === 0 && dy === 0 ? camera : { zoom, x: camera.x + dx, y: camera.y + dy };
}

/** Movements below this many pixels are a click. */
const CLICK_TOLERANCE_PX = 4;

/** The current camera, graph size and window size. */
export interface ViewportState {
  readonly camera: Camera;
  readonly graphSize: Size;
  readonly viewport: Size;
}

/**
 * Event handlers of the window: dragging pans, pinching and Ctrl/⌘+wheel zoom. Horizontal scrolling pans a graph that
 * is wider than the window; vertical scrolling scrolls the notebook.
 */
export function createGestureHandlers(
  getState: () => ViewportState,
  camera: Signal<Camera | null>,
) {
  const now = (): Camera => getState().camera;
  const fingers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const at = (event: MouseEvent) => {
    const element = event.currentTarget as HTMLElement;
    const box = element.getBoundingClientRect();
    // In presentation mode the viewer is enlarged.
    const own = box.width > 0 ? element.offsetWidth / box.width : 1;
    return { x: (event.clientX - box.left) * own, y: (event.clientY - box.top) * own };
  };
  const lift = (event: PointerEvent): void => {
    fingers.delete(event.pointerId);
  };
  return {
    onWheel(event: WheelEvent): void {
      // A touchpad pinch arrives as a wheel event in pixels; one notch of a mouse is 100 pixels or 3 lines.
      const unit = event.deltaMode === 1 ? 33 : 1;
      if (!event.ctrlKey && !event.metaKey) {
        const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
        if (!event.shiftKey && Math.abs(sideways) <= Math.abs(event.deltaY)) return;
        const { camera: old, graphSize, viewport } = getState();
        const next = pan(old, -sideways * unit, 0, graphSize, viewport);
        if (next === old) return;
        event.preventDefault();
        camera.value = next;
        return;
      }
      event.preventDefault();
      const { x, y } = at(event);
      const step = event.deltaY * unit;
      camera.value = zoomAt(now(), 2 ** (-Math.max(-100, Math.min(100, step)) / 200), x, y);
    },
    onPointerDown(event: PointerEvent): void {
      if (event.button !== 0) return;
      if (fingers.size === 0) moved = 0;
      fingers.set(event.pointerId, at(event));
    },
    onPointerMove(event: PointerEvent): void {
      const before = fingers.get(event.pointerId);
      if (before === undefined) return;
      const { x, y } = at(event);
      const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
      // If the whole graph is visible, one finger scrolls the page.
      const { graphSize, viewport } = getState();
      const still = camera.peek() === null && !overflows(now(), graphSize, viewport);
      if (other === undefined && event.pointerType === "touch" && still) return;
      moved += Math.hypot(x - before.x, y - before.y);
      if (moved < CLICK_TOLERANCE_PX) return;
      const element = event.currentTarget as Element;
      // From here on, no node treats the gesture as a click.
      if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, { x, y });
      if (other === undefined) {
        const old = now();
        camera.value = { ...old, x: old.x + x - before.x, y: old.y + y - before.y };
        return;
      }
      const apart = Math.hypot(x - other.x, y - other.y);
      const was = Math.hypot(before.x - other.x, before.y - other.y);
      if (was > 0) camera.value = zoomAt(now(), apart / was, other.x, other.y);
    },
    onPointerUp: lift,
    onPointerCancel: lift,
    onPointerLeave: lift,
  };
}
