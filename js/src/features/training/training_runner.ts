// Runs the training of one Viewer: starts it once its Plan is loaded and its data has arrived, and follows the
// requested settings.
import { batch, effect, untracked } from "@preact/signals";
import type { ViewerState } from "../../state.ts";
import { fetchDataset } from "./dataset.ts";
import { LossHistory } from "./loss_history.ts";
import type { TrainingConfig, TrainingRecord } from "./records.ts";
import { RemoteTrainingView } from "./remote_view.ts";
import { NO_TRAINING, type TrainingFollower, type TrainingHost } from "./state.ts";
import { NO_FAILURE } from "./step_runner.ts";
import { fetchTrainingConfig } from "./training_config.ts";
import { TrainingHistory } from "./training_history.ts";
import { TrainingLoop } from "./training_loop.ts";

interface TrainingRun extends TrainingFollower {
  /** The history that the next round continues. */
  readonly history?: TrainingHistory | undefined;
}

/** Follow `state.training` and train with `state.trainingHost`; return a function that stops this. */
export const runTraining = (state: ViewerState): (() => void) => {
  let now: TrainingRun | undefined;
  /** The id of a training that was reset and waits for Python to send the initial weights. */
  let awaitingInitialWeightsOf = "";
  const end = (): void => {
    now?.close();
    now = undefined;
    state.trainingActions.value = null;
  };
  const stop = effect(() => {
    const record = state.training.value;
    const host = state.trainingHost.value;
    // Rerun when another Plan may have loaded.
    state.session.value;
    state.run.value;
    untracked(() => {
      if (
        record === null ||
        host === null ||
        (record.state === "stopped" && now?.id !== record.id && !record.is_mirror)
      ) {
        end();
        if (record === null) state.progress.value = NO_TRAINING;
        return;
      }
      if (now?.id === record.id && now.swapCount === record.swap_count) {
        now.update(record);
        return;
      }
      if (now !== undefined && now.id !== record.id && record.start_step > 0)
        awaitingInitialWeightsOf = record.id;
      if (awaitingInitialWeightsOf === record.id && record.start_step > 0) {
        end();
        state.progress.value = { ...NO_TRAINING, phase: "waiting" };
        return;
      }
      const history = now?.id === record.id ? now.history : undefined;
      end();
      if (history === undefined) state.selectedCheckpointId.value = null; // ids restart from 1
      if (record.is_mirror) {
        now = state.createWeightFollower.peek()?.(host, record);
        return;
      }
      if (record.owner !== "" && record.owner !== host.pageId) {
        now = new RemoteTrainingView(state, host, record);
        return;
      }
      now = startTraining(state, host, record, history);
    });
  });
  return () => {
    stop();
    end();
  };
};

function startTraining(
  state: ViewerState,
  host: TrainingHost,
  initialRecord: TrainingRecord,
  previousHistory: TrainingHistory | undefined,
): TrainingRun {
  let record = initialRecord;
  let loop: TrainingLoop | undefined;
  let closed = false;
  let config: TrainingConfig | undefined;
  let opening = false;
  let history = previousHistory;
  const updateProgress = (part: Partial<ViewerState["progress"]["value"]>): void => {
    if (!closed) state.progress.value = { ...state.progress.peek(), ...part };
  };
  const updateRecord = (part: Partial<TrainingRecord>): void => {
    const of = state.training.peek();
    if (!closed && of?.id === initialRecord.id) state.training.value = { ...of, ...part };
  };
  const known = previousHistory === undefined ? NO_TRAINING : state.progress.peek();
  state.progress.value = { ...known, phase: "waiting", message: "" };
  const loadHistory = async (): Promise<TrainingHistory> => {
    const found = new TrainingHistory();
    if (initialRecord.history !== "")
      found.lossHistory = LossHistory.unpack(await host.blob(initialRecord.history));
    return found;
  };
  const open = async (): Promise<void> => {
    config ??= await fetchTrainingConfig((name) => host.blob(name), initialRecord);
    // The Plan arrives separately.
    if (closed || opening || host.planHash !== config.plan || !host.hasValues) return;
    opening = true;
    history ??= await loadHistory();
    const given = await fetchDataset(host, config);
    if (closed) return;
    const newLoop = new TrainingLoop(host, record, given, history, {
      onProgress: (part) => updateProgress(part),
      onState: (now) => {
        updateRecord({ state: now, pause_at: -1 });
      },
      isVisible: () => [...state.viewVisibility.peek().values()].includes(true),
      selectedCheckpointId: () => state.selectedCheckpointId.peek(),
    });
    if (record.owner === "") updateRecord({ owner: host.pageId });
    updateProgress({
      config,
      updateRatios: null,
      deadUnits: null,
      predictions: null,
      shownCheckpointId: null,
    });
    loop = newLoop;
    await newLoop.start();
    if (!closed) state.trainingActions.value = newLoop;
  };
  const tryOpen = (): void => {
    open().catch((error: unknown) => {
      opening = false;
      loop = undefined;
      if (closed) return;
      const message = error instanceof Error ? error.message : String(error);
      updateProgress({ phase: "failed", message });
      const told = {
        training: initialRecord.id,
        first_step: initialRecord.start_step,
        held_out: [],
      };
      const text = `training can't continue in this page: ${message}`;
      host.reportSteps({ ...told, ...NO_FAILURE, message: text }, new Float32Array());
    });
  };
  tryOpen();
  return {
    id: initialRecord.id,
    swapCount: initialRecord.swap_count,
    get history() {
      return history;
    },
    update(next: TrainingRecord): void {
      const isNew = next !== record;
      record = next;
      // Python sent this record before it received this page's claim: claim it again.
      if (loop !== undefined && next.owner === "") updateRecord({ owner: host.pageId });
      if (loop === undefined) tryOpen();
      else if (isNew) batch(() => loop?.update(next));
      else loop.onRerun();
    },
    close(): void {
      closed = true;
      loop?.close();
    },
  };
}
