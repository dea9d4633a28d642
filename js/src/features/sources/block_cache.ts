// Block cache of a data set: blocks are requested one by one and kept within a byte limit; the others are released.
import type { ImagesRecord } from "./records.ts";
import type { Feeder } from "./state.ts";

/** Size limit in bytes of cached blocks; all of 60,000 pictures of 28×28 fit. */
const MAX_BYTES = 48e6;
const RETRY_MS = 5_000;

type Bytes = Uint8Array<ArrayBuffer>;

/** Create the cache. An item consists of `elementsPerItem` elements; `onBlockLoaded` is called when a block has arrived. */
export function createBlockCache(
  { data, block_size, count, dtype }: Pick<ImagesRecord, "data" | "block_size" | "count" | "dtype">,
  elementsPerItem: number,
  feeder: Feeder,
  onBlockLoaded: () => void,
) {
  const wide = dtype === "uint8" ? 1 : 4;
  // In least-recently-used order.
  const cachedBlocks = new Map<number, Bytes>();
  const pendingBlocks = new Map<number, Promise<void>>();
  const cancelled = new WeakSet<Promise<void>>();
  /** Time of each block's last failure, by performance.now(): the next access doesn't retry at once. */
  const failedAt = new Map<number, number>();
  let closed = false;

  const keep = (k: number, bytes: Bytes): void => {
    cachedBlocks.delete(k);
    cachedBlocks.set(k, bytes);
    let sum = 0;
    for (const one of cachedBlocks.values()) sum += one.length;
    for (const [old, one] of cachedBlocks) {
      if (sum <= MAX_BYTES || old === k) break;
      cachedBlocks.delete(old);
      sum -= one.length;
    }
  };
  const nameOf = (k: number): string => `${data}.${k}`;
  const ask = (k: number): Promise<void> => {
    const known = pendingBlocks.get(k);
    if (known !== undefined) return known;
    const items = Math.min(block_size, count - k * block_size);
    const asked = feeder
      .blob(nameOf(k))
      .then((bytes) => {
        const wanted = items * elementsPerItem * wide;
        if (bytes.length !== wanted)
          throw new Error(`block ${k} has ${bytes.length} bytes, not ${wanted}`);
        keep(k, bytes);
      })
      .finally(() => {
        if (pendingBlocks.get(k) === asked) pendingBlocks.delete(k);
      })
      .then(() => {
        if (!closed) onBlockLoaded();
      });
    pendingBlocks.set(k, asked);
    failedAt.delete(k);
    asked.catch(() => {
      if (!cancelled.has(asked)) failedAt.set(k, performance.now());
    });
    return asked;
  };
  const sliceItem = (bytes: Bytes, index: number): Uint8Array | Float32Array => {
    const from = (index % block_size) * elementsPerItem;
    if (wide === 1) return bytes.subarray(from, from + elementsPerItem);
    return new Float32Array(bytes.slice(from * 4, (from + elementsPerItem) * 4).buffer);
  };
  /** An item with its raw elements; undefined if its block is not cached. */
  const known = (index: number): Uint8Array | Float32Array | undefined => {
    const k = Math.floor(index / block_size);
    const bytes = cachedBlocks.get(k);
    if (bytes === undefined) return undefined;
    cachedBlocks.delete(k);
    cachedBlocks.set(k, bytes);
    return sliceItem(bytes, index);
  };
  return {
    /** Return the item if it is cached; otherwise request its block. */
    peekOrRequest(index: number): Uint8Array | Float32Array | undefined {
      const found = known(index);
      const k = Math.floor(index / block_size);
      const late = performance.now() - (failedAt.get(k) ?? Number.NEGATIVE_INFINITY) > RETRY_MS;
      if (found === undefined && late && index >= 0 && index < count)
        void ask(k).catch(() => undefined);
      return found;
    },
    async get(index: number): Promise<Uint8Array | Float32Array> {
      for (;;) {
        const found = known(index);
        if (found !== undefined) return found;
        await ask(Math.floor(index / block_size));
      }
    },
    /** Cancel requests for all blocks except those of these items. */
    cancelOthers(indices: readonly number[]): void {
      const wanted = new Set(indices.map((index) => Math.floor(index / block_size)));
      for (const [k, one] of [...pendingBlocks]) {
        if (wanted.has(k)) continue;
        cancelled.add(one);
        pendingBlocks.delete(k);
        feeder.release(nameOf(k));
      }
    },
    get bytes(): number {
      return [...cachedBlocks.values()].reduce((sum, one) => sum + one.length, 0);
    },
    dispose(): void {
      closed = true;
      for (const k of pendingBlocks.keys()) feeder.release(nameOf(k));
      cachedBlocks.clear();
    },
  };
}

export type BlockCache = ReturnType<typeof createBlockCache>;
