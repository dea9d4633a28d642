// The network's structure, from a Plan's layer table: stages (chains of layers) and the inputs of each.

import { formatInteger } from "../number_format.ts";
import type { Layer, LayerPair, PlanHeader, Value } from "../plan/schema.ts";
import {
  CALL_SEPARATOR,
  chainTitle,
  enclosingModules,
  labelOf,
  relativeName,
} from "./layer_names.ts";

/** Layers shown as one picture, that of the last layer: Conv, BN and ReLU, for example. */
export interface Stage {
  readonly layers: readonly Layer[];
  /** Key of the displayed value: the last layer's. */
  readonly valueKey: string;
  /** "encoder.0–2". */
  readonly title: string;
  /** The enclosing modules, outermost first: "layer1", "layer1.0"; empty for the model itself. */
  readonly modules: readonly string[];
  /** The enclosing module at depth two, or the deepest one above; "" for the model itself. */
  readonly groupModule: string;
  /** Titles of the stages and inputs that it reads; empty if it reads only the stage before it. */
  readonly inputTitles: readonly string[];
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
  /** As text, separate for the two networks of a comparison: "1,234", "1,234 + 1,234". */
  readonly parametersText: string;
  /** Number of examples in the batch. */
  readonly batchSize: number;
  /** The pairs of a comparison, by each of their keys. */
  readonly comparisonPairs: ReadonlyMap<string, LayerPair>;
}

const canJoinStage = ({ role }: Layer): boolean => role === "follows" || role === "alias";
const canLeadStage = ({ role }: Layer): boolean => role === "leads" || role === "alias";

/** Index a Plan's tables; called once per Plan. */
export function indexNetwork(plan: PlanHeader): Network {
  const read = new Set(plan.layers.flatMap((layer) => layer.inputs));
  // An ONNX output that a layer also reads is displayed as a layer, not as a colour image.
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
    stages: groupIntoStages(
      layers,
      new Set(inputs.map((value) => value.key)),
      findAliases(layers, values),
      createReturningModuleLookup(plan.values),
    ),
    layers,
    parametersText: parameterCountText(plan),
    batchSize: plan.batch,
    comparisonPairs: new Map(
      plan.comparison.pairs.flatMap((pair) =>
        [pair.a, pair.b, pair.difference].map((key) => [key, pair] as const),
      ),
    ),
  };
}

/** The value that is displayed for a layer: the output if the layer computes it, so that an image is shown as one. */
export const displayedValue = ({ outputs }: Pick<Network, "outputs">, value: Value): Value =>
  outputs.find(({ texture }) => texture === value.texture) ?? value;

/** Layers that compute nothing (Identity, Flatten, Dropout), with the key of the value that they pass on. */
function findAliases(
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

/** The modules that return exactly this value: layers that read the value come after these modules. */
type ReturningModuleLookup = (key: string) => readonly string[];

function createReturningModuleLookup(values: readonly Value[]): ReturningModuleLookup {
  const textures = new Map(values.map((value) => [value.key, value.texture]));
  const returned = new Map<number, string[]>();
  for (const { kind, key, texture } of values) {
    if (kind !== "module") continue;
    returned.set(texture, [...(returned.get(texture) ?? []), key.replace(/:\d+$/, "")]);
  }
  return (key) => returned.get(textures.get(key) ?? -1) ?? [];
}

/**
 * Group layers into chains, in call order. A chain ends at a value with several consumers, so that no skip connection
 * is hidden.
 */
export function groupIntoStages(
  layers: readonly Layer[],
  inputs: ReadonlySet<string>,
  aliases: ReadonlyMap<string, string> = new Map(),
  findReturningModules: ReturningModuleLookup = () => [],
): Stage[] {
  // A layer that reads an alias counts as a consumer of the aliased value.
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
    // A layer computed in Python is its own stage, with a mark.
    const continues =
      before !== undefined &&
      !before.python &&
      (readers.get(root(before.name)) ?? 0) <= 1 &&
      layer.inputs.length > 0 &&
      layer.inputs.every((key) => root(key) === root(before.name));
    const leading = chain?.every(canLeadStage) ?? false;
    // A sum or concatenation at a module's end stays in that module: the chain ends if the next layer is outside of it.
    const lastComputed = chain?.findLast(({ role }) => role !== "alias");
    const ends =
      lastComputed?.role === "merges" &&
      lastComputed.module === "" &&
      layer.role !== "alias" &&
      findReturningModules(lastComputed.name).some(
        (module) => relativeName(layer.name, module) === layer.name,
      );
    if (continues && !ends && (canJoinStage(layer) || leading)) chain?.push(layer);
    else chains.push([layer]);
  }
  return buildStages(chains, inputs, root, findReturningModules);
}

