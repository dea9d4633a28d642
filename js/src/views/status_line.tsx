// The status line, with measurements and the GPU's name, and the message below the pictures.

import { lastRun } from "../engine/signals.ts";
import { formatLayerCount } from "../network/network.ts";
import { formatBytes, formatDuration, formatShort, rendererName } from "../number_format.ts";
import type { PlanHeader } from "../plan/schema.ts";
import { hasGpuOnlyEdits } from "../state/edits.ts";
import type { Status } from "../status.ts";

import { useViews } from "./context.ts";
import { KeyHelpButton } from "./help.tsx";
import { AlertCircleIcon, CheckCircleIcon } from "./icons.tsx";
import { comparedLayerRows, maxError, nonFiniteSummary, useParity } from "./parity.tsx";
import { PythonCount } from "./python_layers.tsx";
import { Slot } from "./slot.tsx";

const PHASE_TEXT: Record<Status["phase"], string> = {
  connecting: "Starting",
  receiving: "Receiving",
  compiling: "Preparing",
  running: "Running",
  ready: "Live",
  lost: "Paused",
  restarted: "Not connected",
  unsupported: "Pictures from Python",
  error: "Stopped",
  closed: "Closed",
};

export function StatusLine() {
  const { state } = useViews();
  const { phase } = state.status.value;
  const run = lastRun(state);
  const bytes = state.session.value?.bytes ?? 0;
  const device = state.capabilities.value;
  const parity = useParity();
  const plan = state.plan.value;
  const of = (plan?.sections.length ?? 0) > 1 ? ` of ${run?.sections.join(", ")}` : "";
  return (
    <footer class="nbg-status">
      <span class={`nbg-phase nbg-phase-${phase}`} role="status">
        {PHASE_TEXT[phase]}
        {!state.isConnected.value && phase !== "restarted" && " · not connected"}
      </span>
      {run !== null && (
        <>
          {run.hasBuiltPipelines ? (
            <span title={`The first run took ${formatDuration(run.ms)}, including GPU preparation`}>
              preparing the GPU…
            </span>
          ) : (
            <span
              data-clock={run.clock}
              title={`Time of one run${of}; the Profile tab shows each layer`}
            >
              <strong>{formatDuration(run.ms)}</strong> per run
            </span>
          )}
          {state.runsPerSecond.value > 1 && (
            <span title="Runs completed in the last second">
              {state.runsPerSecond.value} runs/s
            </span>
          )}
        </>
      )}
      <Slot name="status" slotProps={{}} />
      <span class="nbg-space" />
      {bytes > 0 && (
        <span class="nbg-wide" title="All textures, including those of statistics">
          {formatBytes(bytes)} on the GPU
        </span>
      )}
      {device !== null && (
        <span class="nbg-device" title={device.renderer}>
          {"WebGL 2 · "}
          <Precision /> · {rendererName(device.renderer)}
          {device.isSoftware && <span class="nbg-warn"> (no GPU: correct but slow)</span>}
        </span>
      )}
      {plan?.target.fast_kernels === false && (
        <span class="nbg-warn">Slow mode: the fast mode gives wrong values on this device</span>
      )}
      <PythonCount />
      {parity !== null && <ParitySummary />}
      {state.parity.value === null && hasGpuOnlyEdits(state.currentEdits.value.edits) && (
        <span>Not compared: bends are active</span>
      )}
      <UncheckedNote />
      <KeyHelpButton />
    </footer>
  );
}

/** The precision in which values are stored; for float16, the reason and the consequences. */
function Precision() {
  const { plan, capabilities } = useViews().state;
  const parity = useParity();
  const weak = capabilities.value?.precision === "float16";
  if (plan.value?.precision !== "float16" && !weak) return <>float32</>;
  const other = plan.value?.target.float32_render === false;
  return (
    <>
      {"float16"}
      {parity !== null && ` (largest error ${formatShort(maxError(parity))})`}
      {weak && <span class="nbg-warn"> (this device doesn’t support float32)</span>}
      {other && !weak && (
        <span class="nbg-warn"> (another page’s device doesn’t support float32)</span>
      )}
    </>
  );
}

