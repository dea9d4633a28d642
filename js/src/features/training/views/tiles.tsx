// A parameter's tiles on a canvas.
import { useLayoutEffect, useRef } from "preact/hooks";
import { exact } from "../../../format.ts";
import { colorTable } from "../../../views/colors.ts";
import { placeOf, pointIn, useViews } from "../../../views/context.ts";
import { px } from "../../../views/layout.ts";
import { EDGE, type Fitting, paintTiles, type Tiling } from "./tiles.ts";

export function Tiles(props: {
  values: Float32Array;
  tiling: Tiling;
  /** In device pixels, as is the gap. */
  fit: Fitting;
  gap: number;
  most: number;
  label: string;
  /** For who reads the page: whose it is. */
  name: string;
}) {
  const { values, tiling, fit, gap, most, label, name } = props;
  const views = useViews();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [ratio, theme] = [views.ratio.value, views.theme.value];
  const { columns, size } = tiling;
  const lines = Math.ceil(size / columns);
  const step = { across: columns * fit.one + gap, down: lines * fit.one + gap };
  const width = fit.across * step.across - gap + 2 * EDGE;
  const height = Math.ceil(fit.count / fit.across) * step.down - gap + 2 * EDGE;
  // biome-ignore lint/correctness/useExhaustiveDependencies: its numbers are what a fit is
  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || width < 1 || height < 1) return;
    const picture = new ImageData(width, height);
    paintTiles(picture, values, tiling, fit, gap, most, colorTable("signed", theme));
    context.putImageData(picture, 0, 0);
    context.strokeStyle = getComputedStyle(views.root).getPropertyValue("--nb-line");
    context.lineWidth = EDGE;
    for (let tile = 0; tile < fit.count && gap > 0; tile++) {
      const left = (tile % fit.across) * step.across + EDGE / 2;
      const top = Math.floor(tile / fit.across) * step.down + EDGE / 2;
      context.strokeRect(left, top, columns * fit.one + EDGE, lines * fit.one + EDGE);
    }
  }, [values, tiling, fit.count, fit.across, fit.one, gap, most, theme]);
  const point = (event: PointerEvent): void => {
    if (canvas.current === null) return;
    const at = pointIn(canvas.current, event, views);
    const [left, top] = [at.left * ratio - EDGE, at.top * ratio - EDGE];
    const [i, j] = [Math.floor(left / step.across), Math.floor(top / step.down)];
    const [x, y] = [left - i * step.across, top - j * step.down].map((one) =>
      Math.floor(one / fit.one),
    ) as [number, number];
    const [tile, k] = [j * fit.across + i, y * columns + x];
    const inside = x >= 0 && x < columns && k >= 0 && k < size && i < fit.across;
    const value = inside && tile < fit.count ? values[(tiling.starts[tile] ?? 0) + k] : undefined;
    views.note.value =
      value === undefined
        ? null
        : { title: exact(value), text: tiling.words(tile, k), ...placeOf(event, views) };
  };
  return (
    <canvas
      ref={canvas}
      class="nbg-parameter-tiles"
      role="img"
      aria-label={label}
      data-tiles={name}
      data-one={fit.one}
      width={width}
      height={height}
      style={{ width: px(width / ratio), height: px(height / ratio) }}
      onPointerMove={point}
      onPointerLeave={() => {
        views.note.value = null;
      }}
    />
  );
}
