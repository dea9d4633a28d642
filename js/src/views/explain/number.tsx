// A number in an explanation: few digits on screen, all of them on hover and in the `value` attribute.
import { formatExact, formatFixed } from "../../number_format.ts";

/** Parse a number from displayed text. */
export const parseDisplayedNumber = (text: string): number =>
  Number(text.replaceAll("−", "-").replace("∞", "Infinity"));

/** A number rounded as `Num` and `SignedTerm` display it, to check whether the displayed numbers add up. */
export const roundAsDisplayed = (value: number, decimals = 3): number =>
  parseDisplayedNumber(formatFixed(value, decimals));

/** A number with three decimals; `title` and `value` hold all digits. */
export function Num(props: { value: number; strong?: boolean; decimals?: number }) {
  const { value, strong = false, decimals = 3 } = props;
  const text = value === 0 ? "0" : formatFixed(value, decimals);
  return (
    <data value={String(value)} title={formatExact(value)} class={strong ? "nbg-strong" : ""}>
      {text}
    </data>
  );
}

/** A summand with its sign: "+ 0.088" or "− 0.195". */
export function SignedTerm({ value, strong = false }: { value: number; strong?: boolean }) {
  const minus = value < 0 || Object.is(value, -0);
  return (
    <>
      {minus ? "−" : "+"}{" "}
      <data value={String(value)} title={formatExact(value)} class={strong ? "nbg-strong" : ""}>
        {formatFixed(Math.abs(value))}
      </data>
    </>
  );
}
