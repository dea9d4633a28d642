// The colour bar of maps; for live input the range follows the values or is held.

import type { LegendProps } from "../features/feature.ts";
import { displayStyle } from "../network/display_kind.ts";
import { Colorbar } from "./colorbar.tsx";
import { useViews } from "./context.ts";
import { Slot } from "./slot.tsx";

/** The legend of a layer's maps; for live input, its colour range can be held. */
export function Legend(props: LegendProps) {
  const { state } = useViews();
  const { value, statistics } = props;
  if (displayStyle(value).isImage || statistics === null) return null;
  const isLive = state.isInputLive.value && state.rangeMode.value !== "fixed";
  return isLive ? <Slot name="liveLegend" slotProps={props} /> : <Colorbar {...props} />;
}
