// Checkpoints as rows of pictures: a layer's weights at that step, and the network's predictions for the same examples.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Network } from "../../../network/network.ts";
import { formatInteger } from "../../../number_format.ts";
import { Choice } from "../../../views/choice.tsx";
import { useViews } from "../../../views/context.ts";
import { RestartIcon } from "../../../views/icons.tsx";
import type { TrainingConfig } from "../records.ts";
import type { Checkpoint, TrainingActions, TrainingProgress } from "../state.ts";
import { LayerSelect } from "./layer_select.tsx";
import { rangeText } from "./layer_statistics.tsx";
import { type PredictionKind, predictionKind } from "./prediction_pixels.ts";
import { Predictions } from "./predictions.tsx";
import { lossText } from "./step_chart.tsx";
import { TileCanvas } from "./tile_canvas.tsx";
import {
  fitTiles,
  HAIRLINE,
  maxTileValue,
  parameterTiling,
  type TileLayout,
  type Tiling,
} from "./tile_layout.ts";
import type { ParameterGroup } from "./training_text.ts";
import { useWatchedTensors } from "./use_watched_tensors.ts";
import { CopyLineButton, SaveWeightsButton } from "./weight_buttons.tsx";

type TileContent = "weights" | "change";
const TILE_CONTENTS: readonly (readonly [TileContent, string])[] = [
  ["weights", "Weights"],
  ["change", "Change"],
];
/** CSS pixels: height of a row's tiles, and width of its first column. */
const TILE_SIDE = 36;
const STEP_COLUMN_WIDTH = 92;
const COLUMN_GAP = 20;

export interface CheckpointListProps {
  network: Network;
  config: TrainingConfig;
  progress: TrainingProgress;
  groups: readonly ParameterGroup[];
  selected: Checkpoint | null;
  select: (id: number) => void;
  /** Deselect the checkpoint. */
  clearSelection: () => void;
  width: number;
}

