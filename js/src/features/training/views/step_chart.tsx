// Curves over steps, drawn by uPlot, with interactive elements on top.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { formatFixed, formatInteger, formatShort } from "../../../number_format.ts";
import { pointerOffset, pointerPosition, useViews } from "../../../views/context.ts";
import { px } from "../../../views/layout.ts";
import type { EditMark } from "../records.ts";
import { type AxisScale, axisPosition, axisTicks, type CurvePoints } from "./curve_math.ts";

/** CSS pixels around the curves, for axis labels and for the labels at the curves' ends. */
const PLOT_MARGIN = { top: 10, right: 76, bottom: 42, left: 46 };
/** Height of a label at a curve's end. */
const LABEL_HEIGHT = 30;
/** Between the checkpoint dots and the tick labels below them. */
const TICK_GAP = 12;

/** Allowed spacings of the ticks on the step axis. */
const STEP_INCREMENTS = [1, 100, 10_000, 1_000_000].flatMap((by) =>
  [1, 2, 5, 10, 20, 50].map((one) => one * by),
);

export interface ChartLine {
  readonly points: CurvePoints;
  /** A CSS variable of theme.css. */
  readonly color: string;
  readonly width: number;
  readonly alpha?: number;
  readonly dash?: number[];
}

/** The label at a curve's end: its name and last value. */
export interface CurveLabel {
  readonly label: string;
  readonly value: number;
  readonly text: string;
  readonly name: string;
}

export interface StepChartProps {
  label: string;
  height: number;
  /** The last step on the axis. */
  lastStep: number;
  scale: AxisScale;
  formatTick: (value: number) => string;
  lines: readonly ChartLine[];
  /** Curves of earlier branches, drawn in grey. */
  branches: readonly CurvePoints[];
  curveLabels: readonly CurveLabel[];
  marks: readonly EditMark[];
  /** The tooltip text for a step; "" if nothing is known about it. */
  describeStep: (step: number) => string;
  /** The value at a step, which sets the height of the step's mark. */
  valueAtStep: (step: number) => number | undefined;
  /** The selected step, marked with a line. */
  markedStep: number | null;
  /** Elements on the step axis; `stepToX` converts a step to CSS pixels. */
  children?: (stepToX: (step: number) => number, width: number) => ComponentChildren;
}

export function StepChart(props: StepChartProps) {
  const {
    label,
    height,
    lastStep,
    scale,
    curveLabels,
    marks,
    describeStep,
    valueAtStep,
    markedStep,
    children,
  } = props;
  const views = useViews();
  const container = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = container.current;
    if (element === null) return;
    const look = (): void => setWidth(Math.floor(element.clientWidth));
    const observer = new ResizeObserver(look);
    observer.observe(element);
    look();
    return () => observer.disconnect();
  }, []);
  usePlot(container, width, props);
  const room = {
    width: Math.max(1, width - PLOT_MARGIN.left - PLOT_MARGIN.right),
    height: height - PLOT_MARGIN.top - PLOT_MARGIN.bottom,
  };
  const left = (step: number): number =>
    PLOT_MARGIN.left + (step / Math.max(1, lastStep)) * room.width;
  /** The vertical position of a value in the plot; the middle for undefined or non-finite values. */
  const topOf = (value: number | undefined): number => {
    const share = value === undefined ? Number.NaN : axisPosition(scale, value);
    return (Number.isFinite(share) ? 1 - share : 0.5) * room.height;
  };
  const point = (event: PointerEvent): void => {
    const spot =
      pointerOffset(event.currentTarget as Element, event, views).left - PLOT_MARGIN.left;
    const step = Math.round((spot / room.width) * lastStep);
    const text = step >= 0 && step <= lastStep ? describeStep(step) : "";
    views.tooltip.value =
      text === ""
        ? null
        : { title: `step ${formatInteger(step)}`, text, ...pointerPosition(event, views) };
  };
  return (
    <div class="nbg-chart" style={{ height: px(height) }}>
      <div
        class="nbg-chart-lines"
        role="img"
        aria-label={label}
        ref={container}
        onPointerMove={point}
        onPointerLeave={() => {
          views.tooltip.value = null;
        }}
      />
      {markedStep !== null && (
        <span
          class="nbg-chart-at"
          style={{ left: px(left(markedStep)), top: px(PLOT_MARGIN.top), height: px(room.height) }}
        />
      )}
      {marks.map(({ step, text }) => (
        <span
          class="nbg-chart-mark"
          key={`${step} ${text}`}
          role="img"
          aria-label={`step ${formatInteger(step)}: ${text}`}
          title={`step ${formatInteger(step)}: ${text}`}
          style={{ left: px(left(step)), top: px(PLOT_MARGIN.top + topOf(valueAtStep(step))) }}
        />
      ))}
      {layoutLabels(curveLabels, scale, room.height).map(({ end, top }) => (
        <span
          class={`nbg-chart-end nbg-chart-${end.name}`}
          key={end.name}
          style={{ left: px(width - PLOT_MARGIN.right + 8), top: px(PLOT_MARGIN.top + top) }}
        >
          <span>{end.label}</span>
          <strong>{end.text}</strong>
        </span>
      ))}
      {children !== undefined && width > 0 && (
        <div class="nbg-chart-axis" style={{ top: px(PLOT_MARGIN.top + room.height - 1) }}>
          {children(left, width)}
        </div>
      )}
    </div>
  );
}

