// What was taught as a file for the reader, and from one.
import { useRef } from "preact/hooks";
import { useViews } from "../../../views/context.ts";
import { fileName, save } from "../../export/views/files.ts";
import { savedIn, teachingFile } from "../file.ts";
import type { Teaching } from "../store.ts";

export function Saving({ teaching }: { teaching: Teaching }) {
  const { state } = useViews();
  const chosen = useRef<HTMLInputElement>(null);
  const keep = (): void => {
    const record = state.teaching.peek();
    if (record === null) return;
    const { taught, data, linear } = teaching;
    const file = teachingFile(record, taught.peek(), data.peek(), linear.peek());
    const names = taught.peek().classes.map(({ name }) => name);
    save(new Blob([file]), fileName(["taught", ...names], "safetensors"));
  };
  const take = async (file: Blob | undefined): Promise<void> => {
    const record = state.teaching.peek();
    if (record === null || file === undefined) return;
    try {
      teaching.restore(savedIn(record, new Uint8Array(await file.arrayBuffer())));
      teaching.trouble.value = "";
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      teaching.trouble.value = `The file can’t be taken: ${why}.`;
    }
  };
  return (
    <div class="nbg-teach-tools nbg-teach-end">
      <button
        type="button"
        class="nbg-button"
        disabled={teaching.taught.value.examples.length === 0}
        onClick={keep}
      >
        Save to a file
      </button>
      <button type="button" class="nbg-button" onClick={() => chosen.current?.click()}>
        Open a file…
      </button>
      <input
        ref={chosen}
        type="file"
        accept=".safetensors"
        hidden
        aria-label="A file that was saved here"
        onChange={(event) => {
          const [file] = event.currentTarget.files ?? [];
          void take(file);
          event.currentTarget.value = "";
        }}
      />
      <span class="nbg-second">
        Pictures, features and head in one safetensors file, in Python{" "}
        <code>viewer.teaching.load(path)</code>.
      </span>
    </div>
  );
}
