// Parser for a layer's formula as Python writes it: gives display text and a function in double precision.

export interface Formula {
  /** The formula with the variable `x`: "x < 0: 0.01 · x; else x". */
  readonly text: string;
  readonly evaluate: (x: number) => number;
}

/** The error function: power series up to 2.5, continued fraction beyond. */
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

/** Round half to even. */
function roundHalfEven(x: number): number {
  const low = Math.floor(x);
  if (x - low !== 0.5) return Math.round(x);
  return low % 2 === 0 ? low : low + 1;
}

type NumberFunction = (...of: number[]) => number;

/** The functions available in formulas, by their NumPy names; `Phi` is the normal distribution function. */
const FUNCTIONS: ReadonlyMap<string, NumberFunction> = new Map<string, NumberFunction>([
  ...(["abs", "sign", "floor", "ceil", "sqrt", "exp", "log", "max", "min"] as const).map(
    (name) => [name, Math[name]] as const,
  ),
  ...(["sin", "cos", "tan", "asin", "acos", "atan"] as const).map(
    (name) => [name, Math[name]] as const,
  ),
  ...(["sinh", "cosh", "tanh", "asinh", "acosh", "atanh"] as const).map(
    (name) => [name, Math[name]] as const,
  ),
  ["round", (x = Number.NaN) => roundHalfEven(x)],
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

/** A parsed subexpression; `precedence` decides whether it needs parentheses. */
interface Expression {
  readonly evaluate: (x: number) => number;
  readonly text: string;
  readonly precedence: number;
}

const [CHOICE, COMPARISON, SUM, PRODUCT, SIGN, POWER, ATOM] = [0, 1, 2, 3, 4, 5, 6];

const parenthesize = ({ text, precedence }: Expression, minPrecedence: number): string =>
  precedence < minPrecedence ? `(${text})` : text;

const numberLiteral = (value: number): Expression => ({
  evaluate: () => value,
  text: String(Number(value.toPrecision(4))).replace("-", "−"),
  precedence: value < 0 ? SIGN : ATOM,
});

const isOne = ({ text }: Expression): boolean => text === "1";

interface Operation {
  readonly precedence: number;
  readonly evaluate: NumberFunction;
  readonly formatText: (a: Expression, b: Expression) => string;
}

const infixText =
  (sign: string, level: number) =>
  (a: Expression, b: Expression): string =>
    `${parenthesize(a, level)} ${sign} ${parenthesize(b, level + 1)}`;

function productText(a: Expression, b: Expression): string {
  if (isOne(a)) return b.text;
  return isOne(b) ? a.text : infixText("·", PRODUCT)(a, b);
}

const comparison =
  (test: (a: number, b: number) => boolean): NumberFunction =>
  (a = Number.NaN, b = Number.NaN) =>
    Number(test(a, b));

const OPERATIONS: ReadonlyMap<string, Operation> = new Map<string, Operation>([
  [
    "<",
    {
      precedence: COMPARISON,
      evaluate: comparison((a, b) => a < b),
      formatText: infixText("<", COMPARISON),
    },
  ],
  [
    "<=",
    {
      precedence: COMPARISON,
      evaluate: comparison((a, b) => a <= b),
      formatText: infixText("≤", COMPARISON),
    },
  ],
  [
    ">",
    {
      precedence: COMPARISON,
      evaluate: comparison((a, b) => a > b),
      formatText: infixText(">", COMPARISON),
    },
  ],
  [
    ">=",
    {
      precedence: COMPARISON,
      evaluate: comparison((a, b) => a >= b),
      formatText: infixText("≥", COMPARISON),
    },
  ],
  [
    "==",
    {
      precedence: COMPARISON,
      evaluate: comparison((a, b) => a === b),
      formatText: infixText("=", COMPARISON),
    },
  ],
  [
    "!=",
    {
      precedence: COMPARISON,
      evaluate: comparison((a, b) => a !== b),
      formatText: infixText("≠", COMPARISON),
    },
  ],
  ["+", { precedence: SUM, evaluate: (a = 0, b = 0) => a + b, formatText: infixText("+", SUM) }],
  ["-", { precedence: SUM, evaluate: (a = 0, b = 0) => a - b, formatText: infixText("−", SUM) }],
  ["*", { precedence: PRODUCT, evaluate: (a = 0, b = 0) => a * b, formatText: productText }],
  [
    "/",
    {
      precedence: PRODUCT,
      evaluate: (a = 0, b = 0) => a / b,
      formatText: (a, b) => (isOne(b) ? a.text : infixText("/", PRODUCT)(a, b)),
    },
  ],
  [
    "**",
    {
      precedence: POWER,
      evaluate: (a = 0, b = 0) => a ** b,
      formatText: (a, b) =>
        `${parenthesize(a, ATOM)}${({ 2: "²", 3: "³" } as Record<string, string>)[b.text] ?? `^${parenthesize(b, ATOM)}`}`,
    },
  ],
]);

/** The text of e to a power. */
function exponentialText({ text, precedence }: Expression): string {
  if (text === "x") return "eˣ";
  return text === "−x" ? "e⁻ˣ" : `e^${precedence === ATOM ? text : `(${text})`}`;
}

function callText(
  name: string,
  args: readonly Expression[],
): Pick<Expression, "text" | "precedence"> {
  const [first, second, third] = args;
  const text = args.map((part) => part.text).join(", ");
  if (first !== undefined && second !== undefined && third !== undefined && name === "where") {
    return { text: `${first.text}: ${second.text}; else ${third.text}`, precedence: CHOICE };
  }
  if (first !== undefined && name === "exp")
    return { text: exponentialText(first), precedence: ATOM };
  if (first !== undefined && name === "softplus")
    return { text: `log(1 + ${exponentialText(first)})`, precedence: ATOM };
  if (name === "abs") return { text: `|${text}|`, precedence: ATOM };
  return { text: `${name === "Phi" ? "Φ" : name}(${text})`, precedence: ATOM };
}

const TOKEN_PATTERN = /\s*(\d+\.?\d*(?:e[-+]?\d+)?|[A-Za-z_]\w*|\*\*|[<>]=?|[=!]=|[-+*/(),])/y;

function tokenize(source: string): string[] {
  const tokens: string[] = [];
  TOKEN_PATTERN.lastIndex = 0;
  for (let at = 0; at < source.length; at = TOKEN_PATTERN.lastIndex) {
    const [, token] = TOKEN_PATTERN.exec(source) ?? [];
    if (token === undefined) throw new SyntaxError(`${source} has no meaning from place ${at} on`);
    tokens.push(token);
  }
  return tokens;
}

type NamedNumbers = Readonly<Record<string, number>>;

/**
 * Parse a formula. `inlinedConstants` maps names to numbers that are inserted; `namedConstants` maps names to numbers
 * that keep their name in the text.
 */
export function parseFormula(
  source: string,
  inlinedConstants: NamedNumbers = {},
  namedConstants: NamedNumbers = {},
): Formula {
  const tokens = tokenize(source);
  const next = (token: string): boolean => {
    if (tokens[0] !== token) return false;
    tokens.shift();
    return true;
  };
  const expect = (token: string): void => {
    if (!next(token)) throw new SyntaxError(`${source} lacks a ${token}`);
  };
  const atom = (): Expression => {
    const token = tokens.shift() ?? "";
    if (token === "(") {
      const inner = operations(COMPARISON);
      expect(")");
      return inner;
    }
    if (/^\d/.test(token)) return numberLiteral(Number(token));
    if (next("(")) return call(token);
    if (token === "x") return { evaluate: (x) => x, text: "x", precedence: ATOM };
    const named = namedConstants[token];
    if (named !== undefined) return { evaluate: () => named, text: token, precedence: ATOM };
    const value = { inf: Infinity, nan: Number.NaN, ...inlinedConstants }[token];
    if (value === undefined) throw new SyntaxError(`${source} names an unknown ${token}`);
    return numberLiteral(value);
  };
  const call = (name: string): Expression => {
    const of = FUNCTIONS.get(name);
    if (of === undefined && name !== "choose")
      throw new SyntaxError(`${source} calls an unknown ${name}`);
    const parts = [operations(COMPARISON)];
    while (next(",")) parts.push(operations(COMPARISON));
    expect(")");
    // The choice doesn't depend on x.
    if (of === undefined)
      return parts[1 + (parts[0]?.evaluate(0) ?? 0)] ?? numberLiteral(Number.NaN);
    return {
      ...callText(name, parts),
      evaluate: (x) => of(...parts.map((part) => part.evaluate(x))),
    };
  };
  const signed = (): Expression => {
    if (next("-")) {
      const inner = signed();
      return {
        evaluate: (x) => -inner.evaluate(x),
        text: `−${parenthesize(inner, SIGN)}`,
        precedence: SIGN,
      };
    }
    const base = atom();
    return next("**") ? joined("**", base, signed()) : base;
  };
  const joined = (sign: string, a: Expression, b: Expression): Expression => {
    const operation = OPERATIONS.get(sign);
    if (operation === undefined) throw new SyntaxError(`${source} has an unknown ${sign}`);
    const { precedence, evaluate, formatText } = operation;
    const [one, other] = [isOne(a), isOne(b)];
    // Multiplying or dividing by 1 leaves only the other operand, with its precedence.
    const left =
      sign === "*" && one
        ? b.precedence
        : (sign === "*" || sign === "/") && other
          ? a.precedence
          : precedence;
    return {
      evaluate: (x) => evaluate(a.evaluate(x), b.evaluate(x)),
      text: formatText(a, b),
      precedence: left,
    };
  };
  const operations = (least: number): Expression => {
    if (least > PRODUCT) return signed();
    let left = operations(least + 1);
    for (;;) {
      const [sign = ""] = tokens;
      if (OPERATIONS.get(sign)?.precedence !== least) return left;
      tokens.shift();
      left = joined(sign, left, operations(least + 1));
    }
  };
  const { evaluate, text } = operations(COMPARISON);
  if (tokens.length > 0) throw new SyntaxError(`${source} goes on with ${tokens[0]}`);
  return { evaluate, text };
}
