// The steps from a sum to the layer's number, as a row of cards.

import type { Bias, Explanation, Made, Taken } from "../../explain/explanation.ts";
import { full } from "../../format.ts";
import { longType, shortType } from "../../network/network.ts";
import type { Layer } from "../../plan/schema.ts";
import { Operands } from "../operands/cards.tsx";
import { Card } from "./card.tsx";
import { Curve } from "./curve.tsx";
import type { Result } from "./ends.tsx";
import { Added, asShown, Num } from "./number.tsx";

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

export function Cards(props: { explained: Explanation; root: Layer | null; result: Result }) {
  const { explained, root, result } = props;
  return (
    <div class="nbg-steps">
      <ol class="nbg-cards" aria-label="Step by step">
        <Start made={explained.made} start={explained.start} {...{ root, result }} />
        {explained.steps.map((taken) => (
          <StepCard key={taken.step.layer.name} taken={taken} />
        ))}
      </ol>
      <Notes steps={explained.steps} />
    </div>
  );
}

function Start(props: { made: Made; root: Layer | null; start: number; result: Result }) {
  const { made, root, start, result } = props;
  switch (made.kind) {
    case "convolution":
    case "dense":
      return <Summed {...made} />;
    case "given":
      return (
        <Card title="Given" words="by the layer before" value={start}>
          the number at the same place
        </Card>
      );
    default:
      return <Operands {...{ made, root, start, result }} />;
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
