// Source selection in a page: which kinds an input offers, and how each starts.
import type { Input } from "../../../plan/schema.ts";
import type { ViewerState } from "../../../state.ts";
import { makeSource, sourceFiles } from "../local_sources.ts";
import type { Source, SourceKindName, SourceOf } from "../records.ts";
import { getSourceKind, KIND_NAMES, SOURCE_KINDS, sourceKindOfFile } from "../source_kinds.ts";

/** The network's own inputs, those that accept pictures first. */
export function modelInputs({ plan }: ViewerState): readonly Input[] {
  const own = plan.value?.inputs.filter(({ layer }) => layer < 0) ?? [];
  return [...own].sort((a, b) => Number(a.fit === "") - Number(b.fit === ""));
}

/** The input that the source feeds, or that the selected source will feed. */
export function selectedInput(state: ViewerState, selectedKey: string): Input | undefined {
  const inputs = modelInputs(state);
  const key = state.source.value?.input ?? selectedKey;
  return inputs.find((one) => one.key === key) ?? inputs[0];
}

/** The source kinds available for an input, in order. */
export function availableKinds(state: ViewerState, input: Input): readonly SourceKindName[] {
  const now = state.source.value?.kind;
  const isHere = (kind: SourceKindName): boolean =>
    now === kind || state.pythonSources.value.some((one) => one.kind === kind);
  return KIND_NAMES.filter((kind) => {
    const { accepts, isPythonOnly } = getSourceKind({ kind });
    return accepts(input) && (!isPythonOnly || isHere(kind));
  });
}

const setSource = (state: ViewerState, source: Source): void => {
  state.source.value = source;
};

const currentPageId = ({ feeder }: ViewerState): string => feeder.peek()?.pageId ?? "";

/** Start the camera. Call this from a click handler, as the browser may ask for permission. */
export function startCamera(state: ViewerState, input: Input): void {
  const now = state.source.peek();
  if (now?.kind === "webcam" && now.owner === currentPageId(state))
    state.sourceControls.peek()?.start();
  else {
    const record = now?.kind === "webcam" ? now : makeSource("webcam", input.key);
    setSource(state, { ...record, owner: currentPageId(state), playing: true });
  }
}

/** Start a source from a selected, dropped or pasted file: a video or a picture. */
export function startFromFile(state: ViewerState, input: Input, file: File): void {
  const kind = sourceKindOfFile(file) ?? "picture";
  const title = file.name.slice(0, 1000);
  const fields = { ...SOURCE_KINDS[kind].file?.fields, owner: currentPageId(state), title };
  const source = makeSource(kind, input.key, fields as Partial<SourceOf<typeof kind>>);
  sourceFiles.set(source, file);
  setSource(state, source);
}

/** Select a source that starts without further input. */
export function selectSource(state: ViewerState, input: Input, kind: SourceKindName): void {
  if (state.source.peek()?.kind === kind) return;
  const given = state.pythonSources.peek().find((one) => one.kind === kind);
  if (given !== undefined) setSource(state, { ...given, owner: "" });
  else if (!getSourceKind({ kind }).isPythonOnly) setSource(state, makeSource(kind, input.key));
}

/** Move a source that another page runs to this page. */
export function takeOverSource(state: ViewerState): void {
  const source = state.source.peek();
  if (source === null) return;
  setSource(state, {
    ...source,
    owner: currentPageId(state),
    ...getSourceKind(source).takeoverFields,
  } as Source);
}
