// Overlap counts: how many weights of a transposed convolution reach each output position, and the resulting artefacts.
import type { Window } from "../plan/schema.ts";

/** Counts along each axis; a pixel's count is its row's count times its column's. */
export interface OverlapCounts {
  readonly rows: readonly number[];
  readonly columns: readonly number[];
}

/** Count the overlaps along both axes; null for volumes. */
export function overlapCounts(
  window: Window,
  spatial: readonly number[],
  outputSizes: readonly number[],
): OverlapCounts | null {
  const rank = spatial.length;
  if (rank < 1 || rank > 2 || window.kernel.length !== rank) return null;
  const axis = (k: number): number[] => {
    const counts = new Array<number>(outputSizes[k] ?? 0).fill(0);
    const [kernel = 1, stride = 1] = [window.kernel[k], window.strides[k]];
    const [dilation = 1, begin = 0] = [window.dilations[k], window.pads_begin[k]];
    for (let i = 0; i < (spatial[k] ?? 0); i++) {
      for (let tap = 0; tap < kernel; tap++) {
        const at = i * stride + tap * dilation - begin;
        if (at >= 0 && at < counts.length) counts[at] = (counts[at] ?? 0) + 1;
      }
    }
    return counts;
  };
  return { rows: rank === 1 ? [1] : axis(0), columns: axis(rank - 1) };
}

/** The distinct counts in the interior, away from the borders: one value, or several that alternate. */
function distinctInteriorCounts(counts: readonly number[]): readonly number[] {
  const quarter = Math.floor(counts.length / 4);
  return [...new Set(counts.slice(quarter, counts.length - quarter))].sort((a, b) => b - a);
}

/**
 * The text about the counts: "4 everywhere except at the border: no checkerboard artifacts", or "4, 2 and 1 alternate:
 * this causes checkerboard artifacts".
 */
export function overlapText({ rows, columns }: OverlapCounts): string {
  const products = distinctInteriorCounts(rows).flatMap((a) =>
    distinctInteriorCounts(columns).map((b) => a * b),
  );
  const distinctCounts = [...new Set(products)].sort((a, b) => b - a);
  const all = rows.flatMap((a) => columns.map((b) => a * b));
  if (distinctCounts.length > 1) {
    const listed = `${distinctCounts.slice(0, -1).join(", ")} and ${distinctCounts.at(-1)}`;
    return `${listed} alternate: this causes checkerboard artifacts`;
  }
  const fewer = all.some((count) => count < (distinctCounts[0] ?? 0));
  return `${distinctCounts[0] ?? 0} everywhere${fewer ? " except at the border" : ""}: no checkerboard artifacts`;
}
