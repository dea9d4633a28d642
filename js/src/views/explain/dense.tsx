// A dense layer's number: every input times its weight, the ones that count most as a table.

import type { Explanation } from "../../explain/explanation.ts";
import type { Paired } from "../../explain/products.ts";
import { full } from "../../format.ts";
import type { Value } from "../../plan/schema.ts";
import { Going, LaidOut } from "../trail/reads.tsx";
import { byContribution, Contributions } from "./contributions.tsx";
import type { Result } from "./ends.tsx";
import { Num } from "./number.tsx";

const ROWS = 8;

export function Dense(props: {
  source: Value;
  found: Explanation;
  products: Paired;
  result: Result;
  weight: string;
  chosen: number;
  choose: (k: number) => void;
  width: number;
}) {
  const { source, found, products, result, weight, chosen, choose, width } = props;
  const from = (k: number) => found.from(0, products.pair(k)[0]);
  const order = byContribution(products.contributions);
  const top = order.slice(0, ROWS);
  const shown = top.includes(chosen) ? top : [...top.slice(0, ROWS - 1), chosen];
  return (
    <>
      <section class="nbg-block">
        <h3>
          {order.length > shown.length ? "The largest products" : "All products"}{" "}
          <span class="nbg-second">
            {source.key} × {weight}
            <LaidOut from={from(0)} />
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
              const [cell] = products.patch(k).cells;
              return (
                cell && (
                  <tr key={k} class={k === chosen ? "nbg-chosen" : ""}>
                    <th scope="row">
                      {full(k)}
                      <Going from={from(k)} at={result} />
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
        first={0}
        noun="input"
        words={`of ${source.key} · one product each`}
        chosen={chosen}
        choose={choose}
        width={width}
      />
    </>
  );
}
