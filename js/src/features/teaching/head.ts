// The head: multinomial logistic regression. Its optimum is unique, so features/teaching/head.py in Python finds the
// same one.
import {
  GRADIENT_TOLERANCE,
  HELD_OUT_EVERY,
  MAX_ITERATIONS,
  MIN_VARIANCE,
  WEIGHT_PENALTY,
} from "./records.ts";

/** A linear layer: `weight` (classes, features), row-major, and `bias`. */
export interface LinearHead {
  readonly weight: Float32Array<ArrayBuffer>;
  readonly bias: Float32Array<ArrayBuffer>;
}

/** Number of remembered L-BFGS steps. */
const LBFGS_HISTORY = 20;
/** Sufficient decrease (Armijo) factor of the line search. */
const ARMIJO_FACTOR = 1e-4;

/** Called often; a returned promise is awaited, which yields to the page. */
export type YieldIfDue = () => Promise<void> | undefined;

interface HeadFitData {
  /** Standardised features, (examples, features). */
  readonly standardizedFeatures: Float64Array;
  readonly labels: readonly number[];
  /** The weight of each example in the loss. */
  readonly exampleWeights: Float64Array;
  readonly classCount: number;
  readonly featureCount: number;
}

/** The probability of each class. */
export function probabilities({ weight, bias }: LinearHead, features: Float32Array): Float64Array {
  const count = features.length;
  const found = Float64Array.from(bias, (start, k) => {
    let sum = start;
    for (let f = 0; f < count; f++) sum += (weight[k * count + f] ?? 0) * (features[f] ?? 0);
    return sum;
  });
  softmax(found);
  return found;
}

/** The index of the largest number; the first of equal ones. */
export const argmax = (numbers: Float64Array): number =>
  numbers.reduce((most, number, k) => (number > (numbers[most] ?? 0) ? k : most), 0);

/** Mark the last fifth of each class as held out; none if any class has too few examples. */
export function heldOutMask(labels: readonly number[]): boolean[] {
  const found = labels.map(() => false);
  for (const label of new Set(labels)) {
    const own = labels.flatMap((one, k) => (one === label ? [k] : []));
    if (own.length < HELD_OUT_EVERY) return labels.map(() => false);
    for (const k of own.slice(own.length - Math.floor(own.length / HELD_OUT_EVERY)))
      found[k] = true;
  }
  return found;
}

/** Fit the head with the least loss for these examples; each class needs at least one. */
export async function fitHead(
  features: readonly Float32Array[],
  labels: readonly number[],
  classCount: number,
  yieldIfDue: YieldIfDue,
): Promise<LinearHead> {
  const count = features[0]?.length ?? 0;
  const exampleWeights = balancedExampleWeights(labels, classCount);
  const mean = new Float64Array(count);
  const scale = new Float64Array(count);
  for (const [n, x] of features.entries()) {
    const share = exampleWeights[n] ?? 0;
    for (let f = 0; f < count; f++) mean[f] = (mean[f] ?? 0) + share * (x[f] ?? 0);
  }
  for (const [n, x] of features.entries()) {
    const share = exampleWeights[n] ?? 0;
    for (let f = 0; f < count; f++)
      scale[f] = (scale[f] ?? 0) + share * ((x[f] ?? 0) - (mean[f] ?? 0)) ** 2;
  }
  const least = (MIN_VARIANCE * scale.reduce((sum, one) => sum + one, 0)) / count;
  for (let f = 0; f < count; f++)
    scale[f] = 1 / ((Math.sqrt((scale[f] ?? 0) + least) || 1) * Math.sqrt(count));
  const standardizedFeatures = new Float64Array(features.length * count);
  for (const [n, x] of features.entries())
    for (let f = 0; f < count; f++)
      standardizedFeatures[n * count + f] = ((x[f] ?? 0) - (mean[f] ?? 0)) * (scale[f] ?? 0);
  const found = await minimize(
    { standardizedFeatures, labels, exampleWeights, classCount, featureCount: count },
    yieldIfDue,
  );
  const weight = new Float32Array(classCount * count);
  const shift = found.slice(classCount * count);
  // A constant added to all biases has no effect: centring makes the bias unique.
  const middle = shift.reduce((sum, one) => sum + one, 0) / classCount;
  const bias = Float32Array.from(shift, (one, k) => {
    let sum = one - middle;
    for (let f = 0; f < count; f++) {
      const own = (found[k * count + f] ?? 0) * (scale[f] ?? 0);
      weight[k * count + f] = own;
      sum -= own * (mean[f] ?? 0);
    }
    return sum;
  });
  return { weight, bias };
}

/** Weight the classes equally, whatever their number of examples. */
function balancedExampleWeights(labels: readonly number[], classCount: number): Float64Array {
  const counts = new Float64Array(classCount);
  for (const label of labels) counts[label] = (counts[label] ?? 0) + 1;
  return Float64Array.from(labels, (label) => 1 / (classCount * (counts[label] ?? 1)));
}

function softmax(logits: Float64Array): void {
  const top = logits.reduce((most, one) => Math.max(most, one), Number.NEGATIVE_INFINITY);
  let sum = 0;
  for (let k = 0; k < logits.length; k++) {
    logits[k] = Math.exp((logits[k] ?? 0) - top);
    sum += logits[k] ?? 0;
  }
  for (let k = 0; k < logits.length; k++) logits[k] = (logits[k] ?? 0) / sum;
}

