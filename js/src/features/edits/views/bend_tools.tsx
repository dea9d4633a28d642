// Toolbar beside the layer's title: undo, redo, and presets.
import type { Value } from "../../../plan/schema.ts";
import { redoEdits, setEdits, undoEdits } from "../../../state/edits.ts";
import { useViews } from "../../../views/context.ts";
import { RedoIcon, UndoIcon } from "../../../views/icons.tsx";
import { isBendable } from "./edit_operations.ts";
import { applyPreset, PRESETS } from "./presets.ts";

export function BendTools({ value }: { value: Value }) {
  const { state } = useViews();
  const step = (
    word: string,
    Icon: typeof UndoIcon,
    can: boolean,
    go: () => void,
    keys: string,
  ) => (
    <button
      type="button"
      class="nbg-button nbg-square"
      aria-label={word}
      aria-keyshortcuts={keys}
      title={`${word} (${keys.replace("Control", "Ctrl")})`}
      // aria-disabled instead of disabled: the button keeps the focus after the last step.
      aria-disabled={!can}
      onClick={go}
    >
      <Icon />
    </button>
  );
  const { undoStack, redoStack } = state;
  return (
    <div class="nbg-bend-tools" role="group" aria-label="Bends">
      {step("Undo", UndoIcon, undoStack.value.length > 0, () => undoEdits(state), "Control+Z")}
      {step(
        "Redo",
        RedoIcon,
        redoStack.value.length > 0,
        () => redoEdits(state),
        "Control+Shift+Z",
      )}
      {isBendable(value) && (
        <select
          class="nbg-select"
          aria-label="Presets"
          value=""
          onChange={(event) => {
            const preset = PRESETS.find(([name]) => name === event.currentTarget.value);
            event.currentTarget.value = "";
            if (preset === undefined) return;
            const { edits } = state.currentEdits.peek();
            setEdits(state, applyPreset(edits, value.key, preset[1], value.nchw[1]));
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
