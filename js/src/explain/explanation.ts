// Explanation of one number of a layer: its chain, with the values of one run.
import type { Layer, Operand } from "../plan/schema.ts";
import {
  batchNormalization,
  type ComputationChain,
  type ElementwiseStep,
  groupNormalization,
  type Normalization,
  normalize,
  operandValueAt,
  pointwiseFormula,
  type UnsupportedReason,
  unsupportedShapeReason,
} from "./computation_chain.ts";
import {
  concatenatedElement,
  gatheredElement,
  type Interpolation,
  interpolate,
  type PaddedElement,
  paddedElement,
} from "./data_movement.ts";
import { type Formula, parseFormula } from "./formula.ts";
import { type ResponseNormTerms, responseNormTerms } from "./local_response_norm.ts";
import {
  broadcastIndex,
  type ElementRef,
  type OperandElement,
  operandElement,
  operandElements,
  operandTensor,
  sourceIndex,
} from "./operand_elements.ts";
import { type PoolWindow, poolWindow } from "./pool.ts";
import {
  type ConvolutionProducts,
  convolutionProducts,
  type DenseProducts,
  denseProducts,
} from "./products.ts";
import { type SoftmaxTerms, softmaxTerms } from "./softmax.ts";
import { coordinates, element, type Tensors } from "./tensor.ts";

/** An added bias and its parameter's name. */
export interface Bias {
  readonly key: string;
  readonly value: number;
}

/** The root's computation, by kind. */
export type Computation =
  | {
      readonly kind: "convolution";
      readonly products: ConvolutionProducts;
      readonly bias: Bias | null;
    }
  | { readonly kind: "dense"; readonly products: DenseProducts; readonly bias: Bias | null }
  | { readonly kind: "pool"; readonly pooled: PoolWindow }
  | { readonly kind: "softmax"; readonly softmax: SoftmaxTerms }
  | { readonly kind: "response"; readonly response: ResponseNormTerms }
  | { readonly kind: "addition"; readonly terms: readonly OperandElement[] }
  | {
      readonly kind: "elementwise";
      readonly terms: readonly OperandElement[];
      readonly formula: Formula;
    }
  /** `indexElement`: the element of the index operand that selects the copied element. */
  | {
      readonly kind: "copied";
      readonly copied: OperandElement;
      readonly indexElement: OperandElement | null;
    }
  | { readonly kind: "mixed"; readonly mixed: Interpolation }
  | { readonly kind: "padded"; readonly padded: PaddedElement }
  | { readonly kind: "given" };

/** A step with its input and output number. */
export interface AppliedStep {
  readonly step: ElementwiseStep;
  readonly before: number;
  readonly after: number;
  readonly normalization: Normalization | null;
  /** Set for a function of one number. */
  readonly formula: Formula | null;
}

export interface Explanation {
  readonly computation: Computation;
  /** The index of the element in the root's output. */
  readonly rootElementIndex: number;
  /** The stored element behind element `index` of the root's operand at `position`. */
  readonly operandElementRef: (position: number, index: number) => ElementRef;
  /** The root's output, before the first step. */
  readonly rootValue: number;
  readonly steps: readonly AppliedStep[];
  /** The output of the last step, in double precision. */
  readonly computedValue: number;
  /** The GPU's value of the same number. */
  readonly gpuValue: number;
}

/** Explain element `index`, in row-major order, of a chain's last layer. */
export function explain(
  chain: ComputationChain,
  lastKey: string,
  tensors: Tensors,
  index: number,
): Explanation | UnsupportedReason {
  const { root } = chain;
  const rootElementIndex = root === null ? index : sourceIndex(root.index_maps, index);
  const computation =
    root === null ? ({ kind: "given" } as const) : explainRoot(root, tensors, rootElementIndex);
  if (computation === null)
    return root ? unsupportedShapeReason(root) : { title: lastKey, text: "" };
  const isInteger = chain.requiredValues.some(
    ({ key, dtype }) => key === lastKey && dtype.includes("int"),
  );
  const rootValue = computeRootValue(
    computation,
    element(tensors.get(chain.source.key)?.data ?? [], index),
    isInteger,
  );
  const steps: AppliedStep[] = [];
  let now = rootValue;
  for (const step of chain.steps) {
    const before = now;
    let by: Normalization | null = null;
    const { layer } = step;
    const channel = coordinates(layer.output_shape, index)[1] ?? 0;
    const formula = step.kind === "pointwise" ? pointwiseFormula(layer, tensors, index) : null;
    if (formula !== null) now = formula.evaluate(before);
    if (step.kind === "normalization") by = batchNormalization(layer, tensors, channel);
    if (step.kind === "standardization") by = groupNormalization(layer, tensors, index);
    if (by !== null) now = normalize(before, by);
    steps.push({ step, before, after: now, normalization: by, formula });
  }
  const gpuValue = element(tensors.get(lastKey)?.data ?? [], index);
  const operandElementRef = (position: number, one: number): ElementRef => {
    const { key, index_maps } = root?.operands[position] ?? { key: "", index_maps: [] };
    return { key, index: sourceIndex(index_maps, one) };
  };
  return {
    computation,
    rootElementIndex,
    operandElementRef,
    rootValue,
    steps,
    computedValue: now,
    gpuValue,
  };
}

