// An occlusion patch that follows the pointer over any picture of the input.
import { effect, untracked } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { splitKey } from "../../../../plan/derived_values.ts";
import { setEdits } from "../../../../state/edits.ts";
import { useViews } from "../../../../views/context.ts";
import { updateEdit } from "../edit_operations.ts";

/** Decimal digits of a relative position: enough for the right pixel in any picture, and short in the Python line. */
const POSITION_DIGITS = 6;
const relativePixelCenter = (pixel: number, length: number): number =>
  Number(((pixel + 0.5) / length).toFixed(POSITION_DIGITS));

/**
 * Follow the pointer while `editName` is the name of a patch on `inputKey`; "" for none. One pointer movement is one
 * undo step, as with a slider.
 */
export function useOcclusionAtPointer(inputKey: string, editName: string): void {
  const { state, hover } = useViews();
  useLayoutEffect(() => {
    if (editName === "") return;
    return effect(() => {
      const at = hover.value;
      if (at === null || splitKey(at.value.key)[1] !== inputKey) return;
      untracked(() => {
        const { edits } = state.currentEdits.peek();
        const edit = edits.find((one) => one.name === editName && one.layer === inputKey);
        if (edit === undefined) return;
        const [, , height, width] = at.value.nchw;
        const [x, y] = [relativePixelCenter(at.x, width), relativePixelCenter(at.y, height)];
        if (edit.parameters[0] === x && edit.parameters[1] === y) return;
        const parameters = [x, y, ...edit.parameters.slice(2)];
        setEdits(state, updateEdit(edits, editName, { parameters }), `${editName} follows`);
      });
    });
  }, [state, hover, inputKey, editName]);
}
