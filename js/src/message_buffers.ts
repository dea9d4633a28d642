// The bytes of a message's buffer, in whatever form a host gives it.

/** Hosts hand buffers over as they like: JupyterLab and marimo give DataViews, some base64. */
export type MessageBuffer = DataView<ArrayBuffer> | ArrayBuffer | Uint8Array<ArrayBuffer> | string;

/** The bytes of a message's buffer; undefined when there is none, or none that can be read. */
export function bytesOf(buffer: MessageBuffer | undefined): Uint8Array<ArrayBuffer> | undefined {
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
    console.warn("nbglcnn: ignored a buffer that is not base64");
    return undefined;
  }
}
