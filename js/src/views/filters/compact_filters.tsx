// The kernels of a layer's channels, in a few rows below the layer's maps.
import { useMemo } from "preact/hooks";
import { useValues } from "../context.ts";
import type { Kernels } from "../layer_weights.ts";
import { maxAbs } from "../layout.ts";
import type { KernelCell } from "./kernel_pictures.tsx";
import { KernelSection, kernelScale, kernelSize } from "./kernel_section.tsx";

const KERNEL_GAP = 7;

/** Lay out up to four rows of kernels of about 34 px, a little smaller if that fills the last row. */
function compactKernelLayout(count: number, kernels: Kernels, width: number) {
  const side = 34;
  const largest = kernelScale(kernels, side);
  const rowsAt = (scale: number) => {
    const cell = kernelSize(kernels, scale, (side * scale) / largest);
    const most = Math.max(1, Math.floor((width + KERNEL_GAP) / (cell.width + KERNEL_GAP)));
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
  const hasSingleOutput = kernels.outputCount === 1 && kernels.inputCount > 1;
  const all = hasSingleOutput
    ? Array.from({ length: kernels.inputCount }, (_, input): KernelCell => ({ output: 0, input }))
    : order.map((output): KernelCell => ({ output, input: 0 }));
  const { cell, columns, shown } = compactKernelLayout(all.length, kernels, width);
  const cells = all.slice(0, shown);
  if (values === null || kernels.weight.shape.length === 2) return null;
  const some = cells.length < all.length ? `${cells.length} of ${all.length} · ` : "";
  const which = hasSingleOutput
    ? "one for each input channel"
    : kernels.inputCount > 1
      ? "for the first input channel"
      : "same order as the maps";
  return (
    <section class="nbg-block">
      <KernelSection
        title="Filters"
        arrangementText={`${some}${which}`}
        kernels={kernels}
        values={values}
        cells={cells}
        columns={columns}
        cellSize={cell}
        gap={KERNEL_GAP}
        maxAbs={most}
        label={`Filters of ${kernels.layer.name}`}
      />
    </section>
  );
}
