// What is wanted of a training: run, pause, a step, another beginning; its learning rate and noise; its batch and layers.

import { useViews } from "../../../views/context.ts";
import { OneStep, Pause, Play, Restart } from "../../../views/icons.tsx";
import type { TrainingRecord } from "../records.ts";
import type { TrainingProgress } from "../state.ts";
import { BY_FACTORS, Steered, UP_TO_A_HALF } from "./number.tsx";
import { Settings } from "./settings.tsx";

/** Unlike any other training's. */
const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

export function Controls(props: { record: TrainingRecord; progress: TrainingProgress }) {
  const { record, progress } = props;
  const { state } = useViews();
  const { phase, course, step } = progress;
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
          onClick={() => change({ state: goes ? "paused" : "running", until: -1 })}
        >
          {goes ? <Pause /> : <Play />}
          {goes ? "Pause" : step === 0 ? "Run" : "Resume"}
        </button>
        <button
          type="button"
          class="nbg-button"
          // The page that trains knows how far it is; another one doesn't.
          disabled={stuck || phase === "elsewhere"}
          title="One step, and pause"
          onClick={() => change({ state: "running", until: step + 1 })}
        >
          <OneStep />
          Step
        </button>
        <button
          type="button"
          class="nbg-button nbg-square"
          aria-label="Reset"
          title="Reset: begin again with the first weights, and pause"
          // Python begins another one where it has ended.
          disabled={(ended && state.trainer.value?.compiles) || record.state === "handing"}
          onClick={() => change({ id: newId(), state: "paused", until: -1, marks: [] })}
        >
          <Restart />
        </button>
      </div>
      <Steered
        label="Learning rate"
        value={record.lr}
        slide={BY_FACTORS}
        fixed={over || (course?.rates ? "a function of the step" : "")}
        set={(lr) => change({ lr })}
      />
      <Steered
        label="Input noise"
        value={record.noise}
        slide={UP_TO_A_HALF}
        fixed={over}
        set={(noise) => change({ noise })}
      />
      {course !== null && (
        <Settings record={record} course={course} ended={ended} change={change} />
      )}
    </div>
  );
}
