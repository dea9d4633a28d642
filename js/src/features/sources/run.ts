// Runs the source of one Viewer: opens it, lets it go on while somebody looks, says how it goes, and ends it.
import { batch, effect, untracked } from "@preact/signals";
import type { Input } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import type { Place, Running } from "./input_slot.ts";
import { kindOf } from "./kinds.ts";
import { isStill } from "./page_sources.ts";
import { BLOB_FIELDS, OF_ONE_PAGE, type Source } from "./records.ts";
import { type Feeder, OFF, type SourceControls } from "./state.ts";
import { createTelling } from "./status_reporter.ts";

/** A source that nobody looks at rests after so long: a camera's light goes out. */
const REST_MS = 60_000;

const NOTHING: SourceControls = {
  start: () => undefined,
  take: () => undefined,
  video: null,
  seen: null,
  canvas: null,
  drawn: () => undefined,
  item: () => undefined,
  look: () => undefined,
  labels: [],
  classes: [],
  picture: null,
  pen: null,
  step: () => undefined,
  search: undefined,
};

/** Pictures that another page has. */
const isElsewhere = ({ kind, owner }: Source, { page }: Feeder): boolean =>
  OF_ONE_PAGE.includes(kind) && owner !== "" && owner !== page;

/** What a source runs by: where this changes, another one is opened. */
function nameOf(source: Source, feeder: Feeder, input: Input | undefined): string {
  const blobs = Object.entries(source).filter(([name]) => BLOB_FIELDS.includes(name));
  const own = [source.kind, source.input, ...blobs];
  return JSON.stringify([...own, isElsewhere(source, feeder), input?.shape ?? null]);
}

/** Follows `state.source` and feeds by `state.feeder`; returns what ends that. */
export const runSources = (state: ViewerState): (() => void) => {
  let now: Run | undefined;
  const end = (): void => {
    now?.dispose();
    now = undefined;
  };
  // Only while there is a source: a Viewer without one listens to nothing.
  let watch: ReturnType<typeof watchSight> | undefined;
  const unwatch = (): void => {
    watch?.dispose();
    watch = undefined;
  };
  const follow = (): void => {
    const source = state.source.peek();
    const feeder = state.feeder.peek();
    if (source === null || feeder === null) {
      const fed = state.fed.peek();
      end();
      unwatch();
      batch(() => {
        state.sourceStatus.value = OFF;
        state.controls.value = null;
        state.fed.value = null;
      });
      if (fed !== null) void feeder?.feed(null).catch(() => undefined);
      return;
    }
    remember(state, source);
    const input = state.plan.peek()?.inputs.find(({ key }) => key === source.input);
    const name = nameOf(source, feeder, input);
    if (now?.name === name) {
      now.follow(source);
      return;
    }
    end();
    watch ??= watchSight(state, (seen, gone) => now?.look(seen, gone));
    now = begin(name, state, feeder, source, input, watch.seen);
  };
  const stop = effect(() => {
    state.source.value;
    state.feeder.value;
    state.plan.value;
    untracked(follow);
  });
  const stopSession = effect(() => {
    state.session.value;
    untracked(() => now?.look(watch?.seen ?? false, false));
  });
  return () => {
    stop();
    stopSession();
    unwatch();
    end();
  };
};

interface Run {
  readonly name: string;
  follow(source: Source): void;
  /** Somebody sees it, or nobody does any more; `gone`: there is nothing left to be seen. */
  look(seen: boolean, gone: boolean): void;
  dispose(): void;
}

