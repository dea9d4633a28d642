// Split binary data into chunks for messages and join the chunks again.

/** Split data into chunks of at most `chunkBytes` bytes; empty data gives one empty chunk. */
export function splitChunks(data: ArrayBuffer, chunkBytes: number): ArrayBuffer[] {
  const count = Math.max(1, Math.ceil(data.byteLength / chunkBytes));
  return Array.from({ length: count }, (_, part) =>
    data.slice(part * chunkBytes, (part + 1) * chunkBytes),
  );
}

/** Concatenate byte arrays. */
export function joinChunks(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of chunks) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
