// Decode session: decodes codes in a separate session, so that the shown values don't change.
import { effect, untracked } from "@preact/signals";
import { pageStore } from "../../../engine/page_store.ts";
import type { Edit } from "../../../plan/edits.ts";
import type { DrawJob, Session } from "../../../plan/runtime.ts";
import type { ViewerState } from "../../../state.ts";
import { codeToValue, latentEdit } from "../latent_source.ts";

/** How a code's picture is drawn; the same for all cells of a grid. */
export type DrawOptions = Omit<DrawJob, "canvas">;

export interface DecodeSession {
  /** Decode a code and draw it into a canvas, which is resized to it. Resolves to false if the request is outdated. */
  draw(
    layer: string,
    code: readonly number[],
    drawOptions: DrawOptions,
    canvas: HTMLCanvasElement,
  ): Promise<boolean>;
  /** Increments when decoded pictures become stale: other weights, edits, or inputs that bypass the code. */
  readonly epoch: number;
  /** Register a callback for a new epoch; returns a callback that unregisters it. */
  onChange(callback: () => void): () => void;
  dispose(): void;
}

/** The session is disposed after this long without use. */
const IDLE_DISPOSE_MS = 10_000;
/** Number of the next injected array, used in its name. */
let nextArrayNumber = 0;

/** The array that one of the reader's edits injects. */
function getInjectedArray(hash: string): Float32Array {
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
  /** Codes are decoded one at a time: they share one session. */
  let queueTail: Promise<unknown> = Promise.resolve();

  const close = (): void => {
    clearTimeout(idle);
    opened?.session.then((session) => session.dispose()).catch(() => undefined);
    opened = undefined;
  };
  /** A run that only changes the code doesn't invalidate decoded pictures. */
  let code = state.featureEdits.peek();
  let edited = state.currentEdits.peek().edits;
  let session = state.session.peek();
  const stop = effect(() => {
    state.run.value;
    const others = state.currentEdits.value.edits;
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

  async function openSession(): Promise<Session | undefined> {
    const open = state.forkSession.peek();
    if (open === null) return undefined;
    opened ??= { of: epoch, session: open() };
    return opened.session;
  }

  async function drawIn(
    requestEpoch: number,
    layer: string,
    code: readonly number[],
    job: DrawJob,
  ): Promise<boolean> {
    const stale = (): boolean => closed || requestEpoch !== epoch;
    clearTimeout(idle);
    try {
      const own = stale() ? undefined : await openSession();
      const value = own && codeToValue(own.plan, { input: layer, code });
      if (own === undefined || value === undefined || stale()) return false;
      const name = `tried ${nextArrayNumber++}`;
      const edits: readonly Edit[] = [latentEdit(layer, name), ...state.currentEdits.peek().edits];
      await own.setEdits(edits, (hash) => (hash === name ? value : getInjectedArray(hash)));
      await own.run();
      if (stale()) return false;
      own.draw([job]);
      return true;
    } catch (error) {
      if (stale()) return false; // the session was closed
      throw error;
    } finally {
      if (!closed) idle = setTimeout(close, IDLE_DISPOSE_MS);
    }
  }

  return {
    get epoch() {
      return epoch;
    },
    draw(layer, code, drawn, canvas) {
      const requestEpoch = epoch;
      const done = queueTail.then(() => drawIn(requestEpoch, layer, code, { ...drawn, canvas }));
      queueTail = done.catch(() => undefined);
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
