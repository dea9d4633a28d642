// A resampled pixel: the pixels that it is made of, times their shares.

import { useSignal } from "@preact/signals";
import type { Mixed } from "../../explain/moved.ts";
import { spansOf } from "../../explain/window.ts";
import { exact } from "../../format.ts";
import type { Value } from "../../plan/schema.ts";
import { useShown, useSigned } from "../explain/colors.ts";
import { type Drawn, Ends, type Source } from "../explain/ends.tsx";
import { cellIn, Equation, mostOf } from "../explain/taps.tsx";

/** CSS pixels of an equation over four pixels. */
const NEEDS = 3 * 112 + 2 * 28;

export function Resized(props: { source: Value; mixed: Mixed; channel: number; drawn: Drawn }) {
  const { source, mixed, channel, drawn } = props;
  const linked = useSignal<number | null>(null);
  const { lines, parts, value } = mixed;
  const marked = parts.length === 1 ? "the pixel that is copied" : "the pixels that are mixed";
  const from: Source = { value: source, channel, lines, marked };
  const columns = lines.columns.length;
  const { cell, way } = cellIn(drawn.width, lines.rows.length, columns, 3);
  const cells = {
    pixel: parts.map((part) => ({ value: part.value })),
    share: parts.map(({ share }) => ({ value: share })),
    product: parts.map((part) => ({ value: part.share * part.value })),
  };
  const colors = {
    pixel: useShown(source, mostOf(cells.pixel)),
    share: useSigned(1),
    product: useShown(source, mostOf(cells.product)),
  };
  const note = (i: number): string => {
    const part = parts[i];
    if (part === undefined) return "";
    return `y ${part.y}, x ${part.x}: ${exact(part.value)} × ${exact(part.share)}`;
  };
  return (
    <Ends sources={[from]} drawn={drawn} needs={parts.length > 1 ? NEEDS : 0}>
      {parts.length > 1 && (
        <div class={`nbg-flowing nbg-way-${way === "beside" ? "below" : "stacked"}`}>
          <Equation
            {...{ columns, cell, linked, note }}
            terms={[
              {
                title: "Source pixels",
                text: spansOf(lines, source.nchw[2] === 1),
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
    </Ends>
  );
}
