// The Train tab: what is wanted of a training, its curves, a layer while it learns, and checkpoints.
import { useState } from "preact/hooks";
import { duration, full } from "../../../format.ts";
import type { Network } from "../../../network/network.ts";
import { useViews } from "../../../views/context.ts";
import type { Checkpoint } from "../state.ts";
import { Checkpoints } from "./checkpoints.tsx";
import { Controls } from "./controls.tsx";
import { LayerLearning } from "./layer.tsx";
import { Losses } from "./losses.tsx";
import { groupsOf, saidOf } from "./training_text.ts";

/** CSS pixels: from which on the layer stands beside the curve, and how wide it is then. */
const WIDE = 760;
const ASIDE = 0.41;

export function TrainView({ network }: { network: Network }) {
  const { state, width } = useViews();
  const progress = state.progress.value;
  const record = state.training.value;
  const [local, setLocal] = useState<string | null>(null);
  const { chosen, choose, leave } = useChosen();
  const { course, step, examples, ms } = progress;
  const groups = groupsOf(course?.trained ?? []);
  const selected = state.selected.value?.layer;
  const group =
    groups.find(({ name }) => name === selected) ??
    groups.find(({ name }) => name === local) ??
    groups[0];
  const wide = width.value >= WIDE;
  const aside = wide ? Math.floor(ASIDE * width.value) - 32 : width.value - 32;
  const looking = progress.looking !== null && chosen !== null;
  const said = [
    saidOf(progress, record, state.trainer.value?.compiles === false),
    looking ? `All views show step ${full(chosen.step)}; a second click, or Esc, leads back.` : "",
  ]
    .filter((text) => text !== "")
    .join(" ");
  const wrong = record?.wrong ?? "";
  const isMirrored = record?.mirrored === true;
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
        leave();
      }}
    >
      {record !== null && !record.mirrored && progress.phase !== "refused" && (
        <Controls record={record} progress={progress} />
      )}
      <div class="nbg-train-now">
        {course !== null && (
          <span class="nbg-second" data-now>
            step {full(step)}
            {examples > 0 || !isMirrored ? ` · ${full(examples)} examples seen` : ""}
            {ms > 0 && ` · ${duration(ms)} a step`}
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
      {course !== null && (
        <div class="nbg-train-top">
          <Losses {...{ progress, record, chosen, choose }} />
          {group !== undefined && (
            <LayerLearning
              {...{ network, course, progress, groups, group }}
              width={aside}
              choose={(name) => {
                setLocal(name);
                const isLayer = network.values.has(name);
                state.selected.value = isLayer ? { layer: name, channel: null } : null;
              }}
            />
          )}
        </div>
      )}
      {course !== null && groups.length > 0 && (
        <Checkpoints
          {...{ network, course, progress, groups, chosen, choose, leave }}
          width={width.value}
        />
      )}
    </div>
  );
}

/** The checkpoint that is chosen: while the training pauses all views show it. */
function useChosen() {
  const { state } = useViews();
  const { checkpoints, looking, phase } = state.progress.value;
  const picked = state.checkpoint.value;
  const chosen: Checkpoint | null =
    checkpoints.find(({ id }) => id === looking) ??
    checkpoints.find(({ id }) => id === picked) ??
    null;
  const leave = (): void => {
    state.checkpoint.value = null;
    if (state.progress.peek().looking !== null) state.trainingActions.peek()?.look(null);
  };
  const choose = (id: number): void => {
    const isStill = phase === "paused" || state.training.peek()?.mirrored === true;
    const shows = isStill && checkpoints.some((one) => one.id === id && one.fits);
    if (chosen?.id === id && (looking === id || !shows)) {
      leave();
      return;
    }
    state.checkpoint.value = id;
    if (shows) state.trainingActions.peek()?.look(id);
    else if (looking !== null) state.trainingActions.peek()?.look(null);
  };
  return { chosen, choose, leave };
}
