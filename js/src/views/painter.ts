// When pictures are drawn: only what changed and is visible, in one batch a frame, at most 12 a second for runs.
import { computed, effect, untracked } from "@preact/signals";
import type { DrawJob } from "../plan/runtime.ts";
import type { ViewerState } from "../state.ts";
import { isSkipped } from "./run_queries.ts";

/** What a canvas shows; the painter adds the canvas. */
export type Drawing = Omit<DrawJob, "canvas">;

export interface Painter {
  /** Shows a drawing in a canvas from now on; null leaves what is there. */
  show(canvas: HTMLCanvasElement, drawing: Drawing | null): void;
  forget(canvas: HTMLCanvasElement): void;
  /** Draws what is out of sight too, once, and asks what is `hiddenQueries`. */
  drawAll(): Promise<void>;
  /** What is asked for only while somebody sees the answer. */
  readonly hiddenQueries: Set<() => Promise<void>>;
  /** Canvases that are looked after, for leak tests. */
  readonly size: number;
  dispose(): void;
}

interface Entry {
  /** The same object for as long as the same is shown: the display prepares a job once. */
  job: DrawJob | null;
  visible: boolean;
  dirty: boolean;
}

// A very fast model runs 60 times a second; drawing every layer as often would cost more than the model.
const MIN_DRAW_INTERVAL_MS = 80;

const jobKey = (job: DrawJob): string => JSON.stringify({ ...job, canvas: null });
const sameJob = (a: DrawJob, b: DrawJob): boolean => jobKey(a) === jobKey(b);

export function createPainter(state: ViewerState): Painter {
  const entries = new Map<Element, Entry>();
  let frame = 0;
  let timer = 0;
  let last = Number.NEGATIVE_INFINITY;
  let settling = false;
  let everything = false;
  const hiddenQueries = new Set<() => Promise<void>>();
  let acting = state.engineEdits.peek();

  /** What is to be drawn now. */
  const due = (): (Entry & { readonly job: DrawJob })[] => {
    const session = state.session.peek();
    // What follows from edits can be gone before the view that shows it is.
    const drawn = (entry: Entry): entry is Entry & { readonly job: DrawJob } =>
      entry.dirty &&
      (entry.visible || everything) &&
      session?.value(entry.job?.key ?? "") !== undefined;
    return (session?.sequence ?? 0) === 0 ? [] : [...entries.values()].filter(drawn);
  };

  const paint = (): void => {
    frame = 0;
    if (settling) return; // it draws what has come meanwhile
    const jobs = due().map((entry) => entry.job);
    const settled = jobs.length === 0 ? undefined : state.session.peek()?.prepareDraw(jobs);
    if (settled === undefined) draw();
    else {
      settling = true;
      void settled.then(() => {
        settling = false;
        draw();
      });
    }
  };

  const draw = (): void => {
    const session = state.session.peek();
    const now = due();
    if (session === null || now.length === 0) return;
    last = performance.now();
    for (const entry of now) entry.dirty = false;
    const jobs = now.map((entry) => entry.job);
    session.draw(jobs);
    // Read by style sheets (an empty canvas is a dashed box) and by tests.
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
        if (entry !== undefined) entry.visible = change.isIntersecting;
      }
      soon();
    },
    { rootMargin: "160px" },
  );

  const pace = computed(() => {
    if (!state.isInputLive.value) return "exact";
    return state.areRangesHeld.value ? "held" : "slow";
  });
  /** For style sheets: what a latent skips has an old picture. */
  const markSkipped = (canvas: Element, job: DrawJob | null): void => {
    canvas.toggleAttribute("data-skipped", isSkipped(state.session.peek(), job?.key ?? ""));
  };

  const stop = effect(() => {
    const session = state.session.value;
    if (session !== null) session.rangeSmoothing = pace.value;
    if (pace.value === "exact") state.areRangesHeld.value = false; // what is live next begins anew
    const ready = session !== null && state.run.value !== null;
    if (!ready) return;
    untracked(() => {
      for (const [canvas, entry] of entries) {
        entry.dirty = true;
        markSkipped(canvas, entry.job);
      }
      // Who turns a knob sees each step of it.
      const isStep = acting !== state.engineEdits.peek();
      acting = state.engineEdits.peek();
      (isStep ? soon : afterRun)();
    });
  });

  return {
    show(canvas, drawing) {
      const entry = entries.get(canvas);
      const job = drawing && { ...drawing, canvas };
      markSkipped(canvas, job);
      if (entry === undefined) {
        entries.set(canvas, { job, visible: false, dirty: true });
        observer.observe(canvas);
        return;
      }
      if (job !== null && entry.job !== null && sameJob(job, entry.job)) return;
      entry.job = job;
      entry.dirty = true;
      soon();
    },
    forget(canvas) {
      entries.delete(canvas);
      observer.unobserve(canvas);
    },
    hiddenQueries,
    async drawAll() {
      await Promise.all([...hiddenQueries].map((ask) => ask()));
      await new Promise((done) => setTimeout(done)); // by then the answers stand there
      everything = true;
      await state.session.peek()?.prepareDraw(due().map((entry) => entry.job));
      draw();
      everything = false;
    },
    get size() {
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
