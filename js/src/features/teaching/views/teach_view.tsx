// The Teach tab: classes with their examples, training, and the head's live prediction.
import { effect, untracked } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Network } from "../../../network/network.ts";
import { formatPlural } from "../../../number_format.ts";
import { useViews } from "../../../views/context.ts";
import { type LessonStore, lessonStoreOf } from "../lesson_store.ts";
import { MOST_CLASSES } from "../records.ts";
import { ClassRow } from "./class_row.tsx";
import { LessonFileButtons } from "./lesson_file_buttons.tsx";
import { LivePrediction } from "./live_prediction.tsx";
import { busyText, featuresText, headText, missingText, unusedClassName } from "./teaching_text.ts";

export function TeachView({ network }: { network: Network }) {
  const { state, width } = useViews();
  const teaching = lessonStoreOf(state);
  useEffect(() => teaching.connect(), [teaching]);
  const record = state.teaching.value;
  const chances = useProbabilities(teaching);
  if (record === null) return null;
  const { classes } = teaching.lesson.value;
  const top = [...(chances ?? [])].sort(([, a], [, b]) => b - a)[0]?.[0];
  const narrow = width.value < 640;
  const names = classes.map(({ name }) => name);
  return (
    <div
      class={narrow ? "nbg-teach nbg-teach-narrow" : "nbg-teach"}
      role="group"
      aria-label="Teaching"
    >
      <p class="nbg-teach-about nbg-second">
        A small classifier (the head) learns to distinguish your classes by {featuresText(record)}.
        The network itself doesn’t change.{" "}
        <strong>
          {state.sendLessonChange.value === null
            ? "Pictures never leave this page."
            : "Pictures stay in this page and in your notebook’s Python."}
        </strong>
      </p>
      <div class="nbg-teach-columns">
        <div class="nbg-teach-classes">
          {classes.map((one) => (
            <ClassRow
              key={one.id}
              {...{ teaching, one, record, names }}
              chance={chances?.get(one.id) ?? null}
              wins={one.id === top}
            />
          ))}
          <div class="nbg-teach-tools">
            <button
              type="button"
              class="nbg-button"
              disabled={classes.length >= MOST_CLASSES}
              onClick={() => teaching.addClass(unusedClassName(names))}
            >
              Add class
            </button>
            {teaching.deletedText.value !== "" && (
              <button type="button" class="nbg-button" onClick={() => teaching.undelete()}>
                Undo: restore {teaching.deletedText.value}
              </button>
            )}
          </div>
        </div>
        <LivePrediction network={network} {...{ teaching, record, chances, top }} />
      </div>
      <HeadTraining teaching={teaching} />
      <LessonFileButtons teaching={teaching} />
    </div>
  );
}

function HeadTraining({ teaching }: { teaching: LessonStore }) {
  const busy = teaching.busy.value;
  const taught = teaching.lesson.value;
  const stale = teaching.staleExamples().length;
  const trouble = teaching.error.value;
  const now = [headText(taught, teaching.isHeadOutdated), missingText(taught)];
  const said = busy === null ? now.filter((one) => one !== "").join(" ") : busyText(busy);
  return (
    <div class="nbg-teach-training">
      <button
        type="button"
        class="nbg-button nbg-primary"
        disabled={!teaching.isTrainable}
        aria-busy={busy?.task === "training"}
        onClick={() => {
          teaching.error.value = "";
          void teaching.trainHead();
        }}
      >
        Train
      </button>
      <p role="status" data-busy={busy?.task ?? ""}>
        {said}
      </p>
      {busy !== null && busy.total > 0 && (
        <progress max={busy.total} value={busy.done} aria-label={busyText(busy)} />
      )}
      {stale > 0 && busy === null && (
        <p class="nbg-teach-stale">
          {formatPlural(stale, "example")} {stale === 1 ? "has" : "have"} features from earlier
          weights or bends.{" "}
          <button
            type="button"
            class="nbg-button"
            disabled={!teaching.isTrainable}
            onClick={() => void teaching.trainHead()}
          >
            Recompute and train
          </button>
        </p>
      )}
      {trouble !== "" && (
        <p class="nbg-bad" role="alert">
          {trouble}
        </p>
      )}
    </div>
  );
}

/** The head's probabilities after each run, one query at a time. */
function useProbabilities(teaching: LessonStore): ReadonlyMap<string, number> | null {
  const { state } = useViews();
  const [chances, setChances] = useState<ReadonlyMap<string, number> | null>(null);
  useEffect(() => {
    let open = true;
    let asking = false;
    let again = false;
    const ask = async (): Promise<void> => {
      if (asking) {
        again = true;
        return;
      }
      asking = true;
      do {
        again = false;
        const found = await teaching.classify().catch(() => null); // retried at the next run
        if (open) setChances(found);
      } while (again && open);
      asking = false;
    };
    const stop = effect(() => {
      state.run.value;
      teaching.linear.value;
      untracked(() => void ask());
    });
    return () => {
      open = false;
      stop();
    };
  }, [teaching, state]);
  return chances;
}
