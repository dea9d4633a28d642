// Sources as a page makes them itself, and what stands behind a record in this page alone: a file, a click.
import type { Source } from "./records.ts";

/** A record in its own order of fields, as Python writes it. */
export const sourceOf = (
  kind: Source["kind"],
  input: string,
  part: Partial<Source> = {},
): Source => ({
  kind,
  input,
  owner: "",
  playing: false,
  rate: 0,
  faces: "user",
  mirrored: false,
  data: "",
  count: 0,
  block: 0,
  dtype: "uint8",
  index: 0,
  shuffled: false,
  labels: "",
  classes: "",
  seed: 0,
  mean: 0,
  std: 1,
  code: [],
  items: "",
  title: "",
  folder: "",
  ...part,
});

/** A file that was chosen, dropped or pasted, by the record that stands for it. */
export const files = new WeakMap<Source, Blob>();

/** Whoever reads this wants little to move: live sources begin paused. */
export const isStill = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Those that have pictures after each other. */
export const canPlay = ({ kind, count }: Source): boolean =>
  kind === "webcam" || kind === "video" || (kind === "images" && count > 1);
