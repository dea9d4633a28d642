// From an explained number to another one, and what a place is called on the way.

import { batch } from "@preact/signals";
import { attentionOf } from "../../explain/attention.ts";
import { coordinates, place } from "../../explain/tensor.ts";
import { classText, type Names } from "../../network/classes.ts";
import type { Network } from "../../network/network.ts";
import type { PlanHeader, Tokens, Value } from "../../plan/schema.ts";
import type { Step, ViewerState } from "../../state.ts";
import { useViews } from "../context.ts";

/** Where a number stands in a value. */
type Spot = Omit<Step, "layer">;

/** Explains another number: `before` are the steps that led there. */
export function goTo(
  state: ViewerState,
  value: Value,
  to: Spot & { readonly image?: number },
  before: readonly Step[],
): void {
  const [images, , height, width] = value.nchw;
  batch(() => {
    // A value that has no examples in front may have led to any of them.
    if (to.image !== undefined && images > 1 && images === state.plan.value?.batch) {
      state.example.value = to.image;
    }
    state.trail.value = { to: value.key, before };
    state.selected.value = { layer: value.key, channel: to.channel };
    state.pixel.value = { height, width, y: to.y, x: to.x };
  });
}

/** The steps that led to the number of a value that is explained, and this one. */
export function stepsTo({ trail }: ViewerState, { key }: Value, at: Spot): readonly Step[] {
  const before = trail.value?.to === key ? trail.value.before : [];
  return [...before, { layer: key, channel: at.channel, y: at.y, x: at.x }];
}

/** "3 (patch 0, 2)": by the patch's row and column. */
function tokenText(token: number, tokens: Tokens | undefined): string {
  const patch = tokens?.places[token];
  if (tokens === undefined || patch === undefined) return `${token}`;
  if (patch < 0) return `${token} (no patch)`;
  return `${token} (patch ${Math.floor(patch / tokens.columns)}, ${patch % tokens.columns})`;
}

/** What the layers of attentions are of them; for each network once. */
const parts = new WeakMap<Network, Map<string, { share: Value; mixes: boolean } | null>>();

function partOf(network: Network, value: Value): { share: Value; mixes: boolean } | null {
  if (value.form === "attention") return { share: value, mixes: false };
  const known = parts.get(network) ?? new Map();
  parts.set(network, known);
  const before = known.get(value.key);
  if (before !== undefined) return before;
  const layer = network.layers.find(({ name }) => name === value.key);
  const found = layer === undefined ? null : attentionOf(network, layer);
  const share = network.values.get(found?.share.name ?? "");
  const part = found && share ? { share, mixes: found.mix.name === value.key } : null;
  known.set(value.key, part);
  return part;
}

/** Of attention "head 1, query token 3 (patch 0, 2), key token 5 (patch 1, 1)"; null of other values. */
export function pairText(
  network: Network,
  plan: PlanHeader | null,
  value: Value,
  { channel, y, x }: Spot,
): string | null {
  const part = partOf(network, value);
  const { shape, nchw } = value;
  if (part === null || shape.length < 2) return null;
  const at = coordinates(shape, place(nchw, [0, channel, y, x]));
  const [head = 0, query = 0, last = 0] = shape.length > 2 ? at.slice(-3) : [0, ...at];
  const [rows, columns] = part.share.tokens.map((number) => plan?.tokens[number]);
  // Examples stand along an axis of three; heads have one of their own then, or there is one alone.
  const heads = shape.length > 3 || (shape.length > 2 && shape[0] !== nchw[0]);
  return [
    ...(heads ? [`head ${head}`] : []),
    `query token ${tokenText(query, rows)}`,
    part.mixes ? `feature ${last}` : `key token ${tokenText(last, columns)}`,
  ].join(", ");
}

/** What places are called, with the names of classes and the patches of tokens. */
export function usePlaces() {
  const { network, state, names } = useViews();
  const known = names.value;
  const spot = (value: Value, at: Spot): string =>
    (network.value && pairText(network.value, state.plan.value, value, at)) ??
    spotText(value, at, known);
  return {
    spotText: spot,
    /** "features.3, channel 13, y 3, x 3". */
    placeText: (value: Value, at: Spot): string =>
      [value.key, spot(value, at)].filter((part) => part !== "").join(", "),
  };
}

/** "channel 13, y 3, x 3"; of a vector "value 661" or "tabby (281)". */
function spotText(value: Value, { channel, y, x }: Spot, names: Names): string {
  const [, channels, height, width] = value.nchw;
  const vector = height * width === 1;
  const known = names(value.key);
  const parts: string[] = [];
  if (known[channel]) parts.push(classText(known, channel));
  else if (channels > 1) parts.push(`${vector ? "value" : "channel"} ${channel}`);
  if (!vector) parts.push(height > 1 ? `y ${y}, x ${x}` : `x ${x}`);
  return parts.join(", ");
}
