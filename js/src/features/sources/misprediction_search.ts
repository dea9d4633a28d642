// Search a data set for the next item that the network misclassifies.
import { signal } from "@preact/signals";
import type { Value } from "../../plan/schema.ts";
import type { InputSlot } from "./input_slot.ts";
import type { ImagesRecord } from "./records.ts";
import { nextItem } from "./shuffle.ts";
import type { MispredictionSearch } from "./state.ts";

/** The output with one score per class; undefined if there is none. */
function findScores(
  { state }: InputSlot<ImagesRecord>,
  labels: readonly number[],
): Value | undefined {
  const plan = state.plan.peek();
  const most = labels.reduce((most, label) => Math.max(most, label), -1);
  return plan?.outputs
    .map((key) => plan.values.find((value) => value.key === key))
    .find(
      (value) => value && value.nchw[1] > Math.max(1, most) && value.nchw[2] * value.nchw[3] === 1,
    );
}

/** The class with the largest score; −1 if any score is NaN. */
export function argmax(scores: Float32Array): number {
  let found = 0;
  for (const [k, score] of scores.entries()) {
    if (Number.isNaN(score)) return -1;
    if (score > (scores[found] ?? 0)) found = k;
  }
  return found;
}

export function createMispredictionSearch(
  slot: InputSlot<ImagesRecord>,
  readItem: (index: number) => Promise<Float32Array>,
  isPaused: () => boolean,
) {
  const isRunning = signal(false);
  const text = signal("");
  let turn = 0;

  const stop = (): void => {
    turn += 1;
    if (!isRunning.peek()) return;
    isRunning.value = false;
    slot.reportNoMoreInputs();
  };
  const nameOf = (label: number): string => {
    const name = slot.state.sourceControls.peek()?.classes[label] ?? "";
    return name === "" ? `${label}` : `${name} (${label})`;
  };

  const go = async (labels: readonly number[], value: Value): Promise<void> => {
    const mine = turn;
    const { source: first } = slot;
    let source = first;
    const labelled = labels.filter((label) => label >= 0).length;
    for (let looked = 1; looked <= first.count; looked++) {
      source = { ...source, index: nextItem(source, 1) };
      const label = labels[source.index] ?? -1;
      if (label < 0) continue;
      const found = await readItem(source.index);
      if (mine !== turn) return;
      await slot.feed({ data: found }, slot.source, () => isRunning.peek());
      const session = slot.state.session.peek();
      if (mine !== turn || session === null) break;
      const scores = (await session.read(value.key)).subarray(0, value.nchw[1]);
      if (mine !== turn) break;
      const said = argmax(scores);
      if (said !== label) {
        text.value = `Item ${source.index}: predicted ${said < 0 ? "NaN" : nameOf(said)}, labelled ${nameOf(label)}.`;
        slot.change({ index: source.index });
        stop();
        return;
      }
      if (looked % 10 === 0) text.value = `Searched ${looked} of ${first.count} items.`;
    }
    if (mine === turn) {
      text.value = `All ${labelled} labelled items are predicted correctly.`;
      stop();
    }
  };

  return {
    running: isRunning,
    stop,
    /** The search controls; undefined without labels or a matching output. */
    of(labels: readonly number[]): MispredictionSearch | undefined {
      const value = findScores(slot, labels);
      if (value === undefined || !labels.some((label) => label >= 0)) return undefined;
      return {
        isRunning,
        text,
        start() {
          if (isRunning.peek()) return;
          if (!isPaused()) slot.change({ playing: false });
          turn += 1;
          isRunning.value = true;
          text.value = "Searching for the next wrong prediction…";
          go(labels, value).catch((error: unknown) => {
            text.value = `The search failed: ${error instanceof Error ? error.message : error}`;
            stop();
          });
        },
        stop() {
          stop();
          text.value = "";
        },
      };
    },
  };
}