export function CheckpointList(props: CheckpointListProps) {
  const { network, config, progress, groups, selected, select, clearSelection, width } = props;
  const { state } = useViews();
  const { checkpoints, fixedExamples } = progress;
  const host = state.trainingHost.value;
  const isMirrored = state.training.value?.is_mirror === true;
  const kind = fixedExamples === null ? null : predictionKind(config, fixedExamples);
  const [wanted, setWanted] = useState<string | null>(null);
  const [what, setWhat] = useState<TileContent>("change");
  const names = groups.map(({ parameters }) => mainParameterName(network, parameters));
  // Default to the last layer for pictures, which generates them, and else to the first one, which reads them.
  const name = names.find((one) => one === wanted) ?? names.at(kind === "pictures" ? -1 : 0) ?? "";
  const now = useWatchedTensors(name === "" ? [] : [name]).get(name);
  const rows = useCheckpointRows(network, name, what, checkpoints, now);
  const sizes = rowSizes(width, fixedExamples?.count ?? 0, kind);
  const { pixelRatio } = useViews();
  const tileLayout = useTileLayout(rows.tiling, sizes.tiles, pixelRatio.value);
  const gap = Math.round(4 * pixelRatio.value);
  const list = useRef<HTMLDivElement>(null);
  const shown = {
    tiling: rows.tiling,
    tileLayout,
    gap,
    maxMagnitude: sharedMaximum(rows, tileLayout),
    parameterName: name,
  };
  const { noun } = rows.tiling;
  const all = rows.tiling.starts.length;
  const layer = groups[names.indexOf(name)]?.name ?? name;
  const heading = [
    `${name} ${what === "change" ? `, change since step ${formatInteger(rows.firstStep)}` : ""}`.replace(
      " ,",
      ",",
    ),
    noun === ""
      ? ""
      : tileLayout.tileCount < all
        ? `${tileLayout.tileCount} of ${formatInteger(all)} ${noun}`
        : `${formatInteger(all)} ${noun}`,
    rangeText(shown.maxMagnitude),
  ].filter((text) => text !== "");
  const move = (event: KeyboardEvent): void => {
    const at = checkpoints.findIndex(({ id }) => id === selected?.id);
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: checkpoints.length - 1 }[
      event.key
    ];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const next = checkpoints[Math.min(checkpoints.length - 1, Math.max(0, to))];
    if (next === undefined || next.id === selected?.id) return;
    select(next.id);
    list.current?.querySelector<HTMLElement>(`[data-checkpoint="${next.id}"]`)?.focus();
  };
  const predicted = (values: Float32Array | null, stepText: string) =>
    fixedExamples !== null &&
    kind !== null && (
      <Predictions
        {...{ fixedExamples: fixedExamples, kind, values, stepText }}
        side={sizes.side}
      />
    );
  const first = selected?.id ?? checkpoints[0]?.id;
  return (
    <section class="nbg-checkpoints" aria-label="Checkpoints">
      <header>
        <span>
          <strong>Checkpoints</strong>{" "}
          <span class="nbg-second">
            {selected !== null && progress.phase === "running"
              ? "pause to show it in all views"
              : "click a row, or drag the dot"}
          </span>
        </span>
        <span class="nbg-checkpoint-tools">
          <LayerSelect
            label="Layer of the checkpoints"
            items={groups.map((group, k) => [names[k] ?? "", group.name] as const)}
            selected={name}
            choose={setWanted}
          />
          <Choice
            label={`What is shown of ${layer}`}
            items={TILE_CONTENTS}
            selected={what}
            choose={setWhat}
          />
          {isMirrored ? (
            <ShowCurrentButton
              isCheckpointShown={progress.shownCheckpointId !== null}
              clearSelection={clearSelection}
            />
          ) : (
            <RestoreButton
              selected={selected}
              actions={state.trainingActions.value}
              clearSelection={clearSelection}
            />
          )}
          {host?.canRecompile && <CopyLineButton line="viewer.state_dict()" label="state_dict" />}
          {host?.saveWeights && <SaveWeightsButton save={host.saveWeights} />}
        </span>
      </header>
      <div class="nbg-checkpoint-heading nbg-second">
        <span>step, loss</span>
        <span>{heading.join(" · ")}</span>
        {fixedExamples !== null && (
          <span class="nbg-predicted-heading">{examplesCaption(kind, fixedExamples)}</span>
        )}
      </div>
      <div
        role="listbox"
        aria-label="Checkpoints"
        ref={list}
        onKeyDown={move}
        class="nbg-checkpoint-rows"
      >
        {checkpoints.map((one, k) => (
          <div
            key={one.id}
            role="option"
            class="nbg-checkpoint"
            tabIndex={one.id === first ? 0 : -1}
            data-checkpoint={one.id}
            aria-selected={one.id === selected?.id}
            aria-label={`step ${formatInteger(one.step)}, loss ${checkpointLossText(one)}${branchText(one)}`}
            title={
              one.isRestorable
                ? undefined
                : isMirrored
                  ? RECOMPILED_SINCE_TEXT
                  : FROZEN_LAYERS_DIFFER_TEXT
            }
            onClick={() => select(one.id)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" && event.key !== " ") return;
              event.preventDefault();
              event.stopPropagation();
              select(one.id);
            }}
          >
            <span class="nbg-checkpoint-step">
              <strong>{formatInteger(one.step)}</strong>
              <span class="nbg-second">{checkpointLossText(one)}</span>
              {one.branchNumber > 0 && <span class="nbg-second">branch {one.branchNumber}</span>}
            </span>
            <ParameterTiles
              {...shown}
              values={rows.valuesByCheckpoint[k]}
              stepText={`step ${one.step}`}
            />
            {predicted(one.predictions.length > 0 ? one.predictions : null, `step ${one.step}`)}
          </div>
        ))}
      </div>
      <div class="nbg-checkpoint nbg-checkpoint-now">
        <span class="nbg-checkpoint-step">
          <strong>Now</strong>
          <span class="nbg-second">{formatInteger(progress.step)}</span>
        </span>
        <ParameterTiles {...shown} values={rows.currentValues} stepText="now" />
        {progress.predictions !== null && predicted(progress.predictions, "now")}
      </div>
      {fixedExamples !== null && (
        <div class="nbg-checkpoint nbg-checkpoint-target">
          <span class="nbg-checkpoint-step">
            <strong>Target</strong>
          </span>
          <span />
          {predicted(null, "target")}
        </div>
      )}
    </section>
  );
}

const FROZEN_LAYERS_DIFFER_TEXT =
  "This checkpoint has a different set of trained layers. It can be neither shown nor restored.";

const RECOMPILED_SINCE_TEXT =
  "The network was compiled again after this checkpoint. Its weights can’t be shown.";

/** The loss is unknown before the first step unless there are held-out examples. */
const checkpointLossText = ({ loss }: Checkpoint): string =>
  Number.isNaN(loss) ? "none yet" : lossText(loss);

const branchText = ({ branchNumber }: Checkpoint): string =>
  branchNumber > 0 ? `, branch ${branchNumber}` : "";

/** The parameter of a layer that is shown as tiles. */
export const mainParameterName = (network: Network, parameters: readonly string[]): string =>
  parameters.find((name) => (network.parameters.get(name)?.shape.length ?? 1) > 1) ??
  parameters[0] ??
  "";

function examplesCaption(
  kind: PredictionKind | null,
  fixedExamples: { count: number; isHeldOut: boolean },
): string {
  const what = { pictures: "reconstructions", classes: "predictions", numbers: "outputs" };
  const words = kind === null ? "" : what[kind];
  return `${words} for the same ${fixedExamples.count} ${fixedExamples.isHeldOut ? "held-out " : ""}examples`;
}

/** CSS pixels of the parts of a row. */
function rowSizes(width: number, count: number, kind: PredictionKind | null) {
  const stacked = width < 620;
  const inner = width - (stacked ? 24 : 32);
  const most = kind === "numbers" ? 84 : 62;
  const share = stacked ? inner : 0.38 * inner;
  const side = Math.max(18, Math.min(most, Math.floor(share / Math.max(1, count)) - 4));
  const right = stacked || count === 0 ? 0 : count * (side + 4) + COLUMN_GAP;
  return { side, tiles: Math.max(40, inner - STEP_COLUMN_WIDTH - right - 8) };
}

