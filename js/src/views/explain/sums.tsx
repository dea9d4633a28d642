// A convolution's number: the patch under the filter, times the filter, tap by tap.
import { useSignal } from "@preact/signals";
import { aroundOf } from "../../explain/around.ts";
import type { Patch, Sliding } from "../../explain/products.ts";
import { repeats } from "../../explain/repeated.ts";
import { spansOf } from "../../explain/window.ts";
import { full } from "../../format.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import { useShown, useSigned } from "./colors.ts";
import { Contributions } from "./contributions.tsx";
import {
  type Drawn,
  Ends,
  GAP,
  hasPlaces,
  ResultFigure,
  type Source,
  SourceFigure,
  usePair,
} from "./ends.tsx";
import { NUMBERED } from "./matrix.tsx";
import {
  cellIn,
  cellSize,
  Equation,
  inputs,
  MOST_TAPS,
  mostOf,
  noteOf,
  results,
  weights,
} from "./taps.tsx";

/** CSS pixels beside the pictures that bars of channels have room in. */
const BARS = 230;

export interface Summed {
  readonly layer: Layer;
  readonly source: Value;
  readonly products: Sliding;
  readonly chosen: number;
  readonly choose: (k: number) => void;
  /** "encoder.0.weight". */
  readonly weight: string;
  /** The output channel. */
  readonly output: number;
  readonly drawn: Drawn;
}

/** What each input channel gives. */
export function Channels(props: Summed & { width: number }) {
  const { source, products, chosen, choose, width } = props;
  const { contributions, first, count } = products;
  if (contributions.length < 2) return null;
  const each = count / contributions.length;
  return (
    <Contributions
      {...{ contributions, first, chosen, choose, width }}
      noun="channel"
      words={`of ${source.key} · ${full(each)} product${each === 1 ? "" : "s"} each`}
    />
  );
}

/** The input, patch × filter = products, and the result. */
export function Convolved(props: Summed) {
  const { layer, source, products, chosen, weight, output, drawn } = props;
  const linked = useSignal<number | null>(null);
  const { lines, first } = products;
  const [rows, columns] = [lines.rows.length, lines.columns.length];
  const mode = layer.attributes.padding_mode;
  const channel = first + chosen;
  const around = aroundOf(layer);
  const from: Source = { value: source, channel, lines, around, marked: "the patch" };
  const { room, to, taken } = usePair(from, drawn);
  const few = rows * columns <= MOST_TAPS;
  const flat = source.nchw[2] === 1 && rows === 1;
  const patch = products.patch(few ? chosen : 0, few ? lines : { rows: [], columns: [] });
  const free = drawn.width - taken - GAP;
  const beside = flat ? 0 : cellSize(free - GAP, rows, columns, 3);
  const below = cellIn(drawn.width, rows, columns, 3);
  const between = few && beside >= Math.min(NUMBERED, below.cell);
  const cell = between ? beside : below.cell;
  const cells = { input: inputs(patch), weight: weights(patch), product: results(patch) };
  const colors = {
    input: useShown(source, mostOf(cells.input)),
    weight: useSigned(mostOf(cells.weight)),
    product: useSigned(mostOf(cells.product)),
  };
  const equation = few && (
    <Equation
      {...{ columns, cell, linked, flat }}
      note={noteOf(patch, repeats(mode) ?? undefined)}
      terms={[
        {
          title: "Patch",
          text: spansOf(lines, flat, mode),
          label: "Patch of the input",
          cells: cells.input,
          color: colors.input,
        },
        {
          title: "Filter",
          text: `${weight}[${output}, ${chosen}]`,
          label: "Filter",
          cells: cells.weight,
          color: colors.weight,
        },
        {
          title: "Products",
          text: productsText(patch, mode),
          sum: products.contributions[chosen] ?? 0,
          label: "Products",
          cells: cells.product,
          color: colors.product,
        },
      ]}
    />
  );
  if (between) {
    return (
      <>
        <div class="nbg-flowing nbg-way-beside">
          <SourceFigure
            source={from}
            room={room}
            tensors={drawn.tensors}
            callout={{ gap: GAP, height: rows * cell }}
          />
          {equation}
          {hasPlaces(drawn.result.value) && (
            <ResultFigure result={drawn.result} room={to} tensors={drawn.tensors} />
          )}
        </div>
        <Channels {...props} width={drawn.width} />
      </>
    );
  }
  const bars = free >= BARS;
  return (
    <>
      <Ends sources={[from]} drawn={drawn} needs={bars ? BARS : 0}>
        {bars && <Channels {...props} width={free} />}
      </Ends>
      {few ? (
        <div class={`nbg-flowing nbg-way-${below.way === "beside" ? "below" : "stacked"}`}>
          {equation}
        </div>
      ) : (
        <p class="nbg-note">
          A filter of {rows}×{columns} weights is too large to be shown tap by tap.
        </p>
      )}
      {!bars && <Channels {...props} width={drawn.width} />}
    </>
  );
}

/** "9 terms, 3 from padding". */
function productsText(patch: Patch, mode: unknown): string {
  const { cells } = patch;
  const hatched = cells.filter((one) => one.state !== "input").length;
  const repeated = cells.filter((one) => one.repeated !== undefined).length;
  return [
    `${cells.length} term${cells.length === 1 ? "" : "s"}`,
    ...(hatched > 0 ? [`${hatched} from padding`] : []),
    ...(repeated > 0 ? [`${repeated} ${repeats(mode)} at the border`] : []),
  ].join(", ");
}
