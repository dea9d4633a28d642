// Functions of one number, as formulas to show and to draw; in double precision.
import type { Layer } from "../plan.ts";

export interface Activation {
  /** The formula with `x` for the number: "max(0, x)". */
  readonly formula: string;
  readonly of: (x: number) => number;
}

/** An attribute that is a number, else its default in ONNX. */
const number = (layer: Layer, name: string, initial: number): number => {
  const value = layer.attributes[name];
  return typeof value === "number" ? value : initial;
};

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const cut = (x: number, low: number, high: number): number => (x < low ? low : x > high ? high : x);
const word = (value: number): string => String(Number(value.toPrecision(4))).replace("-", "−");

/** The error function: its power series, and far out its continued fraction. */
export function erf(x: number): number {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 2.5) {
    let term = x;
    let sum = x;
    for (let n = 1; n < 60; n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = size;
  for (let n = 60; n > 0; n--) fraction = size + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-x * x) / (Math.sqrt(Math.PI) * fraction));
}

const gelu = (layer: Layer): Activation => {
  const near =
    layer.attributes.approximate === "tanh" || /approximate='tanh'/.test(layer.description);
  if (near) {
    const inner = (x: number): number => Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);
    return {
      formula: "x/2 · (1 + tanh(0.798 (x + 0.0447 x³)))",
      of: (x) => 0.5 * x * (1 + Math.tanh(inner(x))),
    };
  }
  return { formula: "x · Φ(x)", of: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)) };
};

const exponential = (alpha: number, gamma: number, within: number): Activation => ({
  formula: `x ≥ 0: ${gamma === 1 ? "" : `${word(gamma)} · `}x; x < 0: ${word(alpha * gamma)} (${within === 1 ? "eˣ" : `e^(x/${word(within)})`} − 1)`,
  of: (x) => gamma * (x < 0 ? alpha * Math.expm1(x / within) : x),
});

const MAKERS: Readonly<Record<string, (layer: Layer) => Activation>> = {
  Relu: () => ({ formula: "max(0, x)", of: (x) => (x < 0 ? 0 : x) }),
  LeakyRelu: (layer) => {
    const alpha = number(layer, "alpha", 0.01);
    return { formula: `x ≥ 0: x; x < 0: ${word(alpha)} · x`, of: (x) => (x < 0 ? x * alpha : x) };
  },
  ThresholdedRelu: (layer) => {
    const alpha = number(layer, "alpha", 1);
    return { formula: `x > ${word(alpha)}: x; else 0`, of: (x) => (x <= alpha ? 0 : x) };
  },
  Elu: (layer) => exponential(number(layer, "alpha", 1), 1, 1),
  Celu: (layer) => exponential(number(layer, "alpha", 1), 1, number(layer, "alpha", 1)),
  Selu: (layer) =>
    exponential(number(layer, "alpha", 1.67326319), number(layer, "gamma", 1.05070102), 1),
  Sigmoid: () => ({ formula: "1 / (1 + e⁻ˣ)", of: sigmoid }),
  Tanh: () => ({ formula: "tanh x", of: Math.tanh }),
  HardSigmoid: (layer) => {
    const [alpha, beta] = [number(layer, "alpha", 0.2), number(layer, "beta", 0.5)];
    return {
      formula: `${word(alpha)} · x + ${word(beta)}, cut off at 0 and 1`,
      of: (x) => cut(alpha * x + beta, 0, 1),
    };
  },
  HardSwish: () => ({
    formula: "x · (x/6 + 1/2, cut off at 0 and 1)",
    of: (x) => x * cut(x / 6 + 0.5, 0, 1),
  }),
  Swish: (layer) => {
    const alpha = number(layer, "alpha", 1);
    return {
      formula: `x · sigmoid(${alpha === 1 ? "" : `${word(alpha)} · `}x)`,
      of: (x) => x * sigmoid(alpha * x),
    };
  },
  Softplus: () => ({ formula: "log(1 + eˣ)", of: softplus }),
  Softsign: () => ({ formula: "x / (1 + |x|)", of: (x) => x / (1 + Math.abs(x)) }),
  Mish: () => ({ formula: "x · tanh(log(1 + eˣ))", of: (x) => x * Math.tanh(softplus(x)) }),
  Gelu: gelu,
  Clip: clip,
};

/** Clip's bounds are operands; a bound that is no plain number isn't known here. */
function clip(layer: Layer): Activation {
  const bound = (position: number, open: number): number => {
    const operand = layer.operands[position];
    if (operand === undefined || operand.kind === "omitted") return open;
    return operand.kind === "number" ? operand.number : Number.NaN;
  };
  const [low, high] = [bound(1, -Infinity), bound(2, Infinity)];
  return { formula: `x, cut off at ${word(low)} and ${word(high)}`, of: (x) => cut(x, low, high) };
}

/** A setting in a module's description: "alpha=0.5". */
const setting = (layer: Layer, name: string, initial: number): number => {
  const found = new RegExp(`\\b${name}=(-?[\\d.]+(?:e[-+]?\\d+)?)`).exec(layer.description)?.[1];
  return found === undefined ? initial : Number(found);
};

/** PyTorch's modules that exporters write as several operators, from their settings. */
const BY_MODULE: Readonly<Record<string, (layer: Layer) => Activation>> = {
  ELU: (layer) => exponential(setting(layer, "alpha", 1), 1, 1),
  Softplus: (layer) => {
    const [beta, threshold] = [setting(layer, "beta", 1), setting(layer, "threshold", 20)];
    return {
      formula: beta === 1 ? "log(1 + eˣ)" : `log(1 + e^(${word(beta)} x)) / ${word(beta)}`,
      of: (x) => (x * beta > threshold ? x : softplus(x * beta) / beta),
    };
  },
  LogSigmoid: () => ({ formula: "−log(1 + e⁻ˣ)", of: (x) => -softplus(-x) }),
  Softsign: () => ({ formula: "x / (1 + |x|)", of: (x) => x / (1 + Math.abs(x)) }),
  Tanhshrink: () => ({ formula: "x − tanh x", of: (x) => x - Math.tanh(x) }),
};

/** PReLU with the slope of one channel. */
export const slope = (alpha: number): Activation => ({
  formula: `x ≥ 0: x; x < 0: ${word(alpha)} · x`,
  of: (x) => (x < 0 ? x * alpha : x),
});

// Modules that exporters write as several operators.
const MODULES = new Map([
  ["SiLU", "Swish"],
  ["GELU", "Gelu"],
  ["Mish", "Mish"],
  ["Hardswish", "HardSwish"],
]);

/** The function that a layer applies to each of its numbers; null when it isn't such a layer. */
export function activationOf(layer: Layer): Activation | null {
  if (layer.operators.length > 1 && Object.hasOwn(BY_MODULE, layer.module)) {
    return BY_MODULE[layer.module]?.(layer) ?? null;
  }
  const single = layer.operators.length === 1 ? layer.operator : MODULES.get(layer.module);
  const make = single === undefined ? undefined : MAKERS[single];
  if (make === undefined || !Object.hasOwn(MAKERS, single ?? "")) return null;
  const known = layer.operands
    .slice(1)
    .every(({ kind }) => kind === "number" || kind === "omitted");
  return single === "Clip" && !known ? null : make(layer);
}
