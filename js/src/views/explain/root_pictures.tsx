// The explanation of a number as pictures and as a row of cards, chosen by the kind of explanation.

import { useRef, useState } from "preact/hooks";
import type { Attention } from "../../explain/attention.ts";
import type { Chain } from "../../explain/chain.ts";
import type { Computation, Explanation } from "../../explain/explanation.ts";
import { valueBeforeReshape } from "../../explain/origin.ts";
import { coordinates } from "../../explain/tensor.ts";
import type { WindowTaps } from "../../explain/window.ts";
import { windowMargins } from "../../explain/window_margins.ts";
import { contentsText } from "../../network/display_kind.ts";
import type { Operand, Value } from "../../plan/schema.ts";
import { AttentionView } from "../attention/view.tsx";
import { useViews } from "../context.ts";
import { ReductionView } from "../operands/reduction.tsx";
import { InterpolationView } from "../resampling/interpolation.tsx";
import { PoolView } from "../resampling/pool_view.tsx";
import { TransposedView } from "../resampling/transposed_convolution.tsx";
import { rankContributions } from "./contributions.tsx";
import { ConvolutionView } from "./convolution.tsx";
import { DenseView } from "./dense.tsx";
import { SoftmaxBars } from "./softmax_bars.tsx";
import {
  type DrawContext,
  type MarkedSource,
  pictureWidth,
  ResultFigure,
  SourceAndResult,
} from "./source_result.tsx";
import { StepCards } from "./step_cards.tsx";

/** Kinds whose source and result are not drawn as maps side by side. */
const BAR_KINDS: ReadonlySet<Computation["kind"]> = new Set<Computation["kind"]>([
  "dense",
  "softmax",
]);

export function ExplanationPictures(props: {
  chain: Chain;
  /** The attention block that contains the layer. */
  attention: Attention | null;
  found: Explanation;
  index: number;
  drawn: DrawContext;
}) {
  const { chain, found, drawn } = props;
  const { root } = chain;
  const { result, width, tensors } = drawn;
  const [, , height, across] = result.value.nchw;
  const beside = BAR_KINDS.has(found.computation.kind) && height * across > 1;
  return (
    <>
      <RootPictures {...props} />
      <div class="nbg-ending">
        <StepCards explanation={found} {...{ root, result }} />
        {beside && (
          <ResultFigure {...{ result, tensors }} room={pictureWidth(result.value, width, 2)} />
        )}
      </div>
      {root === null && (
        <p class="nbg-second">
          Each layer transforms the value of {chain.source.key} ({contentsText(chain.source)}) at
          the same position.
        </p>
      )}
    </>
  );
}

function RootPictures({
  chain,
  attention,
  found,
  index,
  drawn,
}: Parameters<typeof ExplanationPictures>[0]) {
  const { computation } = found;
  const { root, source } = chain;
  const network = useViews().network.value;
  const output = root === null ? 0 : (coordinates(root.output_shape, found.rootIndex)[1] ?? 0);
  const { chosen, choose } = useSelectedTerm(computation, output);
  const { width } = drawn;
  if (root === null)
    return <SourceAndResult sources={[pixelSource(source, index)]} context={drawn} />;
  const layer = [attention?.scores, attention?.weights, attention?.output].find(
    (one) => one?.name === drawn.result.value.key,
  );
  if (attention !== null && layer !== undefined) {
    return <AttentionView {...{ attention, layer, index, width }} tensors={drawn.tensors} />;
  }
  const weight = root.operands[1]?.key ?? "";
  switch (computation.kind) {
    case "convolution": {
      const { products } = computation;
      const shared = { layer: root, source, chosen, choose, weight, output, context: drawn };
      if (products.transposedTaps === null)
        return <ConvolutionView {...shared} products={products} />;
      return <TransposedView {...shared} products={products} />;
    }
    case "dense":
      return (
        <DenseView
          {...{ source, found, width, weight, chosen, choose }}
          result={drawn.result}
          products={computation.products}
        />
      );
    case "pool":
      if (!readsMaps(source, root.operands[0])) {
        return <ReductionView {...{ source, width }} pooled={computation.pooled} />;
      }
      return (
        <PoolView
          {...{ source, drawn }}
          layer={root}
          pooled={computation.pooled}
          channel={output}
        />
      );
    case "softmax":
      return <SoftmaxBars {...{ source, width }} terms={computation.softmax} />;
    case "mixed":
      return (
        <InterpolationView
          {...{ source, drawn }}
          interpolation={computation.mixed}
          channel={output}
        />
      );
    case "padded": {
      const { taps } = computation.padded;
      const marked = "the pixel that is passed on";
      const from = {
        value: source,
        channel: output,
        taps,
        margins: windowMargins(root),
        markLabel: marked,
      };
      return <SourceAndResult sources={[from]} context={drawn} />;
    }
    case "copied":
    case "addition":
    case "elementwise": {
      const terms = computation.kind === "copied" ? [computation.copied] : computation.terms;
      const sources = terms.flatMap((term) => {
        const value = network?.values.get(term.key);
        if (network === null || value === undefined) return [];
        // As maps if the value was merely reshaped to tokens or to a row.
        const seen = valueBeforeReshape(network, value);
        return [pixelSource(seen.nchw[2] > 1 ? seen : value, term.index)];
      });
      return <SourceAndResult sources={sources} context={drawn} />;
    }
    case "response":
    case "given":
      return <SourceAndResult sources={[pixelSource(source, index)]} context={drawn} />;
  }
}

/**
 * Whether an operator reads its operand in the layout in which maps are shown, so that its window can be marked in
 * them.
 */
const readsMaps = ({ nchw }: Value, operand: Operand | undefined): boolean =>
  operand?.index_maps.length === 0 && operand.shape[0] === nchw[0] && operand.shape[1] === nchw[1];

/** A value with one pixel marked: the pixel of the element at `index`. */
function pixelSource(value: Value, index: number): MarkedSource {
  const [, channel = 0, y = 0, x = 0] = coordinates(value.nchw, index);
  const line = (inputIndex: number) => [{ tap: 0, inputIndex, state: "input" }] as const;
  const taps: WindowTaps = { rows: line(y), columns: line(x) };
  return { value, channel, taps, markLabel: "the pixel" };
}

/**
 * The input channel that is shown tap by tap: initially the one with the largest contribution to the output channel. It
 * stays the same while the filter slides, until the user selects another.
 */
function useSelectedTerm(computation: Computation, output: number) {
  const selection = useRef({ output: -1, term: 0 });
  const [, redraw] = useState(0);
  const terms =
    computation.kind === "convolution" || computation.kind === "dense"
      ? computation.products.contributions
      : null;
  if (
    terms !== null &&
    (selection.current.output !== output || selection.current.term >= terms.length)
  ) {
    selection.current = { output, term: rankContributions(terms)[0] ?? 0 };
  }
  const choose = (term: number): void => {
    selection.current = { output, term };
    redraw((count) => count + 1);
  };
  return { chosen: selection.current.term, choose };
}
