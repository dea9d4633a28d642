// Explains one output value of a transposed convolution in two ways: by zero insertion, and by phases.

import { useSignal } from "@preact/signals";
import { overlapCounts } from "../../explain/overlap_counts.ts";
import type { TransposedTaps } from "../../explain/window.ts";
import { windowMargins } from "../../explain/window_margins.ts";
import { formatFixed } from "../../number_format.ts";
import { useSignedColor, useValueColor } from "../explain/colors.ts";
import { ChannelContributions, type ConvolutionProps } from "../explain/convolution.tsx";
import {
  cellLayout,
  Equation,
  inputCells,
  MAX_TAPS,
  maxAbsCell,
  productCells,
  productTooltip,
  weightCells,
} from "../explain/equation.tsx";
import type { MatrixCell } from "../explain/matrix.tsx";
import { type MarkedSource, SourceAndResult } from "../explain/source_result.tsx";
import { OverlapMap } from "./overlap_map.tsx";
import { PhaseDiagram } from "./phases.tsx";

/** CSS pixels of the content beside the pictures. */
const ASIDE_WIDTH = 240;

/** The number of the filter's taps that read padding, as text; "" if none. */
function outsideText(tapCount: number, insideCount: number): string {
  if (insideCount === tapCount) return "";
  const some = insideCount === 0 ? "all" : `${tapCount - insideCount} of its ${tapCount}`;
  return `; ${some} ${tapCount - insideCount === 1 && insideCount > 0 ? "taps lies" : "taps lie"} outside the map (padding)`;
}

type Props = ConvolutionProps;

export function TransposedConvolutionView(props: Props) {
  const { layer, source, products, chosen, context } = props;
  const { transposedTaps, taps, firstChannel } = products;
  if (transposedTaps === null) return null;
  const { phaseTaps } = transposedTaps;
  const markLabel = "the pixels under the filter";
  const channel = firstChannel + chosen;
  const from: MarkedSource = {
    value: source,
    channel,
    taps: phaseTaps,
    margins: windowMargins(layer),
    markLabel,
  };
  const few = taps.rows.length * taps.columns.length <= MAX_TAPS;
  const counts = overlapCounts(layer.window, source.shape.slice(2), layer.output_shape.slice(2));
  const { y, x } = context.result;
  return (
    <>
      <SourceAndResult sources={[from]} context={context} asideWidth={ASIDE_WIDTH}>
        {counts !== null && <OverlapMap counts={counts} y={y} x={x} />}
      </SourceAndResult>
      {few ? (
        <TransposedEquations {...props} transposedTaps={transposedTaps} />
      ) : (
        <p class="nbg-note">
          The {taps.rows.length}×{taps.columns.length} filter is too large to show each weight.
        </p>
      )}
      <ChannelContributions {...props} width={context.width} />
    </>
  );
}

function TransposedEquations(props: Props & { transposedTaps: TransposedTaps }) {
  const { layer, source, products, chosen, transposedTaps, weightKey, outputChannel, context } =
    props;
  const hoveredCell = useSignal<number | null>(null);
  const below = useSignal<number | null>(null);
  const { firstChannel } = products;
  const { phaseTaps } = transposedTaps;
  const [patch, sub] = [
    products.channelProducts(chosen),
    products.channelProducts(chosen, phaseTaps),
  ];
  const wide = cellLayout(context.width, patch.rows, patch.columns, 3);
  const small = cellLayout(context.width, sub.rows || 1, sub.columns || 1, 3);
  const taps = new Set(
    phaseTaps.rows.flatMap((row) => phaseTaps.columns.map((column) => `${row.tap},${column.tap}`)),
  );
  const ring = (cells: MatrixCell[]): MatrixCell[] =>
    cells.map((one, i): MatrixCell => {
      const [row, column] = [Math.floor(i / patch.columns), i % patch.columns];
      const tap = `${patch.rows - 1 - row},${patch.columns - 1 - column}`;
      return taps.has(tap) ? { ...one, mark: "ring" } : one;
    });
  const cells = {
    input: inputCells(patch),
    weight: weightCells(patch),
    product: productCells(patch),
  };
  const less = { input: inputCells(sub), weight: weightCells(sub), product: productCells(sub) };
  const colors = {
    input: useValueColor(source, maxAbsCell(cells.input)),
    weight: useSignedColor(maxAbsCell(cells.weight)),
    product: useSignedColor(maxAbsCell(cells.product)),
  };
  const is1d = source.nchw[2] === 1 && patch.rows === 1;
  const [sy, sx] = transposedTaps.strides;
  const counted = sub.cells.filter((one) => one.state === "input").length;
  const total = sub.cells.reduce((sum, one) => sum + one.product, 0);
  const shown = formatFixed(total);
  const way = (one: { way: string }): string =>
    `nbg-flowing nbg-way-${one.way === "beside" ? "below" : "stacked"}`;
  return (
    <div class="nbg-both-ways">
      <section>
        <h4>Zero-insertion picture</h4>
        <p class="nbg-second">
          insert zeros between the pixels, then convolve with the flipped filter {weightKey}[
          {firstChannel + chosen}, {outputChannel}]
        </p>
        <div class={way(wide)}>
          <Equation
            {...{ hoveredCell, is1d, columns: patch.columns, cellSide: wide.cell }}
            cellTooltip={productTooltip(patch)}
            terms={[
              {
                title: "Map",
                text: "with zeros between its pixels",
                label: "Map with zeros inserted",
                cells: ring(cells.input),
                color: colors.input,
              },
              {
                title: "Filter",
                text: "flipped",
                label: "Flipped filter",
                cells: ring(cells.weight),
                color: colors.weight,
              },
              {
                title: "Products",
                text: "",
                sum: total,
                label: "Products with zeros",
                cells: ring(cells.product),
                color: colors.product,
              },
            ]}
          />
        </div>
      </section>
      <section>
        <h4>Sub-pixel picture</h4>
        <p class="nbg-second">
          phase ({transposedTaps.phase.join(", ")}) of {sy * sx}
          {sub.cells.length > 0
            ? `: an ordinary ${sub.rows}×${sub.columns} filter${outsideText(sub.cells.length, counted)}`
            : ": no pixel contributes here"}
        </p>
        <div class="nbg-phased">
          <PhaseDiagram
            transposedTaps={transposedTaps}
            dilations={layer.window.dilations}
            rows={patch.rows}
            columns={patch.columns}
          />
          {sub.cells.length > 0 && (
            <div class={way(small)}>
              <Equation
                {...{ is1d, columns: sub.columns }}
                cellSide={small.cell}
                hoveredCell={below}
                cellTooltip={productTooltip(sub)}
                terms={[
                  {
                    title: "Pixels",
                    text: "under the filter",
                    label: "Pixels under the filter",
                    cells: less.input,
                    color: colors.input,
                  },
                  {
                    title: "Weights",
                    text: "of this phase",
                    label: "Their weights",
                    cells: less.weight,
                    color: colors.weight,
                  },
                  {
                    title: "Products",
                    text: "",
                    sum: total,
                    label: "Products",
                    cells: less.product,
                    color: colors.product,
                  },
                ]}
              />
            </div>
          )}
        </div>
        {sub.cells.length > 0 && (
          <p class="nbg-second">
            the same {counted} product{counted === 1 ? "" : "s"}, sum {shown} both ways
          </p>
        )}
      </section>
    </div>
  );
}