interface CheckpointRows {
  readonly tiling: Tiling;
  /** One for each checkpoint; undefined if it doesn't have this parameter. */
  readonly valuesByCheckpoint: readonly (Float32Array | undefined)[];
  readonly currentValues: Float32Array | undefined;
  /** The step that changes are relative to. */
  readonly firstStep: number;
}

function useCheckpointRows(
  network: Network,
  parameterName: string,
  tileContent: TileContent,
  checkpoints: readonly Checkpoint[],
  currentValues: Float32Array | undefined,
): CheckpointRows {
  const plan = useViews().state.plan.value;
  const kept = useMemo(() => {
    const all = checkpoints.map(({ parameterArrays }) => parameterArrays.get(parameterName));
    const earliest = checkpoints
      .filter(({ parameterArrays }) => parameterArrays.has(parameterName))
      .sort((a, b) => a.step - b.step)[0];
    const from = earliest?.parameterArrays.get(parameterName);
    const length = from?.length ?? 0;
    const change = (values: Float32Array | undefined) =>
      values?.map((value, k) => value - (from?.[k] ?? Number.NaN));
    return {
      tiling: parameterTiling(plan, network, parameterName, length),
      valuesByCheckpoint: tileContent === "change" ? all.map(change) : all,
      firstStep: earliest?.step ?? 0,
      change,
    };
  }, [plan, network, parameterName, tileContent, checkpoints]);
  const shown = tileContent === "change" ? kept.change(currentValues) : currentValues;
  return { ...kept, currentValues: shown?.length === 0 ? undefined : shown };
}

/** Lay out one line of tiles of equal size. */
function useTileLayout(tiling: Tiling, width: number, pixelRatio: number): TileLayout {
  const lines = Math.ceil(tiling.tileSize / tiling.columns);
  const one = Math.max(
    1,
    Math.floor((TILE_SIDE * pixelRatio) / Math.max(lines, Math.min(tiling.columns, 8))),
  );
  const room = { width: Math.floor(width * pixelRatio), height: lines * one + 2 * HAIRLINE };
  return fitTiles(tiling, room, Math.round(4 * pixelRatio), one, one);
}

/** One colour range for all rows, so that they can be compared. */
const sharedMaximum = (
  { tiling, valuesByCheckpoint, currentValues }: CheckpointRows,
  { tileCount }: TileLayout,
): number =>
  [...valuesByCheckpoint, currentValues].reduce(
    (most, one) =>
      one === undefined ? most : Math.max(most, maxTileValue(one, tiling, tileCount)),
    0,
  );

function ParameterTiles(props: {
  tiling: Tiling;
  tileLayout: TileLayout;
  gap: number;
  maxMagnitude: number;
  parameterName: string;
  values: Float32Array | undefined;
  stepText: string;
}) {
  const { values, stepText, parameterName, ...rest } = props;
  return (
    <span class="nbg-checkpoint-tiles">
      {values !== undefined && values.length > 0 && (
        <TileCanvas
          {...rest}
          values={values}
          label={`${parameterName}, ${stepText}`}
          name={`${parameterName} ${stepText}`}
        />
      )}
    </span>
  );
}

/** For a training loop in Python: earlier weights can be viewed but not restored. */
function ShowCurrentButton({
  isCheckpointShown,
  clearSelection,
}: {
  isCheckpointShown: boolean;
  clearSelection: () => void;
}) {
  return (
    <button
      type="button"
      class="nbg-button"
      disabled={!isCheckpointShown}
      title={
        isCheckpointShown
          ? "Show the current weights in all views"
          : "All views show the current weights"
      }
      onClick={clearSelection}
    >
      <RestartIcon />
      Back to now
    </button>
  );
}

/** Restores the selected checkpoint; the curve after it can be kept as a branch. */
function RestoreButton(props: {
  selected: Checkpoint | null;
  actions: TrainingActions | null;
  clearSelection: () => void;
}) {
  const { selected, actions, clearSelection } = props;
  const [keep, setKeep] = useState(true);
  const why =
    actions === null
      ? "No training runs in this page."
      : selected === null
        ? "Choose a checkpoint first."
        : selected.isRestorable
          ? ""
          : FROZEN_LAYERS_DIFFER_TEXT;
  return (
    <>
      <button
        type="button"
        class="nbg-button"
        disabled={why !== ""}
        title={why || "Restores this checkpoint and pauses; Resume continues from it"}
        onClick={() => {
          if (selected === null) return;
          actions?.restoreCheckpoint(selected.id, keep);
          clearSelection();
        }}
      >
        <RestartIcon />
        Go back to this one
      </button>
      <label class="nbg-labelled" title="Keeps the current curve in grey, with its checkpoints">
        <input
          type="checkbox"
          checked={keep}
          onChange={(event) => setKeep(event.currentTarget.checked)}
        />
        <span class="nbg-second">keep a branch</span>
      </label>
    </>
  );
}
