// A formula of a layer's record, as Python writes it: text to read, and a function in double precision.

export interface Formula {
  /** With `x` for the number: "x < 0: 0.01 · x; else x". */
  readonly text: string;
  readonly of: (x: number) => number;
}

/** The error function: its power series, and far out its continued fraction. */
export function erf(x: number): number {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 2.5) {
    let term = x;
    let sum = x;
    for (let n = 1; n < 60; n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = size;
  for (let n = 60; n > 0; n--) fraction = size + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-x * x) / (Math.sqrt(Math.PI) * fraction));
}

/** Halves go to the even neighbour. */
function round(x: number): number {
  const low = Math.floor(x);
  if (x - low !== 0.5) return Math.round(x);
  return low % 2 === 0 ? low : low + 1;
}

type Function = (...of: number[]) => number;

/** What formulas may call, by the names that NumPy has for it; `Phi` is the normal distribution's. */
const FUNCTIONS: ReadonlyMap<string, Function> = new Map<string, Function>([
  ...(["abs", "sign", "floor", "ceil", "sqrt", "exp", "log", "max", "min"] as const).map(
    (name) => [name, Math[name]] as const,
  ),
  ...(["sin", "cos", "tan", "asin", "acos", "atan"] as const).map(
    (name) => [name, Math[name]] as const,
  ),
  ...(["sinh", "cosh", "tanh", "asinh", "acosh", "atanh"] as const).map(
    (name) => [name, Math[name]] as const,
  ),
  ["round", (x = Number.NaN) => round(x)],
  ["erf", (x = Number.NaN) => erf(x)],
  ["Phi", (x = Number.NaN) => 0.5 * (1 + erf(x / Math.SQRT2))],
  ["sigmoid", (x = Number.NaN) => 1 / (1 + Math.exp(-x))],
  ["softplus", (x = Number.NaN) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))],
  ["where", (test = 0, yes = Number.NaN, no = Number.NaN) => (test ? yes : no)],
  [
    "clip",
    (x = Number.NaN, low = -Infinity, high = Infinity) => (x < low ? low : x > high ? high : x),
  ],
]);

/** A part of a formula; `level` says how tightly it holds together. */
interface Part {
  readonly of: (x: number) => number;
  readonly text: string;
  readonly level: number;
}

const [CHOICE, COMPARISON, SUM, PRODUCT, SIGN, POWER, ATOM] = [0, 1, 2, 3, 4, 5, 6];

const within = ({ text, level }: Part, least: number): string =>
  level < least ? `(${text})` : text;

const numeral = (value: number): Part => ({
  of: () => value,
  text: String(Number(value.toPrecision(4))).replace("-", "−"),
  level: value < 0 ? SIGN : ATOM,
});

const isOne = ({ text }: Part): boolean => text === "1";

interface Operation {
  readonly level: number;
  readonly of: Function;
  readonly text: (a: Part, b: Part) => string;
}

const spaced =
  (sign: string, level: number) =>
  (a: Part, b: Part): string =>
    `${within(a, level)} ${sign} ${within(b, level + 1)}`;

function product(a: Part, b: Part): string {
  if (isOne(a)) return b.text;
  return isOne(b) ? a.text : spaced("·", PRODUCT)(a, b);
}

const truth =
  (test: (a: number, b: number) => boolean): Function =>
  (a = Number.NaN, b = Number.NaN) =>
    Number(test(a, b));

const OPERATIONS: ReadonlyMap<string, Operation> = new Map<string, Operation>([
  ["<", { level: COMPARISON, of: truth((a, b) => a < b), text: spaced("<", COMPARISON) }],
  ["<=", { level: COMPARISON, of: truth((a, b) => a <= b), text: spaced("≤", COMPARISON) }],
  [">", { level: COMPARISON, of: truth((a, b) => a > b), text: spaced(">", COMPARISON) }],
  [">=", { level: COMPARISON, of: truth((a, b) => a >= b), text: spaced("≥", COMPARISON) }],
  ["==", { level: COMPARISON, of: truth((a, b) => a === b), text: spaced("=", COMPARISON) }],
  ["!=", { level: COMPARISON, of: truth((a, b) => a !== b), text: spaced("≠", COMPARISON) }],
  ["+", { level: SUM, of: (a = 0, b = 0) => a + b, text: spaced("+", SUM) }],
  ["-", { level: SUM, of: (a = 0, b = 0) => a - b, text: spaced("−", SUM) }],
  ["*", { level: PRODUCT, of: (a = 0, b = 0) => a * b, text: product }],
  [
    "/",
    {
      level: PRODUCT,
      of: (a = 0, b = 0) => a / b,
      text: (a, b) => (isOne(b) ? a.text : spaced("/", PRODUCT)(a, b)),
    },
  ],
  [
    "**",
    {
      level: POWER,
      of: (a = 0, b = 0) => a ** b,
      text: (a, b) =>
        `${within(a, ATOM)}${({ 2: "²", 3: "³" } as Record<string, string>)[b.text] ?? `^${within(b, ATOM)}`}`,
    },
  ],
]);

