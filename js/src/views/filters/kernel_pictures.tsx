// Kernels as pictures. The CPU paints them: they are small, and tooltips need their values anyway.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { formatExact } from "../../number_format.ts";
import { colorTable } from "../colors.ts";
import { pointerOffset, pointerPosition, useViews } from "../context.ts";
import { inputChannelOf, type Kernels, kernelStart } from "../layer_weights.ts";
import { px } from "../layout.ts";
import { EditedCorners, type PixelBox, SelectionRing } from "./edit_marks.tsx";
import { differs } from "./original_weights.ts";
import { paintColors, paintCurve, paintOutline } from "./paint_kernels.ts";

/** One kernel in a picture of several: an output channel and the k-th input channel that it reads. */
export interface KernelCell {
  readonly output: number;
  readonly input: number;
}

/** A weight of a kernel, and its index among all elements. */
export interface WeightPosition extends KernelCell {
  readonly y: number;
  readonly x: number;
  readonly index: number;
}

/** Pictures with more weights show no corners: a corner would cover its neighbours. */
const MAX_WEIGHTS_WITH_CORNERS = 50_000;

interface KernelPicturesProps {
  kernels: Kernels;
  values: Float32Array;
  cells: readonly KernelCell[];
  columns: number;
  /** CSS pixels of a kernel, and of the gap between kernels. */
  cellSize: { readonly width: number; readonly height: number };
  gap: number;
  /** The absolute value that has the colour map's full colour. */
  maxAbs: number;
  label: string;
  /** Present if weights can be selected. */
  editing?: KernelEditing | undefined;
}

interface KernelEditing {
  /** The weights before they were edited. */
  readonly originalValues: Float32Array;
  /** The selected weight, if its kernel is shown. */
  readonly selected: WeightPosition | null;
  press(event: PointerEvent, position: WeightPosition, positionText: string): void;
  openEditor(position: WeightPosition): void;
}

