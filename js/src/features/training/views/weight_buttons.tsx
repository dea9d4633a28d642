// Ways from the page to Python: a button that copies a line of code, and a button that saves a file of weights.
import { useState } from "preact/hooks";
import { useViews } from "../../../views/context.ts";
import { SaveIcon } from "../../../views/icons.tsx";

/** How long the button shows "Copied", in milliseconds. */
const COPIED_DISPLAY_MS = 1500;

export function CopyLineButton(props: { line: string; label: string }) {
  const { line, label } = props;
  const { root } = useViews();
  const [feedback, setSaid] = useState("");
  const copy = async (): Promise<void> => {
    setSaid((await copyText(root, line)) ? "Copied" : "No clipboard");
    setTimeout(() => setSaid(""), COPIED_DISPLAY_MS);
  };
  return (
    <button type="button" class="nbg-button" title={`Copies ${line}`} onClick={() => void copy()}>
      <SaveIcon />
      <span aria-live="polite">{feedback || label}</span>
    </button>
  );
}

/** A button that saves the displayed weights. */
export function SaveWeightsButton({ save }: { save: () => Promise<void> }) {
  const [trouble, setTrouble] = useState("");
  const write = (): void => {
    setTrouble("");
    save().catch((error: unknown) =>
      setTrouble(error instanceof Error ? error.message : String(error)),
    );
  };
  return (
    <>
      <button
        type="button"
        class="nbg-button"
        title="Saves the weights that all views show, for model.load_state_dict(safetensors.torch.load_file(…))"
        onClick={write}
      >
        <SaveIcon />
        Save weights
      </button>
      <span class="nbg-second" aria-live="polite">
        {trouble}
      </span>
    </>
  );
}

/** Copy with the Clipboard API (secure pages only), or else with a selected text field. */
async function copyText(root: HTMLElement, text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    root.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
