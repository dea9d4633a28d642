// Attention in three steps: q·k of one pair of tokens, its softmax row, and the weighted sum of v.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { attended, pairOf, type TokenPair } from "../../explain/attended.ts";
import type { Attention } from "../../explain/attention.ts";
import type { Products } from "../../explain/products.ts";
import type { Tensors } from "../../explain/tensor.ts";
import { exact } from "../../format.ts";
import type { Layer } from "../../plan/schema.ts";
import { useSigned } from "../explain/colors.ts";
import { Contributions } from "../explain/contributions.tsx";
import { Added, Num } from "../explain/number.tsx";
import { cellIn, Equation, mostOf } from "../explain/taps.tsx";
import { NumberField } from "../number_field.tsx";

/** Longer rows are told by their bars alone. */
const MOST_ROW = 160;

interface Props {
  attention: Attention;
  layer: Layer;
  tensors: Tensors;
  index: number;
  width: number;
}

export function AttentionPicture(props: Props) {
  const { attention, layer, tensors, index } = props;
  const { scores, share, mix } = attention;
  // Another key or feature is looked at until another place is.
  const [held, hold] = useState({ index: -1, key: -1, feature: -1 });
  const first = pairOf(attention, layer, tensors, index, share.name);
  const more = held.index === index ? held : { key: -1, feature: -1 };
  const pair: TokenPair = {
    ...first,
    key: more.key < 0 ? first.key : more.key,
    feature: more.feature < 0 ? first.feature : more.feature,
  };
  const found = attended(attention, tensors, pair);
  if (found === null) return null;
  const width = props.width - 16;
  const choose = (key: number): void => hold({ ...more, index, key });
  const [q, k, v] = [scores.operands[0]?.key, scores.operands[1]?.key, mix.operands[1]?.key];
  const input = found.share.inputs[pair.key] ?? Number.NaN;
  const power = found.share.powers[pair.key] ?? Number.NaN;
  const part = power / found.share.sum;
  const between = Math.abs(input - found.score.sum) > 1e-4 * Math.max(1, Math.abs(input));
  const shares = found.share.powers.map((one) => one / found.share.sum);
  const who = `head ${pair.head}, query of token ${pair.query}`;
  const both = `${who}, key of token ${pair.key}`;
  return (
    <div class="nbg-attention">
      <Step
        asked={layer === scores}
        title="1 · q·k of one pair"
        text={`${scores.name}, ${both}: each number of q times that of k, summed`}
      >
        <Row width={width} products={found.score} names={[`q: ${q}`, `k: ${k}`]} />
        <p class="nbg-second">
          q·k = <Num value={found.score.sum} strong />
          {between && (
            <>
              ; with what stands between, {share.operands[0]?.key} has <Num value={input} strong />
            </>
          )}
        </p>
      </Step>
      <Step
        asked={layer === share}
        title="2 · Its softmax row"
        text={`${share.name}, ${who}: e to the power of each score of the row, as shares of 1`}
      >
        <Contributions
          contributions={shares}
          first={0}
          noun="token"
          words="by their keys"
          chosen={pair.key}
          choose={choose}
          width={width}
        />
        <p class="nbg-second">
          e^(
          <Num value={input} /> <Added value={-found.share.largest} />) = <Num value={power} />, of
          a sum of <Num value={found.share.sum} />: a share of <Num value={part} strong />
        </p>
      </Step>
      <Step
        asked={layer === mix}
        title="3 · The weighted sum of v"
        text={`${mix.name}, ${who}: the values of all tokens by these shares`}
      >
        {pair.features > 1 && (
          <NumberField
            label="Shown for feature"
            low={0}
            high={pair.features - 1}
            value={pair.feature}
            set={(feature) => hold({ ...more, index, feature })}
          />
        )}
        <Row width={width} products={found.mix} names={["Shares", `v: ${v}`]} />
        <Contributions
          contributions={found.mix.contributions}
          first={0}
          noun="token"
          words="share × v"
          chosen={pair.key}
          choose={choose}
          width={width}
        />
        <p class="nbg-second">
          Together they give <Num value={found.mix.sum} strong />.
        </p>
      </Step>
    </div>
  );
}

function Step(props: { asked: boolean; title: string; text: string; children: ComponentChildren }) {
  const { asked, title, text, children } = props;
  return (
    <section class={asked ? "nbg-asked-for" : ""} aria-label={title}>
      <header>
        <h4>{title}</h4>
        <p class="nbg-second">{text}</p>
      </header>
      {children}
    </section>
  );
}

/** A row times a column, number by number, with their curves. */
function Row(props: { products: Products; names: readonly [string, string]; width: number }) {
  const { products, names, width } = props;
  const linked = useSignal<number | null>(null);
  const count = products.contributions.length;
  const rows = Array.from({ length: count }, (_, k) => products.patch(k).cells[0]);
  const { cell, way } = cellIn(width, 1, count, 3);
  const cells = {
    a: rows.map((one) => ({ value: one?.input ?? Number.NaN })),
    b: rows.map((one) => ({ value: one?.weight ?? Number.NaN })),
    product: rows.map((one) => ({ value: one?.product ?? Number.NaN })),
  };
  const colors = [cells.a, cells.b, cells.product].map(mostOf);
  const [a, b, c] = [
    useSigned(colors[0] ?? 1),
    useSigned(colors[1] ?? 1),
    useSigned(colors[2] ?? 1),
  ];
  if (count > MOST_ROW || cell * count > width) return null;
  const note = (k: number): string => {
    const one = rows[k];
    return one ? `${exact(one.input)} × ${exact(one.weight)} = ${exact(one.product)}` : "";
  };
  return (
    <div class={`nbg-flowing nbg-way-${way === "beside" ? "below" : "stacked"}`}>
      <Equation
        {...{ cell, linked, note, columns: count }}
        terms={[
          { title: names[0], text: "", label: names[0], cells: cells.a, color: a },
          { title: names[1], text: "", label: names[1], cells: cells.b, color: b },
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
