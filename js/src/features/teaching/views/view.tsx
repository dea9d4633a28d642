// The Teach tab: classes with their examples, training, and what the head makes of what enters now.
import { effect, untracked } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { full } from "../../../format.ts";
import type { Network } from "../../../network/network.ts";
import { useViews } from "../../../views/context.ts";
import { MOST_CLASSES } from "../records.ts";
import { type Teaching, teachingOf } from "../store.ts";
import { ClassRow } from "./class.tsx";
import { Now } from "./now.tsx";
import { Saving } from "./saving.tsx";
import { busyWords, freeName, headWords, missingWords, valueWords } from "./teaching_text.ts";

export function TeachView({ network }: { network: Network }) {
  const { state, width } = useViews();
  const teaching = teachingOf(state);
  useEffect(() => teaching.open(), [teaching]);
  const record = state.teaching.value;
  const chances = useChances(teaching);
  if (record === null) return null;
  const { classes } = teaching.taught.value;
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
        A small head learns to tell your classes apart by {valueWords(record)}; the network itself
        stays as it is.{" "}
        <strong>
          {state.teach.value === null
            ? "Pictures never leave this page."
            : "Pictures stay in this page and in your notebook’s kernel."}
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
              onClick={() => teaching.addClass(freeName(names))}
            >
              Add class
            </button>
            {teaching.deleted.value !== "" && (
              <button type="button" class="nbg-button" onClick={() => teaching.undelete()}>
                Undo: bring back {teaching.deleted.value}
              </button>
            )}
          </div>
        </div>
        <Now network={network} {...{ teaching, record, chances, top }} />
      </div>
      <Training teaching={teaching} />
      <Saving teaching={teaching} />
    </div>
  );
}

function Training({ teaching }: { teaching: Teaching }) {
  const busy = teaching.busy.value;
  const taught = teaching.taught.value;
  const stale = teaching.stale().length;
  const trouble = teaching.trouble.value;
  const now = [headWords(taught, teaching.outdated), missingWords(taught)];
  const said = busy === null ? now.filter((one) => one !== "").join(" ") : busyWords(busy);
  return (
    <div class="nbg-teach-training">
      <button
        type="button"
        class="nbg-button nbg-primary"
        disabled={!teaching.trainable}
        aria-busy={busy?.what === "training"}
        onClick={() => {
          teaching.trouble.value = "";
          void teaching.train();
        }}
      >
        Train
      </button>
      <p role="status" data-busy={busy?.what ?? ""}>
        {said}
      </p>
      {busy !== null && busy.total > 0 && (
        <progress max={busy.total} value={busy.done} aria-label={busyWords(busy)} />
      )}
      {stale > 0 && busy === null && (
        <p class="nbg-teach-stale">
          The features of {full(stale)} examples are of other weights or bends than those of now.{" "}
          <button
            type="button"
            class="nbg-button"
            disabled={!teaching.trainable}
            onClick={() => void teaching.train()}
          >
            Compute them again and train
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

/** The head's probabilities of each run, one question at a time. */
function useChances(teaching: Teaching): ReadonlyMap<string, number> | null {
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
        const found = await teaching.look().catch(() => null); // the next run is asked
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
