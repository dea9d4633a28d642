// Beside the layer's title: undo, redo, and stacks by name.
import type { Value } from "../../../plan/schema.ts";
import { change, redo, undo } from "../../../state/edits.ts";
import { useViews } from "../../../views/context.ts";
import { Redo, Undo } from "../../../views/icons.tsx";
import { PRESETS, presetOf } from "./presets.ts";
import { isBendable } from "./stack.ts";

export function Tools({ value }: { value: Value }) {
  const { state } = useViews();
  const step = (word: string, Icon: typeof Undo, can: boolean, go: () => void, keys: string) => (
    <button
      type="button"
      class="nbg-button nbg-square"
      aria-label={word}
      aria-keyshortcuts={keys}
      title={`${word} (${keys.replace("Control", "Ctrl")})`}
      // Not disabled: it would lose the focus with the last step.
      aria-disabled={!can}
      onClick={go}
    >
      <Icon />
    </button>
  );
  const { past, future } = state;
  return (
    <div class="nbg-bend-tools" role="group" aria-label="Bends">
      {step("Undo", Undo, past.value.length > 0, () => undo(state), "Control+Z")}
      {step("Redo", Redo, future.value.length > 0, () => redo(state), "Control+Shift+Z")}
      {isBendable(value) && (
        <select
          class="nbg-select"
          aria-label="Presets"
          value=""
          onChange={(event) => {
            const preset = PRESETS.find(([name]) => name === event.currentTarget.value);
            event.currentTarget.value = "";
            if (preset === undefined) return;
            const { edits } = state.edited.peek();
            change(state, presetOf(edits, value.key, preset[1], value.nchw[1]));
          }}
        >
          <option value="" hidden>
            Presets
          </option>
          {PRESETS.map(([name]) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
    </div>
  );
}
