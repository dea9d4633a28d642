// Runs the training of one Viewer: begins it once its Plan is shown and its data is here, follows what is wanted.
import { batch, effect, untracked } from "@preact/signals";
import { NO_TRAINING, type TrainingHost } from "../state/training.ts";
import type { ViewerState } from "../state.ts";
import type { Course, TrainingRecord } from "../training.ts";
import { Loop } from "./loop.ts";
import type { RunTraining } from "./offer.ts";

export const runTraining: RunTraining = (state) => {
  let now: { readonly id: string; follow(record: TrainingRecord): void; close(): void } | undefined;
  const end = (): void => {
    now?.close();
    now = undefined;
  };
  const stop = effect(() => {
    const record = state.training.value;
    const host = state.trainer.value;
    // Another Plan may have come.
    state.session.value;
    state.run.value;
    untracked(() => {
      if (
        record === null ||
        host === null ||
        (record.state === "stopped" && now?.id !== record.id)
      ) {
        end();
        if (record === null) state.progress.value = NO_TRAINING;
        return;
      }
      if (now?.id === record.id) {
        now.follow(record);
        return;
      }
      end();
      if (record.owner !== "" && record.owner !== host.page) {
        state.progress.value = { ...NO_TRAINING, phase: "elsewhere" };
        return;
      }
      now = begin(state, host, record);
    });
  });
  return () => {
    stop();
    end();
  };
};

function begin(state: ViewerState, host: TrainingHost, first: TrainingRecord) {
  let record = first;
  let loop: Loop | undefined;
  let closed = false;
  let course: Course | undefined;
  let opening = false;
  const say = (part: Partial<ViewerState["progress"]["value"]>): void => {
    if (!closed) state.progress.value = { ...state.progress.peek(), ...part };
  };
  const change = (part: Partial<TrainingRecord>): void => {
    const of = state.training.peek();
    if (!closed && of?.id === first.id) state.training.value = { ...of, ...part };
  };
  state.progress.value = { ...NO_TRAINING, phase: "waiting" };
  const open = async (): Promise<void> => {
    course ??= JSON.parse(new TextDecoder().decode(await host.blob(first.course))) as Course;
    // The Plan comes by another way.
    if (closed || opening || host.plan !== course.plan) return;
    opening = true;
    const made = await Loop.open(host, record, course, {
      onProgress: (part) => say(part),
      onState: (now) => {
        change({ state: now, until: -1 });
      },
      isSeen: () => [...state.seen.peek().values()].includes(true),
    });
    if (closed) return;
    if (record.owner === "") change({ owner: host.page });
    await made.begin();
    if (closed) return;
    loop = made;
    loop.follow(record);
  };
  const attempt = (): void => {
    open().catch((error: unknown) => {
      opening = false;
      say({ phase: "failed", message: error instanceof Error ? error.message : String(error) });
    });
  };
  attempt();
  return {
    id: first.id,
    follow(next: TrainingRecord): void {
      const isNew = next !== record;
      record = next;
      if (loop === undefined) attempt();
      else if (isNew) batch(() => loop?.follow(next));
    },
    close(): void {
      closed = true;
      loop?.close();
    },
  };
}
