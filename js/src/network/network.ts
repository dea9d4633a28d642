// What a Plan's layer table says about the network's shape: chains of layers as stages, and who reads whom.

import { formatInteger } from "../number_format.ts";
import type { Layer, LayerPair, PlanHeader, Value } from "../plan/schema.ts";
import {
  CALL_SEPARATOR,
  chainTitle,
  enclosingModules,
  labelOf,
  relativeName,
} from "./layer_names.ts";

/** Layers that are shown as one picture, the last one's: Conv, BN and ReLU, for example. */
export interface Stage {
  readonly layers: readonly Layer[];
  /** Key of the value that is drawn: the last layer's. */
  readonly key: string;
  /** "encoder.0–2". */
  readonly title: string;
  /** The modules that hold it, from the outermost on: "layer1", "layer1.0"; none for the model itself. */
  readonly modules: readonly string[];
  /** The one of them that is two levels deep at most; "" for the model itself. */
  readonly group: string;
  /** Titles of the stages and inputs it reads; empty when that is just what stands before it. */
  readonly readTitles: readonly string[];
}

export interface Network {
  /** Every value and parameter by its key. */
  readonly values: ReadonlyMap<string, Value>;
  readonly parameters: ReadonlyMap<string, Value>;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly stages: readonly Stage[];
  /** Layers that can be drawn, in call order. */
  readonly layers: readonly Layer[];
  /** Of a comparison's two networks apart: "1,234", "1,234 + 1,234". */
  readonly parameterCounts: string;
  /** Examples in the batch. */
  readonly batch: number;
  /** What is compared with what, by each of the keys. */
  readonly pairs: ReadonlyMap<string, LayerPair>;
}

const isFollower = ({ role }: Layer): boolean => role === "follows" || role === "alias";
const isLeader = ({ role }: Layer): boolean => role === "leads" || role === "alias";

/** Index of a Plan, made once per Plan. */
export function indexNetwork(plan: PlanHeader): Network {
  const read = new Set(plan.layers.flatMap((layer) => layer.inputs));
  // What an ONNX file gives and reads on is a layer among layers, no picture in colour.
  const isLayer = ({ kind, key }: Value) => kind === "output" && read.has(key);
  const values = new Map(
    plan.values.map((value) => [
      value.key,
      isLayer(value) ? { ...value, kind: "layer" as const } : value,
    ]),
  );
  const inputs = plan.values.filter((value) => value.kind === "input");
  const outputs = plan.outputs.flatMap((key) => values.get(key) ?? []);
  const layers = plan.layers.filter((layer) => values.has(layer.name));
  return {
    values,
    parameters: new Map(plan.parameters.map((value) => [value.key, value])),
    inputs,
    outputs,
    stages: stagesOf(
      layers,
      new Set(inputs.map((value) => value.key)),
      aliasesOf(layers, values),
      returningModules(plan.values),
    ),
    layers,
    parameterCounts: parameterCountText(plan),
    batch: plan.batch,
    pairs: new Map(
      plan.comparison.pairs.flatMap((pair) =>
        [pair.a, pair.b, pair.difference].map((key) => [key, pair] as const),
      ),
    ),
  };
}

/** The value that a layer's picture is drawn as: the output's for the layer that makes it, an image as there. */
export const displayedValue = ({ outputs }: Pick<Network, "outputs">, value: Value): Value =>
  outputs.find(({ texture }) => texture === value.texture) ?? value;

/** Layers that compute nothing (Identity, Flatten, Dropout) by the key of the value that they pass on. */
function aliasesOf(
  layers: readonly Layer[],
  values: ReadonlyMap<string, Value>,
): Map<string, string> {
  const aliases = new Map<string, string>();
  for (const { name, inputs } of layers) {
    const texture = values.get(name)?.texture;
    const source = inputs.find((key) => values.get(key)?.texture === texture);
    if (source !== undefined) aliases.set(name, aliases.get(source) ?? source);
  }
  return aliases;
}

/** Modules that give back just this value, so that what is computed of it stands behind them. */
type ReturningModules = (key: string) => readonly string[];

function returningModules(values: readonly Value[]): ReturningModules {
  const textures = new Map(values.map((value) => [value.key, value.texture]));
  const returned = new Map<number, string[]>();
  for (const { kind, key, texture } of values) {
    if (kind !== "module") continue;
    returned.set(texture, [...(returned.get(texture) ?? []), key.replace(/:\d+$/, "")]);
  }
  return (key) => returned.get(textures.get(key) ?? -1) ?? [];
}

