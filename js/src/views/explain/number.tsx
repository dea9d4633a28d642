// A number in an explanation: few digits to read, all of them on hover and for programs.
import { exact, fixed } from "../../format.ts";

/** The number that a text of ours says. */
export const told = (text: string): number =>
  Number(text.replaceAll("−", "-").replace("∞", "Infinity"));

/** A number as `Num` and `Added` show it, for seeing whether what is shown adds up as it is shown. */
export const asShown = (value: number, decimals = 3): number => told(fixed(value, decimals));

/** A number with three decimals, all its digits in its title and its value. */
export function Num(props: { value: number; strong?: boolean; decimals?: number }) {
  const { value, strong = false, decimals = 3 } = props;
  const text = value === 0 ? "0" : fixed(value, decimals);
  return (
    <data value={String(value)} title={exact(value)} class={strong ? "nbg-strong" : ""}>
      {text}
    </data>
  );
}

/** "+ 0.088" or "− 0.195": a number that is added. */
export function Added({ value, strong = false }: { value: number; strong?: boolean }) {
  const minus = value < 0 || Object.is(value, -0);
  return (
    <>
      {minus ? "−" : "+"}{" "}
      <data value={String(value)} title={exact(value)} class={strong ? "nbg-strong" : ""}>
        {fixed(Math.abs(value))}
      </data>
    </>
  );
}
