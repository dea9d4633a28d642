// Source runner of one Viewer: opens the source, plays it while a view is visible, reports its status, and disposes it.
import { batch, effect, untracked } from "@preact/signals";
import type { Input } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import type { InputSlot, SourceInstance } from "./input_slot.ts";
import { prefersReducedMotion } from "./local_sources.ts";
import { BLOB_FIELDS, PAGE_LOCAL_KINDS, type Source } from "./records.ts";
import { getSourceKind } from "./source_kinds.ts";
import { type Feeder, SOURCE_OFF, type SourceControls } from "./state.ts";
import { createStatusReporter } from "./status_reporter.ts";

/** A source whose views are not visible releases its device after this long: a camera's light goes out. */
const DEVICE_IDLE_MS = 60_000;

const NO_CONTROLS: SourceControls = {
  start: () => undefined,
  openFile: () => undefined,
  video: null,
  preview: null,
  canvas: null,
  onDrawingChanged: () => undefined,
  itemImage: () => undefined,
  setVisibleItems: () => undefined,
  labels: [],
  classes: [],
  picture: null,
  pen: null,
  step: () => undefined,
  search: undefined,
};

/** Whether another page has the source's pictures. */
const isOnOtherPage = ({ kind, owner }: Source, { pageId }: Feeder): boolean =>
  PAGE_LOCAL_KINDS.includes(kind) && owner !== "" && owner !== pageId;

/** The identity of a run: when it changes, another source instance is opened. */
function runKey(source: Source, feeder: Feeder, input: Input | undefined): string {
  const blobs = Object.entries(source).filter(([name]) => BLOB_FIELDS.includes(name));
  const own = [source.kind, source.input, ...blobs];
  return JSON.stringify([...own, isOnOtherPage(source, feeder), input?.shape ?? null]);
}

/** Follow `state.source` and feed through `state.feeder`. Returns a callback that stops this. */
export const runSources = (state: ViewerState): (() => void) => {
  let now: SourceRun | undefined;
  const end = (): void => {
    now?.dispose();
    now = undefined;
  };
  // Watch visibility only while there is a source: a Viewer without one has no listeners.
  let watch: ReturnType<typeof watchVisibility> | undefined;
  const unwatch = (): void => {
    watch?.dispose();
    watch = undefined;
  };
  const follow = (): void => {
    const source = state.source.peek();
    const feeder = state.feeder.peek();
    if (source === null || feeder === null) {
      const fed = state.inputOverride.peek();
      end();
      unwatch();
      batch(() => {
        state.sourceStatus.value = SOURCE_OFF;
        state.sourceControls.value = null;
        state.inputOverride.value = null;
      });
      if (fed !== null) void feeder?.feed(null).catch(() => undefined);
      return;
    }
    rememberPythonSource(state, source);
    const input = state.plan.peek()?.inputs.find(({ key }) => key === source.input);
    const name = runKey(source, feeder, input);
    if (now?.key === name) {
      now.update(source);
      return;
    }
    end();
    watch ??= watchVisibility(state, (seen, gone) => now?.setVisibility(seen, gone));
    now = startRun(name, state, feeder, source, input, watch.seen);
  };
  const stop = effect(() => {
    state.source.value;
    state.feeder.value;
    state.plan.value;
    untracked(follow);
  });
  const stopSession = effect(() => {
    state.session.value;
    untracked(() => now?.setVisibility(watch?.seen ?? false, false));
  });
  return () => {
    stop();
    stopSession();
    unwatch();
    end();
  };
};

interface SourceRun {
  readonly key: string;
  update(source: Source): void;
  /** Update the visibility of the views; `areViewsClosed`: no view is left. */
  setVisibility(isVisible: boolean, areViewsClosed: boolean): void;
  dispose(): void;
}

