// Bitmaps whose colours are not premultiplied by alpha: they are uploaded directly, because a canvas would round them.

const unpremultipliedBitmaps = new WeakSet<object>();

/** Mark a bitmap made with `premultiplyAlpha: "none"`; a bitmap has no property for this. */
export const markUnpremultiplied = (bitmap: ImageBitmap): void => {
  unpremultipliedBitmaps.add(bitmap);
};

export const isUnpremultiplied = (picture: object): picture is ImageBitmap =>
  unpremultipliedBitmaps.has(picture);
