// What the two axes of the plane are of: two numbers of the code, or two pictures of the data.
import { useLayoutEffect, useRef } from "preact/hooks";
import { NumberField } from "../../../views/number_field.tsx";
import { type Codes, nameOf, pictureOf } from "./codes.ts";
import { clamp } from "./numbers.ts";
import type { Axes, Choice } from "./plane.ts";

export function AxesOf(props: {
  axes: Axes;
  choice: Choice;
  codes: Codes | null;
  /** Of a code. */
  numbers: number;
  picking: 0 | 1 | null;
  choose: (choice: Choice) => void;
  pick: (end: 0 | 1 | null) => void;
}) {
  const { axes, choice, codes, numbers, picking, choose, pick } = props;
  if (axes === "pca") return null;
  if (axes === "units" || codes === null) {
    const set = (end: 0 | 1, at: number): void => {
      const [a, b] = choice.units;
      choose({ ...choice, units: end === 0 ? [at, b] : [a, at] });
    };
    return (
      <div class="nbg-latent-of">
        {(["across", "up"] as const).map((word, end) => (
          <NumberField
            key={word}
            label={`Number ${word}`}
            field="nbg-select nbg-latent-unit"
            low={0}
            high={numbers - 1}
            value={choice.units[end as 0 | 1]}
            set={(index) => set(end as 0 | 1, index)}
          />
        ))}
      </div>
    );
  }
  return (
    <div class="nbg-latent-of">
      {(["A", "B"] as const).map((name, k) => {
        const end = k as 0 | 1;
        const at = clamp(choice.pictures[end], 0, codes.count - 1);
        return (
          <span key={name} class="nbg-latent-end">
            <Thumb codes={codes} at={at} label={`${name}: ${nameOf(codes, at)}`} side={32} />
            <span>
              <strong>{name}</strong> <span class="nbg-second">{nameOf(codes, at)}</span>
            </span>
            <button
              type="button"
              class="nbg-button"
              aria-pressed={picking === end}
              onClick={() => pick(picking === end ? null : end)}
            >
              {picking === end ? "Click a point" : "Another"}
            </button>
          </span>
        );
      })}
    </div>
  );
}

/** An item's small picture; nothing where it has none. */
export function Thumb(props: { codes: Codes; at: number; label: string; side: number }) {
  const { codes, at, label, side } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const image = pictureOf(codes, at);
    if (image !== undefined) canvas.current?.getContext("2d")?.putImageData(image, 0, 0);
  }, [codes, at]);
  if (codes.picture === null) return null;
  const [height, width] = codes.picture;
  const scale = side / Math.max(height, width);
  const size = { width: `${width * scale}px`, height: `${height * scale}px` };
  return (
    <canvas ref={canvas} width={width} height={height} style={size} role="img" aria-label={label} />
  );
}
