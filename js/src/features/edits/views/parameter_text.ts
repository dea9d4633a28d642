// Parsing and formatting of typed numbers, with error messages.
import type { Parameter } from "../../../plan/edits.ts";

/** A parameter's value as its field shows it: up to 7 significant digits, with a minus sign (−). */
export const formatNumber = (value: number): string =>
  String(Number(value.toPrecision(7))).replace("-", "−");

/** Parse a number, or return an error message; same rules as features/edits/records.py. */
export function parseNumber(text: string, parameter: Parameter): number | string {
  const { unit, integer, least, most, above } = parameter;
  const bare = text.replaceAll("−", "-").replace(",", ".").replace(unit, "").trim();
  const value = Number(bare);
  if (bare === "" || Number.isNaN(value)) return "Enter a number.";
  if (!Number.isFinite(value)) return "Enter a finite number.";
  if (integer && !Number.isInteger(value)) return "Enter an integer.";
  if (least !== null && (value < least || (above && value === least))) {
    return above ? `Enter more than ${least}.` : `Enter at least ${least}.`;
  }
  if (most !== null && value > most) return `Enter at most ${most}.`;
  return value;
}

/** The value one step up or down, on the step grid and within the limits. */
export function stepNumber(value: number, stepCount: number, parameter: Parameter): number {
  const { step, least, most, above } = parameter;
  const to = Number((Math.round(value / step + stepCount) * step).toPrecision(7));
  const low = least === null ? Number.NEGATIVE_INFINITY : above ? least + step : least;
  return Math.min(most ?? Number.POSITIVE_INFINITY, Math.max(low, to));
}
