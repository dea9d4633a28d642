// The colours of an explanation's cells: an image's values in grey, all others in the selected colour map.

import { displayStyle } from "../../network/display_kind.ts";
import type { Value } from "../../plan/schema.ts";
import { colorTable } from "../colors.ts";
import { useViews } from "../context.ts";
import { useColorRange } from "../maps.tsx";

export type ColorFunction = (value: number) => readonly [number, number, number];

/** Colours of signed values around zero, in the selected colour map. */
export function useSignedColor(maxAbsValue: number): ColorFunction {
  const { state, theme } = useViews();
  const table = colorTable(state.colormap.value, theme.value);
  return (value) => table(0.5 + (maxAbsValue > 0 ? (0.5 * value) / maxAbsValue : 0));
}

/** The colours that the value itself is shown in: grey between the ends of its range for an image, signed otherwise. */
export function useValueColor(value: Value, maxAbsValue: number): ColorFunction {
  const { theme } = useViews();
  const signed = useSignedColor(maxAbsValue);
  const { low, high } = useColorRange(value);
  if (!displayStyle(value).isImage || low === undefined || high === undefined) {
    return signed;
  }
  const grey = colorTable("grey", theme.value);
  return (number) => grey((number - low) / (high - low || 1));
}