function buildStages(
  chains: readonly (readonly Layer[])[],
  inputs: ReadonlySet<string>,
  resolveAlias: (key: string) => string,
  findReturningModules: ReturningModuleLookup,
): Stage[] {
  const titles = new Map<string, string>();
  const stages: Stage[] = [];
  let modules: readonly string[] = [];
  for (const layers of chains) {
    const last = layers.at(-1);
    if (last === undefined) continue;
    // Name the stage of an addition and its activation after the activation's module.
    const named = layers.filter((layer) => layer.module !== "");
    const title = chainTitle((named.length > 0 ? named : layers).map(labelOf));
    const sources = [...new Set(layers[0]?.inputs.map(resolveAlias))];
    const before = stages.at(-1);
    const plain = before
      ? sources.length === 1 && sources[0] === resolveAlias(before.valueKey)
      : sources.every((key) => inputs.has(key)) && sources.length === inputs.size;
    // A functional operator (an addition) belongs to the module of the stage before it.
    const placed = ({ module, name }: Layer) =>
      module !== "" || name.includes("/") || name.includes(CALL_SEPARATOR);
    modules = layers.some(placed)
      ? enclosingModules(layers)
      : modules.slice(
          0,
          1 +
            modules.findLastIndex(
              (module) => !before || !findReturningModules(before.valueKey).includes(module),
            ),
        );
    stages.push({
      layers,
      valueKey: last.name,
      title,
      modules,
      groupModule: modules.at(Math.min(modules.length, 2) - 1) ?? "",
      inputTitles: plain ? [] : sources.map((key) => titles.get(key) ?? key),
    });
    titles.set(resolveAlias(last.name), title);
  }
  return stages;
}

/** "Conv", "BN", "ReLU": a layer's type in captions. */
export const shortType = (layer: Layer): string => layer.short_name;

/** The full class name, for titles: "Conv2d", "LSTM (in Python)"; the operator if there is no class: "ReLU". */
export const longType = ({ type, python }: Layer): string =>
  `${type}${python ? " (in Python)" : ""}`;

/** One length per axis, or a single one if all are equal: "2", "1×2". */
const formatLengths = (lengths: readonly number[]): string =>
  new Set(lengths).size === 1 ? String(lengths[0]) : lengths.join("×");

/** Explanations of layers that mix channels. */
const CHANNEL_MIXING_KINDS: ReadonlySet<Layer["explanation"]> = new Set([
  "convolution",
  "transposed convolution",
  "matrix",
]);

/** "16→32": the input and output features of a layer with weights; "" for other layers. */
function channelChangeText({
  explanation,
  parameters,
  input_shapes: [input = []],
  ...layer
}: Layer): string {
  const { output_shape: output, position_axes } = layer;
  if (!CHANNEL_MIXING_KINDS.has(explanation) || parameters === 0 || input.length !== output.length)
    return "";
  // The channel axis is neither the batch axis nor a position axis.
  const axis = output.findLastIndex((_, i) => i > 0 && !position_axes.includes(i));
  return axis < 0 ? "" : `${input[axis]}→${output[axis]}`;
}

/** The layer that computes a value, even if the value has another key. */
export const layerOf = ({ layers, values }: Network, { texture }: Value): Layer | undefined =>
  layers.findLast(({ name }) => values.get(name)?.texture === texture);

/** "4×4, 16→32, stride 2": a layer's window and features; "" for a layer with neither window nor weights. */
export function layerSettingsText(layer: Layer): string {
  const { kernel, strides, dilations } = layer.window;
  const { group } = layer.attributes;
  return [
    kernel.join("×"),
    channelChangeText(layer),
    strides.some((step) => step !== 1) ? `stride ${formatLengths(strides)}` : "",
    dilations.some((step) => step !== 1) ? `dilation ${formatLengths(dilations)}` : "",
    typeof group === "number" && group > 1 ? `groups ${group}` : "",
  ]
    .filter((part) => part !== "")
    .join(", ");
}

/** "Conv 3×3, 16→16", "ReLU": a layer's description in a caption, beside its name. */
export const layerCaption = (layer: Layer): string =>
  `${shortType(layer)} ${layerSettingsText(layer)}`.trim();

/** The initially selected value: that of the first stage with several channels. */
export function initiallySelectedValue({ stages, values }: Network): Value | undefined {
  const first = stages.find((stage) => values.get(stage.valueKey)?.nchw[1] !== 1) ?? stages[0];
  return values.get(first?.valueKey ?? "");
}

/** The number of these layers in a Plan, separate for the two networks of a comparison: "17", "17 + 17". */
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
  // If a model is compared with itself, the second network has no parameters of its own.
  const own = sum(second);
  return `${formatInteger(sum(first))}${own > 0 ? ` + ${formatInteger(own)}` : ""} parameters`;
}

/** "17 layers", "17 + 17 layers". */
export function layerCountText(plan: PlanHeader): string {
  const names = plan.layers.map(({ name }) => name);
  return `${formatLayerCount(plan, names)} ${names.length === 1 ? "layer" : "layers"}`;
}

/**
 * "Conv 3×3, 16→16, stride 1, padding 1": a short description of a layer with all its settings. `typeName`: its type.
 */
export function layerText(
  layer: Layer,
  typeName = /\w/.test(layer.short_name) ? layer.short_name : longType(layer),
): string {
  const { explanation, window, attributes, input_shapes: shapes, output_shape: output } = layer;
  const { strides, pads_begin, pads_end } = window;
  const own = layerSettingsText(layer).split(", ");
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
  return words === "" ? typeName : `${typeName} ${words}`;
}
