// Weights under one's hand: what was changed of a parameter, how it is changed, and dragging a number.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { exact } from "../../format.ts";
import type { Value } from "../../plan/schema.ts";
import { newStep } from "../../state/undo_steps.ts";
import { placeOf, useViews, type Views } from "../context.ts";
import { largest } from "../layout.ts";
import { countChanged, freeze, originalOf } from "./originals.ts";
import { createPace, type Pace } from "./pace.ts";
import { editsOf } from "./sheet.ts";

export interface Hand {
  readonly value: Value;
  readonly values: Float32Array;
  readonly original: Float32Array;
  /** How many elements are others than they were. */
  readonly changed: number;
  /** From the least to the greatest number that the colours tell apart. */
  readonly range: number;
  /** False where there is no Python. */
  readonly able: boolean;
  /** An element as it is, or as it was asked to be. */
  number(place: number): number;
  /** Makes elements these numbers; `live`: when the page has followed those before. */
  change(places: readonly number[], numbers: readonly number[], how: How): void;
  /** What waits is sent. */
  settle(): void;
}

export interface How {
  readonly step: string;
  readonly live?: boolean;
}

/** What a number was asked to be holds for so long; Python may refuse it. */
const ASKED_MS = 1_000;

/** A parameter's elements to edit; null before they are here. */
export function useHand(value: Value, values: Float32Array | null): Hand | null {
  const { state } = useViews();
  const setWeight = state.setWeight.value;
  const asked = useRef(new Map<number, { readonly number: number; readonly time: number }>());
  const pace = useRef<Pace | null>(null);
  useEffect(() => {
    if (setWeight === null) return;
    const made = createPace(setWeight);
    pace.current = made;
    return () => {
      pace.current = null;
      made.dispose();
    };
  }, [setWeight]);
  useEffect(() => {
    pace.current?.back();
    const now = performance.now();
    for (const [place, { number, time }] of asked.current) {
      const come = values?.[place] === Math.fround(number);
      if (come || now - time > ASKED_MS) asked.current.delete(place);
    }
  }, [values]);
  const original = values === null ? null : originalOf(state, value.key, values);
  return useMemo(() => {
    if (values === null || original === null) return null;
    return {
      value,
      values,
      original,
      changed: countChanged(values, original),
      range: 2 * largest(original) || 2,
      able: setWeight !== null,
      number: (place) => asked.current.get(place)?.number ?? values[place] ?? 0,
      change(places, numbers, { step, live = false }) {
        if (pace.current === null) return;
        freeze(state);
        const time = performance.now();
        // Python takes none that is not finite: those stay.
        const taken = places.map((_, k) => k).filter((k) => Number.isFinite(numbers[k]));
        const at = taken.map((k) => places[k] ?? 0);
        const to = taken.map((k) => numbers[k] ?? 0);
        for (const [k, place] of at.entries()) {
          asked.current.set(place, { number: to[k] ?? 0, time });
        }
        const edits = editsOf(value, values, at, to, step);
        if (live) pace.current.offer(edits);
        else pace.current.now(edits);
      },
      settle: () => pace.current?.now(),
    };
  }, [state, value, values, original, setWeight]);
}

/** Until then a press is a click. */
const LEAST_PIXELS = 2;

/**
 * A press on a number: from there up or down changes it, by a hundredth of its range a pixel, with Shift by a tenth of
 * that; `end` is told whether it was changed.
 */
export function drag(
  event: PointerEvent,
  views: Views,
  hand: Hand,
  place: number,
  words: string,
  end: (changed: boolean) => void,
): void {
  const element = event.currentTarget as Element;
  const from = hand.number(place);
  const step = newStep();
  const { range } = hand;
  let number = Number.isFinite(from) ? from : 0;
  let y = event.clientY;
  let moved = false;
  const { pointerId } = event;
  if (event.isTrusted) element.setPointerCapture(pointerId);
  const say = (at: PointerEvent): void => {
    const was = hand.original[place] ?? 0;
    views.note.value = {
      title: exact(Math.fround(number)),
      text: `${words} · was ${exact(was)}`,
      ...placeOf(at, views),
      of: element,
    };
  };
  const move = (now: Event): void => {
    if (!(now instanceof PointerEvent) || now.pointerId !== pointerId || !hand.able) return;
    now.stopImmediatePropagation(); // the tooltip's numbers would be those of other weights
    const pixels = (y - now.clientY) / views.zoom.value;
    if (!moved && Math.abs(pixels) < LEAST_PIXELS) return;
    moved = true;
    y = now.clientY;
    number += (pixels * range) / (now.shiftKey ? 1000 : 100);
    hand.change([place], [number], { step, live: true });
    say(now);
  };
  const stop = (now: Event): void => {
    if (now instanceof PointerEvent && now.pointerId !== pointerId) return;
    element.removeEventListener("pointermove", move, true);
    for (const name of ENDS) element.removeEventListener(name, stop);
    hand.settle();
    end(moved);
  };
  element.addEventListener("pointermove", move, true);
  for (const name of ENDS) element.addEventListener(name, stop);
}

const ENDS = ["pointerup", "pointercancel", "lostpointercapture"] as const;
