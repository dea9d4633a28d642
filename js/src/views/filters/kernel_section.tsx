// Kernel pictures under a heading: layer name, arrangement and colour legend.
import type { ComponentChildren } from "preact";
import { formatShort } from "../../number_format.ts";
import { cssGradient } from "../colors.ts";
import { useViews } from "../context.ts";
import type { Kernels } from "../layer_weights.ts";
import { KernelPictures } from "./kernel_pictures.tsx";

/** The ends of the weights' colour range, or of their curves' axis, as a legend. */
function WeightLegend({ maxAbsValue, isCurve }: { maxAbsValue: number; isCurve: boolean }) {
  const { state, theme } = useViews();
  if (isCurve) {
    return (
      <span class="nbg-legend">
        {formatShort(-maxAbsValue)} to {formatShort(maxAbsValue)} from bottom to top
      </span>
    );
  }
  return (
    <span class="nbg-legend">
      <span>{formatShort(-maxAbsValue)}</span>
      <span
        class="nbg-gradient"
        style={{ background: cssGradient(state.colormap.value, theme.value, 0, 1) }}
      />
      <span>{formatShort(maxAbsValue)}</span>
    </span>
  );
}

/** CSS pixels of a kernel: a whole number per weight; a curve is about `side` wide, and wider for many taps. */
export function kernelSize({ height, width, is1d }: Kernels, scale: number, side: number) {
  if (!is1d) return { width: width * scale, height: height * scale };
  const wide = Math.round(Math.max(1.4 * side, Math.min(120, 2 * height * width)));
  return { width: wide, height: Math.round(0.7 * side) };
}

export const kernelScale = ({ height, width }: Kernels, side: number): number =>
  Math.max(1, Math.floor(side / Math.max(height, width)));

/** Kernels under a heading with the layer name and the arrangement. */
export function KernelSection(
  props: { title: string; arrangementText: string; aside?: ComponentChildren } & Parameters<
    typeof KernelPictures
  >[0],
) {
  const { title, arrangementText, aside, ...pictures } = props;
  const { weight } = pictures.kernels;
  return (
    <>
      <header>
        <h3>
          {title}{" "}
          <span class="nbg-second">
            {weight.key} · {weight.shape.join("×")} · {arrangementText}
          </span>
        </h3>
        <span class="nbg-weight-editor-end">
          <WeightLegend maxAbsValue={pictures.maxAbs} isCurve={pictures.kernels.is1d} />
          {aside}
        </span>
      </header>
      <KernelPictures {...pictures} />
    </>
  );
}
