// Marks over a picture of weights: a coloured corner on each edited weight, and a ring around the selected one.
import { useLayoutEffect, useRef } from "preact/hooks";
import { useViews } from "../context.ts";
import { px } from "../layout.ts";

/** A rectangle in CSS pixels of the picture. */
export interface PixelBox {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** The least and most CSS pixels of a corner's sides. */
const [MIN_CORNER, MAX_CORNER] = [3, 7] as const;

export function EditedCorners(props: {
  boxes: readonly PixelBox[];
  width: number;
  height: number;
}) {
  const { boxes, width, height } = props;
  const { pixelRatio: ratioOf, theme, root } = useViews();
  const canvas = useRef<HTMLCanvasElement>(null);
  const ratio = ratioOf.value;
  const look = theme.value;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme has colours of its own
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    context.scale(ratio, ratio);
    const colors = getComputedStyle(root);
    context.fillStyle = colors.getPropertyValue("--nb-mine");
    context.strokeStyle = colors.getPropertyValue("--nb-halo");
    for (const box of boxes) {
      const side = Math.max(
        MIN_CORNER,
        Math.min(MAX_CORNER, 0.5 * Math.min(box.width, box.height)),
      );
      const right = box.left + Math.max(box.width, MIN_CORNER);
      context.beginPath();
      context.moveTo(right - side, box.top);
      context.lineTo(right, box.top);
      context.lineTo(right, box.top + side);
      context.fill();
      // An outline, so that the corner is visible on any colour.
      context.beginPath();
      context.moveTo(right - side - 0.7, box.top);
      context.lineTo(right, box.top + side + 0.7);
      context.stroke();
    }
  }, [boxes, width, height, ratio, look, root]);
  if (boxes.length === 0) return null;
  return (
    <canvas
      ref={canvas}
      class="nbg-edited-corners"
      data-corners={boxes.length}
      style={{ width: px(width), height: px(height) }}
    />
  );
}

export function SelectionRing({ left, top, width, height }: PixelBox) {
  return (
    <span
      class="nbg-mark"
      style={{ left: px(left), top: px(top), width: px(width), height: px(height) }}
    />
  );
}
