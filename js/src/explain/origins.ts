// Where a number comes from: the numbers of other layers that it is made of, those that count most first.
import type { Network } from "../network/network.ts";
import type { Layer, Value } from "../plan.ts";
import type { Chain } from "./chain.ts";
import type { Explanation } from "./explanation.ts";
import { beforeLayout, type Origin, originAt, readBy, spotOf } from "./origin.ts";
import type { Products } from "./products.ts";
import { coordinates, place, sizeOf } from "./tensor.ts";
import type { Lines } from "./window.ts";

/** How many origins are worked out: of each of so many channels the tap that gives most. */
const MOST = 4;

const bySize = (amounts: ArrayLike<number>): number[] =>
  Array.from(amounts, (_, k) => k).sort(
    (a, b) => Math.abs(amounts[b] ?? 0) - Math.abs(amounts[a] ?? 0) || a - b,
  );

/** The tap of a window with the largest amount: where it reads, and how much that is. */
function largestTap({ rows, columns }: Lines, amounts: readonly number[]) {
  for (const i of bySize(amounts)) {
    const [row, column] = [rows[Math.floor(i / columns.length)], columns[i % columns.length]];
    if (row?.state === "input" && column?.state === "input") {
      return { y: row.at, x: column.at, amount: amounts[i] ?? 0 };
    }
  }
  return null;
}

/** Of a dense layer's inputs what each channel of theirs gives, where they were maps before; else each input. */
function channelsOf(
  network: Network,
  root: Layer,
  source: Value,
  { contributions }: Products,
  index: number,
): Origin[] {
  const value = beforeLayout(network, source);
  const [, , height, width] = value.nchw;
  const whole = height * width > 1;
  const sums = new Map<number, number>();
  // The input that gives most, and the one that takes most.
  const ends = new Map<number, { most: number; least: number }>();
  const amountOf = (k: number): number => contributions[k] ?? 0;
  for (let k = 0; k < contributions.length; k++) {
    const read = readBy(root, source, index, k);
    if (read === null) return [];
    const of = whole ? spotOf(value, read).channel : k;
    const { most, least } = ends.get(of) ?? { most: k, least: k };
    sums.set(of, (sums.get(of) ?? 0) + amountOf(k));
    ends.set(of, {
      most: amountOf(k) > amountOf(most) ? k : most,
      least: amountOf(k) < amountOf(least) ? k : least,
    });
  }
  const largest = [...sums].sort(([a, p], [b, q]) => Math.abs(q) - Math.abs(p) || a - b);
  return largest.slice(0, MOST).flatMap(([of, amount]) => {
    const { most = 0, least = 0 } = ends.get(of) ?? {};
    const read = readBy(root, source, index, amount < 0 ? least : most);
    return read === null ? [] : { value, ...spotOf(value, read), amount, whole };
  });
}

/** What the element `index` of a chain's last layer is made of. */
export function originsOf(
  network: Network,
  chain: Chain,
  { made }: Explanation,
  index: number,
): Origin[] {
  const { root, source } = chain;
  const shape = source.shape;
  const at = coordinates(root?.output_shape ?? shape, index);
  const inSource = (channel: number, y: number, x: number, amount: number): Origin => {
    const spatial = shape.length > 3 ? [y, x] : shape.length > 2 ? [x] : [];
    return originAt(network, source, place(shape, [at[0] ?? 0, channel, ...spatial]), amount);
  };
  const found: Origin[] = [];
  switch (made.kind) {
    case "dense":
      if (root !== null) found.push(...channelsOf(network, root, source, made.products, index));
      break;
    case "convolution": {
      const { contributions, first, lines, patch } = made.products;
      for (const k of bySize(contributions).slice(0, MOST)) {
        const products = patch(k).cells.map(({ product }) => product);
        const tap = largestTap(lines, products);
        if (tap !== null) found.push(inSource(first + k, tap.y, tap.x, tap.amount));
      }
      break;
    }
    case "pool": {
      const { kind, lines, cells, winner, divisor } = made.pooled;
      const shares = cells.map(({ input }, i) =>
        kind === "mean" ? input / divisor : i === winner ? input : 0,
      );
      const tap = largestTap(lines, shares);
      if (tap !== null) found.push(inSource(at[1] ?? 0, tap.y, tap.x, tap.amount));
      break;
    }
    case "addition":
      for (const { key, value: amount } of made.terms) {
        const value = network.values.get(key);
        if (value !== undefined) found.push(originAt(network, value, index, amount));
      }
      break;
    case "copied": {
      const { key, at: own, value: amount } = made.copied;
      const value = network.values.get(key);
      if (value !== undefined) {
        found.push(originAt(network, value, place(value.shape, own), amount));
      }
      break;
    }
    case "mixed":
      for (const { y, x, share, value } of made.mixed.parts) {
        found.push(inSource(at[1] ?? 0, y, x, share * value));
      }
      break;
    default:
      // One number becomes another in its place.
      if (sizeOf(shape) === sizeOf(root?.output_shape ?? shape)) {
        found.push(originAt(network, source, index, Number.NaN));
      }
  }
  return found.sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount) || 0);
}
