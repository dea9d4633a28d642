// Which pixels of one value another value's pixel can depend on: receptive and projective fields.
import type { Layer, PlanHeader } from "../plan.ts";

/** First and last row or column, both inside. */
export type Span = readonly [number, number];
/** A span per spatial axis; empty for a value without any. */
export type Field = readonly Span[];

// What gives each place out of the same place of its inputs.
const LOCAL = new Set(
  (
    "BatchNormalization LRN Relu LeakyRelu PRelu Elu Selu Celu Gelu HardSwish HardSigmoid Sigmoid Tanh Softplus " +
    "Softsign Mish Swish ThresholdedRelu Clip Dropout Identity Cast Add Sub Mul Div Pow Max Min Sum Mean Concat " +
    "Split Where Abs Neg Exp Log Sqrt Erf Reciprocal Sign Floor Ceil Round Sin Cos Tan Not And Or Xor Equal Greater " +
    "Less GreaterOrEqual LessOrEqual"
  ).split(" "),
);
const WINDOWED = new Set(["Conv", "ConvTranspose", "AveragePool", "MaxPool", "LpPool"]);
const SCALED = new Set(["Resize", "Upsample", "DepthToSpace", "SpaceToDepth"]);

const spatial = (shape: readonly number[]): readonly number[] => shape.slice(2);
const wholeOf = (sizes: readonly number[]): Field => sizes.map((size): Span => [0, size - 1]);

/** What a span of an axis of a layer's output reads of the same axis of an input. */
function readBy(
  layer: Layer,
  axis: number,
  [low, high]: Span,
  input: number,
  output: number,
): Span {
  const whole: Span = [0, input - 1];
  const within = (from: number, to: number): Span => [
    Math.min(input - 1, Math.max(0, from)),
    Math.max(0, Math.min(input - 1, to)),
  ];
  const { operator, operators, window } = layer;
  if (input === 1) return whole;
  if (!operators.every((one) => one === operator || LOCAL.has(one))) return whole;
  if (WINDOWED.has(operator)) {
    const { kernel, strides, dilations, begins } = window;
    const [taps, stride, dilation, begin] = [kernel, strides, dilations, begins].map(
      (one) => one[axis],
    );
    if (
      taps === undefined ||
      stride === undefined ||
      dilation === undefined ||
      begin === undefined
    ) {
      return whole;
    }
    const reach = (taps - 1) * dilation;
    return operator === "ConvTranspose"
      ? within(Math.ceil((low + begin - reach) / stride), Math.floor((high + begin) / stride))
      : within(low * stride - begin, high * stride - begin + reach);
  }
  if (SCALED.has(operator)) {
    const ratio = input / output;
    const { mode } = layer.attributes;
    const around = { linear: 1, cubic: 2 }[String(mode)] ?? 0;
    if (around === 0) return within(Math.floor(low * ratio), Math.ceil((high + 1) * ratio) - 1);
    const at = (place: number): number => (place + 0.5) * ratio - 0.5;
    return within(Math.floor(at(low)) - around + 1, Math.floor(at(high)) + around);
  }
  // How much of it is before isn't in the table.
  if (operator === "Pad" && output >= input) return within(low - (output - input), high);
  return LOCAL.has(operator) && input === output ? within(low, high) : whole;
}

function fieldReadBy(layer: Layer, field: Field, shape: readonly number[]): Field {
  const [inputs, outputs] = [spatial(shape), spatial(layer.output_shape)];
  if (inputs.length !== outputs.length) return wholeOf(inputs);
  return inputs.map((size, axis) =>
    readBy(layer, axis, field[axis] ?? [0, 0], size, outputs[axis] ?? 1),
  );
}

/** The places of a layer's output that read any of a field of an input. */
function fieldReading(layer: Layer, field: Field, shape: readonly number[]): Field | null {
  const [inputs, outputs] = [spatial(shape), spatial(layer.output_shape)];
  if (inputs.length !== outputs.length) return wholeOf(outputs);
  const spans: Span[] = [];
  for (const [axis, size] of outputs.entries()) {
    const [low, high] = field[axis] ?? [0, 0];
    const reads = (place: number): boolean => {
      const [from, to] = readBy(layer, axis, [place, place], inputs[axis] ?? 1, size);
      return from <= high && to >= low && from <= to;
    };
    const places = Array.from({ length: size }, (_, place) => place).filter(reads);
    const [first, last] = [places[0], places.at(-1)];
    if (first === undefined || last === undefined) return null;
    spans.push([first, last]);
  }
  return spans;
}

const joined = (a: Field | undefined, b: Field): Field =>
  a === undefined
    ? b
    : b.map(([low, high], axis): Span => {
        const [l, h] = a[axis] ?? [low, high];
        return [Math.min(l, low), Math.max(h, high)];
      });

/** By the layer table alone: the smallest box around what can be read; the weights may leave parts of it out. */
export class Fields {
  private readonly layers: readonly Layer[];
  private readonly shapes: ReadonlyMap<string, readonly number[]>;

  constructor(plan: PlanHeader) {
    this.layers = plan.layers;
    this.shapes = new Map([
      ...plan.values.map((value) => [value.key, value.shape] as const),
      ...plan.layers.map((layer) => [layer.name, layer.output_shape] as const),
    ]);
  }

  /** What a field of a layer's output depends on, for every value before it. */
  receptive(name: string, field: Field): ReadonlyMap<string, Field> {
    const found = new Map<string, Field>([[name, field]]);
    for (const layer of this.layers.toReversed()) {
      const own = found.get(layer.name);
      if (own === undefined) continue;
      for (const key of layer.inputs) {
        found.set(key, joined(found.get(key), fieldReadBy(layer, own, this.shapes.get(key) ?? [])));
      }
    }
    return found;
  }

  /** What depends on a field of a layer's output, of every value after it. */
  projective(name: string, field: Field): ReadonlyMap<string, Field> {
    const found = new Map<string, Field>([[name, field]]);
    for (const layer of this.layers) {
      for (const key of layer.inputs) {
        const read = found.get(key);
        if (read === undefined || layer.name === name) continue;
        const reading = fieldReading(layer, read, this.shapes.get(key) ?? []);
        if (reading !== null) found.set(layer.name, joined(found.get(layer.name), reading));
      }
    }
    return found;
  }
}
