// Gives the reader what was taught as a file.
import { teachingFile } from "../../teaching/file.ts";
import type { Teaching } from "../../teaching/store.ts";
import { useViews } from "../context.ts";
import { fileName, save } from "../keep/files.ts";

export function useSaving(teaching: Teaching) {
  const { state } = useViews();
  return {
    save: () => {
      const record = state.teaching.peek();
      if (record === null) return;
      const { taught, data, linear } = teaching;
      const file = teachingFile(record, taught.peek(), data.peek(), linear.peek());
      const names = taught.peek().classes.map(({ name }) => name);
      save(new Blob([file]), fileName(["taught", ...names], "safetensors"));
    },
  };
}