/** Kernels in a mosaic: signed around zero in the selected colour map, or as curves. */
export function KernelPictures(props: KernelPicturesProps) {
  const { kernels, values, cells, columns, cellSize, gap, maxAbs, label } = props;
  const views = useViews();
  const canvas = useRef<HTMLCanvasElement>(null);
  const ratio = views.pixelRatio.value;
  const map = kernels.is1d ? "signed" : views.state.colormap.value;
  const theme = views.theme.value;
  const { height: kh, width: kw } = kernels;
  const across = Math.min(columns, cells.length);
  const down = Math.ceil(cells.length / Math.max(1, columns));
  const width = across * (cellSize.width + gap) - gap;
  const height = down * (cellSize.height + gap) - gap;

  const which = cells.map(({ output, input }) => `${output} ${input}`).join();

  // biome-ignore lint/correctness/useExhaustiveDependencies: the same cells are no reason to paint again
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || cells.length === 0) return;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    const table = colorTable(map, theme);
    const steps = [cellSize.width, cellSize.height].map((side) => Math.round((side + gap) * ratio));
    const [tw = 1, th = 1] = steps;
    const shown = cells.map(({ output, input }, i) => {
      const start = kernelStart(kernels, output, input);
      const weights = values.subarray(start, start + kh * kw);
      return { weights, left: (i % columns) * tw, top: Math.floor(i / columns) * th };
    });
    if (kernels.is1d) {
      const size = { width: cellSize.width * ratio, height: cellSize.height * ratio };
      for (const one of shown) paintCurve(context, one, size, maxAbs, ratio, table);
    } else {
      const one = Math.max(1, Math.round((cellSize.width * ratio) / kw));
      const picture = new ImageData(element.width, element.height);
      for (const kernel of shown) paintColors(picture, kernel, kw, one, maxAbs, table);
      // One call for all kernels: each call costs as much as hundreds of pixels.
      context.putImageData(picture, 0, 0);
      for (const kernel of shown) paintOutline(context, kernel, kw, one);
    }
  }, [
    kernels,
    values,
    which,
    columns,
    cellSize.width,
    cellSize.height,
    gap,
    maxAbs,
    ratio,
    map,
    theme,
  ]);

  /** A curve runs from left to right, even for a vertical signal. */
  const column = kernels.is1d && kw === 1;
  const boxOf = (i: number, y: number, x: number): PixelBox => {
    const [left, top] = [
      (i % columns) * (cellSize.width + gap),
      Math.floor(i / columns) * (cellSize.height + gap),
    ];
    const [wide, high] = [cellSize.width / (column ? kh : kw), cellSize.height / (column ? 1 : kh)];
    return column
      ? { left: left + y * wide, top, width: wide, height: high }
      : { left: left + x * wide, top: top + y * high, width: wide, height: high };
  };
  const { editing } = props;
  const original = editing?.originalValues;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the same cells have the same boxes
  const changed = useMemo(() => {
    const found: PixelBox[] = [];
    if (original === undefined || original === values) return found;
    if (cells.length * kh * kw > MAX_WEIGHTS_WITH_CORNERS) return found;
    for (const [i, { output, input }] of cells.entries()) {
      const start = kernelStart(kernels, output, input);
      for (let k = 0; k < kh * kw; k++) {
        if (!differs(values[start + k], original[start + k])) continue;
        found.push(boxOf(i, Math.floor(k / kw), k % kw));
      }
    }
    return found;
  }, [kernels, values, original, which, columns, cellSize.width, cellSize.height, gap]);

  const under = (event: MouseEvent): WeightPosition | null => {
    if (canvas.current === null) return null;
    const { left, top } = pointerOffset(canvas.current, event, views);
    const i = Math.floor(left / (cellSize.width + gap));
    const j = Math.floor(top / (cellSize.height + gap));
    const along = (left - i * (cellSize.width + gap)) / cellSize.width;
    const beside = (top - j * (cellSize.height + gap)) / cellSize.height;
    const x = column ? 0 : Math.floor(along * kw);
    const y = Math.floor((column ? along : beside) * kh);
    const of = cells[j * columns + i];
    const inside = along >= 0 && along < 1 && beside >= 0 && beside < 1;
    if (of === undefined || i >= across || !inside) return null;
    return { ...of, y, x, index: kernelStart(kernels, of.output, of.input) + y * kw + x };
  };
  const wordsOf = ({ output, input, y, x }: WeightPosition): string => {
    if (kernels.weight.shape.length === 2) return `output ${output}, input ${x}`;
    const place = kernels.is1d ? (column ? `y ${y}` : `x ${x}`) : `y ${y}, x ${x}`;
    return `channel ${output}, input channel ${inputChannelOf(kernels, output, input)} · ${place}`;
  };
  const point = (event: PointerEvent): void => {
    const spot = under(event);
    const value = spot === null ? undefined : values[spot.index];
    views.tooltip.value =
      spot === null
        ? null
        : {
            title: value === undefined ? "…" : formatExact(value),
            text: wordsOf(spot),
            ...pointerPosition(event, views),
          };
  };
  const press = (event: PointerEvent): void => {
    point(event);
    const spot = under(event);
    if (spot !== null && event.button === 0) editing?.press(event, spot, wordsOf(spot));
  };
  const open = (event: MouseEvent): void => {
    const spot = under(event);
    if (spot !== null) editing?.openEditor(spot);
  };
  const leave = (): void => {
    views.tooltip.value = null;
  };
  const chosen = editing?.selected ?? null;
  const shown = cells.findIndex(
    (one) => one.output === chosen?.output && one.input === chosen.input,
  );
  const picture = (
    <canvas
      ref={canvas}
      class="nbg-kernels"
      role="img"
      aria-label={label}
      data-kernels={kernels.weight.key}
      data-channels={cells.length}
      style={{ width: px(width), height: px(height) }}
      onPointerMove={point}
      onPointerDown={press}
      onPointerLeave={leave}
      {...(editing && { onDblClick: open })}
    />
  );
  if (editing === undefined) return picture;
  return (
    <div class="nbg-editable" style={{ width: px(width) }}>
      {picture}
      <EditedCorners boxes={changed} width={width} height={height} />
      {chosen !== null && shown >= 0 && <SelectionRing {...boxOf(shown, chosen.y, chosen.x)} />}
    </div>
  );
}
