// Decode picture files like Python's picture_decoding.py: rotated by EXIF orientation, converted to sRGB by the ICC
// profile.
import { markUnpremultiplied } from "../../pictures/unpremultiplied.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const PNG_SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
/** Without a profile, browsers convert colours by these chunks, each differently; Pillow ignores them. */
const COLOR_CHUNKS = ["gAMA", "cHRM", "cICP", "mDCV", "cLLI"];
/** The EXIF orientation tag. */
const ORIENTATION_TAG = 0x0112;

/**
 * Decode the first image of a file to a bitmap without premultiplied alpha. Rejects if the browser cannot decode it.
 */
export async function decodePicture(file: Blob): Promise<ImageBitmap> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const { type } = file;
  const text = (at: number): string => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (PNG_SIGNATURE.every((byte, k) => bytes[k] === byte))
    return makeBitmap([...stripColorChunks(bytes)], type);
  if (text(0) !== "RIFF" || text(8) !== "WEBP") return makeBitmap([bytes], type);
  const orientation = takeWebpOrientation(bytes);
  const found = await makeBitmap([bytes], type);
  return orientation > 1 && orientation <= 8 ? applyOrientation(found, orientation) : found;
}

async function makeBitmap(chunks: Bytes[], type: string): Promise<ImageBitmap> {
  const found = await createImageBitmap(new Blob(chunks, { type }), {
    imageOrientation: "from-image",
    premultiplyAlpha: "none",
    colorSpaceConversion: "default",
  });
  markUnpremultiplied(found);
  return found;
}

/** The parts of a PNG file without its colour chunks. */
function* stripColorChunks(bytes: Bytes): Generator<Bytes> {
  const view = new DataView(bytes.buffer);
  let from = 0;
  for (let at = PNG_SIGNATURE.length; at + 12 <= bytes.length; ) {
    const end = at + 12 + view.getUint32(at);
    const name = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if (name === "IDAT") break; // colour chunks precede the image data
    if (COLOR_CHUNKS.includes(name)) {
      yield bytes.subarray(from, at);
      from = end;
    }
    at = end;
  }
  yield bytes.subarray(from);
}

/** Read a WebP file's EXIF orientation and hide the chunk: only some browsers apply it. */
function takeWebpOrientation(bytes: Bytes): number {
  const view = new DataView(bytes.buffer);
  for (let at = 12; at + 8 <= bytes.length; ) {
    const size = view.getUint32(at + 4, true);
    if (view.getUint32(at) === 0x45584946) {
      view.setUint32(at, 0x4a554e4b); // "EXIF" becomes "JUNK"
      return readExifOrientation(bytes.subarray(at + 8, at + 8 + size));
    }
    at += 8 + size + (size % 2);
  }
  return 1;
}

/** The orientation in EXIF data, which have the format of a TIFF file; 1 if absent. */
function readExifOrientation(exif: Bytes): number {
  const start = exif[0] === 0x45 ? 6 : 0; // some writers prepend "Exif\0\0"
  const view = new DataView(exif.buffer, exif.byteOffset + start, exif.byteLength - start);
  try {
    const little = view.getUint16(0) === 0x4949;
    const first = view.getUint32(4, little);
    const count = view.getUint16(first, little);
    for (let k = 0; k < count; k++) {
      const at = first + 2 + 12 * k;
      if (view.getUint16(at, little) === ORIENTATION_TAG) return view.getUint16(at + 8, little);
    }
  } catch {
    // Truncated data have no orientation.
  }
  return 1;
}

/** Rotate or flip a picture upright from EXIF orientation 2 to 8. */
async function applyOrientation(picture: ImageBitmap, orientation: number): Promise<ImageBitmap> {
  const { width: w, height: h } = picture;
  const canvas = new OffscreenCanvas(orientation > 4 ? h : w, orientation > 4 ? w : h);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) throw new Error("this browser can’t create a canvas");
  const ways: Readonly<Record<number, readonly [number, number, number, number, number, number]>> =
    {
      2: [-1, 0, 0, 1, w, 0],
      3: [-1, 0, 0, -1, w, h],
      4: [1, 0, 0, -1, 0, h],
      5: [0, 1, 1, 0, 0, 0],
      6: [0, 1, -1, 0, h, 0],
      7: [0, -1, -1, 0, h, w],
      8: [0, -1, 1, 0, 0, w],
    };
  context.setTransform(...(ways[orientation] ?? [1, 0, 0, 1, 0, 0]));
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, 0, 0);
  picture.close();
  const found = await createImageBitmap(canvas, { premultiplyAlpha: "none" });
  markUnpremultiplied(found);
  return found;
}
