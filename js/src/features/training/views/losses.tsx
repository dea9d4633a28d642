// The loss over steps, and of classes the share of right answers: what learns, and what is held out.
import { useMemo } from "preact/hooks";
import { full, percent } from "../../../format.ts";
import type { TrainingRecord } from "../records.ts";
import type { Checkpoint, Curve, TrainingProgress } from "../state.ts";
import { Chart, type End, type Line, lossText, numberText } from "./chart.tsx";
import {
  endsOf,
  meanOf,
  nearest,
  type Points,
  pointsOf,
  runningMean,
  type Scale,
  scaleOf,
} from "./curves.ts";
import { Dots } from "./dots.tsx";
import { lossName } from "./training_text.ts";

const BINS = 600;
const NONE: readonly Points[] = [];
/** With room for a line at either end. */
const PERCENT: Scale = { log: false, low: -0.03, high: 1.04 };

export interface LossesProps {
  progress: TrainingProgress;
  record: TrainingRecord | null;
  chosen: Checkpoint | null;
  choose: (id: number) => void;
}

export function Losses(props: LossesProps) {
  const { progress, record, chosen, choose } = props;
  const { course, losses, accuracies, heldOut, branches, checkpoints } = progress;
  const window = meanOf(losses.length);
  const means = useMemo(() => runningMean(losses, window), [losses, window]);
  const shares = useMemo(() => runningMean(accuracies, window), [accuracies, window]);
  const curves = useMemo(() => {
    const [each, mean] = [pointsOf(losses, BINS), pointsOf(means, BINS)];
    const held = rows(heldOut.map(([step, loss]) => [step, loss]));
    const others = branches.map((one) => pointsOf(meanLine(one), BINS));
    return { each, mean, held, others, scale: scaleOf(endsOf([each, mean, held, ...others])) };
  }, [losses, means, heldOut, branches]);
  const loss = useMemo(
    (): Line[] => [
      { points: curves.each, color: "--nb-positive", width: 1, alpha: 0.4 },
      { points: curves.mean, color: "--nb-positive", width: 2 },
      { points: curves.held, color: "--nb-ink", width: 1.5, dash: [6, 4] },
    ],
    [curves],
  );
  const share = useMemo(
    (): Line[] => [
      { points: pointsOf(shares, BINS), color: "--nb-positive", width: 2 },
      {
        points: rows(heldOut.flatMap(([step, , one]) => (one === null ? [] : [[step, one]]))),
        color: "--nb-ink",
        width: 1.5,
        dash: [6, 4],
      },
    ],
    [shares, heldOut],
  );
  if (course === null) return null;
  const own = checkpoints.filter(({ branch }) => branch === 0);
  // Also of a branch that was kept: it may have gone further than the curve of now.
  const lengths = branches.map((one) => one.losses.length);
  const last = Math.max(10, progress.step, losses.length, heldOut.at(-1)?.[0] ?? 0, ...lengths);
  const [lossNow, shareNow] = [means.at(-1), shares.at(-1)];
  const heldNow = heldOut.at(-1);
  const ends = endLabels(heldNow?.[1], lossNow, lossText);
  const at = chosen?.branch === 0 ? chosen.step : null;
  const held = `${heldNow === undefined ? "" : `, held out ${lossText(heldNow[1])}`}`;
  const scaleWord = curves.scale.log ? "log scale" : "linear scale";
  const common = { last, marks: record?.marks ?? [], at };
  return (
    <figure class="nbg-losses" data-steps={losses.length} data-mean={window}>
      <figcaption>
        <strong>Loss</strong>{" "}
        <span class="nbg-second">
          {lossName(course)} by step, {scaleWord} ·{" "}
          {window > 1 ? `thin: each batch, thick: mean of ${full(window)}` : "each batch"}
          {heldNow !== undefined && ", dashed: held out"}
        </span>
      </figcaption>
      <Chart
        {...common}
        label={
          losses.length === 0
            ? `no step has been done yet${held}`
            : `loss ${lossText(lossNow ?? Number.NaN)} after ${full(losses.length)} steps${held}`
        }
        height={course.accuracy ? 218 : 300}
        scale={curves.scale}
        say={numberText}
        lines={loss}
        branches={curves.others}
        ends={ends}
        on={(step) => means[Math.max(0, step - 1)]}
        describe={(step) =>
          [
            step > 0 && step <= losses.length
              ? `this batch ${lossText(losses[step - 1] ?? Number.NaN)}`
              : "",
            window > 1 && step > 0 && step <= losses.length
              ? `mean of ${full(window)} ${lossText(means[step - 1] ?? Number.NaN)}`
              : "",
            heldText(heldOut, step, ([, value]) => lossText(value)),
          ]
            .filter((text) => text !== "")
            .join(" · ")
        }
      >
        {(place, width) => <Dots {...{ place, width, own, chosen, choose, last }} />}
      </Chart>
      {course.accuracy && (
        <>
          <figcaption>
            <strong>Right answers</strong>{" "}
            <span class="nbg-second">share of the batch, 0 to 100 %</span>
          </figcaption>
          <Chart
            {...common}
            label={
              shareNow === undefined
                ? "no step has been done yet"
                : `${percent(shareNow, 1)} right after ${full(losses.length)} steps${
                    heldNow?.[2] == null ? "" : `, held out ${percent(heldNow[2], 1)}`
                  }`
            }
            height={146}
            scale={PERCENT}
            say={(value) => `${Math.round(value * 100)} %`}
            lines={share}
            branches={NONE}
            on={(step) => shares[Math.max(0, step - 1)]}
            ends={endLabels(heldNow?.[2] ?? undefined, shareNow, (one) => percent(one, 1))}
            describe={(step) =>
              [
                step > 0 && step <= accuracies.length
                  ? `this batch ${percent(accuracies[step - 1] ?? Number.NaN, 1)}`
                  : "",
                heldText(heldOut, step, ([, , one]) => (one === null ? "" : percent(one, 1))),
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

function endLabels(
  held: number | undefined,
  train: number | undefined,
  text: (value: number) => string,
): End[] {
  const one = (word: string, name: string, value: number | undefined): End[] =>
    value === undefined || !Number.isFinite(value)
      ? []
      : [{ word, name, value, text: text(value) }];
  return [...one("held out", "held", held), ...one("train", "train", train)];
}

/** What was held out, as it was known at a step. */
function heldText(
  heldOut: Curve["heldOut"],
  step: number,
  text: (row: Curve["heldOut"][number]) => string,
): string {
  const row =
    heldOut[
      nearest(
        heldOut.map(([one]) => one),
        step,
      )
    ];
  const words = row === undefined ? "" : text(row);
  if (row === undefined || words === "") return "";
  return `held out ${words}${row[0] === step ? "" : ` at step ${full(row[0])}`}`;
}

const meanLine = ({ losses }: Curve): Float64Array => runningMean(losses, meanOf(losses.length));

function rows(all: readonly (readonly number[])[]): Points {
  const known = all.filter(([, value = Number.NaN]) => Number.isFinite(value));
  return { x: known.map(([x = 0]) => x), y: known.map(([, y = 0]) => y) };
}
