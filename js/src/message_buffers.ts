// Reads the bytes of a message buffer in any form that hosts use.

/** Hosts pass buffers in different forms: JupyterLab and marimo use DataViews, some hosts use base64. */
export type MessageBuffer = DataView<ArrayBuffer> | ArrayBuffer | Uint8Array<ArrayBuffer> | string;

/** The bytes of a message buffer; undefined if it is missing or unreadable. */
export function bytesOf(buffer: MessageBuffer | undefined): Uint8Array<ArrayBuffer> | undefined {
  if (typeof buffer === "string") return fromBase64(buffer);
  if (ArrayBuffer.isView(buffer)) {
    return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  }
  // Check by class name: a host may create it in another frame, which has its own ArrayBuffer class.
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
