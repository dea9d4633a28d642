// Drawing by mouse, touch or pen on the source's canvas, and the brush controls.
import { useLayoutEffect, useRef } from "preact/hooks";
import { channelsAndSize } from "../../../pictures/resize.ts";
import { useViews } from "../../../views/context.ts";
import { NumberField } from "../../../views/number_field.tsx";
import type { DrawingRecord } from "../records.ts";
import type { Pen } from "../state.ts";
import { KindIcon } from "./kind_icon.tsx";
import type { SourcePanelProps } from "./panel_props.ts";

/** The pressure of devices without pressure: the brush's nominal width. */
const MOUSE_PRESSURE = 0.5;
/** Longer side of the canvas in CSS pixels. */
const CANVAS_SIDE = 252;

export function DrawingPanel({ input, source }: SourcePanelProps<DrawingRecord>) {
  const { state } = useViews();
  const controls = source === null ? null : state.sourceControls.value;
  const { canvas = null, pen = null } = controls ?? {};
  if (canvas === null || pen === null) return null;
  const [channels] = channelsAndSize(input);
  const drawn = pen.strokeCount.value > 0;
  return (
    <div class="nbg-draw">
      <DrawingCanvas canvas={canvas} pen={pen} />
      <div class="nbg-source-words">
        <strong>Draw here</strong>
        <p class="nbg-second">
          Use mouse, finger or pen. Each square of the canvas sets one value of the input.
        </p>
        <span class="nbg-source-tools">
          <NumberField
            keepsInvalid
            class="nbg-source-number"
            fieldClass=""
            label="Brush, px"
            value={pen.width.value}
            low={0.5}
            high={64}
            step={0.5}
            setValue={(width) => {
              pen.width.value = width;
            }}
          />
          {channels > 1 && (
            <label class="nbg-source-number">
              <span class="nbg-second">Colour</span>
              <input
                type="color"
                value={pen.color.value}
                onInput={(event) => {
                  pen.color.value = event.currentTarget.value;
                }}
              />
            </label>
          )}
          <button
            type="button"
            class="nbg-button"
            aria-pressed={pen.isEraser.value}
            onClick={() => {
              pen.isEraser.value = !pen.isEraser.peek();
            }}
          >
            <KindIcon kind="drawing" /> Erase
          </button>
          <button type="button" class="nbg-button" disabled={!drawn} onClick={() => pen.undo()}>
            Undo
          </button>
          <button type="button" class="nbg-button" disabled={!drawn} onClick={() => pen.clear()}>
            Clear
          </button>
        </span>
      </div>
    </div>
  );
}

function DrawingCanvas({ canvas, pen }: { canvas: HTMLCanvasElement; pen: Pen }) {
  const place = useRef<HTMLDivElement>(null);
  const scale = CANVAS_SIDE / Math.max(canvas.width, canvas.height);
  useLayoutEffect(() => {
    const parent = place.current;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "What is drawn");
    canvas.style.width = `${canvas.width * scale}px`;
    canvas.style.height = `${canvas.height * scale}px`;
    parent?.append(canvas);
    /** Pointer position in input pixels, as the pen expects, and its pressure. */
    const at = (event: PointerEvent): readonly [number, number, number] => {
      const box = canvas.getBoundingClientRect();
      const [across, down] = pen.inputSize;
      const pressure =
        event.pointerType === "pen" && event.pressure > 0 ? event.pressure : MOUSE_PRESSURE;
      return [
        ((event.clientX - box.left) / box.width) * across,
        ((event.clientY - box.top) / box.height) * down,
        pressure,
      ];
    };
    let drawing = -1;
    const begin = (event: PointerEvent): void => {
      if (event.button !== 0 || drawing >= 0) return;
      event.preventDefault();
      drawing = event.pointerId;
      canvas.setPointerCapture(drawing);
      pen.begin(...at(event));
    };
    const move = (event: PointerEvent): void => {
      if (event.pointerId !== drawing) return;
      const all = event.getCoalescedEvents?.() ?? [];
      for (const one of all.length > 0 ? all : [event]) pen.move(...at(one));
    };
    const end = (event: PointerEvent): void => {
      if (event.pointerId !== drawing) return;
      drawing = -1;
      pen.end();
    };
    canvas.addEventListener("pointerdown", begin);
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    return () => {
      canvas.removeEventListener("pointerdown", begin);
      canvas.removeEventListener("pointermove", move);
      canvas.removeEventListener("pointerup", end);
      canvas.removeEventListener("pointercancel", end);
      if (drawing >= 0) pen.end();
      canvas.remove();
    };
  }, [canvas, pen, scale]);
  return <div ref={place} class="nbg-paper" />;
}
