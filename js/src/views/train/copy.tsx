// A line of Python on a button that copies it.
import { useState } from "preact/hooks";
import { useViews } from "../context.ts";
import { Copy } from "./icons.tsx";

/** So long a button says that it has copied. */
const SAYS_MS = 1500;

export function CopyLine(props: { line: string; word: string }) {
  const { line, word } = props;
  const { root } = useViews();
  const [said, setSaid] = useState("");
  const copy = async (): Promise<void> => {
    setSaid((await written(root, line)) ? "Copied" : "No clipboard");
    setTimeout(() => setSaid(""), SAYS_MS);
  };
  return (
    <button type="button" class="nbg-button" title={`Copies ${line}`} onClick={() => void copy()}>
      <Copy />
      <span aria-live="polite">{said || word}</span>
    </button>
  );
}

/** By the clipboard of secure pages, else by a field that is selected. */
async function written(root: HTMLElement, text: string): Promise<boolean> {
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