function begin(
  name: string,
  state: ViewerState,
  feeder: Feeder,
  first: Source,
  input: Input | undefined,
  sight: boolean,
): Run {
  const kind = kindOf(first);
  const say = (part: Partial<ViewerState["sourceStatus"]["value"]>): void => {
    state.sourceStatus.value = { ...OFF, ...part };
  };
  const bare = (dispose: () => void): Run => ({
    name,
    follow: () => undefined,
    look: () => undefined,
    dispose,
  });
  if (isElsewhere(first, feeder)) {
    state.controls.value = NOTHING;
    state.fed.value = null;
    say({ phase: "elsewhere" });
    void feeder.feed(null).catch(() => undefined);
    return bare(() => undefined);
  }
  say({ phase: "waiting" });
  state.controls.value = NOTHING;
  if (kind.isByHand) state.drawer.value = true;
  if (kind.run !== undefined) return { name, look: () => undefined, ...kind.run(state, first) };
  // Before the Plan is here.
  if (input === undefined || kind.open === undefined) return bare(() => undefined);
  let source = first;
  let closed = false;
  let going = false;
  let failures = 0;
  let seen = sight;
  let resting: ReturnType<typeof setTimeout> | undefined;
  const telling = createTelling(state, feeder);
  const place: Place = {
    state,
    feeder,
    input,
    get source() {
      return source;
    },
    async feed(fed, of, follows) {
      if (closed) return;
      const before = failures;
      try {
        await feeder.feed({ key: input.key, ...fed });
      } catch (error) {
        if (!closed && isOurs(error)) place.fail("damaged", error);
        return;
      }
      if (closed || failures !== before) return; // it was the last before that
      state.fed.value = of;
      telling.fed(follows());
    },
    settle: () => {
      if (!closed) telling.settle();
    },
    change(part) {
      if (!closed) state.source.value = { ...source, ...part } as Source;
    },
    say(phase) {
      if (!closed) say({ phase });
    },
    fail(failure, detail) {
      if (closed) return;
      failures += 1;
      const text = detail instanceof Error ? detail.message : String(detail);
      say({ phase: "failed", failure, detail: text });
    },
    offer(controls) {
      if (!closed) state.controls.value = { ...(state.controls.peek() ?? NOTHING), ...controls };
    },
  };
  // Whoever wants little to move starts it by a click.
  const plays = (): boolean => "playing" in source && source.playing;
  let still = plays() && isStill();
  const running: Running = kind.open(place);
  const turn = (): void => {
    const wanted = plays() && seen && !still && state.session.peek() !== null;
    if (wanted === going) return;
    going = wanted;
    if (going) {
      clearTimeout(resting);
      running.start();
    } else {
      running.stop();
      telling.settle();
    }
  };
  turn();
  if (still) place.change({ playing: false } as Partial<Source>);
  return {
    name,
    follow(next) {
      if (next === source) return;
      source = next;
      still &&= plays();
      running.follow(next);
      turn();
    },
    look(now, gone) {
      if (now !== seen || gone) {
        seen = now;
        clearTimeout(resting);
        if (!seen) resting = setTimeout(() => running.rest?.(), REST_MS);
      }
      turn();
      if (gone) running.rest?.();
    },
    dispose() {
      closed = true;
      clearTimeout(resting);
      if (going) running.stop();
      running.dispose();
      telling.dispose();
    },
  };
}

/** Not that the context was lost, or the Viewer closed: what is fed stays then. */
const isOurs = (error: unknown): boolean =>
  !(error instanceof Error && ["ContextLostError", "SessionClosed"].includes(error.name));

/** What came from Python with data can be gone back to. */
function remember({ given }: ViewerState, source: Source): void {
  const hasData = "data" in source && source.data !== "";
  if (!hasData && !kindOf(source).isGiven) return;
  const others = given.peek().filter((one) => one.kind !== source.kind);
  given.value = [...others, source];
}

/** Whether somebody sees one of the Viewer's views; a page that goes shows none. */
function watchSight({ seen: views }: ViewerState, tell: (seen: boolean, gone: boolean) => void) {
  let left = false;
  const isSeen = (): boolean =>
    !left && !document.hidden && [...views.peek().values()].includes(true);
  const look = (): void => tell(isSeen(), left || views.peek().size === 0);
  const leave = ({ type }: Event): void => {
    left = type === "pagehide";
    look();
  };
  document.addEventListener("visibilitychange", look);
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", leave);
  const stop = views.subscribe(look);
  return {
    get seen() {
      return isSeen();
    },
    dispose() {
      stop();
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("pagehide", leave);
      window.removeEventListener("pageshow", leave);
    },
  };
}
