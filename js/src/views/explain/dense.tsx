// Explains one output value of a dense layer: every input times its weight, the largest contributions as a table.

import type { Explanation } from "../../explain/explanation.ts";
import type { DenseProducts } from "../../explain/products.ts";
import { formatInteger } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { ElementLink, ReshapeSourceNote } from "../explain_trail/element_links.tsx";
import { Contributions, rankContributions } from "./contributions.tsx";
import { Num } from "./number.tsx";
import type { ExplainedPixel } from "./source_result.tsx";

const MAX_ROWS = 8;

export function DenseView(props: {
  source: Value;
  explanation: Explanation;
  products: DenseProducts;
  result: ExplainedPixel;
  weightKey: string;
  chosen: number;
  choose: (k: number) => void;
  width: number;
}) {
  const { source, explanation, products, result, weightKey, chosen, choose, width } = props;
  const from = (k: number) => explanation.operandElementRef(0, products.factorIndices(k)[0]);
  const order = rankContributions(products.contributions);
  const top = order.slice(0, MAX_ROWS);
  const shown = top.includes(chosen) ? top : [...top.slice(0, MAX_ROWS - 1), chosen];
  return (
    <>
      <section class="nbg-block">
        <h3>
          {order.length > shown.length ? "The largest products" : "All products"}{" "}
          <span class="nbg-second">
            {source.key} × {weightKey}
            <ReshapeSourceNote elementRef={from(0)} />
          </span>
        </h3>
        <table class="nbg-table nbg-terms">
          <thead>
            <tr>
              <th scope="col">input</th>
              <th scope="col">value</th>
              <th scope="col">× weight</th>
              <th scope="col">= product</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((k) => {
              const [cell] = products.channelProducts(k).cells;
              return (
                cell && (
                  <tr key={k} class={k === chosen ? "nbg-chosen" : ""}>
                    <th scope="row">
                      {formatInteger(k)}
                      <ElementLink elementRef={from(k)} explainedElement={result} />
                    </th>
                    <td>
                      <Num value={cell.input} />
                    </td>
                    <td>
                      <Num value={cell.weight} />
                    </td>
                    <td>
                      <Num value={cell.product} strong />
                    </td>
                  </tr>
                )
              );
            })}
          </tbody>
        </table>
      </section>
      <Contributions
        contributions={products.contributions}
        firstChannel={0}
        noun="input"
        text={`of ${source.key} · one product each`}
        chosen={chosen}
        choose={choose}
        width={width}
      />
    </>
  );
}
