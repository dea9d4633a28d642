// Attention in three steps: q·k for one pair of tokens, its softmax row, and the weighted sum of v.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { AttentionLayers } from "../../explain/attention.ts";
import type { Products } from "../../explain/products.ts";
import type { Tensors } from "../../explain/tensor.ts";
import { type TokenPair, tokenPairAt, tokenPairTerms } from "../../explain/token_pair.ts";
import { formatExact } from "../../number_format.ts";
import type { Layer } from "../../plan/schema.ts";
import { useSignedColor } from "../explain/colors.ts";
import { Contributions } from "../explain/contributions.tsx";
import { cellLayout, Equation, maxAbsCell } from "../explain/equation.tsx";
import { Num, SignedTerm } from "../explain/number.tsx";
import { NumberField } from "../number_field.tsx";

/** Longer rows are shown only as bars. */
const MAX_EQUATION_COLUMNS = 160;

interface Props {
  attention: AttentionLayers;
  layer: Layer;
  tensors: Tensors;
  elementIndex: number;
  width: number;
}

export function AttentionView(props: Props) {
  const { attention, layer, tensors, elementIndex } = props;
  const { scores, weights, output } = attention;
  // The user's choice of key and feature applies until another position is selected.
  const [held, hold] = useState({ index: -1, key: -1, feature: -1 });
  const first = tokenPairAt(attention, layer, tensors, elementIndex, weights.name);
  const more = held.index === elementIndex ? held : { key: -1, feature: -1 };
  const pair: TokenPair = {
    ...first,
    key: more.key < 0 ? first.key : more.key,
    feature: more.feature < 0 ? first.feature : more.feature,
  };
  const found = tokenPairTerms(attention, tensors, pair);
  if (found === null) return null;
  const width = props.width - 16;
  const choose = (key: number): void => hold({ ...more, index: elementIndex, key });
  const [q, k, v] = [scores.operands[0]?.key, scores.operands[1]?.key, output.operands[1]?.key];
  const input = found.weight.inputs[pair.key] ?? Number.NaN;
  const power = found.weight.exponentials[pair.key] ?? Number.NaN;
  const part = power / found.weight.sum;
  const between = Math.abs(input - found.score.sum) > 1e-4 * Math.max(1, Math.abs(input));
  const shares = found.weight.exponentials.map((one) => one / found.weight.sum);
  const who = `head ${pair.head}, query of token ${pair.query}`;
  const both = `${who}, key of token ${pair.key}`;
  return (
    <div class="nbg-attention">
      <AttentionStep
        isSelected={layer === scores}
        title="1 · q·k of one pair"
        text={`${scores.name}, ${both}: the sum of the products of q and k`}
      >
        <DotProductEquation
          width={width}
          products={found.score}
          factorNames={[`q: ${q}`, `k: ${k}`]}
        />
        <p class="nbg-second">
          q·k = <Num value={found.score.sum} strong />
          {between && (
            <>
              ; after the operations in between (scale, mask), {weights.operands[0]?.key} is{" "}
              <Num value={input} strong />
            </>
          )}
        </p>
      </AttentionStep>
      <AttentionStep
        isSelected={layer === weights}
        title="2 · Its softmax row"
        text={`${weights.name}, ${who}: exp of each score, divided by the sum of the row`}
      >
        <Contributions
          contributions={shares}
          firstChannel={0}
          noun="token"
          text="by their keys"
          chosen={pair.key}
          choose={choose}
          width={width}
        />
        <p class="nbg-second">
          e^(
          <Num value={input} /> <SignedTerm value={-found.weight.max} />) = <Num value={power} />,
          of a sum of <Num value={found.weight.sum} />: a share of <Num value={part} strong />
        </p>
      </AttentionStep>
      <AttentionStep
        isSelected={layer === output}
        title="3 · The weighted sum of v"
        text={`${output.name}, ${who}: the attention-weighted sum of all value vectors`}
      >
        {pair.featureCount > 1 && (
          <NumberField
            label="Shown for feature"
            low={0}
            high={pair.featureCount - 1}
            value={pair.feature}
            setValue={(feature) => hold({ ...more, index: elementIndex, feature })}
          />
        )}
        <DotProductEquation
          width={width}
          products={found.output}
          factorNames={["Shares", `v: ${v}`]}
        />
        <Contributions
          contributions={found.output.contributions}
          firstChannel={0}
          noun="token"
          text="share × v"
          chosen={pair.key}
          choose={choose}
          width={width}
        />
        <p class="nbg-second">
          Together they give <Num value={found.output.sum} strong />.
        </p>
      </AttentionStep>
    </div>
  );
}

function AttentionStep(props: {
  isSelected: boolean;
  title: string;
  text: string;
  children: ComponentChildren;
}) {
  const { isSelected, title, text, children } = props;
  return (
    <section class={isSelected ? "nbg-asked-for" : ""} aria-label={title}>
      <header>
        <h4>{title}</h4>
        <p class="nbg-second">{text}</p>
      </header>
      {children}
    </section>
  );
}

/** The elementwise products of a row and a column, with connecting curves. */
function DotProductEquation(props: {
  products: Products;
  factorNames: readonly [string, string];
  width: number;
}) {
  const { products, factorNames, width } = props;
  const hoveredCell = useSignal<number | null>(null);
  const count = products.contributions.length;
  const rows = Array.from({ length: count }, (_, k) => products.channelProducts(k).cells[0]);
  const { cell: cellSide, way } = cellLayout(width, 1, count, 3);
  const cells = {
    a: rows.map((one) => ({ value: one?.input ?? Number.NaN })),
    b: rows.map((one) => ({ value: one?.weight ?? Number.NaN })),
    product: rows.map((one) => ({ value: one?.product ?? Number.NaN })),
  };
  const colors = [cells.a, cells.b, cells.product].map(maxAbsCell);
  const [a, b, c] = [
    useSignedColor(colors[0] ?? 1),
    useSignedColor(colors[1] ?? 1),
    useSignedColor(colors[2] ?? 1),
  ];
  if (count > MAX_EQUATION_COLUMNS || cellSide * count > width) return null;
  const cellTooltip = (k: number): string => {
    const one = rows[k];
    return one
      ? `${formatExact(one.input)} × ${formatExact(one.weight)} = ${formatExact(one.product)}`
      : "";
  };
  return (
    <div class={`nbg-flowing nbg-way-${way === "beside" ? "below" : "stacked"}`}>
      <Equation
        {...{ cellSide, hoveredCell, cellTooltip, columns: count }}
        terms={[
          { title: factorNames[0], text: "", label: factorNames[0], cells: cells.a, color: a },
          { title: factorNames[1], text: "", label: factorNames[1], cells: cells.b, color: b },
          {
            title: "Products",
            text: "",
            sum: products.sum,
            label: "Products",
            cells: cells.product,
            color: c,
          },
        ]}
      />
    </div>
  );
}
