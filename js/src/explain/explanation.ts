// One number of a layer, explained: its chain with the numbers of one run in it.
import type { Layer, Operand } from "../plan/schema.ts";
import {
  type Chain,
  type Normalization,
  normalization,
  normalized,
  numberOf,
  pointwise,
  type Step,
  standardization,
  type Unexplained,
  unusual,
} from "./chain.ts";
import { type Formula, formulaOf } from "./formula.ts";
import { chosen, concatenated, type Mixed, type Padded, padded, resized } from "./moved.ts";
import { type Pooled, pool } from "./pool.ts";
import { convolution, dense, type Paired, type Sliding } from "./products.ts";
import { type From, movedTo, readOf, spreadAt, type Term, termOf, termsOf } from "./read.ts";
import { type Response, response } from "./response.ts";
import { type Share, softmax } from "./softmax.ts";
import { coordinates, element, type Tensors } from "./tensor.ts";

/** A number that is added, and its name. */
export interface Bias {
  readonly key: string;
  readonly value: number;
}

/** What the root does, by its kind. */
export type Made =
  | { readonly kind: "convolution"; readonly products: Sliding; readonly bias: Bias | null }
  | { readonly kind: "dense"; readonly products: Paired; readonly bias: Bias | null }
  | { readonly kind: "pool"; readonly pooled: Pooled }
  | { readonly kind: "softmax"; readonly share: Share }
  | { readonly kind: "response"; readonly response: Response }
  | { readonly kind: "addition"; readonly terms: readonly Term[] }
  | { readonly kind: "elementwise"; readonly terms: readonly Term[]; readonly formula: Formula }
  /** `by`: the number that says which one it is. */
  | { readonly kind: "copied"; readonly copied: Term; readonly by: Term | null }
  | { readonly kind: "mixed"; readonly mixed: Mixed }
  | { readonly kind: "padded"; readonly padded: Padded }
  | { readonly kind: "given" };

/** A step with the number before it and the one after. */
export interface Taken {
  readonly step: Step;
  readonly before: number;
  readonly after: number;
  readonly by: Normalization | null;
  /** Of a function of one number. */
  readonly formula: Formula | null;
}

export interface Explanation {
  readonly made: Made;
  /** The element of what the root gives. */
  readonly at: number;
  /** Where an element of what the root reads comes from, by the operand's position. */
  readonly from: (position: number, index: number) => From;
  /** The number before the first step. */
  readonly start: number;
  readonly steps: readonly Taken[];
  /** The number after the last step, in double precision. */
  readonly total: number;
  /** The same number as the GPU has it. */
  readonly stored: number;
}

/** Explains the element `index`, in row-major order, of a chain's last layer. */
export function explain(
  chain: Chain,
  last: string,
  tensors: Tensors,
  index: number,
): Explanation | Unexplained {
  const { root } = chain;
  const at = root === null ? index : movedTo(root.moves, index);
  const made = root === null ? ({ kind: "given" } as const) : make(root, tensors, at);
  if (made === null) return root ? unusual(root) : { title: last, text: "" };
  const whole = chain.needed.some(({ key, dtype }) => key === last && dtype.includes("int"));
  const start = startOf(made, element(tensors.get(chain.source.key)?.data ?? [], index), whole);
  const steps: Taken[] = [];
  let now = start;
  for (const step of chain.steps) {
    const before = now;
    let by: Normalization | null = null;
    const { layer } = step;
    const channel = coordinates(layer.output_shape, index)[1] ?? 0;
    const formula = step.kind === "pointwise" ? pointwise(layer, tensors, index) : null;
    if (formula !== null) now = formula.of(before);
    if (step.kind === "normalization") by = normalization(layer, tensors, channel);
    if (step.kind === "standardization") by = standardization(layer, tensors, index);
    if (by !== null) now = normalized(before, by);
    steps.push({ step, before, after: now, by, formula });
  }
  const stored = element(tensors.get(last)?.data ?? [], index);
  const from = (position: number, one: number): From => {
    const { key, moves } = root?.operands[position] ?? { key: "", moves: [] };
    return { key, index: movedTo(moves, one) };
  };
  return { made, at, from, start, steps, total: now, stored };
}

