// The code pad: the data set's codes as points on the plane, label names, and a ring for the current code.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatShort } from "../../../number_format.ts";
import { pointerOffset, useViews } from "../../../views/context.ts";
import { CodeThumb } from "./axis_picker.tsx";
import { codeAt, itemLabel, itemName, type LatentCodes, nearestText } from "./latent_codes.ts";
import { type LatentPlane, type PlaneAxis, type PlanePoint, projectCode } from "./latent_plane.ts";
import { clamp } from "./vector_math.ts";

/** In CSS pixels: the pointer's hit radius for points, the most movement within a click, a point's radius. */
const HIT_RADIUS = 7;
const CLICK_TOLERANCE = 4;
const POINT_RADIUS = 1.7;
/** Key step as a share of the plane's side; ten times as far with Shift. */
const KEY_STEP = 1 / 100;
/** Line height of a label in CSS pixels: closer labels would overlap. */
const LABEL_HEIGHT = 17;

/** A coordinate as a share of the pad's width or height. */
const axisFraction = ({ low, high }: PlaneAxis, value: number): number =>
  (value - low) / (high - low);

interface CodePadProps {
  plane: LatentPlane;
  codes: LatentCodes | null;
  currentCode: readonly number[];
  /** The position of the current code on the plane. */
  point: PlanePoint;
  move: (to: PlanePoint) => void;
  /** Called when an item of the data set is clicked. */
  onItemClick: (position: number) => void;
}

export function CodePad(props: CodePadProps) {
  const { plane, codes, point, move, onItemClick } = props;
  const views = useViews();
  const place = useRef<HTMLDivElement>(null);
  const [side, setSide] = useState(0);
  const [hovered, setHovered] = useState<number | null>(null);
  const [named, setNamed] = useState<number | null>(null);
  const started = useRef<{ x: number; y: number; at: number | null; drags: boolean } | null>(null);
  // Each item's position, in shares of the pad.
  const places = useMemo(() => padPositions(plane, codes), [plane, codes]);
  const names = useMemo(
    () => (codes === null ? [] : labelPositions(codes, places)),
    [codes, places],
  );

  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    const look = (): void => setSide(element.clientWidth);
    const observer = new ResizeObserver(look);
    observer.observe(element);
    look();
    return () => observer.disconnect();
  }, []);

  const at = (event: PointerEvent): readonly [number, number] => {
    const { left, top } = pointerOffset(place.current as Element, event, views);
    return [left, top];
  };
  const pointAt = ([x, y]: readonly [number, number]): PlanePoint => {
    const along = ({ low, high }: PlaneAxis, part: number) =>
      low + clamp(part, 0, 1) * (high - low);
    return [along(plane.xAxis, x / side), along(plane.yAxis, 1 - y / side)];
  };
  const itemAt = ([x, y]: readonly [number, number]): number | null => {
    let [found, best]: [number | null, number] = [null, HIT_RADIUS ** 2];
    for (let k = 0; 2 * k < places.length; k++) {
      const [px, py] = [(places[2 * k] ?? 0) * side, (places[2 * k + 1] ?? 0) * side];
      const far = (px - x) ** 2 + (py - y) ** 2;
      if (far < best) [found, best] = [k, far];
    }
    return found;
  };
  const down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    event.preventDefault();
    const [x, y] = at(event);
    const onRing = (event.target as Element).closest(".nbg-latent-ring") !== null;
    const item = onRing ? null : itemAt([x, y]);
    started.current = { x, y, at: item, drags: item === null };
    place.current?.setPointerCapture(event.pointerId);
    place.current?.querySelector<HTMLElement>(".nbg-latent-ring")?.focus({ preventScroll: true });
    if (item === null && !onRing) move(pointAt([x, y]));
  };
  const drag = (event: PointerEvent): void => {
    const to = at(event);
    const from = started.current;
    if (from === null) {
      const found = itemAt(to);
      if (found !== hovered) setHovered(found);
      return;
    }
    from.drags ||= Math.hypot(to[0] - from.x, to[1] - from.y) > CLICK_TOLERANCE;
    if (from.drags) {
      setHovered(null);
      move(pointAt(to));
    }
  };
  const up = (): void => {
    const from = started.current;
    started.current = null;
    if (from !== null && !from.drags && from.at !== null) onItemClick(from.at);
  };
  const press = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [right, above] = (
      {
        ArrowLeft: [-1, 0],
        ArrowRight: [1, 0],
        ArrowUp: [0, 1],
        ArrowDown: [0, -1],
      } as Readonly<Record<string, readonly [number, number]>>
    )[event.key] ?? [0, 0];
    if (right === 0 && above === 0 && event.key !== "Home") return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Home") {
      move([0, 0]);
      return;
    }
    const times = event.shiftKey ? 10 : 1;
    const step = ({ low, high }: PlaneAxis, value: number, by: number) =>
      clamp(value + by * times * KEY_STEP * (high - low), low, high);
    move([step(plane.xAxis, point[0], right), step(plane.yAxis, point[1], above)]);
  };
  const [x, y] = [axisFraction(plane.xAxis, point[0]), 1 - axisFraction(plane.yAxis, point[1])];
  const outside = x < 0 || x > 1 || y < 0 || y > 1;
  const percent = (part: number) => `${100 * clamp(part, 0, 1)}%`;
  const words = [
    `${plane.xAxis.name} ${formatShort(point[0])}`,
    `${plane.yAxis.name} ${formatShort(point[1])}`,
  ];
  const near = nearestText(codes, props.currentCode);
  return (
    <div
      class="nbg-latent-plane nbg-latent-moves"
      ref={place}
      onPointerDown={down}
      onPointerMove={drag}
      onPointerUp={up}
      onPointerCancel={up}
      onPointerLeave={() => setHovered(null)}
    >
      {side > 0 && (
        <ScatterPlot
          plane={plane}
          codes={codes}
          padPoints={places}
          side={side}
          highlighted={highlightedLabel(codes, hovered, named)}
        />
      )}
      {layoutLabels(names, side, plane).map(({ label, name, left, top }) => (
        <span
          key={name}
          class="nbg-latent-name"
          style={{ left: `${left}px`, top: `${top}px` }}
          onPointerEnter={() => setNamed(label)}
          onPointerLeave={() => setNamed(null)}
        >
          {name}
        </span>
      ))}
      <span class="nbg-latent-axis nbg-second">{plane.xAxis.name} →</span>
      <span class="nbg-latent-axis nbg-latent-up nbg-second">↑ {plane.yAxis.name}</span>
      <div
        class={outside ? "nbg-latent-ring nbg-latent-outside" : "nbg-latent-ring"}
        role="slider"
        tabIndex={0}
        aria-label={`Code on the plane of ${plane.xAxis.name} and ${plane.yAxis.name}`}
        aria-roledescription="ring in two directions"
        aria-valuemin={Number(plane.xAxis.low.toFixed(3))}
        aria-valuemax={Number(plane.xAxis.high.toFixed(3))}
        aria-valuenow={Number(point[0].toFixed(3))}
        aria-valuetext={[...words, ...(near === "" ? [] : [near])].join(", ")}
        // Shift and an arrow key would select notebook cells.
        data-lm-suppress-shortcuts
        style={{ left: percent(x), top: percent(y) }}
        onKeyDown={press}
      />
      {codes !== null && hovered !== null && (
        <span class="nbg-latent-tip" style={tooltipPosition(places, hovered, side)}>
          <CodeThumb codes={codes} position={hovered} label={itemName(codes, hovered)} side={56} />
          {itemName(codes, hovered)}
        </span>
      )}
    </div>
  );
}

