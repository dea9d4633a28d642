// A parameter's tiles on a canvas.
import { useLayoutEffect, useRef } from "preact/hooks";
import { formatExact } from "../../../number_format.ts";
import { colorTable } from "../../../views/colors.ts";
import { pointerOffset, pointerPosition, useViews } from "../../../views/context.ts";
import { px } from "../../../views/layout.ts";
import { HAIRLINE, paintTiles, type TileLayout, type Tiling } from "./tile_layout.ts";

export function TileCanvas(props: {
  values: Float32Array;
  tiling: Tiling;
  /** In device pixels, as `gap` is. */
  tileLayout: TileLayout;
  gap: number;
  maxMagnitude: number;
  label: string;
  /** The name in `data-tiles`, for scripts that read the page. */
  name: string;
}) {
  const { values, tiling, tileLayout: layout, gap, maxMagnitude, label, name } = props;
  const views = useViews();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [ratio, theme] = [views.pixelRatio.value, views.theme.value];
  const { columns, tileSize } = tiling;
  const lines = Math.ceil(tileSize / columns);
  const step = { across: columns * layout.cellSize + gap, down: lines * layout.cellSize + gap };
  const width = layout.perRow * step.across - gap + 2 * HAIRLINE;
  const height = Math.ceil(layout.tileCount / layout.perRow) * step.down - gap + 2 * HAIRLINE;
  // biome-ignore lint/correctness/useExhaustiveDependencies: its numbers are what a fit is
  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || width < 1 || height < 1) return;
    const picture = new ImageData(width, height);
    paintTiles(picture, values, tiling, layout, gap, maxMagnitude, colorTable("signed", theme));
    context.putImageData(picture, 0, 0);
    context.strokeStyle = getComputedStyle(views.root).getPropertyValue("--nb-line");
    context.lineWidth = HAIRLINE;
    for (let tile = 0; tile < layout.tileCount && gap > 0; tile++) {
      const left = (tile % layout.perRow) * step.across + HAIRLINE / 2;
      const top = Math.floor(tile / layout.perRow) * step.down + HAIRLINE / 2;
      context.strokeRect(
        left,
        top,
        columns * layout.cellSize + HAIRLINE,
        lines * layout.cellSize + HAIRLINE,
      );
    }
  }, [values, tiling, layout.tileCount, layout.perRow, layout.cellSize, gap, maxMagnitude, theme]);
  const point = (event: PointerEvent): void => {
    if (canvas.current === null) return;
    const at = pointerOffset(canvas.current, event, views);
    const [left, top] = [at.left * ratio - HAIRLINE, at.top * ratio - HAIRLINE];
    const [i, j] = [Math.floor(left / step.across), Math.floor(top / step.down)];
    const [x, y] = [left - i * step.across, top - j * step.down].map((one) =>
      Math.floor(one / layout.cellSize),
    ) as [number, number];
    const [tile, k] = [j * layout.perRow + i, y * columns + x];
    const inside = x >= 0 && x < columns && k >= 0 && k < tileSize && i < layout.perRow;
    const value =
      inside && tile < layout.tileCount ? values[(tiling.starts[tile] ?? 0) + k] : undefined;
    views.tooltip.value =
      value === undefined
        ? null
        : {
            title: formatExact(value),
            text: tiling.describeTileElement(tile, k),
            ...pointerPosition(event, views),
          };
  };
  return (
    <canvas
      ref={canvas}
      class="nbg-parameter-tiles"
      role="img"
      aria-label={label}
      data-tiles={name}
      data-one={layout.cellSize}
      width={width}
      height={height}
      style={{ width: px(width / ratio), height: px(height / ratio) }}
      onPointerMove={point}
      onPointerLeave={() => {
        views.tooltip.value = null;
      }}
    />
  );
}
