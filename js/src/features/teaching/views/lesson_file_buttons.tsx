// Buttons that save the lesson to a file and load one.
import { useRef } from "preact/hooks";
import { useViews } from "../../../views/context.ts";
import { fileName, saveFile } from "../../export/views/file_saving.ts";
import { parseLesson, serializeLesson } from "../lesson_file.ts";
import type { LessonStore } from "../lesson_store.ts";

export function LessonFileButtons({ store }: { store: LessonStore }) {
  const { state } = useViews();
  const chosen = useRef<HTMLInputElement>(null);
  const keep = (): void => {
    const record = state.teaching.peek();
    if (record === null) return;
    const { lesson, samples, linearHead } = store;
    const file = serializeLesson(record, lesson.peek(), samples.peek(), linearHead.peek());
    const names = lesson.peek().classes.map(({ name }) => name);
    saveFile(new Blob([file]), fileName(["taught", ...names], "safetensors"));
  };
  const take = async (file: Blob | undefined): Promise<void> => {
    const record = state.teaching.peek();
    if (record === null || file === undefined) return;
    try {
      store.loadLesson(parseLesson(record, new Uint8Array(await file.arrayBuffer())));
      store.error.value = "";
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      store.error.value = `The file could not be opened: ${why}.`;
    }
  };
  return (
    <div class="nbg-teach-tools nbg-teach-end">
      <button
        type="button"
        class="nbg-button"
        disabled={store.lesson.value.examples.length === 0}
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
        aria-label="Lesson file"
        onChange={(event) => {
          const [file] = event.currentTarget.files ?? [];
          void take(file);
          event.currentTarget.value = "";
        }}
      />
      <span class="nbg-second">
        Pictures, features and classifier in one safetensors file. In Python:{" "}
        <code>viewer.teaching.load(path)</code>.
      </span>
    </div>
  );
}
