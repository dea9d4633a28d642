// Margins of a layer: how far its window reaches beyond the input map, at any position.
import type { Layer } from "../plan/schema.ts";

/** Pixels outside the map that a window can cover, on each side. */
export interface WindowMargins {
  readonly top: number;
  readonly bottom: number;
  readonly left: number;
  readonly right: number;
}

export const NO_MARGINS: WindowMargins = { top: 0, bottom: 0, left: 0, right: 0 };

/** The margins of convolutions, transposed convolutions, pools and padding. */
export function windowMargins(layer: Layer): WindowMargins {
  const rank = (layer.input_shapes[0]?.length ?? 2) - 2;
  if (layer.window.pads_begin.length !== rank) return NO_MARGINS;
  const [across, down] = [axisMargins(layer, -1), axisMargins(layer, -2)];
  return { top: down.before, bottom: down.after, left: across.before, right: across.after };
}

/** Pixels before and after an axis that a window can cover; the last window may even exceed the padding. */
function axisMargins(layer: Layer, axis: number): { before: number; after: number } {
  const { kernel, strides, dilations, pads_begin } = layer.window;
  const begin = pads_begin.at(axis);
  if (begin === undefined) return { before: 0, after: 0 };
  const taps = kernel.at(axis) ?? 1;
  const last = (layer.input_shapes[0]?.at(axis) ?? 1) - 1;
  const output = (layer.output_shape.at(axis) ?? 1) - 1;
  const stride = strides.at(axis) ?? 1;
  const length = (taps - 1) * (dilations.at(axis) ?? 1);
  // A transposed convolution's window moves over the map with inserted zeros, in which pixels are a stride apart.
  const [before, behind] =
    layer.explanation === "transposed convolution"
      ? [Math.floor((length - begin) / stride), Math.floor((output + begin) / stride) - last]
      : [begin, output * stride - begin + length - last];
  return { before: Math.max(0, before), after: Math.max(0, behind) };
}
