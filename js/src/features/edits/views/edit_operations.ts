// Pure functions on the page's list of edits: each returns a new list.
import {
  type Edit,
  GLSL,
  INJECT,
  type Parameter,
  TRANSFORMS,
  type Transform,
} from "../../../plan/edits.ts";
import { NOT_EDITABLE } from "../../../plan/schema.ts";
import { uniqueEditName } from "../../../state/edits.ts";

export { TRANSFORMS };

/** The name of edits that Alt-click adds. */
const MUTE_NAME = "mute";

/** The share of the transformed value in the result. */
export const MIX_PARAMETER: Parameter = {
  name: "mix",
  default: 1,
  low: 0,
  high: 1,
  step: 0.01,
  least: 0,
  most: 1,
  above: false,
  integer: false,
  unit: "",
};

export const editsOfLayer = (edits: readonly Edit[], layer: string): readonly Edit[] =>
  edits.filter((one) => one.layer === layer);

export const isBend = ({ transform }: Edit): boolean => transform !== INJECT;

/** The parameters of an edit; custom GLSL has parameter names without limits. */
export function parametersOf(edit: Edit): readonly Parameter[] {
  if (edit.transform !== GLSL) {
    return TRANSFORMS.find(({ name }) => name === edit.transform)?.parameters ?? [];
  }
  return edit.parameter_names.map((name) => ({
    ...MIX_PARAMETER,
    name,
    low: -4,
    high: 4,
    step: 0.05,
    least: null,
    most: null,
  }));
}

/** Whether a transform accepts values with this number of channels. */
export const acceptsChannels = (counts: readonly number[], channels: number): boolean =>
  counts.length === 0 || counts.includes(channels);

/** A transform's name as a title: "Flip h". */
export const transformTitle = (transform: string): string => {
  if (transform === GLSL) return "GLSL";
  const words = transformText(transform);
  return words.charAt(0).toUpperCase() + words.slice(1);
};
export const transformText = (transform: string): string => transform.replaceAll("_", " ");

/** An edit's title in a row. */
export const editTitle = (edit: Edit): string =>
  edit.transform !== INJECT
    ? transformTitle(edit.transform)
    : edit.is_frozen
      ? "Frozen"
      : "Injected";

/** A channel count as text: "10 of 32", "all 32". */
export const channelCountText = (channels: readonly number[] | null, count: number): string =>
  channels === null
    ? `all ${count}`
    : `${channels.length === 0 ? "none" : channels.length} of ${count}`;

/** The channels in the form an edit stores them: null for all. */
export const toChannelList = (
  channels: Iterable<number>,
  count: number,
): readonly number[] | null => {
  const numbers = [...new Set(channels)].sort((a, b) => a - b);
  return numbers.length === count ? null : numbers;
};

export function makeBend(
  edits: readonly Edit[],
  layer: string,
  transform: Transform,
  channels: readonly number[] | null,
  overrides: Partial<Edit> = {},
): Edit {
  return {
    layer,
    name: uniqueEditName(edits, overrides.name ?? transform.name),
    transform: transform.name,
    parameters: overrides.parameters ?? transform.parameters.map((one) => one.default),
    channels,
    mix: overrides.mix ?? 1,
    enabled: true,
    source: "",
    parameter_names: [],
    array_hash: "",
    is_frozen: false,
    skips_upstream: false,
  };
}

export const updateEdit = (edits: readonly Edit[], name: string, changes: Partial<Edit>): Edit[] =>
  edits.map((one) => (one.name === name ? { ...one, ...changes } : one));

export const updateParameter = (
  edits: readonly Edit[],
  edit: Edit,
  index: number,
  value: number,
): Edit[] =>
  updateEdit(edits, edit.name, {
    parameters: edit.parameters.map((one, i) => (i === index ? value : one)),
  });

export const removeEdit = (edits: readonly Edit[], name: string): Edit[] =>
  edits.filter((one) => one.name !== name);

/**
 * Move a layer's edit from position `from` to position `to` among the layer's edits; edits of other layers keep their
 * positions.
 */
export function moveEdit(edits: readonly Edit[], layer: string, from: number, to: number): Edit[] {
  const own = [...editsOfLayer(edits, layer)];
  const [one] = own.splice(from, 1);
  if (one === undefined) return [...edits];
  own.splice(to, 0, one);
  return edits.map((edit) => (edit.layer === layer ? (own.shift() ?? edit) : edit));
}

/** Mute or unmute a channel: all muted channels of a layer share one bend. */
export function toggleMute(edits: readonly Edit[], layer: string, channel: number): Edit[] {
  const ablate = TRANSFORMS.find(({ name }) => name === "ablate");
  const mute = edits.find((one) => one.layer === layer && one.enabled && isMute(one));
  if (ablate === undefined) return [...edits];
  if (mute === undefined) {
    return [...edits, makeBend(edits, layer, ablate, [channel], { name: MUTE_NAME })];
  }
  const others = (mute.channels ?? []).filter((one) => one !== channel);
  const has = others.length < (mute.channels ?? []).length;
  if (has && others.length === 0) return removeEdit(edits, mute.name);
  const channels = has ? others : [...others, channel].sort((a, b) => a - b);
  return updateEdit(edits, mute.name, { channels });
}

const isMute = ({ name, transform, channels, mix }: Edit): boolean =>
  transform === "ablate" && mix === 1 && channels !== null && /^mute(-\d+)?$/.test(name);

/** Whether a value can be edited. */
export const isBendable = ({ edit_pass }: { readonly edit_pass: number }): boolean =>
  edit_pass !== NOT_EDITABLE;

/** Why a value cannot be edited, in the same text as Python's. */
export function notBendableText(value: {
  readonly key: string;
  readonly dtype: string;
  readonly readback: { readonly count: number };
}): string {
  const { key, dtype, readback } = value;
  if (dtype !== "float32") {
    return `${key} has ${dtype} values; only float32 values can be bent.`;
  }
  if (readback.count === 0) return `${key} has no elements to bend.`;
  return `${key} is a constant or a state of the network, which can’t be bent.`;
}
