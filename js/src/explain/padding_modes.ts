// Padding that repeats a map's own numbers: where each of its places reads.
import type { AxisWindow } from "../plan/schema.ts";

/** The place in a map of `size` that one outside of it repeats, by ONNX's names. */
export const PADDED_INDEX: Readonly<
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

/** What such padding does, in words; null for zeros and other numbers. */
export function paddingModeText(mode: unknown): "wrapped around" | "repeated" | "mirrored" | null {
  if (mode === "wrap") return "wrapped around";
  if (mode === "edge") return "repeated";
  return mode === "reflect" ? "mirrored" : null;
}
