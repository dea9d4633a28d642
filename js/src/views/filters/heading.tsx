// Kernels under a heading: whose they are, how they lie, and what their colours mean.
import type { ComponentChildren } from "preact";
import { short } from "../../format.ts";
import { gradient } from "../colors.ts";
import { useViews } from "../context.ts";
import type { Kernels } from "../weights.ts";
import { KernelPictures } from "./kernels.tsx";

/** Ends of the weights' colours, or of their curves, as a legend. */
function WeightLegend({ most, line }: { most: number; line: boolean }) {
  const { state, theme } = useViews();
  if (line) {
    return (
      <span class="nbg-legend">
        {short(-most)} to {short(most)} from bottom to top
      </span>
    );
  }
  return (
    <span class="nbg-legend">
      <span>{short(-most)}</span>
      <span
        class="nbg-gradient"
        style={{ background: gradient(state.colormap.value, theme.value, 0, 1) }}
      />
      <span>{short(most)}</span>
    </span>
  );
}

/** CSS pixels of a kernel: whole ones a weight; a curve as wide as about `side`, and wider for its taps. */
export function cellOf({ height, width, line }: Kernels, scale: number, side: number) {
  if (!line) return { width: width * scale, height: height * scale };
  const wide = Math.round(Math.max(1.4 * side, Math.min(120, 2 * height * width)));
  return { width: wide, height: Math.round(0.7 * side) };
}

export const scaleFor = ({ height, width }: Kernels, side: number): number =>
  Math.max(1, Math.floor(side / Math.max(height, width)));

/** Kernels under a heading that says whose they are and how they lie. */
export function Weights(
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
        <span class="nbg-hand-end">
          <WeightLegend most={pictures.most} line={pictures.kernels.line} />
          {aside}
        </span>
      </header>
      <KernelPictures {...pictures} />
    </>
  );
}
