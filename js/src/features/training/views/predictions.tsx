// A row with a checkpoint's prediction for each example.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { formatExact, formatPercent, formatShort } from "../../../number_format.ts";
import type { Value } from "../../../plan/schema.ts";
import type { ColorLimits } from "../../../state/colors.ts";
import { useViews } from "../../../views/context.ts";
import { hasUnitRange } from "../../../views/image_limits.ts";
import { px } from "../../../views/layout.ts";
import type { FixedExampleData } from "../state.ts";
import {
  elementCount,
  hasMarks,
  type PictureShape,
  type PredictionKind,
  paintPicture,
  pictureLimits,
  pictureShape,
  topClass,
} from "./prediction_pixels.ts";

/** For a network that has not loaded. */
const NO_VALUE_RANGE = { value_range: [null, null] } as const;
/** Outputs that are neither pictures nor classes show at most this many numbers. */
const MAX_SHOWN_NUMBERS = 4;

/** Predictions for all examples, or their targets if `values` is null. */
export function Predictions(props: {
  fixedExamples: FixedExampleData;
  kind: PredictionKind;
  values: Float32Array | null;
  /** Side of each in CSS pixels. */
  side: number;
  stepText: string;
}) {
  const { fixedExamples, kind, values, side, stepText } = props;
  const each = Array.from({ length: fixedExamples.count }, (_, k) => k);
  return (
    <span
      class={`nbg-predictions nbg-of-${kind}`}
      role="group"
      aria-label={`Predictions, ${stepText}`}
    >
      {each.map((k) => (
        <Prediction key={k} {...{ fixedExamples, kind, values, side, stepText }} exampleIndex={k} />
      ))}
    </span>
  );
}

const exampleValues = (values: Float32Array, exampleIndex: number, size: number): Float32Array =>
  values.subarray(exampleIndex * size, (exampleIndex + 1) * size);

/** The black and white levels for pictures of one of the network's values. */
function usePictureLimits(values: Float32Array, networkValue: Value | undefined): ColorLimits {
  const choice = useViews().state.imageRanges.value[networkValue?.key ?? ""];
  return useMemo(
    () => pictureLimits(values, networkValue ?? NO_VALUE_RANGE, choice),
    [values, networkValue, choice],
  );
}

function Prediction(props: {
  fixedExamples: FixedExampleData;
  kind: PredictionKind;
  values: Float32Array | null;
  side: number;
  stepText: string;
  exampleIndex: number;
}) {
  const { fixedExamples, kind, values, side, stepText, exampleIndex } = props;
  const { state, network } = useViews();
  const classes = state.classNames.value;
  const [shownOutput, shownInput] = [network.value?.outputs[0], network.value?.inputs[0]];
  const output = elementCount(fixedExamples.outputShape);
  const label = `example ${exampleIndex + 1}, ${stepText}`;
  // Without targets, the network reconstructs its input.
  const given = fixedExamples.targets.length > 0 ? fixedExamples.targets : fixedExamples.inputs;
  const limits = usePictureLimits(given, shownOutput);
  const seen = usePictureLimits(fixedExamples.inputs, shownInput);
  const shares = shownOutput !== undefined && hasUnitRange(shownOutput);
  if (kind === "pictures") {
    const shape =
      values === null
        ? fixedExamples.targets.length > 0
          ? fixedExamples.targetShape
          : fixedExamples.inputShape
        : fixedExamples.outputShape;
    const frame = pictureShape(shape);
    const own = exampleValues(values ?? given, exampleIndex, elementCount(shape));
    return frame === null || own.length === 0 ? null : (
      <PredictionPicture
        values={values ?? given}
        offset={exampleIndex * elementCount(shape)}
        {...{ shape: frame, limits: limits, side, label }}
      />
    );
  }
  if (kind === "classes") {
    const wanted = fixedExamples.targets[exampleIndex] ?? -1;
    const frame = pictureShape(fixedExamples.inputShape);
    const guess =
      values === null ? null : topClass(exampleValues(values, exampleIndex, output), shares);
    const name = (which: number): string => classes[which] || String(which);
    const right = guess?.index === wanted;
    return (
      <span class="nbg-answer" style={{ width: px(side) }}>
        {frame !== null && (
          <PredictionPicture
            values={fixedExamples.inputs}
            offset={exampleIndex * elementCount(fixedExamples.inputShape)}
            {...{ shape: frame, side, label }}
            limits={seen}
          />
        )}
        <span
          class={guess === null || right ? "" : "nbg-wrong-answer"}
          title={name(guess?.index ?? wanted)}
        >
          {guess === null ? name(wanted) : `${right ? "✓" : "✗"} ${name(guess.index)}`}
        </span>
        {guess !== null && <span class="nbg-second">{formatPercent(guess.probability)}</span>}
      </span>
    );
  }
  const own = exampleValues(
    values ?? fixedExamples.targets,
    exampleIndex,
    values === null ? elementCount(fixedExamples.targetShape) : output,
  );
  const most = shares ? 1 : own.reduce((found, one) => Math.max(found, Math.abs(one)), 0);
  return (
    <span
      class="nbg-output-numbers"
      style={{ width: px(side) }}
      title={[...own.slice(0, 64)].map(formatExact).join(", ")}
    >
      {[...own.slice(0, MAX_SHOWN_NUMBERS)].map((value, at) => (
        <span key={at}>
          <span
            class={value < 0 ? "nbg-number-bar nbg-negative-bar" : "nbg-number-bar"}
            style={{ width: `${most > 0 ? (100 * Math.abs(value)) / most : 0}%` }}
          />
          {formatShort(value)}
        </span>
      ))}
      {own.length > MAX_SHOWN_NUMBERS && <span class="nbg-second">of {own.length}</span>}
    </span>
  );
}

function PredictionPicture(props: {
  values: Float32Array;
  /** Index of the picture's first element in `values`. */
  offset: number;
  shape: PictureShape;
  limits: { low: number; high: number };
  side: number;
  label: string;
}) {
  const { values, offset, shape, limits, side, label } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const { channels, width, height } = shape;
  const by = side / Math.max(width, height);
  const whole = Math.max(1, Math.round(by * useViews().pixelRatio.value));
  const times = hasMarks(values.subarray(offset), shape, limits) ? whole : 1;
  // biome-ignore lint/correctness/useExhaustiveDependencies: its numbers are what a frame is
  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const picture = new ImageData(width * times, height * times);
    paintPicture(picture, values.subarray(offset), shape, limits, times);
    context.putImageData(picture, 0, 0);
  }, [values, offset, channels, width, height, limits, times]);
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={label}
      data-prediction={label}
      width={width * times}
      height={height * times}
      style={{ width: px(width * by), height: px(height * by) }}
    />
  );
}
