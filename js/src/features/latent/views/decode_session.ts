// Decodes codes beside the one that is shown: in a session of its own, so that nothing that is looked at changes.
import { effect, untracked } from "@preact/signals";
import { pageStore } from "../../../engine/page_store.ts";
import type { Edit } from "../../../plan/edits.ts";
import type { DrawJob, Session } from "../../../plan/runtime.ts";
import type { ViewerState } from "../../../state.ts";
import { codeToValue, latentEdit } from "../latent_source.ts";

/** How a code's picture is drawn; the same for all of a grid. */
export type DrawOptions = Omit<DrawJob, "canvas">;

export interface DecodeSession {
  /** Draws what a code becomes into a canvas, which gets its size from it; false where that is not wanted any more. */
  draw(
    layer: string,
    code: readonly number[],
    drawn: DrawOptions,
    canvas: HTMLCanvasElement,
  ): Promise<boolean>;
  /** Grows when what codes become is something else: other weights, bends, or inputs of a way around the code. */
  readonly epoch: number;
  /** Calls back when it has; returns what ends that. */
  onChange(callback: () => void): () => void;
  dispose(): void;
}

/** A session that nobody used for so long gives its memory back. */
const IDLE_MS = 10_000;
/** Of an array in that session, whose name says which one it is. */
let nextId = 0;

/** An array that somebody's own edit injects. */
function injectedArray(hash: string): Float32Array {
  const data = pageStore().get(hash);
  return data === undefined
    ? new Float32Array()
    : new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
}

export function createDecodeSession(state: ViewerState): DecodeSession {
  let epoch = 0;
  let closed = false;
  let opened: { readonly of: number; readonly session: Promise<Session> } | undefined;
  let idle: ReturnType<typeof setTimeout> | undefined;
  const listeners = new Set<() => void>();
  /** One code at a time: all have the same session. */
  let turn: Promise<unknown> = Promise.resolve();

  const close = (): void => {
    clearTimeout(idle);
    opened?.session.then((session) => session.dispose()).catch(() => undefined);
    opened = undefined;
  };
  /** A run of another code alone is no news: the pictures of codes stay what they are. */
  let code = state.featureEdits.peek();
  let edited = state.presentEdits.peek().edits;
  let session = state.session.peek();
  const stop = effect(() => {
    state.run.value;
    const others = state.presentEdits.value.edits;
    const now = state.session.value;
    untracked(() => {
      const moved = code !== state.featureEdits.peek();
      const same = moved && others === edited && now === session;
      code = state.featureEdits.peek();
      edited = others;
      session = now;
      if (same) return;
      epoch += 1;
      close();
      for (const listener of listeners) listener();
    });
  });

  async function twin(): Promise<Session | undefined> {
    const open = state.forkSession.peek();
    if (open === null) return undefined;
    opened ??= { of: epoch, session: open() };
    return opened.session;
  }

  async function drawIn(
    mine: number,
    layer: string,
    code: readonly number[],
    job: DrawJob,
  ): Promise<boolean> {
    const stale = (): boolean => closed || mine !== epoch;
    clearTimeout(idle);
    try {
      const own = stale() ? undefined : await twin();
      const value = own && codeToValue(own.plan, { input: layer, code });
      if (own === undefined || value === undefined || stale()) return false;
      const name = `tried ${nextId++}`;
      const edits: readonly Edit[] = [latentEdit(layer, name), ...state.presentEdits.peek().edits];
      await own.setEdits(edits, (hash) => (hash === name ? value : injectedArray(hash)));
      await own.run();
      if (stale()) return false;
      own.draw([job]);
      return true;
    } catch (error) {
      if (stale()) return false; // its session was closed meanwhile
      throw error;
    } finally {
      if (!closed) idle = setTimeout(close, IDLE_MS);
    }
  }

  return {
    get epoch() {
      return epoch;
    },
    draw(layer, code, drawn, canvas) {
      const mine = epoch;
      const done = turn.then(() => drawIn(mine, layer, code, { ...drawn, canvas }));
      turn = done.catch(() => undefined);
      return done;
    },
    onChange(callback) {
      listeners.add(callback);
      return () => listeners.delete(callback);
    },
    dispose() {
      closed = true;
      stop();
      close();
      listeners.clear();
    },
  };
}
