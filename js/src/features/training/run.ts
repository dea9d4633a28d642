// Runs the training of one Viewer: begins it once its Plan is shown and its data is here, follows what is wanted.
import { batch, effect, untracked } from "@preact/signals";
import type { ViewerState } from "../../state.ts";
import { fetched } from "./dataset.ts";
import { History } from "./history.ts";
import { Loop } from "./loop.ts";
import { Line } from "./loss_history.ts";
import type { Course, TrainingRecord } from "./records.ts";
import { Elsewhere } from "./remote_view.ts";
import { type Follower, NO_TRAINING, type TrainingHost } from "./state.ts";
import { NOTHING_FAILED } from "./steps.ts";
import { courseOf } from "./training_config.ts";

interface Running extends Follower {
  /** What the next round goes on with. */
  readonly history?: History | undefined;
}

/** Follows `state.training` and trains by `state.trainer`; returns what ends that. */
export const runTraining = (state: ViewerState): (() => void) => {
  let now: Running | undefined;
  /** The training that begins again as soon as Python gives the weights of the beginning. */
  let awaited = "";
  const end = (): void => {
    now?.close();
    now = undefined;
    state.trainingActions.value = null;
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
        (record.state === "stopped" && now?.id !== record.id && !record.mirrored)
      ) {
        end();
        if (record === null) state.progress.value = NO_TRAINING;
        return;
      }
      if (now?.id === record.id && now.round === record.round) {
        now.follow(record);
        return;
      }
      if (now !== undefined && now.id !== record.id && record.at > 0) awaited = record.id;
      if (awaited === record.id && record.at > 0) {
        end();
        state.progress.value = { ...NO_TRAINING, phase: "waiting" };
        return;
      }
      const history = now?.id === record.id ? now.history : undefined;
      end();
      if (history === undefined) state.checkpoint.value = null; // ids count from 1 again
      if (record.mirrored) {
        now = state.loops.peek()?.(host, record);
        return;
      }
      if (record.owner !== "" && record.owner !== host.page) {
        now = new Elsewhere(state, host, record);
        return;
      }
      now = begin(state, host, record, history);
    });
  });
  return () => {
    stop();
    end();
  };
};

function begin(
  state: ViewerState,
  host: TrainingHost,
  first: TrainingRecord,
  before: History | undefined,
): Running {
  let record = first;
  let loop: Loop | undefined;
  let closed = false;
  let course: Course | undefined;
  let opening = false;
  let history = before;
  const say = (part: Partial<ViewerState["progress"]["value"]>): void => {
    if (!closed) state.progress.value = { ...state.progress.peek(), ...part };
  };
  const change = (part: Partial<TrainingRecord>): void => {
    const of = state.training.peek();
    if (!closed && of?.id === first.id) state.training.value = { ...of, ...part };
  };
  const known = before === undefined ? NO_TRAINING : state.progress.peek();
  state.progress.value = { ...known, phase: "waiting", message: "" };
  const past = async (): Promise<History> => {
    const found = new History();
    if (first.past !== "") found.line = Line.of(await host.blob(first.past));
    return found;
  };
  const open = async (): Promise<void> => {
    course ??= await courseOf((name) => host.blob(name), first);
    // The Plan comes by another way.
    if (closed || opening || host.plan !== course.plan || !host.hasValues) return;
    opening = true;
    history ??= await past();
    const given = await fetched(host, course);
    if (closed) return;
    const made = new Loop(host, record, given, history, {
      onProgress: (part) => say(part),
      onState: (now) => {
        change({ state: now, until: -1 });
      },
      isSeen: () => [...state.seen.peek().values()].includes(true),
      chosen: () => state.checkpoint.peek(),
    });
    if (record.owner === "") change({ owner: host.page });
    say({ course, ratios: null, dead: null, predictions: null, looking: null });
    loop = made;
    await made.begin();
    if (!closed) state.trainingActions.value = made;
  };
  const attempt = (): void => {
    open().catch((error: unknown) => {
      opening = false;
      loop = undefined;
      if (closed) return;
      const message = error instanceof Error ? error.message : String(error);
      say({ phase: "failed", message });
      const told = { training: first.id, first: first.at, held_out: [] };
      const text = `the training can't go on in this page: ${message}`;
      host.tell({ ...told, ...NOTHING_FAILED, message: text }, new Float32Array());
    });
  };
  attempt();
  return {
    id: first.id,
    round: first.round,
    get history() {
      return history;
    },
    follow(next: TrainingRecord): void {
      const isNew = next !== record;
      record = next;
      // Python had said something else when this page said so.
      if (loop !== undefined && next.owner === "") change({ owner: host.page });
      if (loop === undefined) attempt();
      else if (isNew) batch(() => loop?.follow(next));
      else loop.recover();
    },
    close(): void {
      closed = true;
      loop?.close();
    },
  };
}
