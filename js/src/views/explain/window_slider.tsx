// A slider that moves the window over the map, position by position: four positions per second, by steps, or scrubbed.
import { useEffect, useRef, useState } from "preact/hooks";
import { LeftIcon, RightIcon } from "../icons.tsx";

const SLIDE_INTERVAL_MS = 250;

const prefersReducedMotion = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function WindowSlider(props: {
  /** The noun for the moving object: "filter", "window". */
  subject: string;
  position: number;
  count: number;
  /** The current position as text: "y 3, x 5". */
  positionText: string;
  go: (position: number) => void;
}) {
  const { subject, position, count, positionText, go } = props;
  const [sliding, setSliding] = useState(false);
  const next = useRef<() => void>(() => undefined);
  next.current = () => go((position + 1) % count);
  useEffect(() => {
    if (!sliding) return;
    const timer = setInterval(() => next.current(), SLIDE_INTERVAL_MS);
    return () => clearInterval(timer);
  }, [sliding]);
  return (
    <span class="nbg-slide">
      <button
        type="button"
        class="nbg-button nbg-square"
        aria-label="Previous position"
        onClick={() => go((position - 1 + count) % count)}
      >
        <LeftIcon />
      </button>
      {prefersReducedMotion() ? (
        <span />
      ) : (
        <button
          type="button"
          class="nbg-button"
          aria-pressed={sliding}
          onClick={() => setSliding(!sliding)}
        >
          {sliding ? "Pause" : `Slide the ${subject}`}
        </button>
      )}
      <button
        type="button"
        class="nbg-button nbg-square"
        aria-label="Next position"
        onClick={() => go((position + 1) % count)}
      >
        <RightIcon />
      </button>
      <input
        type="range"
        min={0}
        max={count - 1}
        value={position}
        aria-label={`Position of the ${subject}`}
        aria-valuetext={`${positionText}, position ${position + 1} of ${count}`}
        onInput={(event) => {
          setSliding(false);
          go(event.currentTarget.valueAsNumber);
        }}
      />
    </span>
  );
}
