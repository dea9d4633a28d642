// Origins of a number: the elements of other layers that contribute to it, largest contributions first.
import type { Network } from "../network/network.ts";
import type { ComputationChain } from "./computation_chain.ts";
import type { Explanation } from "./explanation.ts";
import {
  elementPosition,
  type Origin,
  originAt,
  originFrom,
  valueBeforeReshape,
} from "./origin.ts";
import type { ConvolutionProducts, DenseProducts } from "./products.ts";
import { coordinates, flatIndex, sizeOf } from "./tensor.ts";
import type { WindowTaps } from "./window.ts";

/** Maximum number of origins. */
const MAX_ORIGINS = 4;

const rankByMagnitude = (amounts: ArrayLike<number>): number[] =>
  Array.from(amounts, (_, k) => k).sort(
    (a, b) => Math.abs(amounts[b] ?? 0) - Math.abs(amounts[a] ?? 0) || a - b,
  );

/** The positions and amounts of a window's taps with the largest contributions. */
function largestTaps({ rows, columns }: WindowTaps, amounts: readonly number[], maxCount: number) {
  return rankByMagnitude(amounts)
    .flatMap((i) => {
      const [row, column] = [rows[Math.floor(i / columns.length)], columns[i % columns.length]];
      const inside = row?.state === "input" && column?.state === "input";
      return inside ? [{ y: row.inputIndex, x: column.inputIndex, amount: amounts[i] ?? 0 }] : [];
    })
    .slice(0, maxCount);
}

/**
 * The channels with the largest contributions to a convolution (each the sum of its products), at each channel's
 * largest tap.
 */
function largestPatches({
  contributions,
  firstChannel,
  taps,
  channelProducts,
}: ConvolutionProducts) {
  return rankByMagnitude(contributions)
    .slice(0, MAX_ORIGINS)
    .flatMap((k) => {
      const amount = contributions[k] ?? 0;
      // For a negative channel, the tap with the most negative product.
      const products = channelProducts(k).cells.map(({ product }) =>
        Math.max(0, product * Math.sign(amount)),
      );
      return largestTaps(taps, products, 1).map((tap) => ({
        ...tap,
        amount,
        channel: firstChannel + k,
        scope: products.length > 1 ? ("patch" as const) : undefined,
      }));
    });
}

/** Contributions to a product with weights: one per channel if the inputs are flattened maps, else one per input. */
function largestChannels(
  network: Network,
  explanation: Explanation,
  products: DenseProducts,
  operandPosition: 0 | 1,
): Origin[] {
  const { contributions, factorIndices } = products;
  const read = (k: number) =>
    explanation.operandElementRef(operandPosition, factorIndices(k)[operandPosition]);
  const own = read(0);
  const source = network.values.get(own.key);
  if (source === undefined) return [];
  const value = valueBeforeReshape(network, source);
  const [, , height, width] = value.nchw;
  // Whether a row is a whole flattened image rather than one position.
  const isFlattenedImage =
    height * width > 1 && contributions.length === sizeOf(value.nchw.slice(1));
  const sums = new Map<number, number>();
  // The inputs with the largest and the smallest contribution.
  const ends = new Map<number, { most: number; least: number }>();
  const amountOf = (k: number): number => contributions[k] ?? 0;
  for (let k = 0; k < contributions.length; k++) {
    const of = isFlattenedImage ? elementPosition(value, read(k).index).channel : k;
    const { most, least } = ends.get(of) ?? { most: k, least: k };
    sums.set(of, (sums.get(of) ?? 0) + amountOf(k));
    ends.set(of, {
      most: amountOf(k) > amountOf(most) ? k : most,
      least: amountOf(k) < amountOf(least) ? k : least,
    });
  }
  const largest = [...sums].sort(([a, p], [b, q]) => Math.abs(q) - Math.abs(p) || a - b);
  return largest.slice(0, MAX_ORIGINS).map(([of, amount]): Origin => {
    const { most = 0, least = 0 } = ends.get(of) ?? {};
    const { index } = read(amount < 0 ? least : most);
    const origin = { value, ...elementPosition(value, index), amount };
    return isFlattenedImage ? { ...origin, scope: "channel" } : origin;
  });
}

/**
 * The factors of the largest products of two values; for attention, only the summed values and not their softmax
 * weights.
 */
