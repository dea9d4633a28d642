// Picture source: a selected, dropped or pasted file, decoded by the browser and fed once.

import type { OpenSource } from "./input_slot.ts";
import { makeSource, sourceFiles } from "./local_sources.ts";
import { decodePicture } from "./picture_decoder.ts";
import type { PictureRecord } from "./records.ts";
import {
  acceptsPictures,
  CHOOSE_ANOTHER_TEXT,
  pythonString,
  type SourceKind,
} from "./source_kind.ts";

const openPicture: OpenSource<PictureRecord> = (slot) => {
  let shown: ImageBitmap | undefined;
  let asked = 0;
  let closed = false;

  const feed = async (): Promise<void> => {
    if (shown === undefined) return;
    const { source } = slot;
    await slot.feed({ picture: shown }, source, () => false);
  };
  const show = async (file: Blob): Promise<void> => {
    asked += 1;
    const mine = asked;
    try {
      const found = await decodePicture(file);
      if (mine !== asked || closed) {
        found.close();
        return;
      }
      const before = shown;
      shown = found;
      slot.updateControls({ picture: found });
      await feed();
      before?.close();
    } catch (error) {
      if (mine !== asked) return;
      // The previous picture stays the input; it must not be shown under this file's name.
      slot.updateControls({ picture: null });
      slot.fail("damaged", error);
    }
  };
  const openFile = (file: Blob, title: string): void => {
    const { kind, input } = slot.source;
    const next = makeSource(kind, input, { owner: slot.feeder.pageId, title });
    sourceFiles.set(next, file);
    slot.state.source.value = next;
  };
  slot.updateControls({ openFile });
  const first = sourceFiles.get(slot.source);
  if (first !== undefined) void show(first);

  return {
    update(source) {
      const file = sourceFiles.get(source);
      if (file !== undefined) void show(file);
      else void feed();
    },
    start: () => undefined,
    stop: () => undefined,
    dispose() {
      closed = true; // the engine keeps the picture while it is the input
    },
  };
};

export const picture = {
  label: "Picture",
  icon: "M2 2.5h12v11H2zM2.5 11.5l3.5-3.5 3 3 1.7-1.7 3 2.7M9.5 5.8a1.1 1.1 0 1 0 2.2 0a1.1 1.1 0 1 0-2.2 0",
  title: ({ title }) => title || "Picture",
  pythonLine: ({ title }, call) => (title === "" ? "" : call("Images", `[${pythonString(title)}]`)),
  failures: {
    damaged: [
      "This browser can’t show the picture",
      `The file is damaged, or the browser doesn’t support its format. Save it as PNG or JPEG, or ${CHOOSE_ANOTHER_TEXT}.`,
    ],
  },
  accepts: acceptsPictures,
  file: { type: "image/", fields: {} },
  open: openPicture,
} satisfies SourceKind<PictureRecord>;
