// Curves over steps, drawn by uPlot; what can be pointed at and dragged stands over them as elements.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { fixed, full, short } from "../../../format.ts";
import { placeOf, pointIn, useViews } from "../../../views/context.ts";
import { px } from "../../../views/layout.ts";
import type { Mark } from "../records.ts";
import { type Points, placeOn, type Scale, ticksOf } from "./curves.ts";

/** CSS pixels around the curves: for labels of the axes, and of the curves' ends. */
const AROUND = { top: 10, right: 76, bottom: 42, left: 46 };
/** Of a label at a curve's end. */
const LINE = 30;
/** Between the dots and the numbers below them. */
const DOTS = 12;

/** Between the numbers of the axis of steps. */
const STEPS = [1, 100, 10_000, 1_000_000].flatMap((by) =>
  [1, 2, 5, 10, 20, 50].map((one) => one * by),
);

export interface Line {
  readonly points: Points;
  /** A variable of theme.css. */
  readonly color: string;
  readonly width: number;
  readonly alpha?: number;
  readonly dash?: number[];
}

/** What a curve is called and comes to, beside its end. */
export interface End {
  readonly word: string;
  readonly value: number;
  readonly text: string;
  readonly name: string;
}

export interface ChartProps {
  label: string;
  height: number;
  /** The last step on the axis. */
  last: number;
  scale: Scale;
  say: (value: number) => string;
  lines: readonly Line[];
  /** Curves of another time, in grey. */
  branches: readonly Points[];
  ends: readonly End[];
  marks: readonly Mark[];
  /** The words for a step, where something is known of it. */
  describe: (step: number) => string;
  /** The number at a step, where its mark stands. */
  on: (step: number) => number | undefined;
  /** The step that is looked at, with a line. */
  at: number | null;
  /** What stands on the axis, given the place of a step in CSS pixels. */
  children?: (place: (step: number) => number, width: number) => ComponentChildren;
}

export function Chart(props: ChartProps) {
  const { label, height, last, scale, ends, marks, describe, on, at, children } = props;
  const views = useViews();
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    const look = (): void => setWidth(Math.floor(element.clientWidth));
    const observer = new ResizeObserver(look);
    observer.observe(element);
    look();
    return () => observer.disconnect();
  }, []);
  usePlot(place, width, props);
  const room = {
    width: Math.max(1, width - AROUND.left - AROUND.right),
    height: height - AROUND.top - AROUND.bottom,
  };
  const left = (step: number): number => AROUND.left + (step / Math.max(1, last)) * room.width;
  /** Where on the plot a number is; in its middle what is none. */
  const topOf = (value: number | undefined): number => {
    const share = value === undefined ? Number.NaN : placeOn(scale, value);
    return (Number.isFinite(share) ? 1 - share : 0.5) * room.height;
  };
  const point = (event: PointerEvent): void => {
    const spot = pointIn(event.currentTarget as Element, event, views).left - AROUND.left;
    const step = Math.round((spot / room.width) * last);
    const text = step >= 0 && step <= last ? describe(step) : "";
    views.note.value =
      text === "" ? null : { title: `step ${full(step)}`, text, ...placeOf(event, views) };
  };
  return (
    <div class="nbg-chart" style={{ height: px(height) }}>
      <div
        class="nbg-chart-lines"
        role="img"
        aria-label={label}
        ref={place}
        onPointerMove={point}
        onPointerLeave={() => {
          views.note.value = null;
        }}
      />
      {at !== null && (
        <span
          class="nbg-chart-at"
          style={{ left: px(left(at)), top: px(AROUND.top), height: px(room.height) }}
        />
      )}
      {marks.map(({ step, text }) => (
        <span
          class="nbg-chart-mark"
          key={`${step} ${text}`}
          role="img"
          aria-label={`step ${full(step)}: ${text}`}
          title={`step ${full(step)}: ${text}`}
          style={{ left: px(left(step)), top: px(AROUND.top + topOf(on(step))) }}
        />
      ))}
      {placed(ends, scale, room.height).map(({ end, top }) => (
        <span
          class={`nbg-chart-end nbg-chart-${end.name}`}
          key={end.name}
          style={{ left: px(width - AROUND.right + 8), top: px(AROUND.top + top) }}
        >
          <span>{end.word}</span>
          <strong>{end.text}</strong>
        </span>
      ))}
      {children !== undefined && width > 0 && (
        <div class="nbg-chart-axis" style={{ top: px(AROUND.top + room.height - 1) }}>
          {children(left, width)}
        </div>
      )}
    </div>
  );
}

