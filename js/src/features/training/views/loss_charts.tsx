// Charts of the loss and, for classes, the accuracy over steps: training and held-out examples.
import { useMemo } from "preact/hooks";
import { formatInteger, formatPercent } from "../../../number_format.ts";
import type { TrainingRecord } from "../records.ts";
import type { Checkpoint, LossCurve, TrainingProgress } from "../state.ts";
import { CheckpointSlider } from "./checkpoint_slider.tsx";
import {
  type AxisScale,
  axisScale,
  type CurvePoints,
  curveRange,
  decimate,
  nearestIndex,
  runningMean,
  smoothingWindow,
} from "./curve_math.ts";
import { type ChartLine, type CurveLabel, lossText, StepChart, tickText } from "./step_chart.tsx";
import { lossName } from "./training_text.ts";

const CURVE_BINS = 600;
const NO_BRANCHES: readonly CurvePoints[] = [];
/** With room for a line at either end. */
const ACCURACY_SCALE: AxisScale = { isLog: false, low: -0.03, high: 1.04 };

export interface LossChartsProps {
  progress: TrainingProgress;
  record: TrainingRecord | null;
  selected: Checkpoint | null;
  select: (id: number) => void;
}

export function LossCharts(props: LossChartsProps) {
  const { progress, record, selected, select } = props;
  const { config, losses, accuracies, heldOut, branches, checkpoints } = progress;
  const window = smoothingWindow(losses.length);
  const means = useMemo(() => runningMean(losses, window), [losses, window]);
  const shares = useMemo(() => runningMean(accuracies, window), [accuracies, window]);
  const curves = useMemo(() => {
    const [each, mean] = [decimate(losses, CURVE_BINS), decimate(means, CURVE_BINS)];
    const held = finitePoints(heldOut.map(([step, loss]) => [step, loss]));
    const others = branches.map((one) => decimate(smoothedLosses(one), CURVE_BINS));
    return {
      each,
      mean,
      held,
      others,
      scale: axisScale(curveRange([each, mean, held, ...others])),
    };
  }, [losses, means, heldOut, branches]);
  const loss = useMemo(
    (): ChartLine[] => [
      { points: curves.each, color: "--nb-positive", width: 1, alpha: 0.4 },
      { points: curves.mean, color: "--nb-positive", width: 2 },
      { points: curves.held, color: "--nb-ink", width: 1.5, dash: [6, 4] },
    ],
    [curves],
  );
  const share = useMemo(
    (): ChartLine[] => [
      { points: decimate(shares, CURVE_BINS), color: "--nb-positive", width: 2 },
      {
        points: finitePoints(
          heldOut.flatMap(([step, , one]) => (one === null ? [] : [[step, one]])),
        ),
        color: "--nb-ink",
        width: 1.5,
        dash: [6, 4],
      },
    ],
    [shares, heldOut],
  );
  if (config === null) return null;
  const own = checkpoints.filter(({ branchNumber }) => branchNumber === 0);
  // Include kept branches: they may be longer than the current curve.
  const lengths = branches.map((one) => one.losses.length);
  const lastStep = Math.max(10, progress.step, losses.length, heldOut.at(-1)?.[0] ?? 0, ...lengths);
  const [lossNow, shareNow] = [means.at(-1), shares.at(-1)];
  const heldNow = heldOut.at(-1);
  const ends = curveLabels(heldNow?.[1], lossNow, lossText);
  const at = selected?.branchNumber === 0 ? selected.step : null;
  const held = `${heldNow === undefined ? "" : `, held out ${lossText(heldNow[1])}`}`;
  const scaleWord = curves.scale.isLog ? "log scale" : "linear scale";
  const common = { lastStep: lastStep, marks: record?.marks ?? [], markedStep: at };
  return (
    <figure class="nbg-losses" data-steps={losses.length} data-mean={window}>
      <figcaption>
        <strong>Loss</strong>{" "}
        <span class="nbg-second">
          {lossName(config)} by step, {scaleWord} ·{" "}
          {window > 1 ? `thin: each batch, thick: mean of ${formatInteger(window)}` : "each batch"}
          {heldNow !== undefined && ", dashed: held out"}
        </span>
      </figcaption>
      <StepChart
        {...common}
        label={
          losses.length === 0
            ? `no steps yet${held}`
            : `loss ${lossText(lossNow ?? Number.NaN)} after ${formatInteger(losses.length)} steps${held}`
        }
        height={config.has_accuracy ? 218 : 300}
        scale={curves.scale}
        formatTick={tickText}
        lines={loss}
        branches={curves.others}
        curveLabels={ends}
        valueAtStep={(step) => means[Math.max(0, step - 1)]}
        describeStep={(step) =>
          [
            step > 0 && step <= losses.length
              ? `this batch ${lossText(losses[step - 1] ?? Number.NaN)}`
              : "",
            window > 1 && step > 0 && step <= losses.length
              ? `mean of ${formatInteger(window)} ${lossText(means[step - 1] ?? Number.NaN)}`
              : "",
            heldOutText(heldOut, step, ([, value]) => lossText(value)),
          ]
            .filter((text) => text !== "")
            .join(" · ")
        }
      >
        {(stepToX, width) => (
          <CheckpointSlider
            {...{ stepToX, width, checkpoints: own, selected: selected, select: select, lastStep }}
          />
        )}
      </StepChart>
      {config.has_accuracy && (
        <>
          <figcaption>
            <strong>Accuracy</strong>{" "}
            <span class="nbg-second">correct in the batch, 0 to 100 %</span>
          </figcaption>
          <StepChart
            {...common}
            label={
              shareNow === undefined
                ? "no steps yet"
                : `${formatPercent(shareNow, 1)} correct after ${formatInteger(losses.length)} steps${
                    heldNow?.[2] == null ? "" : `, held out ${formatPercent(heldNow[2], 1)}`
                  }`
            }
            height={146}
            scale={ACCURACY_SCALE}
            formatTick={(value) => `${Math.round(value * 100)} %`}
            lines={share}
            branches={NO_BRANCHES}
            valueAtStep={(step) => shares[Math.max(0, step - 1)]}
            curveLabels={curveLabels(heldNow?.[2] ?? undefined, shareNow, (one) =>
              formatPercent(one, 1),
            )}
            describeStep={(step) =>
              [
                step > 0 && step <= accuracies.length
                  ? `this batch ${formatPercent(accuracies[step - 1] ?? Number.NaN, 1)}`
                  : "",
                heldOutText(heldOut, step, ([, , one]) =>
                  one === null ? "" : formatPercent(one, 1),
                ),
              ]
                .filter((text) => text !== "")
                .join(" · ")
            }
          />
        </>
      )}
    </figure>
  );
}

