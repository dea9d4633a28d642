// How messages look on the way: checked against their records.
import { bytesOf, type MessageBuffer } from "../message_buffers.ts";
import { type FromKernel, type Patches, RECORDS } from "../messages.ts";
import { checkRecordType } from "../plan/plan_file.ts";
import type { Patch } from "../plan/runtime.ts";

const RECORD_NAMES = new Map([...RECORDS.keys()].map((name) => [name.toLowerCase(), name]));
const warnings = new Set<string>();

/** Python's message, or undefined (and one line in the console) where it isn't one. */
export function decodeMessage(content: unknown): FromKernel | undefined {
  const type = (content as { type?: unknown } | null)?.type;
  const record = typeof type === "string" ? RECORD_NAMES.get(type) : undefined;
  if (record === undefined) {
    warnOnce("ignored a message of an unknown type");
    return undefined;
  }
  try {
    checkRecordType(content, { record }, record, RECORDS);
  } catch (error) {
    warnOnce(`ignored a message: ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
  return content as FromKernel;
}

/** What a message says of weights; undefined where its buffer is not what its rectangles say. */
export function decodePatches(
  rectangles: Patches["rectangles"],
  buffer: MessageBuffer | undefined,
): Patch[] | undefined {
  const bytes = buffer === undefined ? undefined : bytesOf(buffer);
  const texels = rectangles.reduce((sum, [, , , , width, height]) => sum + width * height, 0);
  if (bytes === undefined || bytes.length !== texels * 16) return undefined;
  const all = new Float32Array(bytes.slice().buffer);
  let at = 0;
  return rectangles.map(([texture, layer, x, y, width, height]) => {
    const from = at;
    at += width * height * 4;
    return { texture, layer, x, y, width, height, data: all.subarray(from, at) };
  });
}

/** A list of texts out of a blob of JSON; empty where it is none. */
export function decodeTexts(data: Uint8Array<ArrayBuffer> | undefined): readonly string[] {
  try {
    const found: unknown = JSON.parse(new TextDecoder().decode(data));
    if (Array.isArray(found) && found.every((one) => typeof one === "string")) return found;
  } catch {
    // As for anything else.
  }
  return [];
}

/** One line in the console; the same text, and more than a hundred different ones, only once. */
export function warnOnce(text: string): void {
  if (warnings.has(text) || warnings.size >= 100) return;
  warnings.add(text);
  console.warn(`nbglcnn: ${text}`);
}

/** Resolves in a task of its own: unlike a timer, at once and in hidden tabs too. */
export function macrotask(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** Calls `give` with the last of many values, `ms` apart. */
export function throttle<T>(ms: number, give: (value: T) => void) {
  let waiting: { readonly value: T } | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const next = (): void => {
    timer = undefined;
    if (waiting === undefined) return;
    const { value } = waiting;
    waiting = undefined;
    timer = setTimeout(next, ms);
    give(value);
  };
  return {
    take(value: T): void {
      waiting = { value };
      if (timer === undefined) next();
    },
    dispose(): void {
      clearTimeout(timer);
      waiting = undefined;
    },
  };
}
