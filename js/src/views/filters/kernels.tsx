// Kernels as pictures: small numbers painted by the processor, since they are read for their tooltips anyway.
import { useLayoutEffect, useRef } from "preact/hooks";
import { exact } from "../../format.ts";
import { colorTable } from "../colors.ts";
import { placeOf, pointIn, useViews } from "../context.ts";
import { px } from "../layout.ts";
import { inputChannel, type Kernels, kernelStart } from "../weights.ts";

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
  /** CSS pixels per weight, and between kernels. */
  scale: number;
  gap: number;
  /** The value with the map's full colour. */
  most: number;
  label: string;
}

const MAGENTA = [255, 0, 255] as const;
const BLACK = [0, 0, 0] as const;

/** Kernels in a mosaic, signed around zero in the chosen map's colours. */
export function KernelPictures(props: KernelsProps) {
  const { kernels, values, cells, columns, scale, gap, most, label } = props;
  const views = useViews();
  const canvas = useRef<HTMLCanvasElement>(null);
  const ratio = views.ratio.value;
  const map = views.state.colormap.value;
  const theme = views.theme.value;
  const { height: kh, width: kw } = kernels;
  const across = Math.min(columns, cells.length);
  const down = Math.ceil(cells.length / Math.max(1, columns));
  const width = across * (kw * scale + gap) - gap;
  const height = down * (kh * scale + gap) - gap;

  const which = cells.map(({ output, input }) => `${output} ${input}`).join();

  // biome-ignore lint/correctness/useExhaustiveDependencies: the same cells are no reason to paint again
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || cells.length === 0) return;
    const [tw, th] = [
      Math.round((kw * scale + gap) * ratio),
      Math.round((kh * scale + gap) * ratio),
    ];
    const one = Math.max(1, Math.round(scale * ratio));
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    const table = colorTable(map, theme);
    const picture = new ImageData(element.width, element.height);
    for (const [i, cell] of cells.entries()) {
      const start = kernelStart(kernels, cell.output, cell.input);
      const left = (i % columns) * tw;
      const top = Math.floor(i / columns) * th;
      for (let k = 0; k < kh * kw; k++) {
        const value = values[start + k] ?? Number.NaN;
        const shade = table(most > 0 ? 0.5 + (0.5 * value) / most : 0.5);
        const color = Number.isFinite(value) ? shade : MAGENTA;
        const corner = { x: left + (k % kw) * one, y: top + Math.floor(k / kw) * one };
        for (let y = 0; y < one; y++) {
          for (let x = 0; x < one && corner.x + x < element.width; x++) {
            // Black stripes over the magenta of a NaN, as in the maps.
            const striped = Number.isNaN(value) && (x + y) % 4 < 2;
            const [r, g, b] = striped ? BLACK : color;
            const at = ((corner.y + y) * element.width + corner.x + x) * 4;
            picture.data[at] = r;
            picture.data[at + 1] = g;
            picture.data[at + 2] = b;
            picture.data[at + 3] = 255;
          }
        }
      }
    }
    // One call for all: each takes as long as hundreds of pixels.
    context.putImageData(picture, 0, 0);
  }, [kernels, values, which, columns, scale, gap, most, ratio, map, theme, width, height, kh, kw]);

  const point = (event: PointerEvent): void => {
    if (canvas.current === null) return;
    const { left, top } = pointIn(canvas.current, event, views);
    const i = Math.floor(left / (kw * scale + gap));
    const j = Math.floor(top / (kh * scale + gap));
    const x = Math.floor((left - i * (kw * scale + gap)) / scale);
    const y = Math.floor((top - j * (kh * scale + gap)) / scale);
    const cell = cells[j * columns + i];
    if (cell === undefined || i >= across || x < 0 || y < 0 || x >= kw || y >= kh) {
      views.note.value = null;
      return;
    }
    const value = values[kernelStart(kernels, cell.output, cell.input) + y * kw + x];
    const from = inputChannel(kernels, cell.output, cell.input);
    const linear = kernels.weight.shape.length === 2;
    views.note.value = {
      title: value === undefined ? "…" : exact(value),
      text: linear
        ? `output ${cell.output}, input ${x}`
        : `channel ${cell.output}, input channel ${from} · y ${y}, x ${x}`,
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
