// Controls for the two axes of the plane: two units of the code, or two pictures of the data set.
import { useLayoutEffect, useRef } from "preact/hooks";
import { NumberField } from "../../../views/number_field.tsx";
import { itemName, itemPicture, type LatentCodes } from "./latent_codes.ts";
import type { AxisChoice, AxisKind } from "./latent_plane.ts";
import { clamp } from "./vector_math.ts";

export function AxisPicker(props: {
  axisKind: AxisKind;
  choice: AxisChoice;
  codes: LatentCodes | null;
  /** Number of units in a code. */
  codeSize: number;
  pickedEnd: 0 | 1 | null;
  choose: (choice: AxisChoice) => void;
  pick: (end: 0 | 1 | null) => void;
}) {
  const { axisKind, choice, codes, codeSize, pickedEnd, choose, pick } = props;
  if (axisKind === "pca") return null;
  if (axisKind === "units" || codes === null) {
    const set = (end: 0 | 1, at: number): void => {
      const [a, b] = choice.units;
      choose({ ...choice, units: end === 0 ? [at, b] : [a, at] });
    };
    return (
      <div class="nbg-latent-of">
        {(["across", "up"] as const).map((word, end) => (
          <NumberField
            key={word}
            label={`Unit ${word}`}
            fieldClass="nbg-select nbg-latent-unit"
            low={0}
            high={codeSize - 1}
            value={choice.units[end as 0 | 1]}
            setValue={(index) => set(end as 0 | 1, index)}
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
            <CodeThumb
              codes={codes}
              position={at}
              label={`${name}: ${itemName(codes, at)}`}
              side={32}
            />
            <span>
              <strong>{name}</strong> <span class="nbg-second">{itemName(codes, at)}</span>
            </span>
            <button
              type="button"
              class="nbg-button"
              aria-pressed={pickedEnd === end}
              onClick={() => pick(pickedEnd === end ? null : end)}
            >
              {pickedEnd === end ? "Click a point" : "Another"}
            </button>
          </span>
        );
      })}
    </div>
  );
}

/** An item's thumbnail; nothing if it has no picture. */
export function CodeThumb(props: {
  codes: LatentCodes;
  position: number;
  label: string;
  side: number;
}) {
  const { codes, position, label, side } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const image = itemPicture(codes, position);
    if (image !== undefined) canvas.current?.getContext("2d")?.putImageData(image, 0, 0);
  }, [codes, position]);
  if (codes.pictureShape === null) return null;
  const [height, width] = codes.pictureShape;
  const scale = side / Math.max(height, width);
  const size = { width: `${width * scale}px`, height: `${height * scale}px` };
  return (
    <canvas ref={canvas} width={width} height={height} style={size} role="img" aria-label={label} />
  );
}
