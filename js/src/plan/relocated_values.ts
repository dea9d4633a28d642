// Value records for values in other textures than the Plan's.

import { DIRECT_READ_PROGRAM } from "./derived_values.ts";
import type { Texture, Value } from "./schema.ts";

/** The value in another texture with the same layout, optionally with another key. */
export function relocateValue(value: Value, texture: number, key = value.key): Value {
  if (texture === value.texture && key === value.key) return value;
  const { draw_pass } = value.readback;
  const inputs = draw_pass.inputs.map((one) => (one === value.texture ? texture : one));
  return {
    ...value,
    key,
    texture,
    readback: { ...value.readback, draw_pass: { ...draw_pass, inputs } },
  };
}

/** The texture size for one channel's map. */
export const singleMapTexture = ({ nchw }: Value, { format }: Texture): Texture => {
  return { width: nchw[3], height: nchw[2], layers: 1, format };
};

/** One channel of a value, one pixel per texel. */
export function singleChannelValue(value: Value, key: string, texture: number): Value {
  const [, , h, w] = value.nchw;
  const nchw = [1, 1, h, w] as const;
  const step = {
    ...value.readback.draw_pass,
    program: DIRECT_READ_PROGRAM,
    inputs: [],
    output: texture,
  };
  return {
    ...value,
    key,
    texture,
    shape: nchw,
    nchw,
    layout: { nchw, block: [1, 1, 1], phases: [1, 1], max_side: 0 },
    layout_words: [...nchw, w, h, 1, 1, 1, 1, 1, 1, 1, 1, w, h],
    readback: { draw_pass: { ...step, viewport: [w, h] }, count: h * w },
    tokens: [-1, -1],
  };
}
