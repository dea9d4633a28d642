// Zoom and pan of the graph: the visible part, and the gestures that change it.
import type { Signal } from "@preact/signals";
import type { Camera } from "../../state.ts";
import { NODE_SIDE } from "./node_boxes.ts";

export interface Size {
  readonly width: number;
  readonly height: number;
}

const MARGIN = 20;
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

const fitWidthZoom = (size: Size, width: number): number =>
  Math.min(MAX_FIT_ZOOM, (width - 2 * MARGIN) / size.width);

/** Height of the tools beside the window, in a viewer of limited height. */
const TOOLBAR_HEIGHT = 48;
const MIN_HEIGHT = 160;

/**
 * The window's height for a graph of this size: the whole graph, limited to most of a notebook cell and, in a viewer of
 * limited height, to its `room`.
 */
export function windowHeight(size: GraphSize, width: number, room: number | null = null): number {
  const whole = fitWidthZoom(size, width);
  const zoom = isReadable(size, whole) ? whole : INITIAL_ZOOM;
  const cell = Math.min(720, Math.max(320, width * 0.62));
  const most = room === null ? cell : Math.max(MIN_HEIGHT, Math.min(cell, room - TOOLBAR_HEIGHT));
  return Math.round(Math.min(most, size.height * zoom + 2 * MARGIN));
}

/** The camera at this zoom: the graph is centred, or starts at its beginning if it is larger than the window. */
function cameraAt(size: Size, view: Size, zoom: number): Camera {
  const start = (length: number, room: number): number => Math.max(MARGIN, (room - length) / 2);
  const x = start(size.width * zoom, view.width);
  return { zoom, x, y: start(size.height * zoom, view.height) };
}

const fitZoom = (size: Size, view: Size): number =>
  Math.min(fitWidthZoom(size, view.width), (view.height - 2 * MARGIN) / size.height);

/** Fit all of the graph, however small. */
export const fitCamera = (size: Size, view: Size): Camera =>
  cameraAt(size, view, fitZoom(size, view));

/** The initial camera: all of the graph if its names are readable then, else its beginning. */
export function initialCamera(size: GraphSize, view: Size): Camera {
  const zoom = fitZoom(size, view);
  return cameraAt(size, view, isReadable(size, zoom) ? zoom : INITIAL_ZOOM);
}

/** Whether part of the graph is outside the window. */
export const overflows = ({ zoom, x, y }: Camera, size: Size, view: Size): boolean =>
  x < 0 || y < 0 || x + size.width * zoom > view.width || y + size.height * zoom > view.height;

/** Pan, but not beyond the graph's ends; returns the same camera if nothing changes. */
export function pan(camera: Camera, dx: number, dy: number, size: Size, view: Size): Camera {
  const along = (start: number, by: number, length: number, room: number): number => {
    const [low, high] = [Math.min(MARGIN, room - MARGIN - length), Math.max(MARGIN, start)];
    return Math.min(Math.max(high, MARGIN), Math.max(Math.min(low, start), start + by));
  };
  const { zoom } = camera;
  const x = along(camera.x, dx, size.width * zoom, view.width);
  const y = along(camera.y, dy, size.height * zoom, view.height);
  return x === camera.x && y === camera.y ? camera : { zoom, x, y };
}

/** Centre the window on a point of the graph. */
export function centerCamera({ zoom }: Camera, view: Size, x: number, y: number): Camera {
  return { zoom, x: view.width / 2 - x * zoom, y: view.height / 2 - y * zoom };
}

/** Zoom by a factor; the graph's point under the window's point (px, py) stays in place. */
export function zoomAt({ zoom, x, y }: Camera, by: number, px: number, py: number): Camera {
  const next = Math.min(ZOOM_LIMITS.most, Math.max(Math.min(ZOOM_LIMITS.least, zoom), zoom * by));
  const grown = next / zoom;
  return { zoom: next, x: px - (px - x) * grown, y: py - (py - y) * grown };
}

/** Pan until a box of the graph is inside the window; returns the same camera if it already is. */
export function reveal(
  camera: Camera,
  view: Size,
  box: Size & { readonly x: number; readonly y: number },
): Camera {
  const along = (start: number, length: number, room: number): number => {
    const end = start + length;
    if (start < MARGIN) return MARGIN - start;
    return end > room - MARGIN ? Math.max(MARGIN - start, room - MARGIN - end) : 0;
  };
  const { zoom } = camera;
  const dx = along(camera.x + box.x * zoom, box.width * zoom, view.width);
  const dy = along(camera.y + box.y * zoom, box.height * zoom, view.height);
  return dx === 0 && dy === 0 ? camera : { zoom, x: camera.x + dx, y: camera.y + dy };
}

/** Movements below this many pixels are a click. */
const CLICK_TOLERANCE = 4;

/** The current camera, graph size and window size. */
export interface Scene {
  readonly camera: Camera;
  readonly size: Size;
  readonly view: Size;
}

/**
 * Event handlers of the window: dragging pans, pinching and Ctrl/⌘+wheel zoom. Horizontal scrolling pans a graph that
 * is wider than the window; vertical scrolling scrolls the notebook.
 */
export function createGestures(scene: () => Scene, camera: Signal<Camera | null>) {
  const now = (): Camera => scene().camera;
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
        const { camera: old, size, view } = scene();
        const next = pan(old, -sideways * unit, 0, size, view);
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
      const { size, view } = scene();
      const still = camera.peek() === null && !overflows(now(), size, view);
      if (other === undefined && event.pointerType === "touch" && still) return;
      moved += Math.hypot(x - before.x, y - before.y);
      if (moved < CLICK_TOLERANCE) return;
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
