// The explanation of a number as pictures and as a row of cards, chosen by the kind of explanation.

import { useRef, useState } from "preact/hooks";
import type { AttentionLayers } from "../../explain/attention.ts";
import type { ComputationChain } from "../../explain/computation_chain.ts";
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
import { TransposedConvolutionView } from "../resampling/transposed_convolution.tsx";
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
const BAR_COMPUTATION_KINDS: ReadonlySet<Computation["kind"]> = new Set<Computation["kind"]>([
  "dense",
  "softmax",
]);

export function ExplanationPictures(props: {
  chain: ComputationChain;
  /** The attention block that contains the layer. */
  attention: AttentionLayers | null;
  explanation: Explanation;
  elementIndex: number;
  context: DrawContext;
}) {
  const { chain, explanation, context } = props;
  const { root } = chain;
  const { result, width, tensors } = context;
  const [, , height, across] = result.value.nchw;
  const beside = BAR_COMPUTATION_KINDS.has(explanation.computation.kind) && height * across > 1;
  return (
    <>
      <RootPictures {...props} />
      <div class="nbg-ending">
        <StepCards explanation={explanation} {...{ root, result }} />
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
  explanation,
  elementIndex,
  context,
}: Parameters<typeof ExplanationPictures>[0]) {
  const { computation } = explanation;
  const { root, source } = chain;
  const network = useViews().network.value;
  const outputChannel =
    root === null ? 0 : (coordinates(root.output_shape, explanation.rootElementIndex)[1] ?? 0);
  const { chosen, choose } = useSelectedTerm(computation, outputChannel);
  const { width } = context;
  if (root === null)
    return <SourceAndResult sources={[markPixel(source, elementIndex)]} context={context} />;
  const layer = [attention?.scores, attention?.weights, attention?.output].find(
    (one) => one?.name === context.result.value.key,
  );
  if (attention !== null && layer !== undefined) {
    return (
      <AttentionView {...{ attention, layer, elementIndex, width }} tensors={context.tensors} />
    );
  }
  const weightKey = root.operands[1]?.key ?? "";
  switch (computation.kind) {
    case "convolution": {
      const { products } = computation;
      const shared = { layer: root, source, chosen, choose, weightKey, outputChannel, context };
      if (products.transposedTaps === null)
        return <ConvolutionView {...shared} products={products} />;
      return <TransposedConvolutionView {...shared} products={products} />;
    }
    case "dense":
      return (
        <DenseView
          {...{ source, explanation, width, weightKey, chosen, choose }}
          result={context.result}
          products={computation.products}
        />
      );
    case "pool":
      if (!isOperandInMapLayout(source, root.operands[0])) {
        return <ReductionView {...{ source, width }} poolWindow={computation.pooled} />;
      }
      return (
        <PoolView
          {...{ source, context }}
          layer={root}
          poolWindow={computation.pooled}
          channel={outputChannel}
        />
      );
    case "softmax":
      return <SoftmaxBars {...{ source, width }} terms={computation.softmax} />;
    case "mixed":
      return (
        <InterpolationView
          {...{ source, context }}
          interpolation={computation.mixed}
          channel={outputChannel}
        />
      );
    case "padded": {
      const { taps } = computation.padded;
      const marked = "the pixel that is passed on";
      const from = {
        value: source,
        channel: outputChannel,
        taps,
        margins: windowMargins(root),
        markLabel: marked,
      };
      return <SourceAndResult sources={[from]} context={context} />;
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
        return [markPixel(seen.nchw[2] > 1 ? seen : value, term.index)];
      });
      return <SourceAndResult sources={sources} context={context} />;
    }
    case "response":
    case "given":
      return <SourceAndResult sources={[markPixel(source, elementIndex)]} context={context} />;
  }
}

/**
 * Whether an operator reads its operand in the layout in which maps are shown, so that its window can be marked in
 * them.
 */
const isOperandInMapLayout = ({ nchw }: Value, operand: Operand | undefined): boolean =>
  operand?.index_maps.length === 0 && operand.shape[0] === nchw[0] && operand.shape[1] === nchw[1];

/** A value with one pixel marked: the pixel of the element at `elementIndex`. */
function markPixel(value: Value, elementIndex: number): MarkedSource {
  const [, channel = 0, y = 0, x = 0] = coordinates(value.nchw, elementIndex);
  const line = (inputIndex: number) => [{ tap: 0, inputIndex, state: "input" }] as const;
  const taps: WindowTaps = { rows: line(y), columns: line(x) };
  return { value, channel, taps, markLabel: "the pixel" };
}

/**
 * The input channel that is shown tap by tap: initially the one with the largest contribution to the output channel. It
 * stays the same while the filter slides, until the user selects another.
 */
function useSelectedTerm(computation: Computation, outputChannel: number) {
  const selection = useRef({ outputChannel: -1, term: 0 });
  const [, redraw] = useState(0);
  const terms =
    computation.kind === "convolution" || computation.kind === "dense"
      ? computation.products.contributions
      : null;
  if (
    terms !== null &&
    (selection.current.outputChannel !== outputChannel || selection.current.term >= terms.length)
  ) {
    selection.current = { outputChannel, term: rankContributions(terms)[0] ?? 0 };
  }
  const choose = (term: number): void => {
    selection.current = { outputChannel, term };
    redraw((count) => count + 1);
  };
  return { chosen: selection.current.term, choose };
}
