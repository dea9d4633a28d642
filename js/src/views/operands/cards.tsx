// Cards of operators that are not sums of products: copies, operators of several operands, of a window or along an
// axis.

import type { ComponentChildren } from "preact";
import { type Computation, operandLetter } from "../../explain/explanation.ts";
import { parseFormula } from "../../explain/formula.ts";
import type { OperandElement } from "../../explain/operand_elements.ts";
import { paddingModeText } from "../../explain/padding_modes.ts";
import { longType } from "../../network/network.ts";
import { formatInteger } from "../../number_format.ts";
import type { Layer } from "../../plan/schema.ts";
import { Card } from "../explain/card.tsx";
import { Num, roundAsDisplayed, SignedTerm } from "../explain/number.tsx";
import type { ExplainedPixel } from "../explain/source_result.tsx";
import { ElementLink } from "../explain_trail/element_links.tsx";

/** A number with a link to the element that it comes from. */
function OperandNumber(props: {
  element: OperandElement;
  explainedPixel: ExplainedPixel;
  /** The content before the number. */
  children?: ComponentChildren;
}) {
  const { element, explainedPixel, children } = props;
  return (
    <div class="nbg-operand">
      <span>{children}</span>
      <Num value={element.value} strong />
      <OperandSource element={element} explainedPixel={explainedPixel} />
    </div>
  );
}

function OperandSource({
  element,
  explainedPixel,
}: {
  element: OperandElement;
  explainedPixel: ExplainedPixel;
}) {
  if (element.key === "") return <span class="nbg-second">a constant</span>;
  return <ElementLink elementRef={element} explainedElement={explainedPixel} showsLayer />;
}

export function OperandCards(props: {
  computation: Computation;
  root: Layer | null;
  rootValue: number;
  result: ExplainedPixel;
}) {
  const { computation, root, rootValue, result } = props;
  const name = root?.name ?? "";
  const type = root === null ? "" : longType(root);
  switch (computation.kind) {
    case "copied":
      return (
        <Card title="From" text="copied from another position" value={rootValue}>
          <OperandSource element={computation.copied} explainedPixel={result} />
          {computation.indexElement !== null && (
            <OperandNumber {...{ element: computation.indexElement }} explainedPixel={result}>
              chosen by
            </OperandNumber>
          )}
        </Card>
      );
    case "addition":
      return (
        <Card
          title="Sum"
          text={name}
          value={rootValue}
          roundedResult={computation.terms.reduce(
            (all, { value }) => all + roundAsDisplayed(value),
            0,
          )}
        >
          {computation.terms.map((term, i) => (
            <OperandNumber key={i} element={term} explainedPixel={result}>
              {i > 0 && "+"}
            </OperandNumber>
          ))}
        </Card>
      );
    case "elementwise": {
      const names = computation.terms.map(
        ({ value }, k) => [operandLetter(k), roundAsDisplayed(value)] as const,
      );
      const again = parseFormula(root?.formula ?? "", {}, Object.fromEntries(names)).evaluate(0);
      return (
        <Card title={type} text={name} value={rootValue} roundedResult={again}>
          {computation.terms.map((term, i) => (
            <OperandNumber key={i} element={term} explainedPixel={result}>
              {operandLetter(i)} =
            </OperandNumber>
          ))}
          <div class="nbg-operation">{computation.formula.text}</div>
        </Card>
      );
    }
    case "response": {
      const { neighbours, input, squareSum, bias, scale, beta, value } = computation.response;
      return (
        <>
          <Card
            title="Squares"
            text="of the channels around it"
            value={squareSum}
            roundedResult={neighbours.reduce(
              (all, one) => all + roundAsDisplayed(one.value) ** 2,
              0,
            )}
          >
            {neighbours.map(({ channel, value }) => (
              <div key={channel}>
                <Num value={value} strong />² <span class="nbg-second">channel {channel}</span>
              </div>
            ))}
          </Card>
          <Card
            title={type}
            text={name}
            value={value}
            roundedResult={
              roundAsDisplayed(input) /
              (roundAsDisplayed(bias) + roundAsDisplayed(scale, 7) * roundAsDisplayed(squareSum)) **
                roundAsDisplayed(beta)
            }
          >
            <Num value={input} strong /> / ( <Num value={bias} /> +{" "}
            <Num value={scale} decimals={7} /> × <Num value={squareSum} /> )
            <sup>
              <Num value={beta} />
            </sup>
          </Card>
        </>
      );
    }
    case "mixed": {
      const { terms, value } = computation.mixed;
      const words = terms.length === 1 ? "the pixel at that position" : "of the pixels around";
      return (
        <Card
          title={terms.length === 1 ? "Copy" : "Mixture"}
          text={words}
          value={value}
          roundedResult={terms.reduce(
            (all, part) =>
              all +
              (terms.length > 1 ? roundAsDisplayed(part.weight) : 1) * roundAsDisplayed(part.value),
            0,
          )}
        >
          {terms.map((part) => (
            <div key={`${part.y} ${part.x}`}>
              {terms.length > 1 && (
                <>
                  <Num value={part.weight} /> ×{" "}
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
      const { taps, isInside, value } = computation.padded;
      const [row, column] = [taps.rows[0], taps.columns[0]];
      const how = paddingModeText(root?.attributes.mode);
      const border = row?.outsideIndex !== undefined || column?.outsideIndex !== undefined;
      return (
        <Card title={type} text={name} value={value}>
          {isInside
            ? `y ${row?.inputIndex}, x ${column?.inputIndex}, ${border ? `${how} at the border` : "unchanged"}`
            : "the padding value"}
        </Card>
      );
    }
    case "pool": {
      const { kind, sum, divisor, value, cells } = computation.pooled;
      return (
        <Card
          title={{ max: "Maximum", mean: "Mean", sum: "Sum" }[kind]}
          text={name}
          value={value}
          roundedResult={kind === "mean" ? roundAsDisplayed(sum) / divisor : value}
        >
          {kind === "max" ? (
            "the largest of these"
          ) : kind === "sum" ? (
            `of ${formatInteger(cells.length)} values`
          ) : (
            <>
              <Num value={sum} /> / {formatInteger(divisor)}
            </>
          )}
        </Card>
      );
    }
    case "softmax": {
      const { inputs, exponentials, max, sum, position, value } = computation.softmax;
      const [input = Number.NaN, power = Number.NaN] = [inputs[position], exponentials[position]];
      const logarithm = root?.explanation === "log softmax";
      const again = roundAsDisplayed(power) / roundAsDisplayed(sum);
      return (
        <>
          <Card
            title="Power"
            text="exp of the difference"
            value={power}
            roundedResult={Math.exp(roundAsDisplayed(input) - roundAsDisplayed(max))}
          >
            <Num value={input} /> <SignedTerm value={-max} />
            <br />
            <span class="nbg-second">
              minus the largest of {formatInteger(inputs.length)} values
            </span>
          </Card>
          <Card
            title={type}
            text={name}
            value={value}
            roundedResult={logarithm ? Math.log(again) : again}
          >
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
