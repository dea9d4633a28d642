// Bitmaps whose colours are not multiplied by alpha: they are uploaded as they are, without a canvas that would round them.

const bitmaps = new WeakSet<object>();

/** Marks a bitmap made with `premultiplyAlpha: "none"`, which none can tell by itself. */
export const markStraight = (bitmap: ImageBitmap): void => {
  bitmaps.add(bitmap);
};

export const isStraight = (picture: object): picture is ImageBitmap => bitmaps.has(picture);
