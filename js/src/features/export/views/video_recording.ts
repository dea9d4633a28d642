// Video recording of a value's picture, one frame per run, on its own canvas, enlarged by integer factors.
import { effect, type Signal, signal } from "@preact/signals";
import { channelPictureSize, displayStyle } from "../../../network/display_kind.ts";
import type { ColorRange, DrawJob } from "../../../plan/runtime.ts";
import type { Value } from "../../../plan/schema.ts";
import { imageIndex, type Views } from "../../../views/context.ts";
import { fitScale } from "../../../views/layout.ts";

/**
 * Limits in canvas pixels of the longer side: small pictures are enlarged to the first, large ones are drawn no larger
 * than the second.
 */
const [MIN_SIDE, MAX_SIDE] = [256, 1024] as const;
/** Maximum channels of a mosaic. */
const MAX_MOSAIC_CHANNELS = 64;
const FRAMES_PER_SECOND = 30;
const BITS_PER_SECOND = 6e6;
/** At most about 200 MB, held in the page until the recording ends. */
const MAX_SECONDS = 300;
const WEBM_TYPES = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"] as const;

/** The WebM type that this browser can record; undefined if none. */
export function webmType(): string | undefined {
  if (typeof MediaRecorder === "undefined") return undefined;
  if (typeof HTMLCanvasElement.prototype.captureStream !== "function") return undefined;
  return WEBM_TYPES.find((type) => MediaRecorder.isTypeSupported(type));
}

/** The subject of a recording: a value, or one of its channels, and a colour range. */
export interface RecordingSubject {
  readonly value: Value;
  /** One channel; null for the whole value. */
  readonly channel: number | null;
  readonly range: ColorRange;
}

/** Whether a value can be drawn as a picture. */
export const isPicture = (value: Value): boolean => displayStyle(value).drawMode !== undefined;

/** The draw job of a recording, with the views' current colours. */
function recordingJob(
  views: Views,
  subject: RecordingSubject,
  canvas: HTMLCanvasElement,
): DrawJob | null {
  const { value, channel, range } = subject;
  const { state, theme, network } = views;
  const drawMode = channel === null ? displayStyle(value).drawMode : channelDrawMode(value);
  if (drawMode === undefined || network.value === null) return null;
  const one = drawMode === "rgb" || drawMode === "classes";
  const most = one ? value.nchw[1] : MAX_MOSAIC_CHANNELS;
  const channels =
    channel === null
      ? Array.from({ length: Math.min(most, value.nchw[1]) }, (_, k) => k)
      : [channel];
  const tiles = one ? 1 : channels.length;
  const curves = drawMode === "curves";
  const columns = curves ? 1 : Math.ceil(Math.sqrt(tiles));
  const { height, width } = channelPictureSize(value);
  return {
    key: value.key,
    canvas,
    image: imageIndex(value, network.value, state.example.value),
    channels,
    columns,
    gap: tiles > 1 ? 1 : 0,
    scale: Math.min(1, fitScale(Math.max(height, width) * columns, MAX_SIDE)),
    colormap: state.colormap.value,
    theme: theme.value,
    range,
    drawMode,
    curveSize: curves ? [2 * MIN_SIDE, Math.max(48, Math.floor(MIN_SIDE / tiles))] : undefined,
  };
}

/** How one channel is drawn: a colour of an rgb picture as grey, a class score as a map. */
function channelDrawMode(value: Value): DrawJob["drawMode"] | undefined {
  const { drawMode } = displayStyle(value);
  return drawMode === "rgb" ? "grey" : drawMode === "classes" ? "maps" : drawMode;
}

export interface Recording {
  /** Elapsed seconds. */
  readonly elapsedSeconds: Signal<number>;
  /** Stop the recording. Resolves to the video, or rejects with the reason. */
  stop(): Promise<Blob>;
}

/** Start to record; `onEnd` is called if the recording ends without `stop`. Throws if recording is not possible. */
export async function startRecording(
  views: Views,
  subject: RecordingSubject,
  onEnd: (video: Promise<Blob>) => void,
): Promise<Recording> {
  const { state, root } = views;
  const mimeType = webmType();
  if (mimeType === undefined) throw new Error("this browser can’t record WebM video");
  const drawn = document.createElement("canvas");
  const shown = document.createElement("canvas");
  const context = shown.getContext("2d");
  if (context === null) throw new Error("this browser can’t create a canvas");
  let job: DrawJob | null = null;
  let fresh = false;
  let drawing = false;
  const draw = async (): Promise<void> => {
    const session = state.session.peek();
    const now = job;
    if (now === null || drawing || session === null || session.sequence === 0) return;
    drawing = true;
    fresh = false;
    try {
      await session.prepareDraw([now]);
      if (state.session.peek() === session) session.draw([now]);
    } catch {
      // The context is lost: the last frame stays until it is restored.
    } finally {
      drawing = false;
    }
  };
  const copy = (): void => {
    context.imageSmoothingEnabled = false;
    context.fillStyle = getComputedStyle(root).backgroundColor;
    context.fillRect(0, 0, shown.width, shown.height);
    context.drawImage(drawn, 0, 0, shown.width, shown.height);
  };
  const follow = effect(() => {
    job = recordingJob(views, subject, drawn);
    fresh = state.run.value !== null && state.session.value !== null;
  });
  await draw();
  // A video keeps its initial size.
  const times = Math.max(1, Math.ceil(MIN_SIDE / Math.max(drawn.width, drawn.height)));
  shown.width = drawn.width * times;
  shown.height = drawn.height * times;
  copy();
  const stream = shown.captureStream(FRAMES_PER_SECOND);
  const recorder = new MediaRecorder(stream, { mimeType, videoBitsPerSecond: BITS_PER_SECOND });
  const parts: Blob[] = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const ended = new Promise<Blob>((done, fail) => {
    recorder.onstop = () => done(new Blob(parts, { type: "video/webm" }));
    recorder.onerror = (event) =>
      fail((event as ErrorEvent).error ?? new Error("the recording stopped"));
  });
  const elapsedSeconds = signal(0);
  const began = performance.now();
  let last = 0;
  let frame = 0;
  const step = (now: number): void => {
    frame = requestAnimationFrame(step);
    if (now - last < 1000 / FRAMES_PER_SECOND - 2) return;
    last = now;
    if (fresh) void draw().then(copy);
    else copy(); // draw the same frame again, so that the video's time advances
    elapsedSeconds.value = Math.floor((performance.now() - began) / 1000);
    if (elapsedSeconds.value >= MAX_SECONDS) onEnd(stop());
  };
  let stopped = false;
  const stop = (): Promise<Blob> => {
    if (!stopped) {
      stopped = true;
      cancelAnimationFrame(frame);
      follow();
      if (recorder.state !== "inactive") recorder.stop();
      for (const track of stream.getTracks()) track.stop();
    }
    return ended;
  };
  recorder.start(1000);
  frame = requestAnimationFrame(step);
  return { elapsedSeconds, stop };
}
