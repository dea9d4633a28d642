// Saving of files: their names, downloads, and PNGs of canvases.

/** A file name that is valid on every file system. */
export function fileName(nameParts: readonly string[], extension: string): string {
  const plain = nameParts
    .join(" ")
    .replace(/[^\p{L}\p{N}._]+/gu, "-")
    .replace(/^[-.]+|-+$/g, "");
  return `${plain.slice(0, 120) || "viewer"}.${extension}`;
}

/** Delay before the object URL is revoked: long enough for any browser to start the download. */
const REVOKE_DELAY_MS = 60_000;

/** Download a blob from memory, without a network request. */
export function saveFile(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKE_DELAY_MS);
}

/** A PNG of a canvas, enlarged by an integer factor to its size on screen. */
export async function canvasToPng(canvas: HTMLCanvasElement): Promise<Blob> {
  const width = canvas.getBoundingClientRect().width * window.devicePixelRatio;
  const times = Math.max(1, Math.round(width / canvas.width));
  const picture = document.createElement("canvas");
  picture.width = canvas.width * times;
  picture.height = canvas.height * times;
  const context = picture.getContext("2d");
  if (context === null) throw new Error("this browser can’t create a canvas");
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, picture.width, picture.height);
  const blob = await new Promise<Blob | null>((done) => picture.toBlob(done, "image/png"));
  if (blob === null) throw new Error("this browser can’t write a PNG file");
  return blob;
}
