// Formats numbers and shapes for display: few digits, a minus sign (U+2212) and a multiplication sign (U+00D7).

const withMinusSign = (text: string): string => text.replaceAll("-", "−");

function nonFiniteText(value: number): string | null {
  if (Number.isNaN(value)) return "NaN";
  if (value === Number.POSITIVE_INFINITY) return "∞";
  return value === Number.NEGATIVE_INFINITY ? "−∞" : null;
}

function formatExponent(value: number, digits: number): string {
  return withMinusSign(value.toExponential(digits)).replace("e+", "e");
}

/** Two or three significant digits, for captions: 0.23, 2.70, 41.3, 6e−7. */
export function formatShort(value: number): string {
  const word = nonFiniteText(value);
  if (word !== null) return word;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 99_999.5) return formatExponent(value, 1);
  if (size >= 99.95) return withMinusSign(value.toFixed(0));
  if (size >= 9.995) return withMinusSign(value.toFixed(1));
  if (size >= 0.0995) return withMinusSign(value.toFixed(2));
  if (size >= 0.000995) return withMinusSign(String(Number(value.toPrecision(2))));
  return formatExponent(value, 0);
}

/** A fixed number of decimals, for table columns: 0.000, 2.598, 1234.568. */
export function formatFixed(value: number, decimals = 3): string {
  const word = nonFiniteText(value);
  if (word !== null) return word;
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.5 * 10 ** -decimals || size >= 1e6)) return formatExponent(value, 2);
  return formatPadded(value, decimals);
}

/** A constant width, for numbers in a matrix: 0.00, −0.17. */
export function formatPadded(value: number, decimals: number): string {
  const word = nonFiniteText(value);
  if (word !== null) return word;
  const text = value.toFixed(decimals);
  return withMinusSign(Number(text) === 0 ? text.replace("-", "") : text);
}

/** All significant digits of a float32, for a tooltip. */
export function formatExact(value: number): string {
  const word = nonFiniteText(value);
  if (word !== null) return word;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return formatExponent(value, 4);
  return withMinusSign(String(Number(value.toPrecision(7))));
}

/** A fraction as "62 %", with more decimals on request. Never rounds to 0 or 100 % unless that is exact. */
export function formatPercent(fraction: number, decimals = 0): string {
  const hundredths = fraction * 100;
  const rounded = Number(hundredths.toFixed(decimals));
  // 99.97 % must not read as 100 %, nor 0.02 % as 0 %.
  if (rounded === 0 && hundredths > 0) return `< ${(10 ** -decimals).toFixed(decimals)} %`;
  if (rounded === 100 && hundredths < 100)
    return `> ${(100 - 10 ** -decimals).toFixed(decimals)} %`;
  return `${hundredths.toFixed(decimals)} %`;
}

/** Memory in decimal units with two significant digits: 64 kB, 0.23 MB, 4.7 MB, 512 MB, 1.2 GB. */
export function formatBytes(bytes: number): string {
  if (bytes < 999.5) return `${bytes} B`;
  const [size, unit] = bytes >= 999.5e6 ? [1e9, "GB"] : bytes >= 99.5e3 ? [1e6, "MB"] : [1e3, "kB"];
  const scaled = bytes / size;
  return `${scaled >= 9.95 ? scaled.toFixed(0) : Number(scaled.toPrecision(2))} ${unit}`;
}

/** Large counts: 39, 1.7 k, 168 k, 11.7 M. */
export function formatCount(value: number): string {
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    // Without this, 999,950 and more would be written as 1000 k.
    if (value >= size * (size === 1e3 ? 1 : 0.9995)) {
      const scaled = value / size;
      return `${scaled >= 99.95 ? scaled.toFixed(0) : scaled.toFixed(1)} ${unit}`;
    }
  }
  return String(value);
}

/** An integer with all digits: 6,272. */
export const formatInteger = (value: number): string => value.toLocaleString("en-US");

/** A count with its noun, singular or plural: `formatPlural(1, "layer")`. */
export const formatPlural = (count: number, noun: string): string =>
  `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;

/** "1 pass", "2,100 passes": the count with all digits. */
export const formatPassCount = (count: number): string =>
  `${formatInteger(count)} ${count === 1 ? "pass" : "passes"}`;

/** "12 NaN, 1 infinity": the values that statistics exclude; "" if all are finite. */
export function nonFiniteCountText({
  nan,
  inf,
}: {
  readonly nan: number;
  readonly inf: number;
}): string {
  const words = nan > 0 ? [`${formatInteger(nan)} NaN`] : [];
  if (inf > 0) words.push(inf === 1 ? "1 infinity" : `${formatInteger(inf)} infinities`);
  return words.join(", ");
}

/** C×H×W, without the batch. */
export const formatShape = (shape: readonly number[]): string => shape.join("×");

/** A duration: 1.9 ms, 0.12 ms, 340 ms, 2.1 s. */
export function formatDuration(ms: number): string {
  if (ms >= 999.5) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms >= 99.5 ? ms.toFixed(0) : ms >= 0.995 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

/** "third": the ordinal of a position counted from 0, as a word up to "sixth". */
export function formatOrdinal(index: number): string {
  const words = ["first", "second", "third", "fourth", "fifth", "sixth"];
  if (index < words.length) return words[index] ?? "";
  const number = index + 1;
  const teen = number % 100 >= 11 && number % 100 <= 13;
  const end = teen ? "th" : (["th", "st", "nd", "rd"][number % 10] ?? "th");
  return `${number}${end}`;
}

/**
 * The device name in a renderer string: "SwiftShader" from "ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device (…)),
 * SwiftShader driver)".
 */
export function rendererName(renderer: string): string {
  const inside = /^ANGLE \((.*)\)$/.exec(renderer)?.[1] ?? renderer;
  for (const known of ["SwiftShader", "llvmpipe", "WARP"]) if (inside.includes(known)) return known;
  // "Apple, ANGLE Metal Renderer: Apple M2, Unspecified Version", "NVIDIA, NVIDIA GeForce RTX 3060 (0x2504) Direct3D11 …"
  const device = inside.split(", ")[1] ?? inside;
  const name = device
    .replace(/^ANGLE \w+ Renderer: /, "")
    .replace(/ \(0x[0-9A-Fa-f]+\)/, "")
    .replace(/ (Direct3D|OpenGL|vs_|\/PCIe).*$/, "");
  return renderer.startsWith("ANGLE") ? `ANGLE, ${name}` : name;
}
