// Kernels under a heading: whose they are, how they lie, and what their colours mean.
import type { ComponentChildren } from "preact";
import { formatShort } from "../../number_format.ts";
import { cssGradient } from "../colors.ts";
import { useViews } from "../context.ts";
import type { Kernels } from "../layer_weights.ts";
import { KernelPictures } from "./kernels.tsx";

/** Ends of the weights' colours, or of their curves, as a legend. */
function WeightLegend({ most, line }: { most: number; line: boolean }) {
  const { state, theme } = useViews();
  if (line) {
    return (
      <span class="nbg-legend">
        {formatShort(-most)} to {formatShort(most)} from bottom to top
      </span>
    );
  }
  return (
    <span class="nbg-legend">
      <span>{formatShort(-most)}</span>
      <span
        class="nbg-gradient"
        style={{ background: cssGradient(state.colormap.value, theme.value, 0, 1) }}
      />
      <span>{formatShort(most)}</span>
    </span>
  );
}

/** CSS pixels of a kernel: whole ones a weight; a curve as wide as about `side`, and wider for its taps. */
export function kernelSize({ height, width, is1d }: Kernels, scale: number, side: number) {
  if (!is1d) return { width: width * scale, height: height * scale };
  const wide = Math.round(Math.max(1.4 * side, Math.min(120, 2 * height * width)));
  return { width: wide, height: Math.round(0.7 * side) };
}

export const kernelScale = ({ height, width }: Kernels, side: number): number =>
  Math.max(1, Math.floor(side / Math.max(height, width)));

/** Kernels under a heading that says whose they are and how they lie. */
export function KernelSection(
  props: { title: string; words: string; aside?: ComponentChildren } & Parameters<
    typeof KernelPictures
  >[0],
) {
  const { title, words, aside, ...pictures } = props;
  const { weight } = pictures.kernels;
  return (
    <>
      <header>
        <h3>
          {title}{" "}
          <span class="nbg-second">
            {weight.key} · {weight.shape.join("×")} · {words}
          </span>
        </h3>
        <span class="nbg-weight-editor-end">
          <WeightLegend most={pictures.maxAbs} line={pictures.kernels.is1d} />
          {aside}
        </span>
      </header>
      <KernelPictures {...pictures} />
    </>
  );
}