/** Place labels beside the ends of their curves; labels that would overlap are stacked. */
function layoutLabels(labels: readonly CurveLabel[], scale: AxisScale, height: number) {
  const found = labels
    .map((end) => ({ end, top: (1 - axisPosition(scale, end.value)) * height - LABEL_HEIGHT / 2 }))
    .sort((a, b) => a.top - b.top);
  for (const [k, one] of found.entries()) {
    const before = found[k - 1];
    one.top = Math.max(
      0,
      before === undefined ? one.top : Math.max(one.top, before.top + LABEL_HEIGHT),
    );
  }
  // No label may be below the axis.
  let most = height - LABEL_HEIGHT;
  for (const one of found.toReversed()) {
    one.top = Math.min(one.top, most);
    most = one.top - LABEL_HEIGHT;
  }
  return found;
}

/** Keep one plot and update its data, size and colours. */
function usePlot(
  container: { readonly current: HTMLDivElement | null },
  width: number,
  props: StepChartProps,
): void {
  const { root, theme } = useViews();
  const { height, lines, scale, lastStep, branches } = props;
  const plot = useRef<uPlot | null>(null);
  const now = useRef(props);
  now.current = props;
  // Another kind of axis or number of lines needs a new plot.
  const kind = `${scale.isLog} ${lines.length}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the plot reads what changes by itself
  useLayoutEffect(() => {
    const element = container.current;
    if (element === null || width === 0) return;
    plot.current = new uPlot(
      chartOptions(root, () => now.current, width),
      chartData(lines),
      element,
    );
    return () => {
      plot.current?.destroy();
      plot.current = null;
    };
  }, [kind, width > 0]);
  useLayoutEffect(() => {
    if (width > 0) plot.current?.setSize({ width, height });
  }, [width, height]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: they are what is drawn
  useLayoutEffect(() => {
    plot.current?.setData(chartData(lines));
  }, [lines, branches, lastStep, scale.low, scale.high, theme.value]);
}

/** Align all lines on the same x values, with gaps where a line has no point. */
function chartData(lines: readonly ChartLine[]): uPlot.AlignedData {
  return uPlot.join(lines.map(({ points }) => [[...points.x], [...points.y]]));
}

function chartOptions(
  root: HTMLElement,
  currentProps: () => StepChartProps,
  width: number,
): uPlot.Options {
  const { height, lines, scale } = currentProps();
  const looks = getComputedStyle(root);
  const color = (name: string): string => getComputedStyle(root).getPropertyValue(name).trim();
  // Round to whole pixels: for "10.998px" uPlot would scale the 998 on a high-density screen.
  const font = `${Math.round(0.846 * Number.parseFloat(looks.fontSize))}px ${looks.fontFamily}`;
  const axis = { font, stroke: () => color("--nb-ink2"), ticks: { show: false } };
  const ticks = (): number[] => {
    const { scale: shown, height: all } = currentProps();
    return axisTicks(shown, Math.floor((all - PLOT_MARGIN.top - PLOT_MARGIN.bottom) / 24));
  };
  return {
    width,
    height,
    padding: [PLOT_MARGIN.top, PLOT_MARGIN.right, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => [0, Math.max(1, currentProps().lastStep)] },
      y: {
        distr: scale.isLog ? 3 : 1,
        range: () => [currentProps().scale.low, currentProps().scale.high],
      },
    },
    axes: [
      {
        ...axis,
        size: PLOT_MARGIN.bottom,
        gap: TICK_GAP,
        space: 56,
        incrs: STEP_INCREMENTS,
        grid: { show: false },
        values: (_, steps) => steps.map((step) => formatInteger(step)),
      },
      {
        ...axis,
        size: PLOT_MARGIN.left,
        splits: ticks,
        filter: (_, splits) => splits,
        grid: { stroke: () => color("--nb-line"), width: 1, filter: (_, splits) => splits },
        values: (_, values) => values.map((value) => currentProps().formatTick(value)),
      },
    ],
    series: [
      {},
      ...lines.map((line, k) => ({
        stroke: () => color(currentProps().lines[k]?.color ?? line.color),
        width: line.width,
        points: { show: false },
        ...(line.alpha !== undefined && { alpha: line.alpha }),
        ...(line.dash && { dash: line.dash }),
      })),
    ],
    hooks: {
      drawAxes: [
        (plot) => {
          const { ctx } = plot;
          ctx.save();
          ctx.strokeStyle = color("--nb-ctl");
          ctx.globalAlpha = 0.55;
          ctx.lineWidth = 1.2 * uPlot.pxRatio;
          ctx.beginPath();
          for (const { x, y } of currentProps().branches) {
            for (const [k, step] of x.entries()) {
              const left = plot.valToPos(step, "x", true);
              const top = plot.valToPos(y[k] ?? Number.NaN, "y", true);
              if (k === 0) ctx.moveTo(left, top);
              else ctx.lineTo(left, top);
            }
          }
          ctx.stroke();
          ctx.restore();
        },
      ],
    },
  };
}

/** An axis label: a rounded number without trailing zeros. */
export function tickText(value: number): string {
  const size = Math.abs(value);
  const plain = size === 0 || (size >= 1e-4 && size < 1e5);
  return plain ? String(Number(value.toPrecision(3))).replace("-", "−") : formatShort(value);
}

/** A loss as text: four decimals, or significant digits if it is small or large. */
export const lossText = (value: number): string =>
  Number.isFinite(value) && Math.abs(value) >= 1000 ? tickText(value) : formatFixed(value, 4);
