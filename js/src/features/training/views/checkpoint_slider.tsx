// Checkpoints on the step axis: clicking or dragging selects the nearest one.
import { formatInteger } from "../../../number_format.ts";
import { pointerOffset, useViews } from "../../../views/context.ts";
import { px } from "../../../views/layout.ts";
import type { Checkpoint } from "../state.ts";
import { nearestIndex } from "./curve_math.ts";
import { lossText } from "./step_chart.tsx";

export function CheckpointSlider(props: {
  stepToX: (step: number) => number;
  width: number;
  /** Checkpoints of the current curve. */
  checkpoints: readonly Checkpoint[];
  selected: Checkpoint | null;
  select: (id: number) => void;
  lastStep: number;
}) {
  const { stepToX, checkpoints, selected, select } = props;
  const views = useViews();
  if (checkpoints.length === 0) return null;
  const at = checkpoints.findIndex(({ id }) => id === selected?.id);
  const now = checkpoints[at];
  const take = (index: number): void => {
    const one = checkpoints[Math.min(checkpoints.length - 1, Math.max(0, index))];
    if (one !== undefined && one.id !== selected?.id) select(one.id);
  };
  const drag = (event: PointerEvent): void => {
    const { left } = pointerOffset(event.currentTarget as Element, event, views);
    const places = checkpoints.map(({ step }) => stepToX(step));
    take(nearestIndex(places, left));
  };
  return (
    <div
      class="nbg-dots"
      role="slider"
      tabIndex={0}
      aria-label="Checkpoint on the curve"
      aria-valuemin={0}
      aria-valuemax={checkpoints.length - 1}
      aria-valuenow={Math.max(0, at)}
      aria-valuetext={
        now === undefined ? "none" : `step ${formatInteger(now.step)}, loss ${lossText(now.loss)}`
      }
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        drag(event);
      }}
      onPointerMove={(event) => {
        if (event.currentTarget.hasPointerCapture(event.pointerId)) drag(event);
      }}
      onKeyDown={(event) => {
        const to = {
          ArrowLeft: at - 1,
          ArrowDown: at - 1,
          ArrowRight: at + 1,
          ArrowUp: at + 1,
          Home: 0,
          End: checkpoints.length - 1,
        }[event.key];
        if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        event.stopPropagation(); // elsewhere these keys select other layers
        take(to);
      }}
    >
      {checkpoints.map(({ id, step }) => (
        <span
          key={id}
          class={id === selected?.id ? "nbg-step-dot nbg-step-chosen" : "nbg-step-dot"}
          style={{ left: px(stepToX(step)) }}
        />
      ))}
    </div>
  );
}
