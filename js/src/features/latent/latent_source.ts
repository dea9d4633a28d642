// A latent source: injects its code as a layer's value in the engine only. The injection is not one of the reader's
// edits and overrides no input. `openWithoutInput(state, source)` injects a record's code. The instance follows further
// records of the same layer, and removes the injection when disposed. A read that arrives after a change of
// `state.source` sees the code, because edits reach the engine before reads.
import { batch, effect, untracked } from "@preact/signals";
import { pageStore } from "../../engine/page_store.ts";
import type { Edit } from "../../plan/edits.ts";
import type { PlanHeader } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import type { SourceInstance } from "../sources/input_slot.ts";
import type { LatentRecord } from "../sources/records.ts";
import { pythonString, type SourceKind } from "../sources/source_kind.ts";
import { SOURCE_OFF } from "../sources/state.ts";

let nextId = 0;

/** The code repeated for all examples as the layer's value; undefined if its size doesn't fit. */
export function codeToValue(
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

/** The edit that injects the array with this hash into a layer and skips the layers upstream. */
export const latentEdit = (layer: string, arrayHash: string): Edit => ({
  layer,
  name: "latent",
  transform: "inject",
  parameters: [],
  channels: null,
  mix: 1,
  enabled: true,
  source: "",
  parameter_names: [],
  array_hash: arrayHash,
  is_frozen: false,
  skips_upstream: true,
});

function openLatent(state: ViewerState, initialRecord: LatentRecord): SourceInstance<LatentRecord> {
  const store = pageStore();
  let arrayHash = "";
  let source = initialRecord;
  let injectedCode = "";
  let of: PlanHeader | null = null;

  const inject = (code: readonly number[]): void => {
    const plan = state.plan.peek();
    if (plan === null) return;
    const name = `${source.input} ${code.join()}`;
    if (name === injectedCode && plan === of) {
      state.inputOverride.value = source;
      return;
    }
    const value = codeToValue(plan, { ...source, code });
    if (value === undefined) {
      const detail = `${source.input} doesn’t take a code of ${code.length} values`;
      state.sourceStatus.value = { ...SOURCE_OFF, phase: "failed", failure: "damaged", detail };
      return;
    }
    const before = arrayHash;
    injectedCode = name;
    of = plan;
    // A name with a space is private to this page: the store deletes the blob when its last user releases it.
    arrayHash = `latent ${nextId++}`;
    store.add(arrayHash, new Uint8Array(value.buffer as ArrayBuffer), 1);
    batch(() => {
      state.featureEdits.value = [latentEdit(source.input, arrayHash)];
      state.sourceStatus.value = { ...SOURCE_OFF, phase: "still" };
      state.inputOverride.value = source;
    });
    if (before !== "") store.release(before);
  };
  state.latentCode.value = null;
  const stop = effect(() => {
    const code = state.latentCode.value ?? source.code;
    state.plan.value;
    untracked(() => inject(code));
  });
  return {
    update(next) {
      const moved = next.input !== source.input || `${next.code}` !== `${source.code}`;
      source = next;
      // Another client moved the code, or Python echoed the current one.
      if (moved && `${next.code}` !== `${state.latentCode.peek()}`) state.latentCode.value = null;
      inject(state.latentCode.peek() ?? next.code);
    },
    start: () => undefined,
    stop: () => undefined,
    dispose() {
      stop();
      batch(() => {
        state.latentCode.value = null;
        state.featureEdits.value = [];
      });
      if (arrayHash !== "") store.release(arrayHash);
      arrayHash = "";
    },
  };
}

/** Longest code that the Python line includes. */
const MAX_PRINTED_CODE_LENGTH = 64;

export const latent = {
  label: "Latent",
  icon: "M2.5 2v11.5H14M5.4 10.2v0M7 6.2v0M9.4 8.8v0M10.4 4.4v0M12.6 7v0",
  iconStroke: 1.8,
  pythonLine: ({ input, code, data, folder }) => {
    const numbers = code.map((one) => Number(one.toPrecision(7)) || 0).join(", ");
    const short = code.length > 0 && code.length <= MAX_PRINTED_CODE_LENGTH;
    if (data !== "" && folder === "") {
      return short ? `viewer.source = viewer.source.with_code([${numbers}])` : "";
    }
    const of = folder === "" ? "" : `, data=${pythonString(folder)}`;
    const given = short ? `, code=[${numbers}]` : "";
    return `viewer.source = nbglcnn.Latent(${pythonString(input)}${of}${given})`;
  },
  accepts: () => true,
  isPythonOnly: true,
  startsOnSelect: true,
  opensDrawer: true,
  openWithoutInput: openLatent,
} satisfies SourceKind<LatentRecord>;