/** Chains of layers in call order; a chain ends where somebody else reads it too, so no skip is hidden. */
export function stagesOf(
  layers: readonly Layer[],
  inputs: ReadonlySet<string>,
  aliases: ReadonlyMap<string, string> = new Map(),
  returns: ReturningModules = () => [],
): Stage[] {
  // Who reads behind an alias reads what the alias passes on, and is said to.
  const root = (key: string): string => aliases.get(key) ?? key;
  const readers = new Map<string, number>();
  for (const layer of layers) {
    if (aliases.has(layer.name)) continue;
    for (const key of new Set(layer.inputs.map(root))) {
      readers.set(key, (readers.get(key) ?? 0) + 1);
    }
  }
  const chains: Layer[][] = [];
  for (const layer of layers) {
    const chain = chains.at(-1);
    const before = chain?.at(-1);
    // What Python computes stands by itself, with its mark.
    const continues =
      before !== undefined &&
      !before.python &&
      (readers.get(root(before.name)) ?? 0) <= 1 &&
      layer.inputs.length > 0 &&
      layer.inputs.every((key) => root(key) === root(before.name));
    const leading = chain?.every(isLeader) ?? false;
    // A sum or concatenation at a module's end stays in it, whatever comes behind the module.
    const made = chain?.findLast(({ role }) => role !== "alias");
    const ends =
      made?.role === "merges" &&
      made.module === "" &&
      layer.role !== "alias" &&
      returns(made.name).some((module) => relativeName(layer.name, module) === layer.name);
    if (continues && !ends && (isFollower(layer) || leading)) chain?.push(layer);
    else chains.push([layer]);
  }
  return buildStages(chains, inputs, root, returns);
}

function buildStages(
  chains: readonly (readonly Layer[])[],
  inputs: ReadonlySet<string>,
  root: (key: string) => string,
  returns: ReturningModules,
): Stage[] {
  const titles = new Map<string, string>();
  const stages: Stage[] = [];
  let modules: readonly string[] = [];
  for (const layers of chains) {
    const last = layers.at(-1);
    if (last === undefined) continue;
    // An addition and its activation are called by the activation's module.
    const named = layers.filter((layer) => layer.module !== "");
    const title = chainTitle((named.length > 0 ? named : layers).map(labelOf));
    const sources = [...new Set(layers[0]?.inputs.map(root))];
    const before = stages.at(-1);
    const plain = before
      ? sources.length === 1 && sources[0] === root(before.key)
      : sources.every((key) => inputs.has(key)) && sources.length === inputs.size;
    // A functional operator (an addition) belongs to the module that is under way.
    const placed = ({ module, name }: Layer) =>
      module !== "" || name.includes("/") || name.includes(CALL_SEPARATOR);
    modules = layers.some(placed)
      ? enclosingModules(layers)
      : modules.slice(
          0,
          1 + modules.findLastIndex((module) => !before || !returns(before.key).includes(module)),
        );
    stages.push({
      layers,
      key: last.name,
      title,
      modules,
      group: modules.at(Math.min(modules.length, 2) - 1) ?? "",
      readTitles: plain ? [] : sources.map((key) => titles.get(key) ?? key),
    });
    titles.set(root(last.name), title);
  }
  return stages;
}

/** "Conv", "BN", "ReLU": what a caption calls a layer. */
export const shortType = (layer: Layer): string => layer.short_name;

/** The whole class name, for titles: "Conv2d", "LSTM (in Python)"; the operator where it is of none: "ReLU". */
export const longType = ({ type, python }: Layer): string =>
  `${type}${python ? " (in Python)" : ""}`;

/** A length for each axis, or one for all that are alike: "2", "1×2". */
const formatLengths = (lengths: readonly number[]): string =>
  new Set(lengths).size === 1 ? String(lengths[0]) : lengths.join("×");

/** Explanations of layers that make channels of channels. */
const CHANNEL_MIXING: ReadonlySet<Layer["explanation"]> = new Set([
  "convolution",
  "transposed convolution",
  "matrix",
]);

/** "16→32": how many features a layer with weights makes of how many; "" for the rest. */
function channelWidths({
  explanation,
  parameters,
  input_shapes: [input = []],
  ...layer
}: Layer): string {
  const { output_shape: output, position_axes } = layer;
  if (!CHANNEL_MIXING.has(explanation) || parameters === 0 || input.length !== output.length)
    return "";
  // Channels lie along the axis that neither tells examples nor places apart.
  const axis = output.findLastIndex((_, i) => i > 0 && !position_axes.includes(i));
  return axis < 0 ? "" : `${input[axis]}→${output[axis]}`;
}

