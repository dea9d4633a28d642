// Seeded shuffle without a list of the items: a Feistel network over the item numbers.
import { pcgHash } from "./noise.ts";
import type { ImagesRecord } from "./records.ts";

const FEISTEL_ROUNDS = 4;

/** The item shown after this one, or before it. */
export function nextItem(
  { index, count, shuffled, seed }: ImagesRecord,
  direction: 1 | -1,
): number {
  return shuffled
    ? neighborItem(index, direction, count, seed)
    : (index + direction + count) % count;
}

/** The item after another (`direction` 1) or before it (−1) in the seed's order of all `count` items. */
export function neighborItem(index: number, offset: number, count: number, seed: number): number {
  const place = (permute(index, count, seed, -1) + offset + count) % count;
  return permute(place, count, seed, 1);
}

/** The item at a position (`direction` 1), or the position of an item (−1). */
export function permute(index: number, count: number, seed: number, direction: 1 | -1): number {
  const half = Math.max(1, Math.ceil(Math.log2(Math.max(2, count)) / 2));
  let found = index;
  // Cycle walking: permute again while the number is out of range. Both directions walk the same cycle.
  do found = feistel(found, half, seed, direction);
  while (found >= count);
  return found;
}

function feistel(number: number, halfBits: number, seed: number, direction: 1 | -1): number {
  const mask = 2 ** halfBits - 1;
  let left = Math.floor(number / 2 ** halfBits);
  let right = number % 2 ** halfBits;
  for (let k = 0; k < FEISTEL_ROUNDS; k++) {
    const round = direction === 1 ? k : FEISTEL_ROUNDS - 1 - k;
    const key = (seed + Math.imul(round, 0x9e3779b9)) >>> 0;
    if (direction === 1) {
      [left, right] = [right, (left ^ (pcgHash((right ^ pcgHash(key)) >>> 0) & mask)) >>> 0];
    } else {
      [left, right] = [(right ^ (pcgHash((left ^ pcgHash(key)) >>> 0) & mask)) >>> 0, left];
    }
  }
  return left * 2 ** halfBits + right;
}
