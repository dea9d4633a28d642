// Padding modes that repeat the map's own elements: the position that each padded position reads.
import type { AxisWindow } from "../plan/schema.ts";

/** The position in a map of length `size` that a padded position repeats, by ONNX's mode names. */
export const PADDED_INDEX_BY_MODE: Readonly<
  Record<AxisWindow["padding"], (at: number, size: number) => number>
> = {
  zeros: (at) => at,
  edge: (at, size) => Math.min(Math.max(at, 0), size - 1),
  wrap: (at, size) => ((at % size) + size) % size,
  reflect: (at, size) => {
    const around = 2 * (size - 1);
    if (around === 0) return 0;
    const from = ((at % around) + around) % around;
    return Math.min(from, around - from);
  },
};

/** The text for such a padding mode; null for zeros and constants. */
export function paddingModeText(mode: unknown): "wrapped around" | "repeated" | "mirrored" | null {
  if (mode === "wrap") return "wrapped around";
  if (mode === "edge") return "repeated";
  return mode === "reflect" ? "mirrored" : null;
}
