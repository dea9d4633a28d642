// Lines of Python code with a copy button.
import { useState } from "preact/hooks";
import { useViews } from "../../../views/context.ts";
import { editsAsPython } from "./edits_as_python.ts";

/** How long the button shows "Copied". */
const COPIED_DISPLAY_MS = 1500;

export function EditsAsPython() {
  const { edits } = useViews().state.currentEdits.value;
  const lines = editsAsPython(edits);
  return lines.length === 0 ? null : <PythonLines title="As Python" lines={lines} />;
}

export function PythonLines({ title, lines }: { title: string; lines: readonly string[] }) {
  const { root } = useViews();
  const [said, setSaid] = useState("Copy");
  const copy = async (text: string): Promise<void> => {
    const done = (await copyText(text)) || copyBySelection(root, text);
    setSaid(done ? "Copied" : "Select and copy");
    setTimeout(() => setSaid("Copy"), COPIED_DISPLAY_MS);
  };
  return (
    <section class="nbg-bend-python" aria-label={title}>
      <span class="nbg-second">{title}</span>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines are scrolled by keys */}
      <pre tabIndex={0}>{lines.join("\n")}</pre>
      <button type="button" class="nbg-button" onClick={() => void copy(lines.join("\n"))}>
        <span aria-live="polite">{said}</span>
      </button>
    </section>
  );
}

/** Copy with the Clipboard API, which exists only in secure contexts. */
const copyText = (text: string): Promise<boolean> =>
  navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  ) ?? Promise.resolve(false);

/** Copy by selecting a text field: for pages over http and frames without clipboard permission. */
function copyBySelection(root: HTMLElement, text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  root.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