function startRun(
  key: string,
  state: ViewerState,
  feeder: Feeder,
  initialSource: Source,
  input: Input | undefined,
  isVisible: boolean,
): SourceRun {
  const kind = getSourceKind(initialSource);
  const setStatus = (part: Partial<ViewerState["sourceStatus"]["value"]>): void => {
    state.sourceStatus.value = { ...SOURCE_OFF, ...part };
  };
  const bare = (dispose: () => void): SourceRun => ({
    key,
    update: () => undefined,
    setVisibility: () => undefined,
    dispose,
  });
  if (isOnOtherPage(initialSource, feeder)) {
    state.sourceControls.value = NO_CONTROLS;
    state.inputOverride.value = null;
    setStatus({ phase: "elsewhere" });
    void feeder.feed(null).catch(() => undefined);
    return bare(() => undefined);
  }
  setStatus({ phase: "waiting" });
  state.sourceControls.value = NO_CONTROLS;
  if (kind.opensDrawer) state.isDrawerOpen.value = true;
  if (kind.openWithoutInput !== undefined)
    return { key, setVisibility: () => undefined, ...kind.openWithoutInput(state, initialSource) };
  // The Plan has not arrived yet.
  if (input === undefined || kind.open === undefined) return bare(() => undefined);
  let source = initialSource;
  let closed = false;
  let isPlaying = false;
  let failures = 0;
  let seen = isVisible;
  let resting: ReturnType<typeof setTimeout> | undefined;
  const statusReporter = createStatusReporter(state, feeder);
  const place: InputSlot = {
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
        if (!closed && isSourceError(error)) place.fail("damaged", error);
        return;
      }
      if (closed || failures !== before) return; // last frame before the failure
      state.inputOverride.value = of;
      statusReporter.onFed(follows());
    },
    reportNoMoreInputs: () => {
      if (!closed) statusReporter.markStill();
    },
    change(part) {
      if (!closed) state.source.value = { ...source, ...part } as Source;
    },
    setPhase(phase) {
      if (!closed) setStatus({ phase });
    },
    fail(failure, detail) {
      if (closed) return;
      failures += 1;
      const text = detail instanceof Error ? detail.message : String(detail);
      setStatus({ phase: "failed", failure, detail: text });
    },
    updateControls(controls) {
      if (!closed)
        state.sourceControls.value = {
          ...(state.sourceControls.peek() ?? NO_CONTROLS),
          ...controls,
        };
    },
  };
  // With reduced motion, playback starts only by a click.
  const plays = (): boolean => "playing" in source && source.playing;
  let isHeldByReducedMotion = plays() && prefersReducedMotion();
  const running: SourceInstance = kind.open(place);
  const updatePlayback = (): void => {
    const wanted = plays() && seen && !isHeldByReducedMotion && state.session.peek() !== null;
    if (wanted === isPlaying) return;
    isPlaying = wanted;
    if (isPlaying) {
      clearTimeout(resting);
      running.start();
    } else {
      running.stop();
      statusReporter.markStill();
    }
  };
  updatePlayback();
  if (isHeldByReducedMotion) place.change({ playing: false } as Partial<Source>);
  return {
    key,
    update(next) {
      if (next === source) return;
      source = next;
      isHeldByReducedMotion &&= plays();
      running.update(next);
      updatePlayback();
    },
    setVisibility(now, gone) {
      if (now !== seen || gone) {
        seen = now;
        clearTimeout(resting);
        if (!seen) resting = setTimeout(() => running.releaseDevice?.(), DEVICE_IDLE_MS);
      }
      updatePlayback();
      if (gone) running.releaseDevice?.();
    },
    dispose() {
      closed = true;
      clearTimeout(resting);
      if (isPlaying) running.stop();
      running.dispose();
      statusReporter.dispose();
    },
  };
}

/** Whether an error comes from the source. After a lost context or a closed Viewer, the override stays. */
const isSourceError = (error: unknown): boolean =>
  !(error instanceof Error && ["ContextLostError", "SessionClosed"].includes(error.name));

/** Remember a source with data from Python, so that the reader can return to it. */
function rememberPythonSource({ pythonSources }: ViewerState, source: Source): void {
  const hasData = "data" in source && source.data !== "";
  if (!hasData && !getSourceKind(source).isPythonOnly) return;
  const others = pythonSources.peek().filter((one) => one.kind !== source.kind);
  pythonSources.value = [...others, source];
}

/** Watch whether any of the Viewer's views is visible; none is after pagehide. */
function watchVisibility(
  { viewVisibility: views }: ViewerState,
  onChange: (seen: boolean, gone: boolean) => void,
) {
  let left = false;
  const isSeen = (): boolean =>
    !left && !document.hidden && [...views.peek().values()].includes(true);
  const look = (): void => onChange(isSeen(), left || views.peek().size === 0);
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
