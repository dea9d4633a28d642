// Controls of a training: run, pause, single step, reset; learning rate and noise; batch size and layers.

import { useViews } from "../../../views/context.ts";
import { PauseIcon, PlayIcon, RestartIcon, StepIcon } from "../../../views/icons.tsx";
import type { TrainingRecord } from "../records.ts";
import type { TrainingProgress } from "../state.ts";
import { LOG_SLIDER, NOISE_SLIDER, SliderField } from "./slider_field.tsx";
import { TrainingSettings } from "./training_settings.tsx";

/** A random id, unique among trainings. */
const randomId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

export function TrainingControls(props: { record: TrainingRecord; progress: TrainingProgress }) {
  const { record, progress } = props;
  const { state } = useViews();
  const { phase, config, step } = progress;
  const ended = phase === "stopped" || record.state === "stopped";
  const stuck = ended || phase === "failed" || record.state === "handing";
  const goes = record.state === "running";
  const change = (part: Partial<TrainingRecord>): void => {
    const now = state.training.peek();
    if (now !== null) state.training.value = { ...now, ...part };
  };
  const over = ended ? "The training has ended." : "";
  return (
    <div class="nbg-train-controls">
      <div class="nbg-train-buttons" role="group" aria-label="Run">
        <button
          type="button"
          class="nbg-button nbg-primary"
          disabled={stuck}
          onClick={() => change({ state: goes ? "paused" : "running", pause_at: -1 })}
        >
          {goes ? <PauseIcon /> : <PlayIcon />}
          {goes ? "Pause" : step === 0 ? "Run" : "Resume"}
        </button>
        <button
          type="button"
          class="nbg-button"
          // Only the page that trains knows the current step.
          disabled={stuck || phase === "elsewhere"}
          title="Run one step, then pause"
          onClick={() => change({ state: "running", pause_at: step + 1 })}
        >
          <StepIcon />
          Step
        </button>
        <button
          type="button"
          class="nbg-button nbg-square"
          aria-label="Reset"
          title="Reset to the initial weights and pause"
          // After the end of a training, Python starts a new one.
          disabled={(ended && state.trainingHost.value?.canRecompile) || record.state === "handing"}
          onClick={() => change({ id: randomId(), state: "paused", pause_at: -1, marks: [] })}
        >
          <RestartIcon />
        </button>
      </div>
      <SliderField
        label="Learning rate"
        value={record.lr}
        scale={LOG_SLIDER}
        disabledReason={over || (config?.learning_rates ? "a function of the step" : "")}
        setValue={(lr) => change({ lr })}
      />
      <SliderField
        label="Input noise"
        value={record.noise}
        scale={NOISE_SLIDER}
        disabledReason={over}
        setValue={(noise) => change({ noise })}
      />
      {config !== null && (
        <TrainingSettings record={record} config={config} hasEnded={ended} change={change} />
      )}
    </div>
  );
}
