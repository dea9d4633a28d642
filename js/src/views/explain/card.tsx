// One step of an explanation as a card: its title, its numbers and their result.
import type { ComponentChildren } from "preact";
import { formatFixed } from "../../number_format.ts";
import { WordBreak } from "../word_break.tsx";
import { Num } from "./number.tsx";

export function Card(props: {
  title: string;
  text: string;
  value: number;
  /** The result of the numbers on the card as displayed, after rounding. */
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
