// The kernels of a layer's channels, in a few rows below the layer's maps.
import { useMemo } from "preact/hooks";
import { useValues } from "../context.ts";
import type { Kernels } from "../layer_weights.ts";
import { maxAbs } from "../layout.ts";
import { KernelSection, kernelScale, kernelSize } from "./kernel_section.tsx";
import type { KernelCell } from "./kernels.tsx";

const SMALL_GAP = 7;

/** Lay out up to four rows of kernels of about 34 px, a little smaller if that fills the last row. */
function compactRows(count: number, kernels: Kernels, width: number) {
  const side = 34;
  const largest = kernelScale(kernels, side);
  const rowsAt = (scale: number) => {
    const cell = kernelSize(kernels, scale, (side * scale) / largest);
    const most = Math.max(1, Math.floor((width + SMALL_GAP) / (cell.width + SMALL_GAP)));
    const shown = Math.min(count, most * 4);
    const columns = Math.ceil(shown / Math.ceil(shown / most));
    return { cell, columns, shown };
  };
  for (let scale = largest; scale >= largest * 0.7; scale--) {
    const rows = rowsAt(scale);
    if (rows.shown % rows.columns === 0) return rows;
  }
  return rowsAt(largest);
}

/** One kernel per channel, in the order of the maps above. */
export function CompactFilters(props: {
  kernels: Kernels;
  order: readonly number[];
  width: number;
}) {
  const { kernels, order, width } = props;
  const values = useValues(kernels.weight);
  const most = useMemo(() => (values === null ? 0 : maxAbs(values)), [values]);
  // A single output channel shows a kernel per input channel; several output channels show their first kernel each.
  const hasSingleOutput = kernels.outputs === 1 && kernels.inputs > 1;
  const all = hasSingleOutput
    ? Array.from({ length: kernels.inputs }, (_, input): KernelCell => ({ output: 0, input }))
    : order.map((output): KernelCell => ({ output, input: 0 }));
  const { cell, columns, shown } = compactRows(all.length, kernels, width);
  const cells = all.slice(0, shown);
  if (values === null || kernels.weight.shape.length === 2) return null;
  const some = cells.length < all.length ? `${cells.length} of ${all.length} · ` : "";
  const which = hasSingleOutput
    ? "one for each input channel"
    : kernels.inputs > 1
      ? "for the first input channel"
      : "same order as the maps";
  return (
    <section class="nbg-block">
      <KernelSection
        title="Filters"
        words={`${some}${which}`}
        kernels={kernels}
        values={values}
        cells={cells}
        columns={columns}
        cell={cell}
        gap={SMALL_GAP}
        maxAbs={most}
        label={`Filters of ${kernels.layer.name}`}
      />
    </section>
  );
}
