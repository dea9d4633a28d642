// What each delivery of a picture to the screen costs: canvas to canvas, or read back to the page; and numbers to Python.
import { useState } from "preact/hooks";
import { duration, memory } from "../../format.ts";
import { channelsOf, contents, displayOf } from "../../network/display.ts";
import type { Network } from "../../network/network.ts";
import type { Delivery, DrawJob, Session } from "../../plan/runtime.ts";
import type { Value } from "../../plan/schema.ts";
import { useViews } from "../context.ts";

const TIMES = 8;

const WAYS: readonly (readonly [Delivery, string, string])[] = [
  ["canvas", "WebGL to screen", "the picture stays with the browser’s graphics"],
  ["readback", "Read back to a 2-D canvas", "its pixels come to the page and are put from there"],
];

interface Measured {
  readonly canvas: number;
  readonly readback: number;
  /** All numbers of the value, to this thread. */
  readonly numbers: number;
}

export function DeliveryTimes({ network }: { network: Network }) {
  const { state } = useViews();
  const session = state.session.value;
  const [delivery, setDelivery] = useState<Delivery>(session?.delivery ?? "canvas");
  const [found, setFound] = useState<Measured | null>(null);
  const [busy, setBusy] = useState(false);
  const value = network.outputs[0] ?? network.inputs[0];
  if (session === null || value === undefined) return null;
  const measure = (): void => {
    setBusy(true);
    measured(session, value)
      .then(setFound, () => setFound(null)) // lost or closed: the status says so
      .finally(() => setBusy(false));
  };
  return (
    <fieldset class="nbg-delivery">
      <legend>How pictures reach the screen</legend>
      {WAYS.map(([one, word, text]) => (
        <label key={one}>
          <input
            type="radio"
            name={`nbg-delivery-${state.plan.value?.name}`}
            checked={delivery === one}
            onChange={() => {
              session.delivery = one;
              setDelivery(one);
              // All pictures are drawn again, by the new delivery.
              if (state.run.value !== null) state.run.value = { ...state.run.value };
            }}
          />
          <span>
            <strong>{word}</strong> <span class="nbg-second">{text}</span>
          </span>
          <output data-delivery={one}>{found === null ? "–" : duration(found[one])}</output>
        </label>
      ))}
      <p>
        <span>
          <strong>Numbers to the page</strong>{" "}
          <span class="nbg-second">
            all of {value.key}, {memory(4 * value.read.count)}, as <code>viewer.activations</code>{" "}
            takes them from the GPU
          </span>
        </span>
        <output data-delivery="numbers">{found === null ? "–" : duration(found.numbers)}</output>
      </p>
      <button type="button" class="nbg-button" disabled={busy} onClick={measure}>
        Measure with {value.key}
      </button>
      <span class="nbg-second">
        {contents(value)}, {TIMES} times, until the pixels are there
      </span>
    </fieldset>
  );
}

async function measured(session: Session, value: Value): Promise<Measured> {
  const before = session.delivery;
  const timed = (delivery: Delivery): number => {
    session.delivery = delivery;
    // Each its own canvas: a picture that is painted over at once need not be painted.
    const jobs = Array.from({ length: TIMES }, () => jobOf(value));
    for (const job of jobs) session.draw([job]); // canvases get their size, and are dirty
    const start = performance.now();
    for (const job of jobs) session.draw([job]);
    for (const { canvas } of jobs) settle(canvas);
    const drawn = performance.now();
    for (const { canvas } of jobs) settle(canvas); // looking costs as much again
    return Math.max(0, 2 * drawn - start - performance.now()) / TIMES;
  };
  try {
    await session.read(value.key);
    const start = performance.now();
    for (let k = 0; k < TIMES; k++) await session.read(value.key);
    const numbers = (performance.now() - start) / TIMES;
    timed("canvas");
    return { numbers, canvas: timed("canvas"), readback: timed("readback") };
  } finally {
    session.delivery = before;
  }
}

function jobOf(value: Value): DrawJob {
  return {
    key: value.key,
    canvas: document.createElement("canvas"),
    image: 0,
    channels: Array.from({ length: Math.min(64, channelsOf(value)) }, (_, k) => k),
    columns: 8,
    gap: 1,
    scale: 1,
    map: "viridis",
    theme: "light",
    range: { mode: "layer" },
    as: displayOf(value).drawn ?? "maps",
  };
}

const settle = (canvas: HTMLCanvasElement): void => {
  canvas.getContext("2d")?.getImageData(0, 0, 1, 1);
};
