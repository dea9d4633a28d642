// Choosing a source in a page: which are offered for an input, and how each begins.
import type { Input } from "../../../plan/schema.ts";
import type { ViewerState } from "../../../state.ts";
import { KIND_NAMES, KINDS, kindOf, kindOfFile } from "../kinds.ts";
import { files, sourceOf } from "../page_sources.ts";
import type { Source, SourceKindName, SourceOf } from "../records.ts";

/** The network's own inputs; those that take pictures in front. */
export function inputsOf({ plan }: ViewerState): readonly Input[] {
  const own = plan.value?.inputs.filter(({ layer }) => layer < 0) ?? [];
  return [...own].sort((a, b) => Number(a.fit === "") - Number(b.fit === ""));
}

/** The input that is fed, or is to be. */
export function inputOf(state: ViewerState, chosen: string): Input | undefined {
  const inputs = inputsOf(state);
  const key = state.source.value?.input ?? chosen;
  return inputs.find((one) => one.key === key) ?? inputs[0];
}

/** The sources that an input can have, in their order. */
export function offered(state: ViewerState, input: Input): readonly SourceKindName[] {
  const now = state.source.value?.kind;
  const isHere = (kind: SourceKindName): boolean =>
    now === kind || state.given.value.some((one) => one.kind === kind);
  return KIND_NAMES.filter((kind) => {
    const { fits, isGiven } = kindOf({ kind });
    return fits(input) && (!isGiven || isHere(kind));
  });
}

const set = (state: ViewerState, source: Source): void => {
  state.source.value = source;
};

const pageOf = ({ feeder }: ViewerState): string => feeder.peek()?.page ?? "";

/** By a click: the browser may ask for its permission. */
export function startCamera(state: ViewerState, input: Input): void {
  const now = state.source.peek();
  if (now?.kind === "webcam" && now.owner === pageOf(state)) state.controls.peek()?.start();
  else {
    const record = now?.kind === "webcam" ? now : sourceOf("webcam", input.key);
    set(state, { ...record, owner: pageOf(state), playing: true });
  }
}

/** A file that was chosen, dropped or pasted: a film, else a picture. */
export function takeFile(state: ViewerState, input: Input, file: File): void {
  const kind = kindOfFile(file) ?? "picture";
  const title = file.name.slice(0, 1000);
  const fields = { ...KINDS[kind].file?.fields, owner: pageOf(state), title };
  const source = sourceOf(kind, input.key, fields as Partial<SourceOf<typeof kind>>);
  files.set(source, file);
  set(state, source);
}

/** Begins a source that needs no more than that. */
export function begin(state: ViewerState, input: Input, kind: SourceKindName): void {
  if (state.source.peek()?.kind === kind) return;
  const given = state.given.peek().find((one) => one.kind === kind);
  if (given !== undefined) set(state, { ...given, owner: "" });
  else if (!kindOf({ kind }).isGiven) set(state, sourceOf(kind, input.key));
}

/** The pictures of a source that another page has are to be made here. */
export function takeOver(state: ViewerState): void {
  const source = state.source.peek();
  if (source === null) return;
  set(state, { ...source, owner: pageOf(state), ...kindOf(source).takenOver } as Source);
}