/** `whole`: of integers, whose quotients are cut off. */
function startOf(made: Made, given: number, whole: boolean): number {
  switch (made.kind) {
    case "convolution":
    case "dense":
      return made.products.sum + (made.bias?.value ?? 0);
    case "pool":
      return made.pooled.value;
    case "softmax":
      return made.share.value;
    case "response":
      return made.response.value;
    case "addition":
      return made.terms.reduce((sum, { value }) => sum + value, 0);
    case "elementwise":
      return whole ? Math.trunc(made.formula.of(0)) : made.formula.of(0);
    case "copied":
      return made.copied.value;
    case "mixed":
      return made.mixed.value;
    case "padded":
      return made.padded.value;
    case "given":
      return given;
  }
}

function make(root: Layer, tensors: Tensors, index: number): Made | null {
  const { operands } = root;
  switch (root.explains) {
    case "concatenation": {
      const copied = concatenated(root, tensors, index);
      return copied && { kind: "copied", copied, by: null };
    }
    case "chosen": {
      const terms = chosen(root, tensors, index);
      return terms && { kind: "copied", ...terms };
    }
    case "moved": {
      const copied = operands[0] ? termOf(operands[0], tensors, index) : null;
      return copied && { kind: "copied", copied, by: null };
    }
    case "sum": {
      const terms = termsOf(root, tensors, index);
      return terms && { kind: "addition", terms };
    }
    case "elementwise": {
      const terms = termsOf(root, tensors, index);
      const names = terms?.map(({ value }, k) => [nameOf(k), value] as const);
      const formula = names && formulaOf(root.formula, {}, Object.fromEntries(names));
      return terms && formula ? { kind: "elementwise", terms, formula } : null;
    }
  }
  const [x, weight] = [readOf(operands[0], tensors), readOf(operands[1], tensors)];
  if (x === null) return null;
  switch (root.explains) {
    case "convolution":
    case "transposed convolution": {
      const products = weight && convolution(root, x, weight, index);
      return products && { kind: "convolution", products, bias: biasOf(root, tensors, index) };
    }
    case "matrix": {
      const products = weight && dense(root, x, weight, index);
      return products && { kind: "dense", products, bias: biasOf(root, tensors, index) };
    }
    case "softmax":
    case "log softmax": {
      const share = softmax(root, x, index);
      return share && { kind: "softmax", share };
    }
    case "response":
      return { kind: "response", response: response(root, x, index) };
    case "resampling": {
      const mixed = resized(root, x, index);
      return mixed && { kind: "mixed", mixed };
    }
    case "padding": {
      const margin = root.operands[2];
      const found = padded(root, x, margin === undefined ? 0 : numberOf(tensors, margin, 0), index);
      return found && { kind: "padded", padded: found };
    }
    default: {
      const pooled = pool(root, x, index);
      return pooled && { kind: "pool", pooled };
    }
  }
}

/** What a formula calls its operands: a, b, c and so on. */
export const nameOf = (position: number): string => String.fromCharCode(97 + position);

/** The third operand's number for this output. */
function biasOf(root: Layer, tensors: Tensors, index: number): Bias | null {
  const operand: Operand | undefined = root.operands[2];
  if (operand === undefined || operand.kind === "omitted") return null;
  const { beta } = root.attributes;
  const factor = typeof beta === "number" ? beta : 1;
  if (operand.kind === "number") return { key: "", value: factor * operand.number };
  const bias = readOf(operand, tensors);
  if (bias === null) return null;
  const at = coordinates(root.output_shape, index);
  const own =
    root.explains === "matrix"
      ? element(bias.data, spreadAt(bias.shape, at))
      : element(bias.data, at[1] ?? 0);
  return { key: operand.key, value: factor * own };
}
