// The steps from a sum to the layer's number, as a row of cards.
import type { ComponentChildren } from "preact";
import type { Bias, Explanation, Made, Taken } from "../../explain/explanation.ts";
import { repeats } from "../../explain/repeated.ts";
import { fixed, full } from "../../format.ts";
import { longType, shortType } from "../../network/network.ts";
import type { Layer } from "../../plan.ts";
import { Curve } from "./curve.tsx";
import { Added, asShown, Num } from "./number.tsx";

function Card(props: {
  title: string;
  words: string;
  value: number;
  /** What the numbers on the card give as they are shown. */
  again?: number;
  children?: ComponentChildren;
}) {
  const { title, words, value, again = value, children } = props;
  return (
    <li class="nbg-card">
      <p>
        <strong>{title}</strong> <span class="nbg-second">{words}</span>
      </p>
      <div class="nbg-lines">{children}</div>
      <p class="nbg-result">
        {fixed(again) !== fixed(value) && (
          <abbr title="The numbers above are rounded: as they are shown they give another one.">
            ≈
          </abbr>
        )}
        <Num value={value} />
      </p>
    </li>
  );
}

const longTypeOf = (root: Layer | null): string => (root ? longType(root) : "");

/** What the cards have no room for: whose mean and deviation a normalisation has. */
function Notes({ steps }: { steps: readonly Taken[] }) {
  return (
    <>
      {steps.map(({ step, by }) =>
        by === null ? null : (
          <p key={step.layer.name} class="nbg-second">
            {longType(step.layer)} {step.layer.name}:{" "}
            {by.names === undefined
              ? `mean and deviation are those of ${full(by.count ?? 0)} numbers of this very picture.`
              : `mean and deviation are the training’s (${by.names[0]}, √(${by.names[1]} + eps)), fixed in eval mode: they are the same for every picture.`}
          </p>
        ),
      )}
    </>
  );
}

export function Cards({ explained, root }: { explained: Explanation; root: Layer | null }) {
  return (
    <div class="nbg-steps">
      <ol class="nbg-cards" aria-label="Step by step">
        <Start made={explained.made} root={root} start={explained.start} />
        {explained.steps.map((taken) => (
          <StepCard key={taken.step.layer.name} taken={taken} />
        ))}
      </ol>
      <Notes steps={explained.steps} />
    </div>
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
        <Card
          title={kind === "max" ? "Maximum" : "Mean"}
          words={root?.name ?? ""}
          value={value}
          again={kind === "max" ? value : asShown(sum) / divisor}
        >
          {kind === "max" ? (
            "the largest of the window, as it is"
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
          <Card
            title={longTypeOf(root)}
            words={root?.name ?? ""}
            value={value}
            again={logarithm ? Math.log(again) : again}
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
            title={longTypeOf(root)}
            words={root?.name ?? ""}
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
    case "addition":
      return (
        <Card
          title="Sum"
          words={root?.name ?? ""}
          value={start}
          again={made.terms.reduce((all, { value }) => all + asShown(value), 0)}
        >
          {made.terms.map(({ key, value }, i) => (
            <div key={i}>
              {i === 0 ? <Num value={value} strong /> : <Added value={value} strong />}{" "}
              <span class="nbg-second">{key}</span>
            </div>
          ))}
        </Card>
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
        <Card title={longTypeOf(root)} words={root?.name ?? ""} value={value}>
          {inside
            ? `y ${row?.at}, x ${column?.at}, ${border ? `${how} at the border` : "as it is"}`
            : "the number that the padding is filled with"}
        </Card>
      );
    }
    case "given":
      return (
        <Card title="Given" words="by the layer before" value={start}>
          the number at the same place
        </Card>
      );
  }
}

function Summed(props: { products: Sums; bias: Bias | null }) {
  const { products, bias } = props;
  const { positive, negative, sum, count } = products;
  return (
    <>
      <Card
        title="Sum"
        words={`of ${full(count)} product${count === 1 ? "" : "s"}`}
        value={sum}
        again={asShown(positive) + asShown(negative)}
      >
        positive <Num value={positive} strong />
        <br />
        negative <Num value={negative} strong />
      </Card>
      {bias !== null && (
        <Card
          title="Bias"
          words={bias.key}
          value={sum + bias.value}
          again={asShown(sum) + asShown(bias.value)}
        >
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
      <Card title={title} words={layer.name} value={after} again={formula.of(asShown(before))}>
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
  const deviation = Math.sqrt(by.variance + by.epsilon);
  const r = asShown;
  return (
    <Card
      title={longType(layer)}
      words={layer.name}
      value={after}
      again={((r(before) - r(by.mean)) / r(deviation)) * r(by.scale) + r(by.shift)}
    >
      ( <Num value={before} /> <Added value={-by.mean} strong /> ) /{" "}
      <Num value={deviation} strong />
      <br />× <Num value={by.scale} strong /> <Added value={by.shift} strong />
      <br />
      <span class="nbg-second">mean, deviation; weight, bias</span>
    </Card>
  );
}
