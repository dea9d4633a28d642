// When a page has come to rest: no timer, animation frame or transition of its own is left, and nothing was done for frames.

/** Timers further off are of no picture: patience, a beat. */
const MAX_TIMER_MS = 500;
/** What observers tell comes a frame after, and is answered in the one after that. */
const IDLE_FRAMES = 4;

const requestRealFrame = requestAnimationFrame.bind(globalThis);
const pendingIds = new Map<string, Set<number>>();

/** From now on `ask` is counted from when it is called until its callback has been, or `cancel` is. */
function countPending(ask: "setTimeout" | "requestAnimationFrame", cancel: string): void {
  const all = globalThis as unknown as Record<string, (...given: unknown[]) => number>;
  const [begin, end] = [all[ask], all[cancel]];
  if (begin === undefined || end === undefined) throw new Error(`no ${ask}`);
  const under = new Set<number>();
  pendingIds.set(ask, under);
  all[ask] = (call, ms = 0, ...given) => {
    const once = (...passed: unknown[]) => {
      under.delete(id);
      (call as (...passed: unknown[]) => void)(...passed);
    };
    const id = begin.call(globalThis, once, ms, ...given);
    if (Number(ms) <= MAX_TIMER_MS) under.add(id);
    return id;
  };
  all[cancel] = (id) => {
    under.delete(id as number);
    return end.call(globalThis, id);
  };
}

/** Counts the page's timers and frames; before anything asks for one. */
export function watchTimers(): void {
  countPending("setTimeout", "clearTimeout");
  countPending("requestAnimationFrame", "cancelAnimationFrame");
}

const isUnfinishedAnimation = (one: Animation): boolean =>
  one.playState === "running" &&
  one.effect?.getComputedTiming().iterations !== Number.POSITIVE_INFINITY;

const isBusy = (): boolean =>
  [...pendingIds.values()].some((under) => under.size > 0) ||
  document.getAnimations().some(isUnfinishedAnimation);

/** Waits until the page rests; `done` counts what it does, and is null while an answer is awaited. */
export async function waitForIdle(done: () => number | null): Promise<void> {
  for (let [calm, before] = [0, done()]; calm < IDLE_FRAMES; ) {
    await new Promise(requestRealFrame);
    const now = done();
    calm = now === null || now !== before || isBusy() ? 0 : calm + 1;
    before = now;
  }
}

/** Whether what was about to come has come, a second later at the latest. */
export async function whenAnimationsEnd(): Promise<boolean> {
  const late = performance.now() + 1000;
  while ([...pendingIds.values()].some((under) => under.size > 0)) {
    if (performance.now() > late) return false;
    await new Promise(requestRealFrame);
  }
  return true;
}
