// Webcam source: requested only after a click, released while no view is visible, its frames fed as they arrive.

import { type FrameLoop, startFrameLoop, trackVideoFrames } from "./frame_loop.ts";
import { createFramePreview } from "./frame_preview.ts";
import type { OpenSource } from "./input_slot.ts";
import { prefersReducedMotion } from "./local_sources.ts";
import type { WebcamRecord } from "./records.ts";
import {
  acceptsPictures,
  CHOOSE_ANOTHER_TEXT,
  pythonString,
  type SourceKind,
} from "./source_kind.ts";
import type { SourceFailure } from "./state.ts";

/** Browser error names and the failure that each means. */
const FAILURE_BY_ERROR_NAME: Readonly<Record<string, SourceFailure>> = {
  NotFoundError: "none",
  DevicesNotFoundError: "none",
  OverconstrainedError: "none",
  NotAllowedError: "denied",
  PermissionDeniedError: "denied",
  SecurityError: "denied",
  NotReadableError: "taken",
  TrackStartError: "taken",
  AbortError: "taken",
};

/** The reason why the browser provides no camera. */
function cameraFailure(error: unknown): SourceFailure {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const failure = FAILURE_BY_ERROR_NAME[name] ?? "taken";
  return failure === "denied" && (isCameraBlocked() || /policy/i.test(message))
    ? "framed"
    : failure;
}

/**
 * Whether the embedding page denies this frame the camera. Browsers without `featurePolicy` mention the policy in the
 * error message.
 */
function isCameraBlocked(): boolean {
  const { featurePolicy } = document as {
    featurePolicy?: { allowsFeature(name: string): boolean };
  };
  return window !== window.top && featurePolicy?.allowsFeature("camera") === false;
}

/** Resolve when the video has a current frame. */
async function whenFrameReady(video: HTMLVideoElement): Promise<void> {
  await video.play().catch(() => undefined); // paused meanwhile
  if (video.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA) return;
  await new Promise((resolve) => video.addEventListener("loadeddata", resolve, { once: true }));
}

const openWebcam: OpenSource<WebcamRecord> = (slot) => {
  const video = document.createElement("video");
  video.muted = true;
  video.playsInline = true;
  const seen = createFramePreview(video, slot.state.capabilities.peek()?.isSoftware ?? false);
  let stream: MediaStream | undefined;
  let frames: ReturnType<typeof trackVideoFrames> | undefined;
  let running: FrameLoop | undefined;
  let facing = "";
  /** The number of the latest camera request; the stream of an older one is released. */
  let requestNumber = 0;
  let failed = false;
  let closed = false;

  const feed = (): Promise<void> => {
    frames?.take();
    seen.captureFrame();
    const { source } = slot;
    return slot.feed(
      { picture: seen.element, mirrored: source.mirrored },
      source,
      () => running !== undefined,
    );
  };

  const closeStream = (): void => {
    if (stream !== undefined) slot.updateControls({ video: null, preview: null });
    requestNumber += 1;
    frames?.stop();
    frames = undefined;
    for (const track of stream?.getTracks() ?? []) {
      track.onended = null;
      track.stop();
    }
    stream = undefined;
    video.srcObject = null;
    facing = "";
  };

  const open = async (): Promise<void> => {
    closeStream();
    const mine = requestNumber;
    failed = false;
    facing = slot.source.faces;
    const fail = (failure: SourceFailure, detail: unknown): void => {
      failed = true;
      void running?.stop();
      running = undefined;
      closeStream();
      slot.fail(failure, detail);
    };
    if (!window.isSecureContext || navigator.mediaDevices === undefined) {
      fail("insecure", `This page is at ${location.origin}.`);
      return;
    }
    slot.setPhase("asking");
    try {
      const found = await navigator.mediaDevices.getUserMedia({
        video: { facingMode: facing },
        audio: false,
      });
      if (mine !== requestNumber) {
        for (const track of found.getTracks()) track.stop();
        return;
      }
      stream = found;
      const [track] = found.getVideoTracks();
      if (track !== undefined) track.onended = () => fail("lost", "The camera’s stream has ended.");
      video.srcObject = found;
      frames = trackVideoFrames(video);
      slot.updateControls({ video, preview: seen.element });
      await whenFrameReady(video);
      if (mine !== requestNumber) return;
      go();
      if (running !== undefined) return;
      video.pause(); // `whenFrameReady` has started it
      await feed();
    } catch (error) {
      if (mine === requestNumber) fail(cameraFailure(error), error);
    }
  };

  let wanted = false;
  const go = (): void => {
    if (!wanted || running !== undefined || stream === undefined) return;
    void video.play().catch(() => undefined);
    running = startFrameLoop(
      () => 0,
      async (signal) => frames?.next(signal),
      feed,
    );
  };
  const stop = (): void => {
    wanted = false;
    const ended = running?.stop();
    running = undefined;
    video.pause();
    // Feed the displayed frame after the frame in progress has run.
    void ended?.then(() => {
      if (running === undefined && stream !== undefined) return feed();
    });
  };

  const isMine = (): boolean => slot.source.owner === slot.feeder.pageId;
  const begin = (): void => {
    failed = false;
    if (isMine()) {
      void open();
      if (!slot.source.playing && !prefersReducedMotion()) slot.change({ playing: true });
    } else slot.change({ owner: slot.feeder.pageId, playing: !prefersReducedMotion() });
  };
  slot.updateControls({ start: begin });

  const update = (): void => {
    if (closed) return;
    if (!isMine()) {
      closeStream();
      slot.state.isDrawerOpen.value = true; // the drawer has the start button
      slot.setPhase("waiting");
    } else if (!failed && facing !== slot.source.faces) void open();
    else if (stream !== undefined && running === undefined) void feed(); // mirroring changed
  };
  update();

  return {
    update,
    start() {
      wanted = true;
      if (stream === undefined && facing === "" && isMine() && !failed) void open();
      go();
    },
    stop,
    releaseDevice: closeStream,
    dispose() {
      closed = true;
      stop();
      closeStream();
    },
  };
};

export const webcam = {
  label: "Webcam",
  icon: "M1.8 4.2h8.4v7.6H1.8zM10.2 7.2l4-2.2v6l-4-2.2z",
  pythonLine: ({ faces, mirrored }, call) =>
    call(
      "Webcam",
      faces !== "user" && `faces=${pythonString(faces)}`,
      !mirrored && "mirrored=False",
    ),
  failures: {
    none: ["No camera found", `Plug one in and start it again, or ${CHOOSE_ANOTHER_TEXT}.`],
    denied: [
      "The browser denied access to the camera",
      `Allow it in the address bar, or ${CHOOSE_ANOTHER_TEXT}.`,
    ],
    insecure: [
      "Cameras need https or localhost",
      `This page uses neither; ${CHOOSE_ANOTHER_TEXT}.`,
    ],
    taken: [
      "Another program uses the camera",
      `Close that program and start the camera again, or ${CHOOSE_ANOTHER_TEXT}.`,
    ],
    framed: [
      "The embedding page blocks camera access",
      `Its frame lacks allow="camera". Open this page in its own tab, or ${CHOOSE_ANOTHER_TEXT}.`,
    ],
    lost: [
      "The camera stopped",
      `It was unplugged, or the browser stopped it. Start it again, or ${CHOOSE_ANOTHER_TEXT}.`,
    ],
  },
  accepts: acceptsPictures,
  takeoverFields: { playing: true },
  canPlay: () => true,
  open: openWebcam,
} satisfies SourceKind<WebcamRecord>;
