// The steps from a sum to the layer's output value, as a row of cards.

import type { AppliedStep, Bias, Computation, Explanation } from "../../explain/explanation.ts";
import { longType, shortType } from "../../network/network.ts";
import { formatInteger } from "../../number_format.ts";
import type { Layer } from "../../plan/schema.ts";
import { OperandCards } from "../operands/cards.tsx";
import { Card } from "./card.tsx";
import { FunctionCurve } from "./function_curve.tsx";
import { Num, roundAsDisplayed, SignedTerm } from "./number.tsx";
import type { ExplainedPixel } from "./source_result.tsx";

/** Details that do not fit on the cards: the origin of a normalisation's mean and deviation. */
function NormalizationNotes({ steps }: { steps: readonly AppliedStep[] }) {
  return (
    <>
      {steps.map(({ step, normalization }) =>
        normalization === null ? null : (
          <p key={step.layer.name} class="nbg-second">
            {longType(step.layer)} {step.layer.name}:{" "}
            {normalization.statisticNames === undefined
              ? `mean and standard deviation come from ${formatInteger(normalization.elementCount ?? 0)} values of this picture.`
              : `mean and standard deviation come from training (${normalization.statisticNames[0]}, √(${normalization.statisticNames[1]} + eps)); eval mode uses the same values for every picture.`}
          </p>
        ),
      )}
    </>
  );
}

export function StepCards(props: {
  explanation: Explanation;
  root: Layer | null;
  result: ExplainedPixel;
}) {
  const { explanation, root, result } = props;
  return (
    <div class="nbg-steps">
      <ol class="nbg-cards" aria-label="Step by step">
        <RootCard
          computation={explanation.computation}
          rootValue={explanation.rootValue}
          {...{ root, result }}
        />
        {explanation.steps.map((taken) => (
          <StepCard key={taken.step.layer.name} applied={taken} />
        ))}
      </ol>
      <NormalizationNotes steps={explanation.steps} />
    </div>
  );
}

function RootCard(props: {
  computation: Computation;
  root: Layer | null;
  rootValue: number;
  result: ExplainedPixel;
}) {
  const { computation, root, rootValue, result } = props;
  switch (computation.kind) {
    case "convolution":
    case "dense":
      return <SumCard {...computation} />;
    case "given":
      return (
        <Card title="Given" text="by the layer before" value={rootValue}>
          the value at the same position
        </Card>
      );
    default:
      return <OperandCards {...{ computation, root, rootValue, result }} />;
  }
}

function SumCard(props: { products: ProductSums; bias: Bias | null }) {
  const { products, bias } = props;
  const { positiveSum, negativeSum, sum, productCount } = products;
  return (
    <>
      <Card
        title="Sum"
        text={`of ${formatInteger(productCount)} product${productCount === 1 ? "" : "s"}`}
        value={sum}
        roundedResult={roundAsDisplayed(positiveSum) + roundAsDisplayed(negativeSum)}
      >
        positive <Num value={positiveSum} strong />
        <br />
        negative <Num value={negativeSum} strong />
      </Card>
      {bias !== null && (
        <Card
          title="Bias"
          text={bias.key}
          value={sum + bias.value}
          roundedResult={roundAsDisplayed(sum) + roundAsDisplayed(bias.value)}
        >
          <Num value={sum} />
          <br />
          <SignedTerm value={bias.value} strong />
        </Card>
      )}
    </>
  );
}

interface ProductSums {
  readonly positiveSum: number;
  readonly negativeSum: number;
  readonly sum: number;
  readonly productCount: number;
}

function StepCard({ applied }: { applied: AppliedStep }) {
  const { step, before, after, normalization, formula } = applied;
  const { layer } = step;
  const title = shortType(layer);
  if (formula !== null) {
    return (
      <Card
        title={title}
        text={layer.name}
        value={after}
        roundedResult={formula.evaluate(roundAsDisplayed(before))}
      >
        <div class="nbg-beside">
          <span>
            {formula.text}
            <br />
            <span class="nbg-second">
              x = <Num value={before} />
            </span>
          </span>
          <FunctionCurve evaluate={formula.evaluate} markedX={before} />
        </div>
      </Card>
    );
  }
  if (normalization === null) {
    return (
      <Card title={longType(layer)} text={layer.name} value={after}>
        leaves the value unchanged
      </Card>
    );
  }
  const deviation = Math.sqrt(normalization.variance + normalization.epsilon);
  const r = roundAsDisplayed;
  return (
    <Card
      title={longType(layer)}
      text={layer.name}
      value={after}
      roundedResult={
        ((r(before) - r(normalization.mean)) / r(deviation)) * r(normalization.scale) +
        r(normalization.shift)
      }
    >
      ( <Num value={before} /> <SignedTerm value={-normalization.mean} strong /> ) /{" "}
      <Num value={deviation} strong />
      <br />× <Num value={normalization.scale} strong />{" "}
      <SignedTerm value={normalization.shift} strong />
      <br />
      <span class="nbg-second">mean, std; weight, bias</span>
    </Card>
  );
}
