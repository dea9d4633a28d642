// Explains one output value of a convolution: the patch under the filter, times the filter, tap by tap.
import { useSignal } from "@preact/signals";
import { paddingModeText } from "../../explain/padding_modes.ts";
import type { ChannelProducts, ConvolutionProducts } from "../../explain/products.ts";
import { windowText } from "../../explain/window.ts";
import { windowMargins } from "../../explain/window_margins.ts";
import { formatInteger } from "../../number_format.ts";
import type { Layer, Value } from "../../plan/schema.ts";
import { useSignedColor, useValueColor } from "./colors.ts";
import { Contributions } from "./contributions.tsx";
import {
  cellLayout,
  cellSize,
  Equation,
  inputCells,
  MAX_TAPS,
  maxAbsCell,
  productCells,
  productTooltip,
  weightCells,
} from "./equation.tsx";
import { MIN_NUMBER_CELL } from "./matrix.tsx";
import {
  type DrawContext,
  hasSeveralPixels,
  type MarkedSource,
  PICTURE_GAP,
  ResultFigure,
  SourceAndResult,
  SourceFigure,
  usePictureSizes,
} from "./source_result.tsx";

/** The least CSS pixels that the channel bars need beside the pictures. */
const MIN_BARS_WIDTH = 230;

export interface ConvolutionProps {
  readonly layer: Layer;
  readonly source: Value;
  readonly products: ConvolutionProducts;
  readonly chosen: number;
  readonly choose: (k: number) => void;
  /** The weight's name, e.g. "encoder.0.weight". */
  readonly weightKey: string;
  /** The output channel. */
  readonly outputChannel: number;
  readonly context: DrawContext;
}

/** The contribution of each input channel. */
export function ChannelContributions(props: ConvolutionProps & { width: number }) {
  const { source, products, chosen, choose, width } = props;
  const { contributions, firstChannel, productCount } = products;
  if (contributions.length < 2) return null;
  const each = productCount / contributions.length;
  return (
    <Contributions
      {...{ contributions, firstChannel, chosen, choose, width }}
      noun="channel"
      text={`of ${source.key} · ${formatInteger(each)} product${each === 1 ? "" : "s"} each`}
    />
  );
}

/** The input, patch × filter = products, and the result. */
export function ConvolutionView(props: ConvolutionProps) {
  const { layer, source, products, chosen, weightKey, outputChannel, context } = props;
  const hoveredCell = useSignal<number | null>(null);
  const { taps, firstChannel } = products;
  const [rows, columns] = [taps.rows.length, taps.columns.length];
  const mode = layer.attributes.padding_mode;
  const channel = firstChannel + chosen;
  const margins = windowMargins(layer);
  const from: MarkedSource = { value: source, channel, taps, margins, markLabel: "the patch" };
  const { room, to, taken } = usePictureSizes(from, context);
  const few = rows * columns <= MAX_TAPS;
  const is1d = source.nchw[2] === 1 && rows === 1;
  const patch = products.channelProducts(few ? chosen : 0, few ? taps : { rows: [], columns: [] });
  const free = context.width - taken - PICTURE_GAP;
  const beside = is1d ? 0 : cellSize(free - PICTURE_GAP, rows, columns, 3);
  const below = cellLayout(context.width, rows, columns, 3);
  const between = few && beside >= Math.min(MIN_NUMBER_CELL, below.cell);
  const cellSide = between ? beside : below.cell;
  const cells = {
    input: inputCells(patch),
    weight: weightCells(patch),
    product: productCells(patch),
  };
  const colors = {
    input: useValueColor(source, maxAbsCell(cells.input)),
    weight: useSignedColor(maxAbsCell(cells.weight)),
    product: useSignedColor(maxAbsCell(cells.product)),
  };
  const equation = few && (
    <Equation
      {...{ columns, cellSide, hoveredCell, is1d }}
      cellTooltip={productTooltip(patch, paddingModeText(mode) ?? undefined)}
      terms={[
        {
          title: "Patch",
          text: windowText(taps, is1d, mode),
          label: "Patch of the input",
          cells: cells.input,
          color: colors.input,
        },
        {
          title: "Filter",
          text: `${weightKey}[${outputChannel}, ${chosen}]`,
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
            tensors={context.tensors}
            callout={{ gap: PICTURE_GAP, height: rows * cellSide }}
          />
          {equation}
          {hasSeveralPixels(context.result.value) && (
            <ResultFigure result={context.result} room={to} tensors={context.tensors} />
          )}
        </div>
        <ChannelContributions {...props} width={context.width} />
      </>
    );
  }
  const bars = free >= MIN_BARS_WIDTH;
  return (
    <>
      <SourceAndResult sources={[from]} context={context} asideWidth={bars ? MIN_BARS_WIDTH : 0}>
        {bars && <ChannelContributions {...props} width={free} />}
      </SourceAndResult>
      {few ? (
        <div class={`nbg-flowing nbg-way-${below.way === "beside" ? "below" : "stacked"}`}>
          {equation}
        </div>
      ) : (
        <p class="nbg-note">
          The {rows}×{columns} filter is too large to show each weight.
        </p>
      )}
      {!bars && <ChannelContributions {...props} width={context.width} />}
    </>
  );
}

/** The caption of the products, e.g. "9 terms, 3 from padding". */
function productsText(patch: ChannelProducts, paddingMode: unknown): string {
  const { cells } = patch;
  const hatched = cells.filter((one) => one.state !== "input").length;
  const repeated = cells.filter((one) => one.repeatedPixel !== undefined).length;
  return [
    `${cells.length} term${cells.length === 1 ? "" : "s"}`,
    ...(hatched > 0 ? [`${hatched} from padding`] : []),
    ...(repeated > 0 ? [`${repeated} ${paddingModeText(paddingMode)} at the border`] : []),
  ].join(", ");
}
