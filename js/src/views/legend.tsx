// What the colours mean: the colour bar of maps, which follows live values or is held.

import { LiveLegend } from "../features/sources/views/legend.tsx";
import { displayOf } from "../network/display.ts";
import { Colorbar, type ColorbarProps } from "./colorbar.tsx";
import { useViews } from "./context.ts";

/** The legend of a layer's maps; while its input is live, its colours can be held. */
export function Legend(props: ColorbarProps) {
  const { state } = useViews();
  const { value, statistics } = props;
  if (displayOf(value).image || statistics === null) return null;
  const isLive = state.sourceStatus.value.phase === "live" && state.range.value !== "fixed";
  return isLive ? <LiveLegend {...props} /> : <Colorbar {...props} />;
}
