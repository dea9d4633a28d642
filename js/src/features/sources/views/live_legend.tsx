// The legend of maps while their input is live: the current colour limits, and the button that holds the range.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ColorLimits } from "../../../state/colors.ts";
import { Colorbar } from "../../../views/colorbar.tsx";
import { reportFailure, useViews } from "../../../views/context.ts";
import type { LegendProps } from "../../feature.ts";

/** A legend whose range follows live values slowly; a click holds the range, the next click releases it. */
export function LiveLegend(props: LegendProps) {
  const { state } = useViews();
  const held = state.areRangesFrozen.value;
  const isOwn = state.rangeMode.value === "channel" && typeof props.channel === "number";
  const limits = useColorLimits(props.value.key, isOwn ? (props.channel ?? undefined) : undefined);
  const hold = (): void => {
    state.areRangesFrozen.value = !held;
  };
  return (
    <button
      type="button"
      class="nbg-hold"
      title={held ? "Let the range follow the values" : "Hold the range"}
      aria-pressed={held}
      onClick={hold}
    >
      <Colorbar {...props} colorLimits={limits} />
      <span class="nbg-second">{held ? "held" : "follows"}</span>
    </button>
  );
}

/** The colour limits of a value, queried again after each run; null until known. */
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
  // A result counts even if another run has followed: with a live input one always has.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new run's sequence makes a result stale
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
