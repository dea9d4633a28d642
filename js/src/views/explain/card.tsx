// A step of an explanation: what it is called, its numbers, and what they give.
import type { ComponentChildren } from "preact";
import { formatFixed } from "../../number_format.ts";
import { WordBreak } from "../word_break.tsx";
import { Num } from "./number.tsx";

export function Card(props: {
  title: string;
  text: string;
  value: number;
  /** What the numbers on the card give as they are shown. */
  roundedResult?: number;
  children?: ComponentChildren;
}) {
  const { title, text, value, roundedResult = value, children } = props;
  return (
    <li class="nbg-card">
      <p>
        <strong>{title}</strong>{" "}
        <span class="nbg-second">
          <WordBreak text={text} />
        </span>
      </p>
      <div class="nbg-lines">{children}</div>
      <p class="nbg-result">
        {formatFixed(roundedResult) !== formatFixed(value) && (
          <abbr title="The values above are rounded, so the displayed terms don’t add up exactly.">
            ≈
          </abbr>
        )}
        <Num value={value} />
      </p>
    </li>
  );
}