/** e to a power. */
function power({ text, level }: Part): string {
  if (text === "x") return "eˣ";
  return text === "−x" ? "e⁻ˣ" : `e^${level === ATOM ? text : `(${text})`}`;
}

function called(name: string, parts: readonly Part[]): Pick<Part, "text" | "level"> {
  const [first, second, third] = parts;
  const text = parts.map((part) => part.text).join(", ");
  if (first !== undefined && second !== undefined && third !== undefined && name === "where") {
    return { text: `${first.text}: ${second.text}; else ${third.text}`, level: CHOICE };
  }
  if (first !== undefined && name === "exp") return { text: power(first), level: ATOM };
  if (first !== undefined && name === "softplus")
    return { text: `log(1 + ${power(first)})`, level: ATOM };
  if (name === "abs") return { text: `|${text}|`, level: ATOM };
  return { text: `${name === "Phi" ? "Φ" : name}(${text})`, level: ATOM };
}

const TOKEN = /\s*(\d+\.?\d*(?:e[-+]?\d+)?|[A-Za-z_]\w*|\*\*|[<>]=?|[=!]=|[-+*/(),])/y;

function tokensOf(source: string): string[] {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  for (let at = 0; at < source.length; at = TOKEN.lastIndex) {
    const [, token] = TOKEN.exec(source) ?? [];
    if (token === undefined) throw new SyntaxError(`${source} has no meaning from place ${at} on`);
    tokens.push(token);
  }
  return tokens;
}

type Named = Readonly<Record<string, number>>;

/** Reads a formula; names in `values` stand for these numbers, and those in `names` as well, but are still called so. */
export function formulaOf(source: string, values: Named = {}, names: Named = {}): Formula {
  const tokens = tokensOf(source);
  const next = (token: string): boolean => {
    if (tokens[0] !== token) return false;
    tokens.shift();
    return true;
  };
  const expect = (token: string): void => {
    if (!next(token)) throw new SyntaxError(`${source} lacks a ${token}`);
  };
  const atom = (): Part => {
    const token = tokens.shift() ?? "";
    if (token === "(") {
      const inner = operations(COMPARISON);
      expect(")");
      return inner;
    }
    if (/^\d/.test(token)) return numeral(Number(token));
    if (next("(")) return call(token);
    if (token === "x") return { of: (x) => x, text: "x", level: ATOM };
    const named = names[token];
    if (named !== undefined) return { of: () => named, text: token, level: ATOM };
    const value = { inf: Infinity, nan: Number.NaN, ...values }[token];
    if (value === undefined) throw new SyntaxError(`${source} names an unknown ${token}`);
    return numeral(value);
  };
  const call = (name: string): Part => {
    const of = FUNCTIONS.get(name);
    if (of === undefined && name !== "choose")
      throw new SyntaxError(`${source} calls an unknown ${name}`);
    const parts = [operations(COMPARISON)];
    while (next(",")) parts.push(operations(COMPARISON));
    expect(")");
    // Which one it is doesn't depend on x.
    if (of === undefined) return parts[1 + (parts[0]?.of(0) ?? 0)] ?? numeral(Number.NaN);
    return { ...called(name, parts), of: (x) => of(...parts.map((part) => part.of(x))) };
  };
  const signed = (): Part => {
    if (next("-")) {
      const inner = signed();
      return { of: (x) => -inner.of(x), text: `−${within(inner, SIGN)}`, level: SIGN };
    }
    const base = atom();
    return next("**") ? joined("**", base, signed()) : base;
  };
  const joined = (sign: string, a: Part, b: Part): Part => {
    const operation = OPERATIONS.get(sign);
    if (operation === undefined) throw new SyntaxError(`${source} has an unknown ${sign}`);
    const { level, of, text } = operation;
    const [one, other] = [isOne(a), isOne(b)];
    // What a factor of 1 leaves holds together as it did.
    const left =
      sign === "*" && one ? b.level : (sign === "*" || sign === "/") && other ? a.level : level;
    return { of: (x) => of(a.of(x), b.of(x)), text: text(a, b), level: left };
  };
  const operations = (least: number): Part => {
    if (least > PRODUCT) return signed();
    let left = operations(least + 1);
    for (;;) {
      const [sign = ""] = tokens;
      if (OPERATIONS.get(sign)?.level !== least) return left;
      tokens.shift();
      left = joined(sign, left, operations(least + 1));
    }
  };
  const { of, text } = operations(COMPARISON);
  if (tokens.length > 0) throw new SyntaxError(`${source} goes on with ${tokens[0]}`);
  return { of, text };
}
