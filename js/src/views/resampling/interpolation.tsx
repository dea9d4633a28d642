// A resampled pixel: its source pixels times their interpolation weights.

import { useSignal } from "@preact/signals";
import type { Interpolation } from "../../explain/data_movement.ts";
import { windowText } from "../../explain/window.ts";
import { formatExact } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { useSignedColor, useValueColor } from "../explain/colors.ts";
import { cellLayout, Equation, maxAbsCell } from "../explain/equation.tsx";
import { type DrawContext, type MarkedSource, SourceAndResult } from "../explain/source_result.tsx";

/** CSS pixels of an equation with four pixels. */
const MIN_EQUATION_WIDTH = 3 * 112 + 2 * 28;

export function InterpolationView(props: {
  source: Value;
  interpolation: Interpolation;
  channel: number;
  context: DrawContext;
}) {
  const { source, interpolation, channel, context } = props;
  const hoveredCell = useSignal<number | null>(null);
  const { taps, terms, value } = interpolation;
  const markLabel = terms.length === 1 ? "the pixel that is copied" : "the pixels that are mixed";
  const from: MarkedSource = { value: source, channel, taps, markLabel };
  const columns = taps.columns.length;
  const { cell: cellSide, way } = cellLayout(context.width, taps.rows.length, columns, 3);
  const cells = {
    pixel: terms.map((part) => ({ value: part.value })),
    share: terms.map(({ weight }) => ({ value: weight })),
    product: terms.map((part) => ({ value: part.weight * part.value })),
  };
  const colors = {
    pixel: useValueColor(source, maxAbsCell(cells.pixel)),
    share: useSignedColor(1),
    product: useValueColor(source, maxAbsCell(cells.product)),
  };
  const cellTooltip = (i: number): string => {
    const part = terms[i];
    if (part === undefined) return "";
    return `y ${part.y}, x ${part.x}: ${formatExact(part.value)} × ${formatExact(part.weight)}`;
  };
  return (
    <SourceAndResult
      sources={[from]}
      context={context}
      asideWidth={terms.length > 1 ? MIN_EQUATION_WIDTH : 0}
    >
      {terms.length > 1 && (
        <div class={`nbg-flowing nbg-way-${way === "beside" ? "below" : "stacked"}`}>
          <Equation
            {...{ columns, cellSide, hoveredCell, cellTooltip }}
            terms={[
              {
                title: "Source pixels",
                text: windowText(taps, source.nchw[2] === 1),
                label: "Source pixels",
                cells: cells.pixel,
                color: colors.pixel,
              },
              {
                title: "Shares",
                text: "the nearer the larger",
                label: "Shares",
                cells: cells.share,
                color: colors.share,
              },
              {
                title: "Products",
                text: "",
                sum: value,
                label: "Products",
                cells: cells.product,
                color: colors.product,
              },
            ]}
          />
        </div>
      )}
    </SourceAndResult>
  );
}
