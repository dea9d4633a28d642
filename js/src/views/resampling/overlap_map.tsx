// The number of weights that reach each output pixel of a transposed convolution: where the counts differ,
// checkerboards appear.
import { useEffect, useRef } from "preact/hooks";
import { type OverlapCounts, overlapText } from "../../explain/overlap_counts.ts";
import { colorTable } from "../colors.ts";
import { pointerPosition, useViews } from "../context.ts";
import { px } from "../layout.ts";

/** CSS pixels of the picture's longer side, and the most pixels shown, since the pattern repeats. */
const MAP_SIDE = 240;
const MAX_SHOWN_PIXELS = 30;
const SIGNAL_STRIP_HEIGHT = 28;

/** The first pixel and the number of pixels shown around `at`. */
const visibleRange = (length: number, at: number) => {
  const count = Math.min(length, MAX_SHOWN_PIXELS);
  return { from: Math.min(Math.max(0, at - Math.floor(count / 2)), length - count), count };
};

export function OverlapMap({ counts, y, x }: { counts: OverlapCounts; y: number; x: number }) {
  const views = useViews();
  const { theme, state } = views;
  const canvas = useRef<HTMLCanvasElement>(null);
  const { rows, columns } = counts;
  const [down, along] = [visibleRange(rows.length, y), visibleRange(columns.length, x)];
  const [height, width] = [down.count, along.count];
  const scale = Math.floor(MAP_SIDE / Math.max(height, width));
  const most = Math.max(...rows) * Math.max(...columns);
  const at = (row: number, column: number): number => (rows[row] ?? 0) * (columns[column] ?? 0);
  const part = height < rows.length || width < columns.length;
  const table = colorTable(state.colormap.value, theme.value);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const pixels = context.createImageData(width, height);
    for (let i = 0; i < width * height; i++) {
      const count = at(down.from + Math.floor(i / width), along.from + (i % width));
      pixels.data.set([...table(0.5 + (0.5 * count) / most), 255], 4 * i);
    }
    context.putImageData(pixels, 0, 0);
  });
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const row = down.from + Math.floor(((event.clientY - box.top) / box.height) * height);
    const column = along.from + Math.floor(((event.clientX - box.left) / box.width) * width);
    views.tooltip.value = {
      title: String(at(row, column)),
      text: `weights reach y ${row}, x ${column}`,
      ...pointerPosition(event, views),
    };
  };
  const leave = (): void => {
    views.tooltip.value = null;
  };
  const high = height === 1 ? SIGNAL_STRIP_HEIGHT : height * scale;
  const [left, top] = [(x - along.from) * scale, height === 1 ? 0 : (y - down.from) * scale];
  const mark = `M${left} ${top}h${scale}v${height === 1 ? SIGNAL_STRIP_HEIGHT : scale}h${-scale}z`;
  return (
    <figure class="nbg-overlap-map">
      <figcaption>
        <strong>Weights that reach each pixel</strong>{" "}
        <span class="nbg-second">
          {at(y, x)} here; {overlapText(counts)}
          {part && "; shown around this pixel"}
        </span>
      </figcaption>
      <div class="nbg-maps" onPointerMove={point} onPointerDown={point} onPointerLeave={leave}>
        <canvas
          ref={canvas}
          width={width}
          height={height}
          style={{ width: px(width * scale), height: px(high) }}
          role="img"
          aria-label={`How many weights reach each pixel: ${overlapText(counts)}`}
        />
        <svg class="nbg-overlay" width={width * scale} height={high} aria-hidden="true">
          <path class="nbg-halo" d={mark} />
          <path class="nbg-ink" d={mark} />
        </svg>
      </div>
    </figure>
  );
}
