// Drawing source: strokes on a canvas at an integer multiple of the input's size, averaged down to the input while
// drawing.
import { computed, signal } from "@preact/signals";
import { channelsAndSize } from "../../pictures/resize.ts";
import { elementCount, type OpenSource, toInputLayout } from "./input_slot.ts";
import type { DrawingRecord } from "./records.ts";
import { acceptsPictures, type SourceKind } from "./source_kind.ts";

interface Point {
  readonly x: number;
  readonly y: number;
  readonly pressure: number;
}
interface Stroke {
  readonly width: number;
  readonly color: string;
  readonly points: Point[];
  /** Whether the stroke clears all before it. */
  readonly clearsCanvas: boolean;
}

/** Approximate longer side in canvas pixels, and the most canvas pixels per side of an input pixel. */
const CANVAS_SIDE = 280;
const MAX_CANVAS_SCALE = 16;
/** Default brush width in input pixels: that of MNIST's strokes. */
const BRUSH_WIDTH = 2;
/** Softens grey strokes: a rim of this grey, with this width in input pixels. */
const SOFT_EDGE = { color: "#595959", width: 1.2 };
/** The pressure of a mouse, which draws with the brush's nominal width. */
const MOUSE_PRESSURE = 0.5;

/** Average each square of `scale` × `scale` canvas pixels to a number from 0 to 1, in channel-first order. */
export function downsample(pixels: ImageData, scale: number, channels: number): Float32Array {
  const [width, height] = [pixels.width / scale, pixels.height / scale];
  const found = new Float32Array(channels * width * height);
  const size = width * height;
  const all = scale * scale * 255;
  for (let c = 0; c < channels; c++) {
    for (let at = 0; at < size; at++) {
      const [left, top] = [(at % width) * scale, Math.floor(at / width) * scale];
      let sum = 0;
      for (let y = top; y < top + scale; y++) {
        const row = 4 * (y * pixels.width + left) + c;
        for (let x = 0; x < scale; x++) sum += pixels.data[row + 4 * x] ?? 0;
      }
      found[c * size + at] = sum / all;
    }
  }
  return found;
}

const openDrawing: OpenSource<DrawingRecord> = (slot) => {
  const { input } = slot;
  const [channels, height, width] = channelsAndSize(input);
  const scale = Math.min(
    MAX_CANVAS_SCALE,
    Math.max(1, Math.floor(CANVAS_SIDE / Math.max(height, width))),
  );
  const canvas = document.createElement("canvas");
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null || elementCount(input) === 0) {
    slot.fail("damaged", "this browser can’t create a canvas");
    return {
      update: () => undefined,
      start: () => undefined,
      stop: () => undefined,
      dispose: () => undefined,
    };
  }
  const isGrey = channels === 1;
  const [paper, ink] = isGrey ? ["#000000", "#ffffff"] : ["#ffffff", "#1a1a1a"];
  const strokes = signal<readonly Stroke[]>([]);
  const pen = { width: signal(BRUSH_WIDTH), isEraser: signal(false), color: signal(ink) };
  let drawn: Stroke | undefined;
  let isFeeding = false;
  let isDirty = false;

  const wipe = (): void => {
    context.globalCompositeOperation = "source-over";
    context.fillStyle = paper;
    context.fillRect(0, 0, canvas.width, canvas.height);
  };
  /** Draw a stroke from point `from` on. */
  const paint = ({ width, color, points }: Stroke, from: number): void => {
    context.lineCap = context.lineJoin = "round";
    const line = (style: string, more: number, soft: boolean): void => {
      context.globalCompositeOperation = soft ? "lighten" : "source-over";
      context.strokeStyle = style;
      for (let k = Math.max(1, from); k <= Math.max(1, points.length - 1); k++) {
        const before = points[k - 1];
        const to = points[k] ?? before;
        if (before === undefined || to === undefined) return;
        context.lineWidth =
          (width * ((before.pressure + to.pressure) / 2 / MOUSE_PRESSURE) + more) * scale;
        context.beginPath();
        context.moveTo(before.x * scale, before.y * scale);
        context.lineTo(to.x * scale, to.y * scale);
        context.stroke();
      }
    };
    const soft = isGrey && color !== paper;
    if (soft) line(SOFT_EDGE.color, SOFT_EDGE.width, true);
    line(color, 0, soft);
  };
  const paintAll = (): void => {
    wipe();
    const last = strokes.peek().findLastIndex(({ clearsCanvas }) => clearsCanvas);
    for (const stroke of strokes.peek().slice(last + 1)) paint(stroke, 0);
  };

  const feed = async (): Promise<void> => {
    isDirty = true;
    if (isFeeding) return; // the loop in progress sees the change
    isFeeding = true;
    while (isDirty) {
      isDirty = false;
      const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
      const one = downsample(pixels, scale, channels);
      await slot.feed({ data: toInputLayout(one, input) }, slot.source, () => drawn !== undefined);
    }
    isFeeding = false;
  };
  const changed = (): void => {
    const { pageId } = slot.feeder;
    if (slot.source.owner !== pageId) slot.change({ owner: pageId });
    void feed();
  };
  const step = (next: readonly Stroke[]): void => {
    strokes.value = next;
    paintAll();
    changed();
  };

  wipe();
  slot.updateControls({
    canvas,
    onDrawingChanged: changed,
    pen: {
      ...pen,
      inputSize: [width, height],
      strokeCount: computed(() => strokes.value.length),
      begin(x, y, pressure) {
        const { width, isEraser, color } = pen;
        drawn = {
          width: width.peek(),
          color: isEraser.peek() ? paper : isGrey ? ink : color.peek(),
          points: [{ x, y, pressure }],
          clearsCanvas: false,
        };
        strokes.value = [...strokes.peek(), drawn];
        paint(drawn, 0);
        changed();
      },
      move(x, y, pressure) {
        if (drawn === undefined) return;
        drawn.points.push({ x, y, pressure });
        paint(drawn, drawn.points.length - 1);
        changed();
      },
      end() {
        if (drawn === undefined) return;
        drawn = undefined;
        slot.reportNoMoreInputs();
      },
      undo: () => step(strokes.peek().slice(0, -1)),
      clear: () =>
        step([...strokes.peek(), { width: 0, color: paper, points: [], clearsCanvas: true }]),
    },
  });

  return {
    update: () => undefined,
    start: () => undefined,
    stop: () => undefined,
    dispose: () => undefined,
  };
};

export const drawing = {
  label: "Draw",
  icon: "m2.5 13.5.8-3.2 7.6-7.6 2.4 2.4-7.6 7.6zM9.4 4.2l2.4 2.4",
  title: () => "Drawing",
  pythonLine: (_, call) => call("Drawing"),
  accepts: acceptsPictures,
  startsOnSelect: true,
  opensDrawer: true,
  takeoverFields: { owner: "" },
  open: openDrawing,
} satisfies SourceKind<DrawingRecord>;