function tooltipPosition(padPoints: Float32Array, position: number, side: number) {
  const [x, y] = [(padPoints[2 * position] ?? 0) * side, (padPoints[2 * position + 1] ?? 0) * side];
  return {
    maxWidth: `${side / 2 - 14}px`,
    ...(x < side / 2 ? { left: `${x + 12}px` } : { right: `${side - x + 12}px` }),
    ...(y < side / 2 ? { top: `${y + 8}px` } : { bottom: `${side - y + 8}px` }),
  };
}

/** The label whose points are highlighted. */
function highlightedLabel(
  codes: LatentCodes | null,
  hoveredItem: number | null,
  hoveredLabel: number | null,
): number {
  return hoveredLabel ?? (hoveredItem === null ? -1 : (codes?.labels[hoveredItem] ?? -1));
}

/** The pad positions of all codes: x and y alternate. */
function padPositions(plane: LatentPlane, codes: LatentCodes | null): Float32Array {
  const found = new Float32Array(2 * (codes?.count ?? 0));
  for (let at = 0; codes !== null && at < codes.count; at++) {
    const [a, b] = projectCode(plane, codeAt(codes, at));
    found[2 * at] = axisFraction(plane.xAxis, a);
    found[2 * at + 1] = 1 - axisFraction(plane.yAxis, b);
  }
  return found;
}

interface LabelPosition {
  readonly labelIndex: number;
  readonly name: string;
  readonly x: number;
  readonly y: number;
}

