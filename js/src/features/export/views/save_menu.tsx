// The save button and its menu: pictures of the whole view and of single maps, a video of the output.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { channelCount, contentsText } from "../../../network/display_kind.ts";
import type { Value } from "../../../plan/schema.ts";
import { useViews, type Views } from "../../../views/context.ts";
import { useColorRange } from "../../../views/maps.tsx";
import { takeScreenshot as screenshotOf } from "../../../views/screen/screenshot.ts";
import { canvasToPng, fileName, saveFile } from "./file_saving.ts";
import {
  isPicture,
  type Recording,
  type RecordingSubject,
  startRecording,
  webmType,
} from "./video_recording.ts";

/** Minimum side in CSS pixels of pictures in the menu, and their maximum number. */
const MIN_PICTURE_SIDE = 120;
const MAX_PICTURES = 6;

const shownLayer = ({ state }: Views): string =>
  state.tab.value === "layer" ? (state.selected.value?.layer ?? "") : "";

/** The large canvases in the view that show one map or image, by label. */
function findPictures(root: HTMLElement): [string, HTMLCanvasElement][] {
  const found = new Map<string, HTMLCanvasElement>();
  const all = root.querySelectorAll<HTMLCanvasElement>('canvas[data-maps][data-channels="1"]');
  for (const canvas of all) {
    const { width, height } = canvas.getBoundingClientRect();
    const label = canvas.getAttribute("aria-label") ?? "";
    const large = Math.max(width, height) >= MIN_PICTURE_SIDE && canvas.dataset.drawn !== undefined;
    if (large && label !== "" && !found.has(label)) found.set(label, canvas);
  }
  return [...found].slice(0, MAX_PICTURES);
}

export function SaveMenu() {
  const views = useViews();
  const { state, root, network } = views;
  const [open, setOpen] = useState(false);
  const [recording, setRecording] = useState<Recording | null>(null);
  const [trouble, setTrouble] = useState("");
  const place = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const name = useRef("");
  const live = useRef<Recording | null>(null);
  live.current = recording;

  /** Show an error in the menu where the action was started. */
  const reportError = (error: unknown): void => {
    setTrouble(error instanceof Error ? error.message : String(error));
    setOpen(true);
  };
  const write = (video: Promise<Blob>): void => {
    setRecording(null);
    video.then((blob) => saveFile(blob, name.current)).catch(reportError);
  };
  const stop = (): void => {
    if (recording !== null) write(recording.stop());
  };
  // Save the recording when the view unmounts.
  useEffect(
    () => () => {
      live.current
        ?.stop()
        .then((blob) => saveFile(blob, name.current))
        .catch(() => undefined);
    },
    [],
  );
  // Layout effect: Esc may be pressed before the next paint.
  useLayoutEffect(() => {
    if (!open) return;
    const outside = (event: Event): void => {
      if (!event.composedPath().includes(place.current as EventTarget)) setOpen(false);
    };
    const leave = (event: KeyboardEvent): void => {
      if (event.key !== "Escape") return;
      event.stopPropagation(); // Esc does nothing else
      setOpen(false);
      button.current?.focus({ preventScroll: true });
    };
    const page = root.ownerDocument;
    page.addEventListener("pointerdown", outside, true);
    page.addEventListener("keydown", leave, true);
    return () => {
      page.removeEventListener("pointerdown", outside, true);
      page.removeEventListener("keydown", leave, true);
    };
  }, [open, root]);

  const model = state.plan.value?.name ?? "viewer";
  const done = (): void => {
    setTrouble("");
    setOpen(false);
    button.current?.focus({ preventScroll: true });
  };
  const saveView = async (): Promise<void> => {
    done();
    // Close the menu first: it must not appear in the picture.
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    await views.painter.drawAll();
    const sheet = root.previousElementSibling?.textContent ?? "";
    const png = await screenshotOf(root, sheet);
    const layer = shownLayer(views);
    saveFile(
      new Blob([png], { type: "image/png" }),
      fileName([model, layer || state.tab.value], "png"),
    );
  };
  const savePicture = async (label: string, canvas: HTMLCanvasElement): Promise<void> => {
    const blob = await canvasToPng(canvas);
    saveFile(blob, fileName([model, label], "png"));
    done();
  };
  const onStart = async (subject: RecordingSubject): Promise<void> => {
    const { value, channel } = subject;
    const of = channel === null ? [model, value.key] : [model, value.key, `channel ${channel}`];
    name.current = fileName(of, "webm");
    setRecording(await startRecording(views, subject, write));
    done();
  };

  const now = network.value;
  if (now === null || state.session.value === null) return null;
  const layer = now.values.get(shownLayer(views));
  const channel = state.selected.value?.channel ?? 0;
  const outputs = now.outputs.filter(isPicture).slice(0, 2);
  return (
    <div ref={place} class="nbg-save">
      {recording !== null ? (
        <StopRecordingButton recording={recording} stop={stop} />
      ) : (
        <button
          ref={button}
          type="button"
          class="nbg-button"
          aria-expanded={open}
          title="Save a picture of the view or a video of the output"
          onClick={() => {
            setTrouble("");
            setOpen(!open);
          }}
        >
          Save
        </button>
      )}
      {open && (
        <div class="nbg-save-menu" role="group" aria-label="Save">
          <MenuItem label="Picture of this view" onSelect={() => saveView().catch(reportError)} />
          {findPictures(root).map(([label, canvas]) => (
            <MenuItem
              key={label}
              label={`Picture: ${label}`}
              onSelect={() => savePicture(label, canvas).catch(reportError)}
            />
          ))}
          {webmType() === undefined ? (
            <p class="nbg-second">
              This browser can’t record WebM video. Save a picture of the view or of one map
              instead.
            </p>
          ) : (
            <>
              {outputs.map((value) => (
                <RecordItem key={value.key} {...{ value, onStart, reportError }} channel={null} />
              ))}
              {layer !== undefined && isPicture(layer) && channelCount(layer) > 1 && (
                <RecordItem {...{ channel, onStart, reportError }} value={layer} />
              )}
            </>
          )}
          {trouble !== "" && (
            <p class="nbg-bad" role="alert">
              {trouble}
            </p>
          )}
        </div>
      )}
    </div>
  );
}

function MenuItem({ label, onSelect }: { label: string; onSelect: () => void }) {
  return (
    <button type="button" onClick={onSelect}>
      {label}
    </button>
  );
}

/** A menu item that starts a video with the value's current colours. */
function RecordItem(props: {
  value: Value;
  channel: number | null;
  onStart: (subject: RecordingSubject) => Promise<void>;
  reportError: (error: unknown) => void;
}) {
  const { value, channel, onStart, reportError } = props;
  const range = useColorRange(value);
  const what =
    channel === null ? `the output, ${contentsText(value)}` : `channel ${channel} of ${value.key}`;
  return (
    <MenuItem
      label={`Record ${what}`}
      onSelect={() => void onStart({ value, channel, range }).catch(reportError)}
    />
  );
}

/** The stop button: a red dot and the elapsed seconds. */
function StopRecordingButton({ recording, stop }: { recording: Recording; stop: () => void }) {
  const seconds = recording.elapsedSeconds.value;
  const time = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  return (
    <button
      type="button"
      class="nbg-button nbg-recording"
      aria-label="Stop recording and save the video"
      title="Stop recording and save the video"
      onClick={stop}
    >
      <span class="nbg-recording-dot" aria-hidden="true" />
      <span aria-hidden="true">{time}</span> Stop
    </button>
  );
}
