// What makes a number, as pictures and as a row of cards: each kind of explanation has its own.

import { useRef, useState } from "preact/hooks";
import { aroundOf } from "../../explain/around.ts";
import type { Attention } from "../../explain/attention.ts";
import type { Chain } from "../../explain/chain.ts";
import type { Explanation, Made } from "../../explain/explanation.ts";
import { beforeLayout } from "../../explain/origin.ts";
import { coordinates } from "../../explain/tensor.ts";
import type { Lines } from "../../explain/window.ts";
import { contents } from "../../network/display.ts";
import type { Operand, Value } from "../../plan/schema.ts";
import { AttentionPicture } from "../attention/view.tsx";
import { useViews } from "../context.ts";
import { Joined } from "../operands/joined.tsx";
import { PoolPicture } from "../resampling/pools.tsx";
import { Resized } from "../resampling/resized.tsx";
import { Transposed } from "../resampling/transposed.tsx";
import { Cards } from "./cards.tsx";
import { byContribution } from "./contributions.tsx";
import { Dense } from "./dense.tsx";
import { type Drawn, Ends, ResultFigure, roomOf, type Source } from "./ends.tsx";
import { Shares } from "./shares.tsx";
import { Convolved } from "./sums.tsx";

/** Kinds of which source and result are not drawn as maps beside each other. */
const BARS: ReadonlySet<Made["kind"]> = new Set<Made["kind"]>(["dense", "softmax"]);

export function Pictures(props: {
  chain: Chain;
  /** That the layer is a part of. */
  attention: Attention | null;
  found: Explanation;
  index: number;
  drawn: Drawn;
}) {
  const { chain, found, drawn } = props;
  const { root } = chain;
  const { result, width, tensors } = drawn;
  const [, , height, across] = result.value.nchw;
  const beside = BARS.has(found.made.kind) && height * across > 1;
  return (
    <>
      <Making {...props} />
      <div class="nbg-ending">
        <Cards explained={found} {...{ root, result }} />
        {beside && <ResultFigure {...{ result, tensors }} room={roomOf(result.value, width, 2)} />}
      </div>
      {root === null && (
        <p class="nbg-second">
          Each step changes the number of {chain.source.key}, {contents(chain.source)}, in its
          place.
        </p>
      )}
    </>
  );
}

function Making({ chain, attention, found, index, drawn }: Parameters<typeof Pictures>[0]) {
  const { made } = found;
  const { root, source } = chain;
  const network = useViews().network.value;
  const output = root === null ? 0 : (coordinates(root.output_shape, found.at)[1] ?? 0);
  const { chosen, choose } = useTerm(made, output);
  const { width } = drawn;
  if (root === null) return <Ends sources={[pixelOf(source, index)]} drawn={drawn} />;
  const layer = [attention?.scores, attention?.share, attention?.mix].find(
    (one) => one?.name === drawn.result.value.key,
  );
  if (attention !== null && layer !== undefined) {
    return <AttentionPicture {...{ attention, layer, index, width }} tensors={drawn.tensors} />;
  }
  const weight = root.operands[1]?.key ?? "";
  switch (made.kind) {
    case "convolution": {
      const { products } = made;
      const shared = { layer: root, source, chosen, choose, weight, output, drawn };
      if (products.phased === null) return <Convolved {...shared} products={products} />;
      return <Transposed {...shared} products={products} />;
    }
    case "dense":
      return (
        <Dense
          {...{ source, found, width, weight, chosen, choose }}
          result={drawn.result}
          products={made.products}
        />
      );
    case "pool":
      if (!seenIn(source, root.operands[0])) {
        return <Joined {...{ source, width }} pooled={made.pooled} />;
      }
      return (
        <PoolPicture {...{ source, drawn }} layer={root} pooled={made.pooled} channel={output} />
      );
    case "softmax":
      return <Shares {...{ source, width }} share={made.share} />;
    case "mixed":
      return <Resized {...{ source, drawn }} mixed={made.mixed} channel={output} />;
    case "padded": {
      const { lines } = made.padded;
      const marked = "the pixel that is passed on";
      const from = { value: source, channel: output, lines, around: aroundOf(root), marked };
      return <Ends sources={[from]} drawn={drawn} />;
    }
    case "copied":
    case "addition":
    case "elementwise": {
      const terms = made.kind === "copied" ? [made.copied] : made.terms;
      const sources = terms.flatMap((term) => {
        const value = network?.values.get(term.key);
        if (network === null || value === undefined) return [];
        // As maps, where it was laid out as tokens or a row only.
        const seen = beforeLayout(network, value);
        return [pixelOf(seen.nchw[2] > 1 ? seen : value, term.index)];
      });
      return <Ends sources={sources} drawn={drawn} />;
    }
    case "response":
    case "given":
      return <Ends sources={[pixelOf(source, index)]} drawn={drawn} />;
  }
}

/** Whether an operator reads maps as they are shown, so that what it looks at can be marked in them. */
const seenIn = ({ nchw }: Value, operand: Operand | undefined): boolean =>
  operand?.moves.length === 0 && operand.shape[0] === nchw[0] && operand.shape[1] === nchw[1];

/** A value with one of its pixels marked: that of an element. */
function pixelOf(value: Value, index: number): Source {
  const [, channel = 0, y = 0, x = 0] = coordinates(value.nchw, index);
  const line = (at: number) => [{ tap: 0, at, state: "input" }] as const;
  const lines: Lines = { rows: line(y), columns: line(x) };
  return { value, channel, lines, marked: "the pixel" };
}

/**
 * The input channel that is shown tap by tap: the one that gives most where an output channel is first
 * looked at, and that one still where the filter goes on, until the reader chooses another.
 */
function useTerm(made: Made, output: number) {
  const held = useRef({ output: -1, term: 0 });
  const [, redraw] = useState(0);
  const terms =
    made.kind === "convolution" || made.kind === "dense" ? made.products.contributions : null;
  if (terms !== null && (held.current.output !== output || held.current.term >= terms.length)) {
    held.current = { output, term: byContribution(terms)[0] ?? 0 };
  }
  const choose = (term: number): void => {
    held.current = { output, term };
    redraw((count) => count + 1);
  };
  return { chosen: held.current.term, choose };
}
