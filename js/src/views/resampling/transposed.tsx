// A transposed convolution's number, told in its two ways: with zeros inserted, and by phases.

import { useSignal } from "@preact/signals";
import { aroundOf } from "../../explain/around.ts";
import { reaching } from "../../explain/reaching.ts";
import type { Phased } from "../../explain/window.ts";
import { fixed } from "../../format.ts";
import { useShown, useSigned } from "../explain/colors.ts";
import { Ends, type Source } from "../explain/ends.tsx";
import type { Cell } from "../explain/matrix.tsx";
import { Channels, type Summed } from "../explain/sums.tsx";
import {
  cellIn,
  Equation,
  inputs,
  MOST_TAPS,
  mostOf,
  noteOf,
  results,
  weights,
} from "../explain/taps.tsx";
import { Counted } from "./counted.tsx";
import { Phases } from "./phases.tsx";

/** CSS pixels of what stands beside the pictures. */
const COUNTED = 240;

/** How many of a filter's taps read padding, if any do. */
function outsideText(taps: number, inside: number): string {
  if (inside === taps) return "";
  const some = inside === 0 ? "all" : `${taps - inside} of its ${taps}`;
  return `; ${some} ${taps - inside === 1 && inside > 0 ? "taps lies" : "taps lie"} outside the map (padding)`;
}

type Props = Summed;

export function Transposed(props: Props) {
  const { layer, source, products, chosen, drawn } = props;
  const { phased, lines, first } = products;
  if (phased === null) return null;
  const { filter } = phased;
  const marked = "the pixels under the filter";
  const channel = first + chosen;
  const from: Source = { value: source, channel, lines: filter, around: aroundOf(layer), marked };
  const few = lines.rows.length * lines.columns.length <= MOST_TAPS;
  const counts = reaching(layer.window, source.shape.slice(2), layer.output_shape.slice(2));
  const { y, x } = drawn.result;
  return (
    <>
      <Ends sources={[from]} drawn={drawn} needs={COUNTED}>
        {counts !== null && <Counted counts={counts} y={y} x={x} />}
      </Ends>
      {few ? (
        <Both {...props} phased={phased} />
      ) : (
        <p class="nbg-note">
          A filter of {lines.rows.length}×{lines.columns.length} weights is too large to be shown
          tap by tap.
        </p>
      )}
      <Channels {...props} width={drawn.width} />
    </>
  );
}

function Both(props: Props & { phased: Phased }) {
  const { layer, source, products, chosen, phased, weight, output, drawn } = props;
  const linked = useSignal<number | null>(null);
  const below = useSignal<number | null>(null);
  const { first } = products;
  const { filter } = phased;
  const [patch, sub] = [products.patch(chosen), products.patch(chosen, filter)];
  const wide = cellIn(drawn.width, patch.rows, patch.columns, 3);
  const small = cellIn(drawn.width, sub.rows || 1, sub.columns || 1, 3);
  const taps = new Set(
    filter.rows.flatMap((row) => filter.columns.map((column) => `${row.tap},${column.tap}`)),
  );
  const ring = (cells: Cell[]): Cell[] =>
    cells.map((one, i): Cell => {
      const [row, column] = [Math.floor(i / patch.columns), i % patch.columns];
      const tap = `${patch.rows - 1 - row},${patch.columns - 1 - column}`;
      return taps.has(tap) ? { ...one, mark: "ring" } : one;
    });
  const cells = {
    input: inputs(patch),
    weight: weights(patch),
    product: results(patch),
  };
  const less = { input: inputs(sub), weight: weights(sub), product: results(sub) };
  const colors = {
    input: useShown(source, mostOf(cells.input)),
    weight: useSigned(mostOf(cells.weight)),
    product: useSigned(mostOf(cells.product)),
  };
  const flat = source.nchw[2] === 1 && patch.rows === 1;
  const [sy, sx] = phased.strides;
  const counted = sub.cells.filter((one) => one.state === "input").length;
  const total = sub.cells.reduce((sum, one) => sum + one.product, 0);
  const shown = fixed(total);
  const way = (one: { way: string }): string =>
    `nbg-flowing nbg-way-${one.way === "beside" ? "below" : "stacked"}`;
  return (
    <div class="nbg-both-ways">
      <section>
        <h4>Zero-insertion picture</h4>
        <p class="nbg-second">
          spread the map with zeros, slide the flipped filter {weight}[{first + chosen}, {output}]
        </p>
        <div class={way(wide)}>
          <Equation
            {...{ linked, flat, columns: patch.columns, cell: wide.cell }}
            note={noteOf(patch)}
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
          phase ({phased.phase.join(", ")}) of {sy * sx}
          {sub.cells.length > 0
            ? `: an ordinary ${sub.rows}×${sub.columns} filter${outsideText(sub.cells.length, counted)}`
            : ": no pixel counts here"}
        </p>
        <div class="nbg-phased">
          <Phases
            phased={phased}
            dilations={layer.window.dilations}
            rows={patch.rows}
            columns={patch.columns}
          />
          {sub.cells.length > 0 && (
            <div class={way(small)}>
              <Equation
                {...{ flat, columns: sub.columns }}
                cell={small.cell}
                linked={below}
                note={noteOf(sub)}
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
