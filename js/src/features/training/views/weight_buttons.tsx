// What leads from the page to Python: a line of it on a button that copies it, and a file of weights.
import { useState } from "preact/hooks";
import { useViews } from "../../../views/context.ts";
import { SaveIcon } from "../../../views/icons.tsx";

/** So long a button says that it has copied. */
const COPIED_MS = 1500;

export function CopyLineButton(props: { line: string; word: string }) {
  const { line, word } = props;
  const { root } = useViews();
  const [said, setSaid] = useState("");
  const copy = async (): Promise<void> => {
    setSaid((await copyText(root, line)) ? "Copied" : "No clipboard");
    setTimeout(() => setSaid(""), COPIED_MS);
  };
  return (
    <button type="button" class="nbg-button" title={`Copies ${line}`} onClick={() => void copy()}>
      <SaveIcon />
      <span aria-live="polite">{said || word}</span>
    </button>
  );
}

/** A button that saves the weights that are shown. */
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

/** By the clipboard of secure pages, else by a field that is selected. */
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
