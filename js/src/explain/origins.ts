// Where a number comes from: the numbers of other layers that it is made of, those that count most first.
import type { Network } from "../network/network.ts";
import type { Chain } from "./chain.ts";
import type { Explanation } from "./explanation.ts";
import { beforeLayout, type Origin, originAt, originFrom, spotOf } from "./origin.ts";
import type { Paired, Sliding } from "./products.ts";
import { coordinates, place, sizeOf } from "./tensor.ts";
import type { Lines } from "./window.ts";

/** How many origins are worked out at most. */
const MOST = 4;

const bySize = (amounts: ArrayLike<number>): number[] =>
  Array.from(amounts, (_, k) => k).sort(
    (a, b) => Math.abs(amounts[b] ?? 0) - Math.abs(amounts[a] ?? 0) || a - b,
  );

/** Where the taps of a window read that give most, and how much that is. */
function largestTaps({ rows, columns }: Lines, amounts: readonly number[], most: number) {
  return bySize(amounts)
    .flatMap((i) => {
      const [row, column] = [rows[Math.floor(i / columns.length)], columns[i % columns.length]];
      const inside = row?.state === "input" && column?.state === "input";
      return inside ? [{ y: row.at, x: column.at, amount: amounts[i] ?? 0 }] : [];
    })
    .slice(0, most);
}

/** The channels that give most to a convolution, each by the sum of its products, at the tap that gives most of it. */
function patchesOf({ contributions, first, lines, patch }: Sliding) {
  return bySize(contributions)
    .slice(0, MOST)
    .flatMap((k) => {
      const amount = contributions[k] ?? 0;
      // Of a channel that takes away, the tap that takes most.
      const products = patch(k).cells.map(({ product }) =>
        Math.max(0, product * Math.sign(amount)),
      );
      return largestTaps(lines, products, 1).map((tap) => ({
        ...tap,
        amount,
        channel: first + k,
        of: products.length > 1 ? ("patch" as const) : undefined,
      }));
    });
}

/** Of a product with weights what each channel of its inputs gives, where they were maps before; else each input. */
function channelsOf(
  network: Network,
  found: Explanation,
  products: Paired,
  position: 0 | 1,
): Origin[] {
  const { contributions, pair } = products;
  const read = (k: number) => found.from(position, pair(k)[position]);
  const own = read(0);
  const source = network.values.get(own.key);
  if (source === undefined) return [];
  const value = beforeLayout(network, source);
  const [, , height, width] = value.nchw;
  // An image's numbers in one row; else a row is of one place.
  const whole = height * width > 1 && contributions.length === sizeOf(value.nchw.slice(1));
  const sums = new Map<number, number>();
  // The input that gives most, and the one that takes most.
  const ends = new Map<number, { most: number; least: number }>();
  const amountOf = (k: number): number => contributions[k] ?? 0;
  for (let k = 0; k < contributions.length; k++) {
    const of = whole ? spotOf(value, read(k).index).channel : k;
    const { most, least } = ends.get(of) ?? { most: k, least: k };
    sums.set(of, (sums.get(of) ?? 0) + amountOf(k));
    ends.set(of, {
      most: amountOf(k) > amountOf(most) ? k : most,
      least: amountOf(k) < amountOf(least) ? k : least,
    });
  }
  const largest = [...sums].sort(([a, p], [b, q]) => Math.abs(q) - Math.abs(p) || a - b);
  return largest.slice(0, MOST).map(([of, amount]): Origin => {
    const { most = 0, least = 0 } = ends.get(of) ?? {};
    const { index } = read(amount < 0 ? least : most);
    const origin = { value, ...spotOf(value, index), amount };
    return whole ? { ...origin, of: "channel" } : origin;
  });
}

/** Of a product of two values the factors of its largest products; of attention what is summed, before its shares. */
function factorsOf(network: Network, { from }: Explanation, products: Paired): Origin[] {
  const { contributions, pair } = products;
  const shares = network.values.get(from(0, pair(0)[0]).key)?.form === "attention";
  const positions = shares ? [1] : [0, 1];
  return bySize(contributions)
    .slice(0, MOST / positions.length)
    .flatMap((k) =>
      positions.flatMap((position) => {
        const index = pair(k)[position] ?? 0;
        return originFrom(network, from(position, index), contributions[k] ?? 0) ?? [];
      }),
    );
}

/** What the element `index` of a chain's last layer is made of. */
export function originsOf(
  network: Network,
  chain: Chain,
  found: Explanation,
  index: number,
): Origin[] {
  const { root, source } = chain;
  const { made, from } = found;
  const [read] = root?.operands ?? [];
  const shape = read === undefined || read.shape.length === 0 ? source.shape : read.shape;
  const at = coordinates(root?.output_shape ?? shape, found.at);
  const inSource = (channel: number, y: number, x: number, amount: number): Origin[] => {
    const spatial = shape.length > 3 ? [y, x] : shape.length > 2 ? [x] : [];
    const own = from(0, place(shape, [at[0] ?? 0, channel, ...spatial]));
    return [originFrom(network, own, amount) ?? []].flat();
  };
  const origins: Origin[] = [];
  switch (made.kind) {
    case "dense": {
      const [left, right] = root?.operands.map(({ kind }) => kind === "value") ?? [];
      origins.push(
        ...(left && right
          ? factorsOf(network, found, made.products)
          : channelsOf(network, found, made.products, right ? 1 : 0)),
      );
      break;
    }
    case "convolution":
      for (const { channel, y, x, amount, of } of patchesOf(made.products)) {
        const found = inSource(channel, y, x, amount);
        origins.push(...(of === undefined ? found : found.map((one) => ({ ...one, of }))));
      }
      break;
    case "pool": {
      const { kind, lines, cells, winner, divisor } = made.pooled;
      const shares = cells.map(({ input }, i) =>
        kind !== "max" ? input / divisor : i === winner ? input : 0,
      );
      const taps = largestTaps(lines, shares, kind === "max" ? 1 : MOST);
      for (const tap of taps) origins.push(...inSource(at[1] ?? 0, tap.y, tap.x, tap.amount));
      break;
    }
    case "addition":
    case "elementwise":
      for (const term of made.terms) {
        origins.push(...[originFrom(network, term, term.value) ?? []].flat());
      }
      break;
    case "copied":
      origins.push(...[originFrom(network, made.copied, made.copied.value) ?? []].flat());
      if (made.by !== null) {
        origins.push(...[originFrom(network, made.by, made.by.value) ?? []].flat());
      }
      break;
    case "padded": {
      const { lines, inside, value } = made.padded;
      const [row, column] = [lines.rows[0]?.at ?? 0, lines.columns[0]?.at ?? 0];
      if (inside) origins.push(...inSource(at[1] ?? 0, row, column, value));
      break;
    }
    case "mixed":
      for (const { y, x, share, value } of made.mixed.parts) {
        origins.push(...inSource(at[1] ?? 0, y, x, share * value));
      }
      break;
    case "given":
      origins.push(originAt(network, source, index, Number.NaN));
      break;
    default:
      // One number becomes another in its place.
      if (sizeOf(shape) === sizeOf(root?.output_shape ?? shape)) {
        origins.push(...[originFrom(network, from(0, found.at), Number.NaN) ?? []].flat());
      }
  }
  // The operands of an operation stand in its order, and what is chosen before what it is chosen by.
  if (made.kind === "elementwise" || made.kind === "copied") return origins;
  return origins.sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount) || 0);
}
