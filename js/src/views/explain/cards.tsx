// The steps from a sum to the layer's number, as a row of cards.
import type { ComponentChildren } from "preact";
import type { Bias, Explanation, Made, Taken } from "../../explain/explanation.ts";
import { full } from "../../format.ts";
import { longType, shortType } from "../../network/network.ts";
import type { Layer } from "../../plan.ts";
import { Curve } from "./curve.tsx";
import { Added, Num } from "./number.tsx";

function Card(props: {
  title: string;
  words: string;
  value: number;
  children?: ComponentChildren;
}) {
  const { title, words, value, children } = props;
  return (
    <li class="nbg-card">
      <p>
        <strong>{title}</strong> <span class="nbg-second">{words}</span>
      </p>
      <div class="nbg-lines">{children}</div>
      <p class="nbg-result">
        <Num value={value} />
      </p>
    </li>
  );
}

export function Cards({ explained, root }: { explained: Explanation; root: Layer | null }) {
  return (
    <ol class="nbg-cards" aria-label="Step by step">
      <Start made={explained.made} root={root} start={explained.start} />
      {explained.steps.map((taken) => (
        <StepCard key={taken.step.layer.name} taken={taken} />
      ))}
    </ol>
  );
}

function Start(props: { made: Made; root: Layer | null; start: number }) {
  const { made, root, start } = props;
  switch (made.kind) {
    case "convolution":
    case "dense":
      return <Summed {...made} />;
    case "pool": {
      const { kind, sum, divisor, value } = made.pooled;
      return (
        <Card title={kind === "max" ? "Maximum" : "Mean"} words={root?.name ?? ""} value={value}>
          {kind === "mean" && (
            <>
              <Num value={sum} /> / {full(divisor)}
            </>
          )}
        </Card>
      );
    }
    case "softmax": {
      const { inputs, powers, largest, sum, position, value } = made.share;
      return (
        <>
          <Card title="Power" words="e to the difference" value={powers[position] ?? Number.NaN}>
            <Num value={inputs[position] ?? Number.NaN} /> <Added value={-largest} />
            <br />
            <span class="nbg-second">less the largest of {full(inputs.length)}</span>
          </Card>
          <Card title={root ? longType(root) : ""} words={root?.name ?? ""} value={value}>
            <Num value={powers[position] ?? Number.NaN} /> / <Num value={sum} strong />
            <br />
            <span class="nbg-second">
              its share of the sum{root?.explains === "log softmax" ? ", as a logarithm" : ""}
            </span>
          </Card>
        </>
      );
    }
    case "response": {
      const { around, input, squares, bias, share, beta, value } = made.response;
      return (
        <>
          <Card title="Squares" words="of the channels around it" value={squares}>
            {around.map(({ channel, value }) => (
              <div key={channel}>
                <Num value={value} strong />² <span class="nbg-second">channel {channel}</span>
              </div>
            ))}
          </Card>
          <Card title={root ? longType(root) : ""} words={root?.name ?? ""} value={value}>
            <Num value={input} strong /> / ( <Num value={bias} /> +{" "}
            <Num value={share} decimals={7} /> × <Num value={squares} /> )
            <sup>
              <Num value={beta} />
            </sup>
          </Card>
        </>
      );
    }
    case "addition":
      return (
        <>
          {made.terms.map((term, i) => (
            <Card key={i} title={i === 0 ? "From" : "and"} words={term.key} value={term.value} />
          ))}
          <Card title="Sum" words={root?.name ?? ""} value={start}>
            {made.terms.map((term, i) =>
              i === 0 ? (
                <Num key={i} value={term.value} />
              ) : (
                <>
                  {" "}
                  <Added value={term.value} strong />
                </>
              ),
            )}
          </Card>
        </>
      );
    case "copied": {
      const { key, at, axis, value } = made.copied;
      return (
        <Card title="From" words={key} value={value}>
          {axis === 1 ? `its channel ${at[1]}` : `its place ${at[axis]} on axis ${axis}`}, as it is
        </Card>
      );
    }
    case "mixed": {
      const { parts, value } = made.mixed;
      const words = parts.length === 1 ? "the pixel that lies there" : "of the pixels around";
      return (
        <Card title={parts.length === 1 ? "Copy" : "Mixture"} words={words} value={value}>
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
    case "given":
      return <Card title="Given" words="the number before" value={start} />;
  }
}

function Summed(props: { products: Sums; bias: Bias | null }) {
  const { products, bias } = props;
  const { positive, negative, sum, count } = products;
  return (
    <>
      <Card title="Sum" words={`of ${full(count)} product${count === 1 ? "" : "s"}`} value={sum}>
        positive <Num value={positive} strong />
        <br />
        negative <Num value={negative} strong />
      </Card>
      {bias !== null && (
        <Card title="Bias" words={bias.key} value={sum + bias.value}>
          <Num value={sum} />
          <br />
          <Added value={bias.value} strong />
        </Card>
      )}
    </>
  );
}

interface Sums {
  readonly positive: number;
  readonly negative: number;
  readonly sum: number;
  readonly count: number;
}

function StepCard({ taken }: { taken: Taken }) {
  const { step, before, after, by, formula } = taken;
  const { layer } = step;
  const title = shortType(layer);
  if (formula !== null) {
    return (
      <Card title={title} words={layer.name} value={after}>
        <div class="nbg-beside">
          <span>
            {formula.text}
            <br />
            <span class="nbg-second">
              x = <Num value={before} />
            </span>
          </span>
          <Curve of={formula.of} at={before} />
        </div>
      </Card>
    );
  }
  if (by === null) {
    return (
      <Card title={longType(layer)} words={layer.name} value={after}>
        passes it on as it is
      </Card>
    );
  }
  return (
    <Card title={longType(layer)} words={layer.name} value={after}>
      ( <Num value={before} /> <Added value={-by.mean} strong /> ) /{" "}
      <Num value={Math.sqrt(by.variance + by.epsilon)} strong />
      <br />× <Num value={by.scale} strong /> <Added value={by.shift} strong />
      <br />
      <span class="nbg-second">
        mean and deviation
        {by.count !== undefined && ` of ${full(by.count)} numbers of this picture`}, then weight and
        bias
      </span>
    </Card>
  );
}