/** Each label's name at the mean of its points. */
function labelPositions(codes: LatentCodes, padPoints: Float32Array): LabelPosition[] {
  const sums = new Map<number, { at: number; x: number; y: number; count: number }>();
  for (const [at, label] of codes.labels.entries()) {
    if (label < 0) continue;
    const sum = sums.get(label) ?? { at, x: 0, y: 0, count: 0 };
    sum.x += padPoints[2 * at] ?? 0;
    sum.y += padPoints[2 * at + 1] ?? 0;
    sum.count += 1;
    sums.set(label, sum);
  }
  return [...sums].map(([label, { at, x, y, count }]) => {
    return { labelIndex: label, name: itemLabel(codes, at), x: x / count, y: y / count };
  });
}

/**
 * Lay out label names in CSS pixels: each as close to its points as possible without overlapping another label or an
 * axis name.
 */
function layoutLabels(
  labels: readonly LabelPosition[],
  side: number,
  { xAxis, yAxis }: LatentPlane,
) {
  const halfOf = (words: string): number => 4 + 3.4 * words.length; // approximate half width of the text
  const [right, above] = [halfOf(`${xAxis.name} →`), halfOf(`↑ ${yAxis.name}`)];
  const [first, last] = [LABEL_HEIGHT / 2, side - LABEL_HEIGHT / 2];
  const taken = [
    { left: side - right, top: last, half: right },
    { left: above, top: first, half: above },
  ];
  return [...labels]
    .sort((a, b) => a.y - b.y)
    .map(({ labelIndex, name, x, y }) => {
      const half = halfOf(name);
      const left = clamp(x * side, half, side - half);
      const own = clamp(y * side, first, last);
      const beside = taken.filter((other) => Math.abs(other.left - left) < other.half + half);
      const [top = own] = [
        own,
        ...beside.flatMap((other) => [other.top - LABEL_HEIGHT, other.top + LABEL_HEIGHT]),
      ]
        .filter((at) => at >= first && at <= last)
        .filter((at) => beside.every((other) => Math.abs(other.top - at) > LABEL_HEIGHT - 0.01))
        .sort((a, b) => Math.abs(a - own) - Math.abs(b - own));
      taken.push({ left, top, half });
      return { label: labelIndex, name, left, top };
    });
}

/** The axes and points, redrawn only when they change. */
function ScatterPlot(props: {
  plane: LatentPlane;
  codes: LatentCodes | null;
  padPoints: Float32Array;
  side: number;
  highlighted: number;
}) {
  const { plane, codes, padPoints, side, highlighted: label } = props;
  const { pixelRatio, theme, root } = useViews();
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = Math.max(1, Math.round(side * pixelRatio.value));
  const now = theme.value;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes the colours that are asked for
  useLayoutEffect(() => {
    const paper = canvas.current?.getContext("2d");
    if (!paper) return;
    const color = (name: string) => getComputedStyle(root).getPropertyValue(name);
    paper.setTransform(size, 0, 0, size, 0, 0);
    paper.clearRect(0, 0, 1, 1);
    paper.strokeStyle = color("--nb-ctl");
    paper.lineWidth = 1 / size;
    const [x, y] = [axisFraction(plane.xAxis, 0), 1 - axisFraction(plane.yAxis, 0)];
    for (const [from, to] of [
      [
        [x, 0],
        [x, 1],
      ],
      [
        [0, y],
        [1, y],
      ],
    ] as const) {
      paper.beginPath();
      paper.moveTo(from[0], from[1]);
      paper.lineTo(to[0], to[1]);
      paper.stroke();
    }
    const draw = (some: (at: number) => boolean, fill: string, alpha: number): void => {
      paper.fillStyle = fill;
      paper.globalAlpha = alpha;
      for (let at = 0; 2 * at < padPoints.length; at++) {
        if (!some(at)) continue;
        paper.beginPath();
        paper.arc(
          padPoints[2 * at] ?? 0,
          padPoints[2 * at + 1] ?? 0,
          POINT_RADIUS / side,
          0,
          2 * Math.PI,
        );
        paper.fill();
      }
      paper.globalAlpha = 1;
    };
    const isLit = (at: number) => label >= 0 && codes?.labels[at] === label;
    draw((at) => !isLit(at), color("--nb-mark"), padPoints.length > 400 ? 0.22 : 0.45);
    draw(isLit, color("--nb-brand"), 1);
  }, [plane, codes, padPoints, side, size, label, now, root]);
  return (
    <canvas
      ref={canvas}
      class="nbg-latent-points"
      width={size}
      height={size}
      role="img"
      aria-label={`${codes?.count ?? 0} codes of the data on the plane`}
    />
  );
}
