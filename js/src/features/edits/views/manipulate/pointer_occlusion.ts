// An occlusion patch that follows the pointer over any picture of the input.
import { effect, untracked } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { splitKey } from "../../../../plan/derived_values.ts";
import { setEdits } from "../../../../state/edits.ts";
import { useViews } from "../../../../views/context.ts";
import { updateEdit } from "../edit_operations.ts";

/** Decimal digits of a relative position: enough for the right pixel in any picture, and short in the Python line. */
const DIGITS = 6;
const pixelCenterShare = (at: number, length: number): number =>
  Number(((at + 0.5) / length).toFixed(DIGITS));

/**
 * Follow the pointer while `name` is the name of a patch on `input`; "" for none. One pointer movement is one undo
 * step, as with a slider.
 */
export function useOcclusionAtPointer(input: string, name: string): void {
  const { state, hover } = useViews();
  useLayoutEffect(() => {
    if (name === "") return;
    return effect(() => {
      const at = hover.value;
      if (at === null || splitKey(at.value.key)[1] !== input) return;
      untracked(() => {
        const { edits } = state.presentEdits.peek();
        const edit = edits.find((one) => one.name === name && one.layer === input);
        if (edit === undefined) return;
        const [, , height, width] = at.value.nchw;
        const [x, y] = [pixelCenterShare(at.x, width), pixelCenterShare(at.y, height)];
        if (edit.parameters[0] === x && edit.parameters[1] === y) return;
        const parameters = [x, y, ...edit.parameters.slice(2)];
        setEdits(state, updateEdit(edits, name, { parameters }), `${name} follows`);
      });
    });
  }, [state, hover, input, name]);
}
