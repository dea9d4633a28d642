// Cards of all that is no sum of products: numbers from elsewhere, of several operands, of a window or along an axis.

import type { ComponentChildren } from "preact";
import { type Made, nameOf } from "../../explain/explanation.ts";
import { formulaOf } from "../../explain/formula.ts";
import type { Term } from "../../explain/read.ts";
import { repeats } from "../../explain/repeated.ts";
import { full } from "../../format.ts";
import { longType } from "../../network/network.ts";
import type { Layer } from "../../plan/schema.ts";
import { Card } from "../explain/card.tsx";
import type { Result } from "../explain/ends.tsx";
import { Added, asShown, Num } from "../explain/number.tsx";
import { Going } from "../trail/reads.tsx";

/** A number and where it comes from, a click away. */
function Operand(props: {
  term: Term;
  at: Result;
  /** What stands before the number. */
  children?: ComponentChildren;
}) {
  const { term, at, children } = props;
  return (
    <div class="nbg-operand">
      <span>{children}</span>
      <Num value={term.value} strong />
      <From term={term} at={at} />
    </div>
  );
}

function From({ term, at }: { term: Term; at: Result }) {
  if (term.key === "") return <span class="nbg-second">a constant</span>;
  return <Going from={term} at={at} named />;
}

export function Operands(props: { made: Made; root: Layer | null; start: number; result: Result }) {
  const { made, root, start, result } = props;
  const name = root?.name ?? "";
  const type = root === null ? "" : longType(root);
  switch (made.kind) {
    case "copied":
      return (
        <Card title="From" words="elsewhere, as it is" value={start}>
          <From term={made.copied} at={result} />
          {made.by !== null && (
            <Operand {...{ term: made.by }} at={result}>
              chosen by
            </Operand>
          )}
        </Card>
      );
    case "addition":
      return (
        <Card
          title="Sum"
          words={name}
          value={start}
          again={made.terms.reduce((all, { value }) => all + asShown(value), 0)}
        >
          {made.terms.map((term, i) => (
            <Operand key={i} term={term} at={result}>
              {i > 0 && "+"}
            </Operand>
          ))}
        </Card>
      );
    case "elementwise": {
      const names = made.terms.map(({ value }, k) => [nameOf(k), asShown(value)] as const);
      const again = formulaOf(root?.formula ?? "", {}, Object.fromEntries(names)).of(0);
      return (
        <Card title={type} words={name} value={start} again={again}>
          {made.terms.map((term, i) => (
            <Operand key={i} term={term} at={result}>
              {nameOf(i)} =
            </Operand>
          ))}
          <div class="nbg-operation">{made.formula.text}</div>
        </Card>
      );
    }
    case "response": {
      const { around, input, squares, bias, share, beta, value } = made.response;
      return (
        <>
          <Card
            title="Squares"
            words="of the channels around it"
            value={squares}
            again={around.reduce((all, one) => all + asShown(one.value) ** 2, 0)}
          >
            {around.map(({ channel, value }) => (
              <div key={channel}>
                <Num value={value} strong />² <span class="nbg-second">channel {channel}</span>
              </div>
            ))}
          </Card>
          <Card
            title={type}
            words={name}
            value={value}
            again={
              asShown(input) /
              (asShown(bias) + asShown(share, 7) * asShown(squares)) ** asShown(beta)
            }
          >
            <Num value={input} strong /> / ( <Num value={bias} /> +{" "}
            <Num value={share} decimals={7} /> × <Num value={squares} /> )
            <sup>
              <Num value={beta} />
            </sup>
          </Card>
        </>
      );
    }
    case "mixed": {
      const { parts, value } = made.mixed;
      const words = parts.length === 1 ? "the pixel that lies there" : "of the pixels around";
      return (
        <Card
          title={parts.length === 1 ? "Copy" : "Mixture"}
          words={words}
          value={value}
          again={parts.reduce(
            (all, part) => all + (parts.length > 1 ? asShown(part.share) : 1) * asShown(part.value),
            0,
          )}
        >
          {parts.map((part) => (
            <div key={`${part.y} ${part.x}`}>
              {parts.length > 1 && (
                <>
                  <Num value={part.share} /> ×{" "}
                </>
              )}
              <Num value={part.value} strong />{" "}
              <span class="nbg-second">
                y {part.y}, x {part.x}
              </span>
            </div>
          ))}
        </Card>
      );
    }
    case "padded": {
      const { lines, inside, value } = made.padded;
      const [row, column] = [lines.rows[0], lines.columns[0]];
      const how = repeats(root?.attributes.mode);
      const border = row?.stands !== undefined || column?.stands !== undefined;
      return (
        <Card title={type} words={name} value={value}>
          {inside
            ? `y ${row?.at}, x ${column?.at}, ${border ? `${how} at the border` : "as it is"}`
            : "the number that the padding is filled with"}
        </Card>
      );
    }
    case "pool": {
      const { kind, sum, divisor, value, cells } = made.pooled;
      return (
        <Card
          title={{ max: "Maximum", mean: "Mean", sum: "Sum" }[kind]}
          words={name}
          value={value}
          again={kind === "mean" ? asShown(sum) / divisor : value}
        >
          {kind === "max" ? (
            "the largest of these, as it is"
          ) : kind === "sum" ? (
            `of ${full(cells.length)} numbers`
          ) : (
            <>
              <Num value={sum} /> / {full(divisor)}
            </>
          )}
        </Card>
      );
    }
    case "softmax": {
      const { inputs, powers, largest, sum, position, value } = made.share;
      const [input = Number.NaN, power = Number.NaN] = [inputs[position], powers[position]];
      const logarithm = root?.explains === "log softmax";
      const again = asShown(power) / asShown(sum);
      return (
        <>
          <Card
            title="Power"
            words="e to the difference"
            value={power}
            again={Math.exp(asShown(input) - asShown(largest))}
          >
            <Num value={input} /> <Added value={-largest} />
            <br />
            <span class="nbg-second">less the largest of {full(inputs.length)}</span>
          </Card>
          <Card title={type} words={name} value={value} again={logarithm ? Math.log(again) : again}>
            <Num value={power} /> / <Num value={sum} strong />
            <br />
            <span class="nbg-second">
              its share of the sum{logarithm ? ", as a logarithm" : ""}
            </span>
          </Card>
        </>
      );
    }
    default:
      return null;
  }
}