/** The layer that makes a value, under whatever other key that is kept. */
export const layerOf = ({ layers, values }: Network, { texture }: Value): Layer | undefined =>
  layers.findLast(({ name }) => values.get(name)?.texture === texture);

/** "4×4, 16→32, stride 2": what a layer looks at and makes of it; "" for one without window and weights. */
export function layerSettings(layer: Layer): string {
  const { kernel, strides, dilations } = layer.window;
  const { group } = layer.attributes;
  return [
    kernel.join("×"),
    channelWidths(layer),
    strides.some((step) => step !== 1) ? `stride ${formatLengths(strides)}` : "",
    dilations.some((step) => step !== 1) ? `dilation ${formatLengths(dilations)}` : "",
    typeof group === "number" && group > 1 ? `groups ${group}` : "",
  ]
    .filter((part) => part !== "")
    .join(", ");
}

/** "Conv 3×3, 16→16", "ReLU": what a caption says of a layer beside its name. */
export const layerCaption = (layer: Layer): string =>
  `${shortType(layer)} ${layerSettings(layer)}`.trim();

/** What is looked at before anything is selected: the first stage with several channels. */
export function defaultValue({ stages, values }: Network): Value | undefined {
  const first = stages.find((stage) => values.get(stage.key)?.nchw[1] !== 1) ?? stages[0];
  return values.get(first?.key ?? "");
}

/** How many of a Plan's layers have these names, those of two networks apart: "17", "17 + 17". */
export function formatLayerCount(plan: PlanHeader, names: readonly string[]): string {
  if (plan.comparison.pairs.length === 0) return formatInteger(names.length);
  const first = names.filter((name) => name.startsWith("A.")).length;
  return `${formatInteger(first)} + ${formatInteger(names.length - first)}`;
}

function parameterCountText({ layers, comparison }: PlanHeader): string {
  const sum = (those: readonly Layer[]) =>
    those.reduce((all, { parameters, shared }) => all + parameters - shared, 0);
  if (comparison.pairs.length === 0) {
    const all = sum(layers);
    return `${formatInteger(all)} ${all === 1 ? "parameter" : "parameters"}`;
  }
  const first = layers.filter(({ name }) => name.startsWith("A."));
  const second = layers.filter(({ name }) => !name.startsWith("A."));
  // Of one model beside itself the second network has none of its own.
  const own = sum(second);
  return `${formatInteger(sum(first))}${own > 0 ? ` + ${formatInteger(own)}` : ""} parameters`;
}

/** "17 layers", "17 + 17 layers". */
export function layerCountText(plan: PlanHeader): string {
  const names = plan.layers.map(({ name }) => name);
  return `${formatLayerCount(plan, names)} ${names.length === 1 ? "layer" : "layers"}`;
}

/** "Conv 3×3, 16→16, stride 1, padding 1": a layer in a few words with all that shapes what it does; `name` for its type. */
export function layerText(
  layer: Layer,
  name = /\w/.test(layer.short_name) ? layer.short_name : longType(layer),
): string {
  const { explanation, window, attributes, input_shapes: shapes, output_shape: output } = layer;
  const { strides, pads_begin, pads_end } = window;
  const own = layerSettings(layer).split(", ");
  const at = own.findIndex((part) => part.includes("→"));
  const border = attributes.padding_mode ?? attributes.mode;
  const sampled = explanation === "resampling";
  if (strides.length > 0 && strides.every((step) => step === 1) && own[0] !== "") {
    own.splice(Math.max(at, 0) + 1, 0, "stride 1");
  }
  const more = [
    pads_begin.some((size) => size !== 0) || pads_end.some((size) => size !== 0)
      ? `padding ${pads_begin.join() === pads_end.join() ? formatLengths(pads_begin) : `${pads_begin} and ${pads_end}`}`
      : "",
    typeof border === "string" && (pads_begin.length > 0 || sampled) ? border : "",
    sampled ? [shapes[0] ?? [], output].map((shape) => shape.slice(2).join("×")).join("→") : "",
  ];
  const words = [...own, ...more].filter((part) => part !== "").join(", ");
  return words === "" ? name : `${name} ${words}`;
}
