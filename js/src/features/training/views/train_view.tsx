// The Train tab: controls, loss charts, statistics of one layer during training, and checkpoints.
import { useState } from "preact/hooks";
import type { Network } from "../../../network/network.ts";
import { formatDuration, formatInteger } from "../../../number_format.ts";
import { useViews } from "../../../views/context.ts";
import type { Checkpoint } from "../state.ts";
import { CheckpointList } from "./checkpoint_list.tsx";
import { LayerStatistics } from "./layer_statistics.tsx";
import { LossCharts } from "./loss_charts.tsx";
import { TrainingControls } from "./training_controls.tsx";
import { parameterGroups, statusText } from "./training_text.ts";

/** CSS pixels: minimum width for placing the layer's statistics beside the curve; and their share of the width. */
const MIN_TWO_COLUMN_WIDTH = 760;
const STATISTICS_WIDTH_FRACTION = 0.41;

export function TrainView({ network }: { network: Network }) {
  const { state, width } = useViews();
  const progress = state.progress.value;
  const record = state.training.value;
  const [local, setLocal] = useState<string | null>(null);
  const { chosen, choose: select, leave: clearSelection } = useSelectedCheckpoint();
  const { config, step, examplesSeen, stepMs } = progress;
  const groups = parameterGroups(config?.trained_parameters ?? []);
  const selected = state.selected.value?.layer;
  const group =
    groups.find(({ name }) => name === selected) ??
    groups.find(({ name }) => name === local) ??
    groups[0];
  const wide = width.value >= MIN_TWO_COLUMN_WIDTH;
  const aside = wide ? Math.floor(STATISTICS_WIDTH_FRACTION * width.value) - 32 : width.value - 32;
  const looking = progress.shownCheckpointId !== null && chosen !== null;
  const said = [
    statusText(progress, record, state.trainingHost.value?.canRecompile === false),
    looking
      ? `All views show step ${formatInteger(chosen.step)}. Click again or press Esc to return.`
      : "",
  ]
    .filter((text) => text !== "")
    .join(" ");
  const wrong = record?.failed_layer ?? "";
  const isMirrored = record?.is_mirror === true;
  return (
    <div
      class={wide ? "nbg-train" : "nbg-train nbg-train-narrow"}
      role="group"
      aria-label="Training"
      data-phase={progress.phase}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || chosen === null) return;
        event.preventDefault();
        event.stopPropagation();
        clearSelection();
      }}
    >
      {record !== null && !record.is_mirror && progress.phase !== "refused" && (
        <TrainingControls record={record} progress={progress} />
      )}
      <div class="nbg-train-now">
        {config !== null && (
          <span class="nbg-second" data-now>
            step {formatInteger(step)}
            {examplesSeen > 0 || !isMirrored
              ? ` · ${formatInteger(examplesSeen)} examples seen`
              : ""}
            {stepMs > 0 && ` · ${formatDuration(stepMs)} per step`}
          </span>
        )}
        <p role="status" class={progress.phase === "failed" ? "nbg-err-text" : ""}>
          {said}
        </p>
        {network.values.has(wrong) && (
          <button
            type="button"
            class="nbg-button"
            onClick={() => {
              state.selected.value = { layer: wrong, channel: null };
              state.tab.value = "layer";
            }}
          >
            Show {wrong}
          </button>
        )}
      </div>
      {config !== null && (
        <div class="nbg-train-top">
          <LossCharts {...{ progress, record, selected: chosen, select }} />
          {group !== undefined && (
            <LayerStatistics
              {...{ network, config: config, progress, groups, group }}
              width={aside}
              selectGroup={(name) => {
                setLocal(name);
                const isLayer = network.values.has(name);
                state.selected.value = isLayer ? { layer: name, channel: null } : null;
              }}
            />
          )}
        </div>
      )}
      {config !== null && groups.length > 0 && (
        <CheckpointList
          {...{ network, config, progress, groups, selected: chosen, select, clearSelection }}
          width={width.value}
        />
      )}
    </div>
  );
}

/** The selected checkpoint; all views show it while the training is paused. */
function useSelectedCheckpoint() {
  const { state } = useViews();
  const { checkpoints, shownCheckpointId, phase } = state.progress.value;
  const picked = state.selectedCheckpointId.value;
  const chosen: Checkpoint | null =
    checkpoints.find(({ id }) => id === shownCheckpointId) ??
    checkpoints.find(({ id }) => id === picked) ??
    null;
  const leave = (): void => {
    state.selectedCheckpointId.value = null;
    if (state.progress.peek().shownCheckpointId !== null)
      state.trainingActions.peek()?.showCheckpoint(null);
  };
  const choose = (id: number): void => {
    const isStill = phase === "paused" || state.training.peek()?.is_mirror === true;
    const shows = isStill && checkpoints.some((one) => one.id === id && one.isRestorable);
    if (chosen?.id === id && (shownCheckpointId === id || !shows)) {
      leave();
      return;
    }
    state.selectedCheckpointId.value = id;
    if (shows) state.trainingActions.peek()?.showCheckpoint(id);
    else if (shownCheckpointId !== null) state.trainingActions.peek()?.showCheckpoint(null);
  };
  return { chosen, choose, leave };
}