function curveLabels(
  heldOutValue: number | undefined,
  trainValue: number | undefined,
  formatValue: (value: number) => string,
): CurveLabel[] {
  const one = (label: string, name: string, value: number | undefined): CurveLabel[] =>
    value === undefined || !Number.isFinite(value)
      ? []
      : [{ label, name, value, text: formatValue(value) }];
  return [...one("held out", "held", heldOutValue), ...one("train", "train", trainValue)];
}

/** The result of the held-out evaluation nearest to a step. */
function heldOutText(
  heldOut: LossCurve["heldOut"],
  step: number,
  formatRow: (row: LossCurve["heldOut"][number]) => string,
): string {
  const row =
    heldOut[
      nearestIndex(
        heldOut.map(([one]) => one),
        step,
      )
    ];
  const words = row === undefined ? "" : formatRow(row);
  if (row === undefined || words === "") return "";
  return `held out ${words}${row[0] === step ? "" : ` at step ${formatInteger(row[0])}`}`;
}

const smoothedLosses = ({ losses }: LossCurve): Float64Array =>
  runningMean(losses, smoothingWindow(losses.length));

function finitePoints(points: readonly (readonly number[])[]): CurvePoints {
  const known = points.filter(([, value = Number.NaN]) => Number.isFinite(value));
  return { x: known.map(([x = 0]) => x), y: known.map(([, y = 0]) => y) };
}
