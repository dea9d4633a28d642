// The legend of maps while their input is live: what their colours are for now, and the switch that holds them.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ColorLimits } from "../../../state/colors.ts";
import { Colorbar } from "../../../views/colorbar.tsx";
import { reportFailure, useViews } from "../../../views/context.ts";
import type { LegendProps } from "../../feature.ts";

/** Ranges follow live values slowly; a click holds them, the next lets them follow. */
export function LiveLegend(props: LegendProps) {
  const { state } = useViews();
  const held = state.areRangesHeld.value;
  const isOwn = state.rangeMode.value === "channel" && typeof props.channel === "number";
  const limits = useColorLimits(props.value.key, isOwn ? (props.channel ?? undefined) : undefined);
  const hold = (): void => {
    state.areRangesHeld.value = !held;
  };
  return (
    <button
      type="button"
      class="nbg-hold"
      title={held ? "Let the range follow the values" : "Hold the range"}
      aria-pressed={held}
      onClick={hold}
    >
      <Colorbar {...props} limits={limits} />
      <span class="nbg-second">{held ? "held" : "follows"}</span>
    </button>
  );
}

/** What a value's colours are drawn for, which is asked for again with each run; null before it is known. */
function useColorLimits(key: string, channel: number | undefined): ColorLimits | null {
  const views = useViews();
  const { state } = views;
  const session = state.session.value;
  const sequence = state.run.value?.sequence ?? 0;
  const name = `${key} ${channel}`;
  const shown = useRef(name);
  shown.current = name;
  const [known, setKnown] = useState({ name: "", low: 0, high: 0 });
  useLayoutEffect(
    () => () => {
      shown.current = "";
    },
    [],
  );
  // An answer counts though another run has followed: in live input one always has.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a run's sequence is what makes an answer old
  useLayoutEffect(() => {
    if (session === null || sequence === 0) return;
    session.colorLimits(key, channel).then(
      ([low, high]) => {
        if (shown.current === name && low <= high) setKnown({ name, low, high });
      },
      (error: unknown) => {
        if (shown.current === name) reportFailure(views, error);
      },
    );
  }, [views, session, sequence, name]);
  return known.name === name ? known : null;
}