/** Return the loss at `parameters` (weights, then biases) and write its gradient to `gradient`. */
async function lossAndGradient(
  { standardizedFeatures, labels, exampleWeights, classCount, featureCount }: HeadFitData,
  parameters: Float64Array,
  gradient: Float64Array,
  yieldIfDue: YieldIfDue,
): Promise<number> {
  const weights = classCount * featureCount;
  let sum = 0;
  gradient.fill(0);
  const logits = new Float64Array(classCount);
  for (const [n, label] of labels.entries()) {
    const wait = yieldIfDue();
    if (wait !== undefined) await wait;
    const row = n * featureCount;
    for (let k = 0; k < classCount; k++) {
      const from = k * featureCount;
      let logit = parameters[weights + k] as number;
      for (let f = 0; f < featureCount; f++)
        logit += (parameters[from + f] as number) * (standardizedFeatures[row + f] as number);
      logits[k] = logit;
    }
    // log Σ exp, which is exact even if the correct class is nearly certain.
    const right = logits[label] as number;
    const top = logits.reduce((most, one) => Math.max(most, one), Number.NEGATIVE_INFINITY);
    const all = logits.reduce((part, one) => part + Math.exp(one - top), 0);
    const share = exampleWeights[n] as number;
    sum += share * (top - right + Math.log(all));
    softmax(logits);
    for (let k = 0; k < classCount; k++) {
      const error = share * ((logits[k] as number) - (k === label ? 1 : 0));
      const from = k * featureCount;
      for (let f = 0; f < featureCount; f++)
        gradient[from + f] =
          (gradient[from + f] as number) + error * (standardizedFeatures[row + f] as number);
      gradient[weights + k] = (gradient[weights + k] as number) + error;
    }
  }
  for (let k = 0; k < weights; k++) {
    const weight = parameters[k] as number;
    sum += (WEIGHT_PENALTY / 2) * weight * weight;
    gradient[k] = (gradient[k] as number) + WEIGHT_PENALTY * weight;
  }
  return sum;
}

/** Minimise the loss by L-BFGS, starting from zero. */
async function minimize(fitData: HeadFitData, yieldIfDue: YieldIfDue): Promise<Float64Array> {
  const size = fitData.classCount * (fitData.featureCount + 1);
  let at = new Float64Array(size);
  let gradient = new Float64Array(size);
  let value = await lossAndGradient(fitData, at, gradient, yieldIfDue);
  const steps: { s: Float64Array; y: Float64Array; rho: number }[] = [];
  for (let round = 0; round < MAX_ITERATIONS && maxAbs(gradient) > GRADIENT_TOLERANCE; round++) {
    const direction = lbfgsDirection(gradient, steps);
    let directionalDerivative = dot(direction, gradient);
    if (!(directionalDerivative < 0)) {
      steps.length = 0; // rounding errors have corrupted the history
      for (let k = 0; k < size; k++) direction[k] = -(gradient[k] as number);
      directionalDerivative = -dot(gradient, gradient);
    }
    let length = steps.length === 0 ? Math.min(1, 1 / Math.sqrt(dot(gradient, gradient))) : 1;
    const before = Math.sqrt(dot(gradient, gradient));
    let next: Float64Array<ArrayBuffer> | undefined;
    let nextSlope = new Float64Array(size);
    for (let tries = 0; tries < 40; tries++, length /= 2) {
      const there = new Float64Array(size);
      for (let k = 0; k < size; k++)
        there[k] = (at[k] as number) + length * (direction[k] as number);
      const found = await lossAndGradient(fitData, there, nextSlope, yieldIfDue);
      // Near the optimum, loss differences are below rounding error: compare gradient norms instead.
      const flat = Math.abs(found - value) <= 1e-13 * Math.abs(value);
      const less = found <= value + ARMIJO_FACTOR * length * directionalDerivative;
      if (less || (flat && Math.sqrt(dot(nextSlope, nextSlope)) < before)) {
        next = there;
        value = found;
        break;
      }
    }
    if (next === undefined) return at; // no step decreases the loss
    const s = difference(next, at);
    const y = difference(nextSlope, gradient);
    const curved = dot(s, y);
    if (curved > 1e-300) steps.push({ s, y, rho: 1 / curved });
    if (steps.length > LBFGS_HISTORY) steps.shift();
    at = next;
    const old = gradient;
    gradient = nextSlope;
    nextSlope = old;
  }
  return at;
}

/** The L-BFGS search direction: the negative gradient times the inverse Hessian estimate. */
function lbfgsDirection(
  gradient: Float64Array,
  steps: readonly { s: Float64Array; y: Float64Array; rho: number }[],
): Float64Array {
  const direction = gradient.map((one) => -one);
  const shares: number[] = [];
  for (const { s, y, rho } of [...steps].reverse()) {
    const share = rho * dot(s, direction);
    shares.push(share);
    addScaled(direction, y, -share);
  }
  const last = steps.at(-1);
  if (last !== undefined) {
    const factor = 1 / (last.rho * dot(last.y, last.y));
    for (let k = 0; k < direction.length; k++) direction[k] = (direction[k] as number) * factor;
  }
  for (const { s, y, rho } of steps)
    addScaled(direction, s, (shares.pop() ?? 0) - rho * dot(y, direction));
  return direction;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += (a[k] as number) * (b[k] as number);
  return sum;
}

function addScaled(target: Float64Array, vector: Float64Array, factor: number): void {
  for (let k = 0; k < target.length; k++)
    target[k] = (target[k] as number) + factor * (vector[k] as number);
}

const difference = (a: Float64Array, b: Float64Array): Float64Array =>
  a.map((one, k) => one - (b[k] as number));

const maxAbs = (numbers: Float64Array): number =>
  numbers.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
