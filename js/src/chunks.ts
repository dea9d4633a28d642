// Split binary data into chunks for messages and join the chunks again.

/** Split data into chunks of at most `chunk` bytes; empty data gives one empty chunk. */
export function splitChunks(data: ArrayBuffer, chunk: number): ArrayBuffer[] {
  const count = Math.max(1, Math.ceil(data.byteLength / chunk));
  return Array.from({ length: count }, (_, part) => data.slice(part * chunk, (part + 1) * chunk));
}

/** Concatenate byte arrays. */
export function joinChunks(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
