// Steps from one explained element to another, and the text for each element's position.

import { batch } from "@preact/signals";
import { findAttentionLayers } from "../../explain/attention.ts";
import { coordinates, flatIndex } from "../../explain/tensor.ts";
import { type ClassNameLookup, classText } from "../../network/class_names.ts";
import type { Network } from "../../network/network.ts";
import type { PlanHeader, TokenGrid, Value } from "../../plan/schema.ts";
import type { ExplainStep, ViewerState } from "../../state.ts";
import { useViews } from "../context.ts";

/** The position of an element in a value. */
type ElementPosition = Omit<ExplainStep, "layer">;

/** Explain another element; `steps` is the trail that leads there. */
export function explainElement(
  state: ViewerState,
  value: Value,
  position: ElementPosition & { readonly image?: number },
  steps: readonly ExplainStep[],
): void {
  const [images, , mapHeight, mapWidth] = value.nchw;
  batch(() => {
    // A value without a batch axis may have contributed to any example.
    if (position.image !== undefined && images > 1 && images === state.plan.value?.batch) {
      state.example.value = position.image;
    }
    state.explainTrail.value = { layer: value.key, steps };
    state.selected.value = { layer: value.key, channel: position.channel };
    state.pixel.value = { mapHeight, mapWidth, y: position.y, x: position.x };
  });
}

/** The trail to the explained element, including that element. */
export function trailTo(
  { explainTrail }: ViewerState,
  { key }: Value,
  position: ElementPosition,
): readonly ExplainStep[] {
  const before = explainTrail.value?.layer === key ? explainTrail.value.steps : [];
  return [...before, { layer: key, channel: position.channel, y: position.y, x: position.x }];
}

/** "3 (patch 0, 2)": the token with its patch's row and column. */
function tokenText(token: number, tokens: TokenGrid | undefined): string {
  const patch = tokens?.positions[token];
  if (tokens === undefined || patch === undefined) return `${token}`;
  if (patch < 0) return `${token} (no patch)`;
  return `${token} (patch ${Math.floor(patch / tokens.columns)}, ${patch % tokens.columns})`;
}

/**
 * For each layer of an attention block: the attention weights' value (`weights`), and whether the layer is the weighted
 * sum (`isWeightedSum`). Cached per network.
 */
const attentionRolesByNetwork = new WeakMap<
  Network,
  Map<string, { weights: Value; isWeightedSum: boolean } | null>
>();

function attentionRole(
  network: Network,
  value: Value,
): { weights: Value; isWeightedSum: boolean } | null {
  if (value.display_kind === "attention") return { weights: value, isWeightedSum: false };
  const known = attentionRolesByNetwork.get(network) ?? new Map();
  attentionRolesByNetwork.set(network, known);
  const before = known.get(value.key);
  if (before !== undefined) return before;
  const layer = network.layers.find(({ name }) => name === value.key);
  const found = layer === undefined ? null : findAttentionLayers(network, layer);
  const weights = network.values.get(found?.weights.name ?? "");
  const part =
    found && weights ? { weights, isWeightedSum: found.output.name === value.key } : null;
  known.set(value.key, part);
  return part;
}

/** For attention "head 1, query token 3 (patch 0, 2), key token 5 (patch 1, 1)"; null for other values. */
export function tokenPairText(
  network: Network,
  plan: PlanHeader | null,
  value: Value,
  { channel, y, x }: ElementPosition,
): string | null {
  const part = attentionRole(network, value);
  const { shape, nchw } = value;
  if (part === null || shape.length < 2) return null;
  const at = coordinates(shape, flatIndex(nchw, [0, channel, y, x]));
  const [head = 0, query = 0, last = 0] = shape.length > 2 ? at.slice(-3) : [0, ...at];
  const [rows, columns] = part.weights.tokens.map((number) => plan?.tokens[number]);
  // The first of three axes is either the batch or the heads; if it is the batch, there is a single head.
  const heads = shape.length > 3 || (shape.length > 2 && shape[0] !== nchw[0]);
  return [
    ...(heads ? [`head ${head}`] : []),
    `query token ${tokenText(query, rows)}`,
    part.isWeightedSum ? `feature ${last}` : `key token ${tokenText(last, columns)}`,
  ].join(", ");
}

/** The text of element positions, with class names and token patches. */
export function usePositionText() {
  const { network, state, classNames } = useViews();
  const known = classNames.value;
  const elementText = (value: Value, at: ElementPosition): string =>
    (network.value && tokenPairText(network.value, state.plan.value, value, at)) ??
    positionText(value, at, known);
  return {
    spotText: elementText,
    /** The layer and the position, e.g. "features.3, channel 13, y 3, x 3". */
    placeText: (value: Value, at: ElementPosition): string =>
      [value.key, elementText(value, at)].filter((part) => part !== "").join(", "),
  };
}

/** "channel 13, y 3, x 3"; for a vector "value 661" or "tabby (281)". */
function positionText(
  value: Value,
  { channel, y, x }: ElementPosition,
  names: ClassNameLookup,
): string {
  const [, channels, height, width] = value.nchw;
  const vector = height * width === 1;
  const known = names(value.key);
  const parts: string[] = [];
  if (known[channel]) parts.push(classText(known, channel));
  else if (channels > 1) parts.push(`${vector ? "value" : "channel"} ${channel}`);
  if (!vector) parts.push(height > 1 ? `y ${y}, x ${x}` : `x ${x}`);
  return parts.join(", ");
}
