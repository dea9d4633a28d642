// Schedules drawing: only what changed and is visible, in one batch per frame, and after runs at most 12 times a
// second.
import { computed, effect, untracked } from "@preact/signals";
import type { DrawJob } from "../plan/runtime.ts";
import type { ViewerState } from "../state.ts";
import { isSkipped } from "./run_queries.ts";

/** A draw job without its canvas, which the painter adds. */
export type Drawing = Omit<DrawJob, "canvas">;

export interface Painter {
  /** Draw into a canvas from now on; null leaves its content. */
  show(canvas: HTMLCanvasElement, drawing: Drawing | null): void;
  forget(canvas: HTMLCanvasElement): void;
  /** Draw everything once, including what is out of sight, and run `hiddenQueries`. */
  drawAll(): Promise<void>;
  /** Queries that otherwise run only while their result is visible. */
  readonly hiddenQueries: Set<() => Promise<void>>;
  /** The number of registered canvases, for leak tests. */
  readonly canvasCount: number;
  dispose(): void;
}

interface CanvasEntry {
  /** The same object as long as the drawing is unchanged: the display prepares a job only once. */
  job: DrawJob | null;
  isVisible: boolean;
  isDirty: boolean;
}

// A very fast model runs 60 times a second; drawing all layers at that rate would cost more than the model.
const MIN_DRAW_INTERVAL_MS = 80;

const jobKey = (job: DrawJob): string => JSON.stringify({ ...job, canvas: null });
const isSameJob = (a: DrawJob, b: DrawJob): boolean => jobKey(a) === jobKey(b);

export function createPainter(state: ViewerState): Painter {
  const entries = new Map<Element, CanvasEntry>();
  let frame = 0;
  let timer = 0;
  let last = Number.NEGATIVE_INFINITY;
  let isPreparing = false;
  let drawsHidden = false;
  const hiddenQueries = new Set<() => Promise<void>>();
  let lastEngineEdits = state.engineEdits.peek();

  /** The entries to draw now. */
  const dirtyEntries = (): (CanvasEntry & { readonly job: DrawJob })[] => {
    const session = state.session.peek();
    // A value derived from an edit can disappear before the view that shows it.
    const drawn = (entry: CanvasEntry): entry is CanvasEntry & { readonly job: DrawJob } =>
      entry.isDirty &&
      (entry.isVisible || drawsHidden) &&
      session?.value(entry.job?.key ?? "") !== undefined;
    return (session?.sequence ?? 0) === 0 ? [] : [...entries.values()].filter(drawn);
  };

  const paint = (): void => {
    frame = 0;
    if (isPreparing) return; // the pending draw includes what has arrived meanwhile
    const jobs = dirtyEntries().map((entry) => entry.job);
    const settled = jobs.length === 0 ? undefined : state.session.peek()?.prepareDraw(jobs);
    if (settled === undefined) draw();
    else {
      isPreparing = true;
      void settled.then(() => {
        isPreparing = false;
        draw();
      });
    }
  };

  const draw = (): void => {
    const session = state.session.peek();
    const now = dirtyEntries();
    if (session === null || now.length === 0) return;
    last = performance.now();
    for (const entry of now) entry.isDirty = false;
    const jobs = now.map((entry) => entry.job);
    session.draw(jobs);
    // Used by style sheets (an empty canvas is a dashed box) and by tests.
    for (const job of jobs) job.canvas.dataset.drawn = String(session.sequence);
  };

  const soon = (): void => {
    if (frame === 0) frame = requestAnimationFrame(paint);
  };

  const afterRun = (): void => {
    const wait = last + MIN_DRAW_INTERVAL_MS - performance.now();
    if (wait <= 0) soon();
    else if (timer === 0) {
      timer = window.setTimeout(() => {
        timer = 0;
        soon();
      }, wait);
    }
  };

  const observer = new IntersectionObserver(
    (changes) => {
      for (const change of changes) {
        const entry = entries.get(change.target);
        if (entry !== undefined) entry.isVisible = change.isIntersecting;
      }
      soon();
    },
    { rootMargin: "160px" },
  );

  const rangeSmoothing = computed(() => {
    if (!state.isInputLive.value) return "exact";
    return state.areRangesFrozen.value ? "held" : "slow";
  });
  /** For style sheets: mark the outdated picture of a layer that a latent skips. */
  const markSkipped = (canvas: Element, job: DrawJob | null): void => {
    canvas.toggleAttribute("data-skipped", isSkipped(state.session.peek(), job?.key ?? ""));
  };

  const stop = effect(() => {
    const session = state.session.value;
    if (session !== null) session.rangeSmoothing = rangeSmoothing.value;
    if (rangeSmoothing.value === "exact") state.areRangesFrozen.value = false; // a new live input starts unheld
    const ready = session !== null && state.run.value !== null;
    if (!ready) return;
    untracked(() => {
      for (const [canvas, entry] of entries) {
        entry.isDirty = true;
        markSkipped(canvas, entry.job);
      }
      // After an edit, draw immediately: a slider must show each step.
      const isStep = lastEngineEdits !== state.engineEdits.peek();
      lastEngineEdits = state.engineEdits.peek();
      (isStep ? soon : afterRun)();
    });
  });

  return {
    show(canvas, drawing) {
      const entry = entries.get(canvas);
      const job = drawing && { ...drawing, canvas };
      markSkipped(canvas, job);
      if (entry === undefined) {
        entries.set(canvas, { job, isVisible: false, isDirty: true });
        observer.observe(canvas);
        return;
      }
      if (job !== null && entry.job !== null && isSameJob(job, entry.job)) return;
      entry.job = job;
      entry.isDirty = true;
      soon();
    },
    forget(canvas) {
      entries.delete(canvas);
      observer.unobserve(canvas);
    },
    hiddenQueries,
    async drawAll() {
      await Promise.all([...hiddenQueries].map((ask) => ask()));
      await new Promise((done) => setTimeout(done)); // the results have arrived by then
      drawsHidden = true;
      await state.session.peek()?.prepareDraw(dirtyEntries().map((entry) => entry.job));
      draw();
      drawsHidden = false;
    },
    get canvasCount() {
      return entries.size;
    },
    dispose() {
      stop();
      observer.disconnect();
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      entries.clear();
    },
  };
}
