// Kernels as pictures: small numbers painted by the processor, since they are read for their tooltips anyway.
import { useLayoutEffect, useRef } from "preact/hooks";
import { exact } from "../../format.ts";
import { colorTable } from "../colors.ts";
import { placeOf, pointIn, useViews } from "../context.ts";
import { px } from "../layout.ts";
import { inputChannel, type Kernels, kernelStart } from "../weights.ts";
import { paintColors, paintCurve } from "./paint.ts";

/** One kernel in a picture of several: an output channel and the k-th input channel that it reads. */
export interface Cell {
  readonly output: number;
  readonly input: number;
}

interface KernelsProps {
  kernels: Kernels;
  values: Float32Array;
  cells: readonly Cell[];
  columns: number;
  /** CSS pixels of a kernel, and between kernels. */
  cell: { readonly width: number; readonly height: number };
  gap: number;
  /** The value with the map's full colour. */
  most: number;
  label: string;
}

/** Kernels in a mosaic: signed around zero in the chosen map's colours, or as curves. */
export function KernelPictures(props: KernelsProps) {
  const { kernels, values, cells, columns, cell, gap, most, label } = props;
  const views = useViews();
  const canvas = useRef<HTMLCanvasElement>(null);
  const ratio = views.ratio.value;
  const map = kernels.line ? "signed" : views.state.colormap.value;
  const theme = views.theme.value;
  const { height: kh, width: kw } = kernels;
  const across = Math.min(columns, cells.length);
  const down = Math.ceil(cells.length / Math.max(1, columns));
  const width = across * (cell.width + gap) - gap;
  const height = down * (cell.height + gap) - gap;

  const which = cells.map(({ output, input }) => `${output} ${input}`).join();

  // biome-ignore lint/correctness/useExhaustiveDependencies: the same cells are no reason to paint again
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || cells.length === 0) return;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    const table = colorTable(map, theme);
    const steps = [cell.width, cell.height].map((side) => Math.round((side + gap) * ratio));
    const [tw = 1, th = 1] = steps;
    const shown = cells.map(({ output, input }, i) => {
      const start = kernelStart(kernels, output, input);
      const weights = values.subarray(start, start + kh * kw);
      return { weights, left: (i % columns) * tw, top: Math.floor(i / columns) * th };
    });
    if (kernels.line) {
      const size = { width: cell.width * ratio, height: cell.height * ratio };
      for (const one of shown) paintCurve(context, one, size, most, ratio, table);
    } else {
      const one = Math.max(1, Math.round((cell.width * ratio) / kw));
      const picture = new ImageData(element.width, element.height);
      for (const kernel of shown) paintColors(picture, kernel, kw, one, most, table);
      // One call for all: each takes as long as hundreds of pixels.
      context.putImageData(picture, 0, 0);
    }
  }, [kernels, values, which, columns, cell.width, cell.height, gap, most, ratio, map, theme]);

  const point = (event: PointerEvent): void => {
    if (canvas.current === null) return;
    const { left, top } = pointIn(canvas.current, event, views);
    const i = Math.floor(left / (cell.width + gap));
    const j = Math.floor(top / (cell.height + gap));
    const along = (left - i * (cell.width + gap)) / cell.width;
    const beside = (top - j * (cell.height + gap)) / cell.height;
    // A curve has its taps from left to right, whichever way the signal lies.
    const column = kernels.line && kw === 1;
    const x = column ? 0 : Math.floor(along * kw);
    const y = Math.floor((column ? along : beside) * kh);
    const at = cells[j * columns + i];
    const inside = along >= 0 && along < 1 && beside >= 0 && beside < 1;
    if (at === undefined || i >= across || !inside) {
      views.note.value = null;
      return;
    }
    const value = values[kernelStart(kernels, at.output, at.input) + y * kw + x];
    const from = inputChannel(kernels, at.output, at.input);
    const linear = kernels.weight.shape.length === 2;
    const place = kernels.line ? (column ? `y ${y}` : `x ${x}`) : `y ${y}, x ${x}`;
    views.note.value = {
      title: value === undefined ? "…" : exact(value),
      text: linear
        ? `output ${at.output}, input ${x}`
        : `channel ${at.output}, input channel ${from} · ${place}`,
      ...placeOf(event, views),
    };
  };
  const leave = (): void => {
    views.note.value = null;
  };
  return (
    <canvas
      ref={canvas}
      class="nbg-kernels"
      role="img"
      aria-label={label}
      data-kernels={kernels.weight.key}
      data-channels={cells.length}
      style={{ width: px(width), height: px(height) }}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={leave}
    />
  );
}
