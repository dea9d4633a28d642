// Zoom and pan of the graph: which part of it is seen, and how gestures change that.
import type { Signal } from "@preact/signals";
import type { Camera } from "../../state.ts";

export interface Size {
  readonly width: number;
  readonly height: number;
}

const MARGIN = 20;
const LIMITS = { least: 0.1, most: 4 };
/** A small graph is enlarged no more than this. */
const LARGEST_FIT = 1.25;

/** Height of the window for a graph of this size: all of it, where that isn't higher than most of a notebook cell. */
export function windowHeight(size: Size, width: number): number {
  const zoom = Math.min(LARGEST_FIT, (width - 2 * MARGIN) / size.width);
  const most = Math.min(720, Math.max(320, width * 0.62));
  return Math.round(Math.min(most, size.height * zoom + 2 * MARGIN));
}

/** All of the graph, in the middle of the window. */
export function fit(size: Size, view: Size): Camera {
  const across = (view.width - 2 * MARGIN) / size.width;
  const down = (view.height - 2 * MARGIN) / size.height;
  const zoom = Math.min(LARGEST_FIT, across, down);
  const x = (view.width - size.width * zoom) / 2;
  return { zoom, x, y: (view.height - size.height * zoom) / 2 };
}

/** Zooms by a factor; what is under a point of the window stays there. */
export function zoomAt({ zoom, x, y }: Camera, by: number, px: number, py: number): Camera {
  const next = Math.min(LIMITS.most, Math.max(LIMITS.least, zoom * by));
  const grown = next / zoom;
  return { zoom: next, x: px - (px - x) * grown, y: py - (py - y) * grown };
}

/** Moves so that a box of the graph is in the window; the same camera if it is. */
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

/** Below so many pixels a press is a click. */
const STILL = 4;

/** Handlers of the window: drag pans, two fingers pinch, the wheel zooms with Ctrl or ⌘. */
export function gestures(now: () => Camera, camera: Signal<Camera | null>) {
  const fingers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const at = (event: MouseEvent) => {
    const element = event.currentTarget as HTMLElement;
    const box = element.getBoundingClientRect();
    // A viewer that is presented is enlarged.
    const own = box.width > 0 ? element.offsetWidth / box.width : 1;
    return { x: (event.clientX - box.left) * own, y: (event.clientY - box.top) * own };
  };
  const lift = (event: PointerEvent): void => {
    fingers.delete(event.pointerId);
  };
  return {
    onWheel(event: WheelEvent): void {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { x, y } = at(event);
      // A pinch on a touchpad comes as a wheel in pixels; a mouse's notch is 100 or 3 lines.
      const step = event.deltaMode === 1 ? event.deltaY * 33 : event.deltaY;
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
      // One finger scrolls the page over a graph that is all there.
      if (other === undefined && event.pointerType === "touch" && camera.peek() === null) return;
      moved += Math.hypot(x - before.x, y - before.y);
      if (moved < STILL) return;
      const element = event.currentTarget as Element;
      // From here on no node takes it for a click.
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
