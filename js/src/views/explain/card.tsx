// A step of an explanation: what it is called, its numbers, and what they give.
import type { ComponentChildren } from "preact";
import { fixed } from "../../format.ts";
import { Soft } from "../soft.tsx";
import { Num } from "./number.tsx";

export function Card(props: {
  title: string;
  words: string;
  value: number;
  /** What the numbers on the card give as they are shown. */
  again?: number;
  children?: ComponentChildren;
}) {
  const { title, words, value, again = value, children } = props;
  return (
    <li class="nbg-card">
      <p>
        <strong>{title}</strong>{" "}
        <span class="nbg-second">
          <Soft text={words} />
        </span>
      </p>
      <div class="nbg-lines">{children}</div>
      <p class="nbg-result">
        {fixed(again) !== fixed(value) && (
          <abbr title="The numbers above are rounded: as they are shown they give another one.">
            ≈
          </abbr>
        )}
        <Num value={value} />
      </p>
    </li>
  );
}