/** `isInteger`: for integers; quotients are truncated. */
function computeRootValue(
  computation: Computation,
  inputValue: number,
  isInteger: boolean,
): number {
  switch (computation.kind) {
    case "convolution":
    case "dense":
      return computation.products.sum + (computation.bias?.value ?? 0);
    case "pool":
      return computation.pooled.value;
    case "softmax":
      return computation.softmax.value;
    case "response":
      return computation.response.value;
    case "addition":
      return computation.terms.reduce((sum, { value }) => sum + value, 0);
    case "elementwise":
      return isInteger
        ? Math.trunc(computation.formula.evaluate(0))
        : computation.formula.evaluate(0);
    case "copied":
      return computation.copied.value;
    case "mixed":
      return computation.mixed.value;
    case "padded":
      return computation.padded.value;
    case "given":
      return inputValue;
  }
}

function explainRoot(root: Layer, tensors: Tensors, index: number): Computation | null {
  const { operands } = root;
  switch (root.explanation) {
    case "concatenation": {
      const copied = concatenatedElement(root, tensors, index);
      return copied && { kind: "copied", copied, indexElement: null };
    }
    case "chosen": {
      const terms = gatheredElement(root, tensors, index);
      return terms && { kind: "copied", ...terms };
    }
    case "moved": {
      const copied = operands[0] ? operandElement(operands[0], tensors, index) : null;
      return copied && { kind: "copied", copied, indexElement: null };
    }
    case "sum": {
      const terms = operandElements(root, tensors, index);
      return terms && { kind: "addition", terms };
    }
    case "elementwise": {
      const terms = operandElements(root, tensors, index);
      const names = terms?.map(({ value }, k) => [operandLetter(k), value] as const);
      const formula = names && parseFormula(root.formula, {}, Object.fromEntries(names));
      return terms && formula ? { kind: "elementwise", terms, formula } : null;
    }
  }
  const [x, weight] = [operandTensor(operands[0], tensors), operandTensor(operands[1], tensors)];
  if (x === null) return null;
  switch (root.explanation) {
    case "convolution":
    case "transposed convolution": {
      const products = weight && convolutionProducts(root, x, weight, index);
      return products && { kind: "convolution", products, bias: biasOf(root, tensors, index) };
    }
    case "matrix": {
      const products = weight && denseProducts(root, x, weight, index);
      return products && { kind: "dense", products, bias: biasOf(root, tensors, index) };
    }
    case "softmax":
    case "log softmax": {
      const share = softmaxTerms(root, x, index);
      return share && { kind: "softmax", softmax: share };
    }
    case "response":
      return { kind: "response", response: responseNormTerms(root, x, index) };
    case "resampling": {
      const mixed = interpolate(root, x, index);
      return mixed && { kind: "mixed", mixed };
    }
    case "padding": {
      const margin = root.operands[2];
      const found = paddedElement(
        root,
        x,
        margin === undefined ? 0 : operandValueAt(tensors, margin, 0),
        index,
      );
      return found && { kind: "padded", padded: found };
    }
    default: {
      const pooled = poolWindow(root, x, index);
      return pooled && { kind: "pool", pooled };
    }
  }
}

/** An operand's name in a formula: a, b, c and so on. */
export const operandLetter = (position: number): string => String.fromCharCode(97 + position);

/** The third operand's element for this output. */
function biasOf(root: Layer, tensors: Tensors, index: number): Bias | null {
  const operand: Operand | undefined = root.operands[2];
  if (operand === undefined || operand.kind === "omitted") return null;
  const { beta } = root.attributes;
  const factor = typeof beta === "number" ? beta : 1;
  if (operand.kind === "number") return { key: "", value: factor * operand.number };
  const bias = operandTensor(operand, tensors);
  if (bias === null) return null;
  const at = coordinates(root.output_shape, index);
  const own =
    root.explanation === "matrix"
      ? element(bias.data, broadcastIndex(bias.shape, at))
      : element(bias.data, at[1] ?? 0);
  return { key: operand.key, value: factor * own };
}
