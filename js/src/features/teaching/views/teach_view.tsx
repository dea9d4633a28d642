// The Teach tab: classes with their examples, training, and the head's live prediction.
import { effect, untracked } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Network } from "../../../network/network.ts";
import { formatPlural } from "../../../number_format.ts";
import { useViews } from "../../../views/context.ts";
import { type LessonStore, lessonStoreOf } from "../lesson_store.ts";
import { MAX_CLASSES } from "../records.ts";
import { ClassRow } from "./class_row.tsx";
import { LessonFileButtons } from "./lesson_file_buttons.tsx";
import { LivePrediction } from "./live_prediction.tsx";
import {
  busyText,
  featuresText,
  headText,
  missingRequirementText,
  unusedClassName,
} from "./teaching_text.ts";

export function TeachView({ network }: { network: Network }) {
  const { state, width } = useViews();
  const store = lessonStoreOf(state);
  useEffect(() => store.connect(), [store]);
  const record = state.teaching.value;
  const probabilities = useProbabilities(store);
  if (record === null) return null;
  const { classes } = store.lesson.value;
  const topClassId = [...(probabilities ?? [])].sort(([, a], [, b]) => b - a)[0]?.[0];
  const narrow = width.value < 640;
  const classNames = classes.map(({ name }) => name);
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
          {classes.map((lessonClass) => (
            <ClassRow
              key={lessonClass.id}
              {...{ store, lessonClass, record, classNames }}
              probability={probabilities?.get(lessonClass.id) ?? null}
              isTopClass={lessonClass.id === topClassId}
            />
          ))}
          <div class="nbg-teach-tools">
            <button
              type="button"
              class="nbg-button"
              disabled={classes.length >= MAX_CLASSES}
              onClick={() => store.addClass(unusedClassName(classNames))}
            >
              Add class
            </button>
            {store.deletionText.value !== "" && (
              <button type="button" class="nbg-button" onClick={() => store.undelete()}>
                Undo: restore {store.deletionText.value}
              </button>
            )}
          </div>
        </div>
        <LivePrediction network={network} {...{ store, record, probabilities, topClassId }} />
      </div>
      <HeadTraining store={store} />
      <LessonFileButtons store={store} />
    </div>
  );
}

function HeadTraining({ store }: { store: LessonStore }) {
  const busy = store.busyStatus.value;
  const taught = store.lesson.value;
  const stale = store.staleExamples().length;
  const trouble = store.error.value;
  const now = [headText(taught, store.isHeadOutdated), missingRequirementText(taught)];
  const said = busy === null ? now.filter((one) => one !== "").join(" ") : busyText(busy);
  return (
    <div class="nbg-teach-training">
      <button
        type="button"
        class="nbg-button nbg-primary"
        disabled={!store.isTrainable}
        aria-busy={busy?.task === "training"}
        onClick={() => {
          store.error.value = "";
          void store.trainHead();
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
            disabled={!store.isTrainable}
            onClick={() => void store.trainHead()}
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
function useProbabilities(store: LessonStore): ReadonlyMap<string, number> | null {
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
        const found = await store.classify().catch(() => null); // retried at the next run
        if (open) setChances(found);
      } while (again && open);
      asking = false;
    };
    const stop = effect(() => {
      state.run.value;
      store.linearHead.value;
      untracked(() => void ask());
    });
    return () => {
      open = false;
      stop();
    };
  }, [store, state]);
  return chances;
}
