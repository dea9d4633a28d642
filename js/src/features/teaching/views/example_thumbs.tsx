// Thumbnails of a class's examples, the newest first; a click deletes an example.
import { useLayoutEffect, useRef } from "preact/hooks";
import { px } from "../../../views/layout.ts";
import type { Sample } from "../feature_extraction.ts";
import type { Example } from "../lesson_changes.ts";
import type { LessonStore } from "../lesson_store.ts";
import type { TeachingRecord } from "../records.ts";

/** Longer side of a thumbnail in CSS pixels, and canvas pixels per CSS pixel. */
const THUMB_SIDE = 44;
const PIXEL_DENSITY = 2;

export function ExampleThumbs(props: {
  store: LessonStore;
  record: TeachingRecord;
  examples: readonly Example[];
  className: string;
}) {
  const { store, record, examples, className } = props;
  const list = useRef<HTMLDivElement>(null);
  if (examples.length === 0) return null;
  const data = store.samples.value;
  const move = (event: KeyboardEvent): void => {
    const buttons = [...(list.current?.querySelectorAll("button") ?? [])];
    const at = buttons.indexOf(event.target as HTMLButtonElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: buttons.length - 1 }[
      event.key
    ];
    if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      event.stopPropagation();
      (buttons[at + 1] ?? buttons[at - 1])?.focus();
      buttons[at]?.click();
      return;
    }
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation(); // other handlers would select another layer
    buttons[to]?.focus();
  };
  return (
    <div
      ref={list}
      class="nbg-taught-thumbs"
      role="group"
      aria-label={`Examples of ${className}`}
      onKeyDown={move}
    >
      {examples
        .map((one, k) => (
          <button
            key={one.id}
            type="button"
            class="nbg-taught-thumb"
            aria-label={`Delete example ${k + 1} of ${className}`}
            title="Delete this example"
            tabIndex={k === examples.length - 1 ? 0 : -1}
            onClick={() => store.removeExample(one.id)}
          >
            <LessonThumb sample={data.get(one.id)} shape={record.shape} />
          </button>
        ))
        .reverse()}
    </div>
  );
}

function LessonThumb(props: { sample: Sample | undefined; shape: TeachingRecord["shape"] }) {
  const { sample, shape } = props;
  const [channels, height, width] = shape;
  const canvas = useRef<HTMLCanvasElement>(null);
  const share = Math.min(1, (PIXEL_DENSITY * THUMB_SIDE) / Math.max(width, height));
  const picture = sample?.picture;
  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || picture === undefined) return;
    const whole = Object.assign(document.createElement("canvas"), { width, height });
    const image = new ImageData(width, height);
    const places = width * height;
    for (let at = 0; at < places; at++) {
      const red = picture[at] ?? 0;
      const colours =
        channels < 3 ? [red, red, red] : [0, 1, 2].map((k) => picture[k * places + at] ?? 0);
      const alpha = channels === 4 ? (picture[3 * places + at] ?? 255) / 255 : 1;
      image.data.set([...colours.map((one) => one * alpha), 255], 4 * at); // blend with black
    }
    whole.getContext("2d")?.putImageData(image, 0, 0);
    const { width: w, height: h } = context.canvas;
    context.drawImage(whole, 0, 0, w, h);
  }, [picture, channels, height, width]);
  const by = THUMB_SIDE / Math.max(width, height);
  return (
    <canvas
      ref={canvas}
      class={share < 1 ? "nbg-smooth" : ""}
      data-example={picture === undefined ? "coming" : "here"}
      width={Math.max(1, Math.round(width * share))}
      height={Math.max(1, Math.round(height * share))}
      style={{ width: px(width * by), height: px(height * by) }}
    />
  );
}
