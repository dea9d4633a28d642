// All kernels of a layer, or its matrix; the selected kernel's numbers are below.
import { useMemo, useRef, useState } from "preact/hooks";
import { longType } from "../../network/network.ts";
import { useValues, useViews } from "../context.ts";
import type { Kernels } from "../layer_weights.ts";
import { maxAbs } from "../layout.ts";
import { Pagination } from "../pagination.tsx";
import type { KernelCell, WeightPosition } from "./kernel_pictures.tsx";
import { KernelSection, kernelScale, kernelSize } from "./kernel_section.tsx";
import { focusSelectedCell } from "./number_grid.tsx";
import { EditButton, ParameterEditor, useUndoKeys } from "./parameter_editor.tsx";
import { startWeightDrag, useWeightEditor } from "./weight_editor.ts";
import { kernelSheet, matrixSheet } from "./weight_sheet.ts";

/** A table of kernels: rows are output channels, columns the input channels that they read. */
export function KernelTable({ kernels, width }: { kernels: Kernels; width: number }) {
  const views = useViews();
  const values = useValues(kernels.weight);
  const editor = useWeightEditor(kernels.weight, values);
  const section = useRef<HTMLElement>(null);
  const [open, setOpen] = useState(false);
  const [isTyping, setTyping] = useState(false);
  const [chosen, choose] = useState({ output: 0, input: 0, row: 0, column: 0 });
  const onKeyDown = useUndoKeys();
  const largest = useMemo(() => (values === null ? 0 : maxAbs(values)), [values]);
  const [page, setPage] = useState(0);
  const { inputCount, outputCount } = kernels;
  const linear = kernels.weight.shape.length === 2;
  const room = width - 40;
  const side = inputCount === 1 ? 34 : inputCount <= 16 ? 28 : 16;
  // A matrix has one picture per row; a kernel is at least 14 px wide, and wide layers have pages of columns.
  const scale = linear
    ? Math.max(1, Math.min(12, Math.floor(room / kernels.width)))
    : kernelScale(kernels, side);
  const cell = kernelSize(kernels, scale, side);
  const gap = linear ? 0 : Math.max(2, Math.min(6, Math.round(cell.width * 0.18)));
  const across = Math.max(1, Math.floor((room + gap) / (cell.width + gap)));
  const wrapped = inputCount === 1 && !linear;
  const columns = wrapped ? across : Math.min(inputCount, across);
  const rows = linear ? 256 : wrapped ? 64 : Math.max(1, Math.floor(560 / (cell.height + gap)));
  const perPage = wrapped ? rows * across : rows;
  const pages = Math.ceil(outputCount / perPage);
  const cells = useMemo(() => {
    const found: KernelCell[] = [];
    for (
      let output = page * perPage;
      output < Math.min(outputCount, (page + 1) * perPage);
      output++
    ) {
      for (let input = 0; input < columns && input < inputCount; input++)
        found.push({ output, input });
      if (wrapped) continue;
    }
    return found;
  }, [page, perPage, outputCount, columns, inputCount, wrapped]);
  const { output, input, row, column } = chosen;
  const sheet = useMemo(
    () => (linear ? matrixSheet(kernels) : kernelSheet(kernels, output, input)),
    [kernels, linear, output, input],
  );
  if (values === null || editor === null) return null;
  const pick = (spot: WeightPosition): void => {
    const { output, input, y, x } = spot;
    setOpen(true);
    choose(
      linear
        ? { output: 0, input: 0, row: output, column: x }
        : { output, input, row: y, column: x },
    );
  };
  const stepKernel = (by: number): void => {
    const next = output * inputCount + input + by;
    if (next < 0 || next >= outputCount * inputCount) return;
    choose({ ...chosen, output: Math.floor(next / inputCount), input: next % inputCount });
    setPage(Math.floor(Math.floor(next / inputCount) / perPage));
  };
  const spot = linear
    ? { output: row, input: 0, y: 0, x: column, index: sheet.index(row, column) }
    : { output, input, y: row, x: column, index: sheet.index(row, column) };
  const first = page * perPage;
  const last = Math.min(outputCount, first + perPage) - 1;
  const words = linear
    ? "rows: outputs, columns: inputs"
    : wrapped
      ? "one per channel"
      : `rows: output channels ${first}–${last}, columns: input channels 0–${columns - 1}` +
        (columns < inputCount ? ` of ${inputCount}` : "");
  return (
    <section
      class="nbg-block"
      role="group"
      aria-label={`Weights of ${kernels.layer.name} and their editor`}
      ref={section}
      onKeyDown={onKeyDown}
    >
      <KernelSection
        title={longType(kernels.layer)}
        arrangementText={words}
        kernels={kernels}
        values={values}
        cells={cells}
        columns={columns}
        cellSize={cell}
        gap={gap}
        maxAbs={largest}
        label={`Weights of ${kernels.layer.name}`}
        aside={<EditButton editor={editor} open={open} setOpen={setOpen} />}
        editing={{
          originalValues: editor.originalValues,
          selected: open ? spot : null,
          press: (event, spot, words) => {
            setTyping(false);
            pick(spot);
            // On touch screens, a drag over weights this small scrolls the page.
            if (event.pointerType === "touch") return;
            startWeightDrag(event, views, editor, spot.index, words, () =>
              focusSelectedCell(section.current),
            );
          },
          openEditor: (spot) => {
            pick(spot);
            setTyping(editor.canEdit);
          },
        }}
      />
      {pages > 1 && <Pagination page={page} pageCount={pages} go={setPage} />}
      {open && (
        <ParameterEditor
          {...{ editor, sheet, maxAbs: largest, width, isTyping, setTyping }}
          position={chosen}
          moveTo={(place) => choose({ ...chosen, ...place })}
          {...(!linear && outputCount * inputCount > 1 && { stepKernel })}
        />
      )}
    </section>
  );
}