/** Labels beside the ends of their curves, one below the other where these are near. */
function placed(ends: readonly End[], scale: Scale, height: number) {
  const found = ends
    .map((end) => ({ end, top: (1 - placeOn(scale, end.value)) * height - LINE / 2 }))
    .sort((a, b) => a.top - b.top);
  for (const [k, one] of found.entries()) {
    const before = found[k - 1];
    one.top = Math.max(0, before === undefined ? one.top : Math.max(one.top, before.top + LINE));
  }
  // None below the axis.
  let most = height - LINE;
  for (const one of found.toReversed()) {
    one.top = Math.min(one.top, most);
    most = one.top - LINE;
  }
  return found;
}

/** Keeps one plot, and gives it other numbers, another size and other colours. */
function usePlot(
  place: { readonly current: HTMLDivElement | null },
  width: number,
  props: ChartProps,
): void {
  const { root, theme } = useViews();
  const { height, lines, scale, last, branches } = props;
  const plot = useRef<uPlot | null>(null);
  const now = useRef(props);
  now.current = props;
  // Another kind of axis, or other lines, need another plot.
  const kind = `${scale.log} ${lines.length}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the plot reads what changes by itself
  useLayoutEffect(() => {
    const element = place.current;
    if (element === null || width === 0) return;
    plot.current = new uPlot(
      optionsOf(root, () => now.current, width),
      dataOf(lines),
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
    plot.current?.setData(dataOf(lines));
  }, [lines, branches, last, scale.low, scale.high, theme.value]);
}

/** All lines over the same places, with nothing where one has none. */
function dataOf(lines: readonly Line[]): uPlot.AlignedData {
  return uPlot.join(lines.map(({ points }) => [[...points.x], [...points.y]]));
}

function optionsOf(root: HTMLElement, now: () => ChartProps, width: number): uPlot.Options {
  const { height, lines, scale } = now();
  const looks = getComputedStyle(root);
  const color = (name: string): string => getComputedStyle(root).getPropertyValue(name).trim();
  // Whole pixels: of "10.998px" uPlot would scale the 998 for a finer screen.
  const font = `${Math.round(0.846 * Number.parseFloat(looks.fontSize))}px ${looks.fontFamily}`;
  const axis = { font, stroke: () => color("--nb-ink2"), ticks: { show: false } };
  const ticks = (): number[] => {
    const { scale: shown, height: all } = now();
    return ticksOf(shown, Math.floor((all - AROUND.top - AROUND.bottom) / 24));
  };
  return {
    width,
    height,
    padding: [AROUND.top, AROUND.right, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => [0, Math.max(1, now().last)] },
      y: { distr: scale.log ? 3 : 1, range: () => [now().scale.low, now().scale.high] },
    },
    axes: [
      {
        ...axis,
        size: AROUND.bottom,
        gap: DOTS,
        space: 56,
        incrs: STEPS,
        grid: { show: false },
        values: (_, steps) => steps.map((step) => full(step)),
      },
      {
        ...axis,
        size: AROUND.left,
        splits: ticks,
        filter: (_, splits) => splits,
        grid: { stroke: () => color("--nb-line"), width: 1, filter: (_, splits) => splits },
        values: (_, values) => values.map((value) => now().say(value)),
      },
    ],
    series: [
      {},
      ...lines.map((line, k) => ({
        stroke: () => color(now().lines[k]?.color ?? line.color),
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
          for (const { x, y } of now().branches) {
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

/** An axis's number: a round one, without zeros that say nothing. */
export function numberText(value: number): string {
  const size = Math.abs(value);
  const plain = size === 0 || (size >= 1e-4 && size < 1e5);
  return plain ? String(Number(value.toPrecision(3))).replace("-", "−") : short(value);
}

/** A loss as text: four decimals, or digits where it is small or large. */
export const lossText = (value: number): string =>
  Number.isFinite(value) && Math.abs(value) >= 1000 ? numberText(value) : fixed(value, 4);
