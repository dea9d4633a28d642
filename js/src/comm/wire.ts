// How messages look on the way: checked against their records, buffers in whatever form a host gives them.
import { conform } from "../gl/format.ts";
import { type FromKernel, RECORDS } from "../messages.ts";

/** Hosts hand buffers over as they like: JupyterLab and marimo give DataViews, some base64. */
export type Buffer = DataView<ArrayBuffer> | ArrayBuffer | Uint8Array<ArrayBuffer> | string;

const TYPES = new Map([...RECORDS.keys()].map((name) => [name.toLowerCase(), name]));
const warned = new Set<string>();

/** Python's message, or undefined (and one line in the console) where it isn't one. */
export function decode(content: unknown): FromKernel | undefined {
  const type = (content as { type?: unknown } | null)?.type;
  const record = typeof type === "string" ? TYPES.get(type) : undefined;
  if (record === undefined) {
    warnOnce("ignored a message of an unknown type");
    return undefined;
  }
  try {
    conform(content, { record }, record, RECORDS);
  } catch (error) {
    warnOnce(`ignored a message: ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
  return content as FromKernel;
}

/** The bytes of a message's buffer; undefined when there is none, or none that can be read. */
export function bytesOf(buffer: Buffer | undefined): Uint8Array<ArrayBuffer> | undefined {
  if (typeof buffer === "string") return fromBase64(buffer);
  if (ArrayBuffer.isView(buffer)) {
    return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  }
  // By its name: a host may have made it in another frame, whose ArrayBuffer is another class.
  const isBuffer = Object.prototype.toString.call(buffer) === "[object ArrayBuffer]";
  return isBuffer ? new Uint8Array(buffer as ArrayBuffer) : undefined;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    warnOnce("ignored a buffer that is not base64");
    return undefined;
  }
}

/** One line in the console; the same text, and more than a hundred different ones, only once. */
export function warnOnce(text: string): void {
  if (warned.has(text) || warned.size >= 100) return;
  warned.add(text);
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
export function spaced<T>(ms: number, give: (value: T) => void) {
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
