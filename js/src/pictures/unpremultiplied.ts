// Bitmaps whose colours are not multiplied by alpha: they are uploaded as they are, without a canvas that would round them.

const unpremultipliedBitmaps = new WeakSet<object>();

/** Marks a bitmap made with `premultiplyAlpha: "none"`, which none can tell by itself. */
export const markUnpremultiplied = (bitmap: ImageBitmap): void => {
  unpremultipliedBitmaps.add(bitmap);
};

export const isUnpremultiplied = (picture: object): picture is ImageBitmap =>
  unpremultipliedBitmaps.has(picture);
