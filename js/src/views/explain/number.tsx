// A number in an explanation: few digits to read, all of them on hover and for programs.
import { formatExact, formatFixed } from "../../number_format.ts";

/** The number that a text of ours says. */
export const parseShown = (text: string): number =>
  Number(text.replaceAll("−", "-").replace("∞", "Infinity"));

/** A number as `Num` and `SignedTerm` show it, for seeing whether what is shown adds up as it is shown. */
export const roundAsShown = (value: number, decimals = 3): number =>
  parseShown(formatFixed(value, decimals));

/** A number with three decimals, all its digits in its title and its value. */
export function Num(props: { value: number; strong?: boolean; decimals?: number }) {
  const { value, strong = false, decimals = 3 } = props;
  const text = value === 0 ? "0" : formatFixed(value, decimals);
  return (
    <data value={String(value)} title={formatExact(value)} class={strong ? "nbg-strong" : ""}>
      {text}
    </data>
  );
}

/** "+ 0.088" or "− 0.195": a number that is added. */
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
