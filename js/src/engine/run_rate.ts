// Rate of network runs, reported at most once per tick.
import { effect } from "@preact/signals";
import type { EngineSignals } from "./signals.ts";

const TICK_MS = 250;
const WINDOW_MS = 1_000;

/** Call `onChange` when runs start and stop, and meanwhile with the number of runs in the last second. */
export function watchRunRate(
  signals: EngineSignals,
  onChange: (running: boolean, runsPerSecond: number) => void,
): () => void {
  let ended: number[] = [];
  let last = signals.run.peek();
  let ran = false; // since the last tick
  let timer: ReturnType<typeof setInterval> | undefined;
  let told = "";

  const tick = (): void => {
    const now = performance.now();
    ended = ended.filter((at) => now - at < WINDOW_MS);
    const running = ran || signals.isRunning.peek();
    ran = false;
    const words = `${running} ${ended.length}`;
    if (words !== told) onChange(running, ended.length);
    told = words;
    if (running || ended.length > 0) return;
    clearInterval(timer);
    timer = undefined;
  };

  const stop = effect(() => {
    const run = signals.run.value;
    if (signals.isRunning.value) ran = true;
    if (run !== null && run !== last) {
      ended.push(performance.now());
      ran = true;
    }
    last = run;
    if (!ran || timer !== undefined) return;
    timer = setInterval(tick, TICK_MS);
    tick();
  });

  return () => {
    stop();
    clearInterval(timer);
  };
}