function ParitySummary() {
  const { plan } = useViews().state;
  const parity = useParity();
  if (parity === null || plan.value === null) return null;
  const { layers, reference, isSampled } = parity;
  const first = layers.find(([, , matches]) => !matches);
  const { rows, noun } = comparedLayerRows(parity, plan.value);
  const matching = rows.filter(([, , matches]) => matches);
  const [right, all] = [matching, rows].map((some) =>
    formatLayerCount(
      plan.value as PlanHeader,
      some.map(([name]) => name),
    ),
  );
  const flaws = nonFiniteSummary(parity, plan.value);
  return (
    <>
      <span class={first === undefined ? "nbg-ok" : "nbg-warn"}>
        {first === undefined ? <CheckCircleIcon /> : <AlertCircleIcon />}
        <strong>
          {right} of {all} {noun} match {reference}
          {parity.hasReplayedEdits && ", with bends applied"}
        </strong>
      </span>
      <span class="nbg-wide">
        {first !== undefined && `first difference at ${first[0]}, `}
        max error {formatShort(maxError(parity))}
        {isSampled && " in samples of each"}
        {", "}
        <ComparedAt timestampMs={parity.checkedAtMs} />
      </span>
      {parity.note !== "" && <span class="nbg-warn nbg-flaws">{parity.note}</span>}
      {flaws !== null && <span class="nbg-warn nbg-flaws">{flaws}</span>}
      {parity.float16_overflow !== "" && <OverflowNote layer={parity.float16_overflow} />}
    </>
  );
}

/** The time of the comparison, on the local clock. */
function ComparedAt({ timestampMs }: { timestampMs: number }) {
  const date = new Date(timestampMs);
  return (
    <time dateTime={date.toISOString()} title={date.toLocaleString()}>
      at {date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}
    </time>
  );
}

/** In a page without Python: the reason that the current values are not compared. */
function UncheckedNote() {
  const { uncheckedReason, parity } = useViews().state;
  if (uncheckedReason.value === "") return null;
  return (
    <span>
      {parity.value === null ? "not compared" : "the current values are not compared"}:{" "}
      {uncheckedReason.value}
    </span>
  );
}

/** A note for values that overflow float16, with the remedy. */
function OverflowNote({ layer }: { layer: string }) {
  const { plan, capabilities, setPrecision } = useViews().state;
  if (plan.value?.precision !== "float16") return null;
  const draws = capabilities.value?.precision !== "float16" && plan.value.target.float32_render;
  const ask = setPrecision.value;
  return (
    <span class="nbg-warn nbg-flaws">
      {`Values exceed the float16 range, first in ${layer}. `}
      {draws && ask !== null && (
        <button
          type="button"
          class="nbg-button"
          title="Compile the network again with precision=&quot;float32&quot;"
          onClick={() => ask("float32")}
        >
          Use float32
        </button>
      )}
      {draws && ask === null && 'Export the page with precision="float32".'}
    </span>
  );
}

const PHASE_TONES: Record<Status["phase"], string> = {
  connecting: "brand",
  receiving: "brand",
  compiling: "brand",
  running: "brand",
  ready: "brand",
  lost: "warn",
  restarted: "warn",
  unsupported: "warn",
  error: "err",
  closed: "warn",
};

/** The status message, below the pictures and never over them; before the first ones, in the middle of the view. */
export function StatusMessage() {
  const { state, network } = useViews();
  const { phase, title, text, done, total, detail, action } = state.status.value;
  if (phase === "ready") return null;
  const tone = PHASE_TONES[phase];
  const isFirst = tone === "brand" && lastRun(state) === null && network.value !== null;
  return (
    <section class={`nbg-message nbg-${tone} ${isFirst ? "nbg-first" : ""}`} aria-live="polite">
      <strong>{title}</strong>
      {text !== "" && <p>{text}</p>}
      {done !== undefined && total !== undefined && total > 0 && (
        <progress value={done} max={total} aria-label={title} />
      )}
      {detail !== undefined && (
        <details>
          <summary class="nbg-button">{action ?? "Details"}</summary>
          <pre>{detail}</pre>
        </details>
      )}
    </section>
  );
}
