// Decode messages from Python and check them against their record types.
import { bytesOf, type MessageBuffer } from "../message_buffers.ts";
import { type FromKernel, type Patches, RECORDS } from "../messages.ts";
import { checkRecordType } from "../plan/plan_file.ts";
import type { Patch } from "../plan/runtime.ts";

const RECORD_NAMES = new Map([...RECORDS.keys()].map((name) => [name.toLowerCase(), name]));
const warnings = new Set<string>();

/** Return Python's message, or undefined (with one console warning) if it is invalid. */
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

/** Decode weight patches; undefined if the buffer's size doesn't match the rectangles. */
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

/** Decode a list of strings from a JSON blob; empty if the blob is not one. */
export function decodeStringList(data: Uint8Array<ArrayBuffer> | undefined): readonly string[] {
  try {
    const found: unknown = JSON.parse(new TextDecoder().decode(data));
    if (Array.isArray(found) && found.every((one) => typeof one === "string")) return found;
  } catch {
    // Treated like any other invalid content.
  }
  return [];
}

/** Log a console warning once per text, for at most 100 different texts. */
export function warnOnce(text: string): void {
  if (warnings.has(text) || warnings.size >= 100) return;
  warnings.add(text);
  console.warn(`nbglcnn: ${text}`);
}

/** Resolve in a new macrotask: unlike a timer, without delay and in hidden tabs too. */
export function waitForMacrotask(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** Throttle: call `callback` with the latest value, at most once per `intervalMs` milliseconds. */
export function throttle<T>(intervalMs: number, callback: (value: T) => void) {
  let waiting: { readonly value: T } | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const next = (): void => {
    timer = undefined;
    if (waiting === undefined) return;
    const { value } = waiting;
    waiting = undefined;
    timer = setTimeout(next, intervalMs);
    callback(value);
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
