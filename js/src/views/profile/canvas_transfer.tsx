// Measures the ways to get a picture to the screen (canvas to canvas, or readback to the page), and numbers to Python.
import { useState } from "preact/hooks";
import { channelCount, contentsText, displayStyle } from "../../network/display_kind.ts";
import type { Network } from "../../network/network.ts";
import { formatBytes, formatDuration } from "../../number_format.ts";
import type { CanvasTransfer, DrawJob, Session } from "../../plan/runtime.ts";
import type { Value } from "../../plan/schema.ts";
import { useViews } from "../context.ts";

const REPETITIONS = 8;

const TRANSFER_MODES: readonly (readonly [CanvasTransfer, string, string])[] = [
  ["canvas", "WebGL to screen", "the picture stays on the GPU"],
  ["readback", "Read back to a 2-D canvas", "pixels are read back, then drawn by the page"],
];

interface TransferTimesMs {
  readonly canvas: number;
  readonly readback: number;
  /** Milliseconds to read all elements of the value back to this thread. */
  readonly valueReadbackMs: number;
}

export function TransferTimes({ network }: { network: Network }) {
  const { state } = useViews();
  const session = state.session.value;
  const [transfer, setDelivery] = useState<CanvasTransfer>(session?.canvasTransfer ?? "canvas");
  const [found, setFound] = useState<TransferTimesMs | null>(null);
  const [busy, setBusy] = useState(false);
  const value = network.outputs[0] ?? network.inputs[0];
  if (session === null || value === undefined) return null;
  const measure = (): void => {
    setBusy(true);
    measureTransfers(session, value)
      .then(setFound, () => setFound(null)) // lost or closed: the status line shows it
      .finally(() => setBusy(false));
  };
  return (
    <fieldset class="nbg-delivery">
      <legend>How pictures reach the screen</legend>
      {TRANSFER_MODES.map(([one, word, text]) => (
        <label key={one}>
          <input
            type="radio"
            name={`nbg-delivery-${state.plan.value?.name}`}
            checked={transfer === one}
            onChange={() => {
              session.canvasTransfer = one;
              setDelivery(one);
              // Redraw all pictures by the new transfer.
              if (state.run.value !== null) state.run.value = { ...state.run.value };
            }}
          />
          <span>
            <strong>{word}</strong> <span class="nbg-second">{text}</span>
          </span>
          <output data-delivery={one}>{found === null ? "–" : formatDuration(found[one])}</output>
        </label>
      ))}
      <p>
        <span>
          <strong>Values to the page</strong>{" "}
          <span class="nbg-second">
            all of {value.key}, {formatBytes(4 * value.readback.count)}, read from the GPU as by{" "}
            <code>viewer.activations</code>
          </span>
        </span>
        <output data-delivery="numbers">
          {found === null ? "–" : formatDuration(found.valueReadbackMs)}
        </output>
      </p>
      <button type="button" class="nbg-button" disabled={busy} onClick={measure}>
        Measure with {value.key}
      </button>
      <span class="nbg-second">
        {contentsText(value)}, mean of {REPETITIONS} repetitions
      </span>
    </fieldset>
  );
}

async function measureTransfers(session: Session, value: Value): Promise<TransferTimesMs> {
  const before = session.canvasTransfer;
  const timed = (transfer: CanvasTransfer): number => {
    session.canvasTransfer = transfer;
    // Separate canvases: the browser may skip a picture that is overdrawn at once.
    const jobs = Array.from({ length: REPETITIONS }, () => createJob(value));
    for (const job of jobs) session.draw([job]); // sets the canvas sizes; canvases are dirty
    const start = performance.now();
    for (const job of jobs) session.draw([job]);
    for (const { canvas } of jobs) forceReadback(canvas);
    const drawn = performance.now();
    for (const { canvas } of jobs) forceReadback(canvas); // subtract the cost of the check itself
    return Math.max(0, 2 * drawn - start - performance.now()) / REPETITIONS;
  };
  try {
    await session.read(value.key);
    const start = performance.now();
    for (let k = 0; k < REPETITIONS; k++) await session.read(value.key);
    const valueReadbackMs = (performance.now() - start) / REPETITIONS;
    timed("canvas");
    return { valueReadbackMs, canvas: timed("canvas"), readback: timed("readback") };
  } finally {
    session.canvasTransfer = before;
  }
}

function createJob(value: Value): DrawJob {
  return {
    key: value.key,
    canvas: document.createElement("canvas"),
    image: 0,
    channels: Array.from({ length: Math.min(64, channelCount(value)) }, (_, k) => k),
    columns: 8,
    gap: 1,
    scale: 1,
    colormap: "viridis",
    theme: "light",
    range: { mode: "layer" },
    drawMode: displayStyle(value).drawMode ?? "maps",
  };
}

const forceReadback = (canvas: HTMLCanvasElement): void => {
  canvas.getContext("2d")?.getImageData(0, 0, 1, 1);
};