function largestFactors(
  network: Network,
  { operandElementRef }: Explanation,
  products: DenseProducts,
): Origin[] {
  const { contributions, factorIndices } = products;
  const shares =
    network.values.get(operandElementRef(0, factorIndices(0)[0]).key)?.display_kind === "attention";
  const positions = shares ? [1] : [0, 1];
  return rankByMagnitude(contributions)
    .slice(0, MAX_ORIGINS / positions.length)
    .flatMap((k) =>
      positions.flatMap((position) => {
        const index = factorIndices(k)[position] ?? 0;
        return originFrom(network, operandElementRef(position, index), contributions[k] ?? 0) ?? [];
      }),
    );
}

/** The largest origins of element `index` of a chain's last layer. */
export function largestOrigins(
  network: Network,
  chain: ComputationChain,
  explanation: Explanation,
  index: number,
): Origin[] {
  const { root, source } = chain;
  const { computation, operandElementRef } = explanation;
  const [read] = root?.operands ?? [];
  const shape = read === undefined || read.shape.length === 0 ? source.shape : read.shape;
  const at = coordinates(root?.output_shape ?? shape, explanation.rootElementIndex);
  const inSource = (channel: number, y: number, x: number, amount: number): Origin[] => {
    const spatial = shape.length > 3 ? [y, x] : shape.length > 2 ? [x] : [];
    const own = operandElementRef(0, flatIndex(shape, [at[0] ?? 0, channel, ...spatial]));
    return [originFrom(network, own, amount) ?? []].flat();
  };
  const origins: Origin[] = [];
  switch (computation.kind) {
    case "dense": {
      const [left, right] = root?.operands.map(({ kind }) => kind === "value") ?? [];
      origins.push(
        ...(left && right
          ? largestFactors(network, explanation, computation.products)
          : largestChannels(network, explanation, computation.products, right ? 1 : 0)),
      );
      break;
    }
    case "convolution":
      for (const { channel, y, x, amount, scope } of largestPatches(computation.products)) {
        const explanation = inSource(channel, y, x, amount);
        origins.push(
          ...(scope === undefined ? explanation : explanation.map((one) => ({ ...one, scope }))),
        );
      }
      break;
    case "pool": {
      const { kind, taps: lines, cells, argmax, divisor } = computation.pooled;
      const shares = cells.map(({ input }, i) =>
        kind !== "max" ? input / divisor : i === argmax ? input : 0,
      );
      const taps = largestTaps(lines, shares, kind === "max" ? 1 : MAX_ORIGINS);
      for (const tap of taps) origins.push(...inSource(at[1] ?? 0, tap.y, tap.x, tap.amount));
      break;
    }
    case "addition":
    case "elementwise":
      for (const term of computation.terms) {
        origins.push(...[originFrom(network, term, term.value) ?? []].flat());
      }
      break;
    case "copied":
      origins.push(
        ...[originFrom(network, computation.copied, computation.copied.value) ?? []].flat(),
      );
      if (computation.indexElement !== null) {
        origins.push(
          ...[
            originFrom(network, computation.indexElement, computation.indexElement.value) ?? [],
          ].flat(),
        );
      }
      break;
    case "padded": {
      const { taps: lines, isInside, value } = computation.padded;
      const [row, column] = [lines.rows[0]?.inputIndex ?? 0, lines.columns[0]?.inputIndex ?? 0];
      if (isInside) origins.push(...inSource(at[1] ?? 0, row, column, value));
      break;
    }
    case "mixed":
      for (const { y, x, weight, value } of computation.mixed.terms) {
        origins.push(...inSource(at[1] ?? 0, y, x, weight * value));
      }
      break;
    case "given":
      origins.push(originAt(network, source, index, Number.NaN));
      break;
    default:
      // An elementwise root: one element depends on one element.
      if (sizeOf(shape) === sizeOf(root?.output_shape ?? shape)) {
        origins.push(
          ...[
            originFrom(network, operandElementRef(0, explanation.rootElementIndex), Number.NaN) ??
              [],
          ].flat(),
        );
      }
  }
  // Elementwise operands stay in the operation's order; a gathered element precedes its index.
  if (computation.kind === "elementwise" || computation.kind === "copied") return origins;
  return origins.sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount) || 0);
}
