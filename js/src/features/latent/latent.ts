// A latent: its code in the place of its layer, for the engine alone. It is no edit of anybody's, and feeds no input.
//
// `run(state, source)` puts the code of a record there; the result follows other records of the same layer, and takes
// it away when it is disposed. Reads that come behind `state.source` have the code: edits go to the engine before them.
import { batch, effect, untracked } from "@preact/signals";
import { pageStore } from "../../engine/store.ts";
import type { Edit } from "../../plan/edits.ts";
import type { PlanHeader } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import type { Running } from "../sources/input_slot.ts";
import type { LatentRecord } from "../sources/records.ts";
import { quoted, type SourceKind } from "../sources/source_kind.ts";
import { OFF } from "../sources/state.ts";

let made = 0;

/** The code as the layer's value of all examples; undefined where it doesn't fit. */
export function valueOfCode(
  plan: PlanHeader,
  { input, code }: Pick<LatentRecord, "code" | "input">,
): Float32Array | undefined {
  const value = plan.values.find(({ key }) => key === input);
  const count = value?.nchw.reduce((all, side) => all * side, 1) ?? 0;
  if (count === 0 || code.length === 0 || count % code.length !== 0) return undefined;
  const examples = count / code.length;
  if (examples !== 1 && examples !== value?.nchw[0]) return undefined;
  return Float32Array.from({ length: count }, (_, k) => code[k % code.length] ?? 0);
}

/** The edit that puts an array of this name in a layer's place, with what leads there skipped. */
export const latentEdit = (layer: string, array: string): Edit => ({
  layer,
  name: "latent",
  transform: "inject",
  parameters: [],
  channels: null,
  mix: 1,
  enabled: true,
  source: "",
  names: [],
  array,
  frozen: false,
  skips: true,
});

function run(state: ViewerState, first: LatentRecord): Running<LatentRecord> {
  const store = pageStore();
  let held = "";
  let source = first;
  let put = "";
  let of: PlanHeader | null = null;

  const bring = (code: readonly number[]): void => {
    const plan = state.plan.peek();
    if (plan === null) return;
    const name = `${source.input} ${code.join()}`;
    if (name === put && plan === of) {
      state.fed.value = source;
      return;
    }
    const value = valueOfCode(plan, { ...source, code });
    if (value === undefined) {
      const detail = `${source.input} takes no code of ${code.length} numbers`;
      state.sourceStatus.value = { ...OFF, phase: "failed", failure: "damaged", detail };
      return;
    }
    const before = held;
    put = name;
    of = plan;
    // A name with a space is of this page alone: the store forgets it when nobody holds it any more.
    held = `latent ${made++}`;
    store.put(held, new Uint8Array(value.buffer as ArrayBuffer), 1);
    batch(() => {
      state.unlisted.value = [latentEdit(source.input, held)];
      state.sourceStatus.value = { ...OFF, phase: "still" };
      state.fed.value = source;
    });
    if (before !== "") store.release(before);
  };
  state.code.value = null;
  const stop = effect(() => {
    const code = state.code.value ?? source.code;
    state.plan.value;
    untracked(() => bring(code));
  });
  return {
    follow(next) {
      const moved = next.input !== source.input || `${next.code}` !== `${source.code}`;
      source = next;
      // Somebody else has moved it, or it was told what is here already.
      if (moved && `${next.code}` !== `${state.code.peek()}`) state.code.value = null;
      bring(state.code.peek() ?? next.code);
    },
    start: () => undefined,
    stop: () => undefined,
    dispose() {
      stop();
      batch(() => {
        state.code.value = null;
        state.unlisted.value = [];
      });
      if (held !== "") store.release(held);
      held = "";
    },
  };
}

/** A code of more numbers is left out of the line of Python. */
const MOST_NUMBERS = 64;

export const latent = {
  word: "Latent",
  icon: "M2.5 2v11.5H14M5.4 10.2v0M7 6.2v0M9.4 8.8v0M10.4 4.4v0M12.6 7v0",
  iconLine: 1.8,
  python: ({ input, code, data, folder }) => {
    const numbers = code.map((one) => Number(one.toPrecision(7)) || 0).join(", ");
    const short = code.length > 0 && code.length <= MOST_NUMBERS;
    if (data !== "" && folder === "") {
      return short ? `viewer.source = viewer.source.with_code([${numbers}])` : "";
    }
    const of = folder === "" ? "" : `, data=${quoted(folder)}`;
    const given = short ? `, code=[${numbers}]` : "";
    return `viewer.source = nbglcnn.Latent(${quoted(input)}${of}${given})`;
  },
  fits: () => true,
  isGiven: true,
  beginsByName: true,
  isByHand: true,
  run,
} satisfies SourceKind<LatentRecord>;
