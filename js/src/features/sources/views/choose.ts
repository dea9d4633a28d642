// Choosing a source in a page: which are offered for an input, and how each begins.
import type { Input } from "../../../plan/schema.ts";
import type { ViewerState } from "../../../state.ts";
import { files, sourceOf } from "../page_sources.ts";
import { NOISE_MEAN, NOISE_STD, type Source } from "../records.ts";

export type Kind = Source["kind"];

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
export function offered(state: ViewerState, input: Input): readonly Kind[] {
  const now = state.source.value?.kind;
  const given = (kind: Kind): boolean =>
    now === kind || state.given.value.some((one) => one.kind === kind);
  const pictures = input.fit !== "";
  return [
    ...(pictures ? (["picture", "webcam", "video", "drawing"] as const) : []),
    ...(given("images") ? (["images"] as const) : []),
    ...(input.dtype === "float32" ? (["noise"] as const) : []),
    ...(given("latent") ? (["latent"] as const) : []),
  ];
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
    const record = now?.kind === "webcam" ? now : sourceOf("webcam", input.key, { mirrored: true });
    set(state, { ...record, owner: pageOf(state), playing: true });
  }
}

/** A file that was chosen, dropped or pasted: a film, else a picture. */
export function takeFile(state: ViewerState, input: Input, file: File): void {
  const film = file.type.startsWith("video/");
  const owner = pageOf(state);
  const source = sourceOf(film ? "video" : "picture", input.key, {
    owner,
    playing: film,
    title: file.name.slice(0, 1000),
  });
  files.set(source, file);
  set(state, source);
}

/** Begins a source that needs no more than that. */
export function begin(state: ViewerState, input: Input, kind: Kind): void {
  if (state.source.peek()?.kind === kind) return;
  const given = state.given.peek().find((one) => one.kind === kind);
  if (kind === "noise")
    set(state, sourceOf("noise", input.key, { mean: NOISE_MEAN, std: NOISE_STD }));
  else if (kind === "drawing") set(state, sourceOf("drawing", input.key));
  else if (given !== undefined) set(state, { ...given, owner: "" });
}

/** The pictures of a source that another page has are to be made here. */
export function takeOver(state: ViewerState, input: Input): void {
  const source = state.source.peek();
  if (source === null) return;
  if (source.kind === "webcam") startCamera(state, input);
  else set(state, { ...source, owner: source.kind === "drawing" ? "" : pageOf(state) });
}
