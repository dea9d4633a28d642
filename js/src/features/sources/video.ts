// Video source: bytes from Python or a file chosen in the page, played muted frame by frame.

import { type FrameLoop, startFrameLoop, trackVideoFrames } from "./frame_loop.ts";
import { createFramePreview } from "./frame_preview.ts";
import type { OpenSource } from "./input_slot.ts";
import { makeSource, sourceFiles } from "./local_sources.ts";
import type { VideoRecord } from "./records.ts";
import {
  acceptsPictures,
  CHOOSE_ANOTHER_TEXT,
  pythonString,
  type SourceKind,
} from "./source_kind.ts";

const openVideo: OpenSource<VideoRecord> = (slot) => {
  const film = document.createElement("video");
  film.muted = true;
  film.loop = true;
  film.playsInline = true;
  const preview = createFramePreview(film, slot.state.capabilities.peek()?.isSoftware ?? false);
  const frames = trackVideoFrames(film);
  let running: FrameLoop | undefined;
  let address = "";
  let closed = false;
  let wanted = false;

  const feed = async (): Promise<void> => {
    frames.take();
    preview.captureFrame();
    const { source } = slot;
    await slot.feed(
      { picture: preview.element, mirrored: source.mirrored },
      source,
      () => running !== undefined,
    );
  };
  const revokeUrl = (): void => {
    film.removeAttribute("src");
    film.load();
    URL.revokeObjectURL(address);
    address = "";
  };
  const show = (bytes: Blob): void => {
    revokeUrl();
    address = URL.createObjectURL(bytes);
    film.src = address;
  };
  film.addEventListener("error", () => {
    if (address !== "" && !closed) slot.fail("damaged", film.error?.message || "it has no frames");
  });
  // Recordings often lack a duration: browsers find it by seeking to the end.
  let measuring = false;
  let ready = false;
  film.addEventListener("loadedmetadata", () => {
    ready = false;
    measuring = film.duration === Number.POSITIVE_INFINITY;
    if (measuring) film.currentTime = Number.MAX_SAFE_INTEGER;
  });
  const begin = (): void => {
    if (ready || closed) return;
    ready = true;
    if (film.videoWidth === 0) {
      slot.fail("damaged", "it has only sound");
      return;
    }
    slot.updateControls({ video: film, preview: preview.element });
    go();
    if (running === undefined) void feed();
  };
  film.addEventListener("loadeddata", () => {
    if (!measuring) begin();
  });
  film.addEventListener("seeked", () => {
    if (measuring) {
      measuring = false;
      film.currentTime = 0;
    } else if (!ready) begin();
    else if (running === undefined && !closed) void feed();
  });

  const go = (): void => {
    if (!wanted || running !== undefined || !ready || film.videoWidth === 0) return;
    if (slot.source.owner === "") slot.change({ owner: slot.feeder.pageId });
    void film.play().catch(() => undefined); // paused meanwhile
    running = startFrameLoop(
      () => 0,
      (signal) => frames.next(signal),
      feed,
    );
  };

  const file = sourceFiles.get(slot.source);
  if (file !== undefined) show(file);
  else if (slot.source.data !== "") {
    slot.feeder.blob(slot.source.data).then(
      (bytes) => {
        if (!closed) show(new Blob([bytes]));
      },
      (error: unknown) => {
        if (!closed) slot.fail("damaged", error);
      },
    );
  }
  const start = (): void => slot.change({ owner: slot.feeder.pageId, playing: true });
  const openFile = (chosen: Blob, title: string): void => {
    const { input, kind, mirrored } = slot.source;
    const next = makeSource(kind, input, {
      owner: slot.feeder.pageId,
      playing: true,
      mirrored,
      title,
    });
    sourceFiles.set(next, chosen);
    slot.state.source.value = next;
  };
  const step = (by: number): void => {
    // Videos seldom declare a frame rate: assume 25 frames a second.
    film.currentTime = Math.max(0, film.currentTime + by / 25);
  };
  slot.updateControls({ start, openFile, step });

  return {
    update(source) {
      const chosen = sourceFiles.get(source);
      if (chosen !== undefined) show(chosen);
      else if (running === undefined && ready) void feed();
    },
    start() {
      wanted = true;
      go();
    },
    stop() {
      wanted = false;
      const ended = running?.stop();
      running = undefined;
      film.pause();
      // Feed the displayed frame after the frame in progress has run.
      void ended?.then(() => {
        if (running === undefined && ready && !closed) return feed();
      });
    },
    dispose() {
      closed = true;
      frames.stop();
      revokeUrl();
      slot.feeder.release(slot.source.data);
    },
  };
};

export const video = {
  label: "Video",
  icon: "M2 3h12v10H2zM5 3v10M11 3v10M2 6.4h3M2 9.6h3M11 6.4h3M11 9.6h3",
  title: ({ title }) => title || "Video",
  pythonLine: ({ title, mirrored }, call) =>
    title === "" ? "" : call("Video", pythonString(title), mirrored && "mirrored=True"),
  failures: {
    damaged: [
      "This browser can’t play the video",
      `All browsers play WebM with VP8 or VP9, most play MP4 with H.264. Convert the video, or ${CHOOSE_ANOTHER_TEXT}.`,
    ],
  },
  accepts: acceptsPictures,
  file: { type: "video/", fields: { playing: true } },
  canPlay: () => true,
  open: openVideo,
} satisfies SourceKind<VideoRecord>;
