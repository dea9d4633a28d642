// Reads the contents of an exported page, which Python embedded in the document as text that is not executed.
import type { PageData } from "../messages.ts";

export interface PageContents {
  /** A Plan file with its weights. */
  readonly planFile: Uint8Array<ArrayBuffer>;
  /** The Plan's inputs in order, as float32; then the injected arrays, then a source's blobs. */
  readonly blobs: readonly Uint8Array<ArrayBuffer>[];
}

/** Characters decoded at a time: a multiple of four, the unit of base64. */
const DECODE_CHUNK_CHARS = 2 ** 20;

/** The initial state of the views. */
export function readPageData(): PageData {
  return JSON.parse(document.getElementById("nbglcnn-page")?.textContent ?? "");
}

/** Remove the embedded network from the document, to avoid keeping a second copy, and return it. */
export async function extractContents(): Promise<PageContents> {
  const blobs = [...document.querySelectorAll<HTMLElement>("script[data-nbglcnn]")];
  const all: Uint8Array<ArrayBuffer>[] = [];
  for (const element of blobs) {
    const bytes = decodeBase64(element.textContent ?? "");
    all.push(element.dataset.nbglcnn === "deflate" ? await inflate(bytes) : bytes);
    element.remove();
  }
  const [planFile, ...inputs] = all;
  if (planFile === undefined) throw new Error("this page holds no network");
  return { planFile, blobs: inputs };
}

async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  if (!("DecompressionStream" in globalThis))
    throw new Error(
      "this browser can't unpack the page: it needs Chrome 80, Firefox 113 or Safari 16.4, or a newer version",
    );
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch (error) {
    throw new Error(`this page is damaged: what it holds can't be unpacked (${error})`);
  }
}

/** Decode base64. `fetch` is not an option: the page's policy forbids it, even for data: URLs. */
function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const pad = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = new Uint8Array((text.length / 4) * 3 - pad);
  let at = 0;
  for (let from = 0; from < text.length; from += DECODE_CHUNK_CHARS) {
    const letters = atob(text.slice(from, from + DECODE_CHUNK_CHARS));
    for (let k = 0; k < letters.length; k++) bytes[at++] = letters.charCodeAt(k);
  }
  return bytes;
}
