// The weight editor's model: edits of a parameter, their original values, and dragging a number.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { formatExact } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { newUndoStepName } from "../../state/undo_steps.ts";
import { pointerPosition, useViews, type Views } from "../context.ts";
import { maxAbs } from "../layout.ts";
import { createEditThrottle, type EditThrottle } from "./edit_throttle.ts";
import { countChanged, markEditPending, originalWeights } from "./original_weights.ts";
import { createWeightEdits } from "./weight_sheet.ts";

export interface WeightEditor {
  readonly value: Value;
  readonly values: Float32Array;
  readonly originalValues: Float32Array;
  /** The number of elements that differ from the originals. */
  readonly changedCount: number;
  /** The width of the colour range, from its lowest to its highest value. */
  readonly rangeWidth: number;
  /** False without Python. */
  readonly canEdit: boolean;
  /** An element's requested value if an edit is pending, else its current value. */
  latestValue(index: number): number;
  /**
   * Set elements to these numbers; `isThrottled` throttles: the edit waits until the page has shown the previous one.
   */
  setElements(
    indices: readonly number[],
    numbers: readonly number[],
    options: SetElementsOptions,
  ): void;
  /** Send the pending edits now. */
  flush(): void;
}

export interface SetElementsOptions {
  readonly undoStep: string;
  readonly isThrottled?: boolean;
}

/** How long a requested value counts as pending; Python may refuse it. */
const PENDING_EDIT_TIMEOUT_MS = 1_000;

/** The editor of a parameter's elements; null before the values are loaded. */
export function useWeightEditor(value: Value, values: Float32Array | null): WeightEditor | null {
  const { state } = useViews();
  const setWeight = state.setWeight.value;
  const pendingValues = useRef(
    new Map<number, { readonly number: number; readonly time: number }>(),
  );
  const throttle = useRef<EditThrottle | null>(null);
  useEffect(() => {
    if (setWeight === null) return;
    const made = createEditThrottle(setWeight);
    throttle.current = made;
    return () => {
      throttle.current = null;
      made.dispose();
    };
  }, [setWeight]);
  useEffect(() => {
    throttle.current?.acknowledge();
    const now = performance.now();
    for (const [place, { number, time }] of pendingValues.current) {
      const isConfirmed = values?.[place] === Math.fround(number);
      if (isConfirmed || now - time > PENDING_EDIT_TIMEOUT_MS) pendingValues.current.delete(place);
    }
  }, [values]);
  const original = values === null ? null : originalWeights(state, value.key, values);
  return useMemo(() => {
    if (values === null || original === null) return null;
    return {
      value,
      values,
      originalValues: original,
      changedCount: countChanged(values, original),
      rangeWidth: 2 * maxAbs(original) || 2,
      canEdit: setWeight !== null,
      latestValue: (place) => pendingValues.current.get(place)?.number ?? values[place] ?? 0,
      setElements(indices, numbers, { undoStep, isThrottled = false }) {
        if (throttle.current === null) return;
        markEditPending(state);
        const time = performance.now();
        // Python rejects non-finite numbers: those elements stay unchanged.
        const taken = indices.map((_, k) => k).filter((k) => Number.isFinite(numbers[k]));
        const at = taken.map((k) => indices[k] ?? 0);
        const to = taken.map((k) => numbers[k] ?? 0);
        for (const [k, place] of at.entries()) {
          pendingValues.current.set(place, { number: to[k] ?? 0, time });
        }
        const edits = createWeightEdits(value, values, at, to, undoStep);
        if (isThrottled) throttle.current.schedule(edits);
        else throttle.current.flush(edits);
      },
      flush: () => throttle.current?.flush(),
    };
  }, [state, value, values, original, setWeight]);
}

/** Movements below this many pixels are a click. */
const MIN_DRAG_PIXELS = 2;

/**
 * Start a drag on a number: each pixel up or down changes it by a hundredth of its range, with Shift by a tenth of
 * that. `onEnd` is called with whether the number changed.
 */
export function startWeightDrag(
  event: PointerEvent,
  views: Views,
  editor: WeightEditor,
  index: number,
  positionText: string,
  onEnd: (changed: boolean) => void,
): void {
  const element = event.currentTarget as Element;
  const from = editor.latestValue(index);
  const undoStep = newUndoStepName();
  const { rangeWidth } = editor;
  let number = Number.isFinite(from) ? from : 0;
  let y = event.clientY;
  let moved = false;
  const { pointerId } = event;
  if (event.isTrusted) element.setPointerCapture(pointerId);
  const showTooltip = (at: PointerEvent): void => {
    const was = editor.originalValues[index] ?? 0;
    views.tooltip.value = {
      title: formatExact(Math.fround(number)),
      text: `${positionText} · was ${formatExact(was)}`,
      ...pointerPosition(at, views),
      element: element,
    };
  };
  const move = (now: Event): void => {
    if (!(now instanceof PointerEvent) || now.pointerId !== pointerId || !editor.canEdit) return;
    now.stopImmediatePropagation(); // the tooltip would show other weights
    const pixels = (y - now.clientY) / views.zoom.value;
    if (!moved && Math.abs(pixels) < MIN_DRAG_PIXELS) return;
    moved = true;
    y = now.clientY;
    number += (pixels * rangeWidth) / (now.shiftKey ? 1000 : 100);
    editor.setElements([index], [number], { undoStep, isThrottled: true });
    showTooltip(now);
  };
  const stop = (now: Event): void => {
    if (now instanceof PointerEvent && now.pointerId !== pointerId) return;
    element.removeEventListener("pointermove", move, true);
    for (const name of DRAG_END_EVENTS) element.removeEventListener(name, stop);
    editor.flush();
    onEnd(moved);
  };
  element.addEventListener("pointermove", move, true);
  for (const name of DRAG_END_EVENTS) element.addEventListener(name, stop);
}

const DRAG_END_EVENTS = ["pointerup", "pointercancel", "lostpointercapture"] as const;
