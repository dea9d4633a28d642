// The panel of a video source: its frame, its position, and whether it loops.
import { useLayoutEffect, useState } from "preact/hooks";
import { useViews } from "../../../views/context.ts";
import { PauseIcon, PlayIcon } from "../../../views/icons.tsx";
import type { VideoRecord } from "../records.ts";
import { MediaPreview } from "./media_preview.tsx";
import type { SourcePanelProps } from "./panel_props.ts";
import { FilePicker } from "./picture_panel.tsx";
import { togglePlaying } from "./play_button.tsx";

/** Format seconds as m:ss, such as 1:05. */
const formatTime = (seconds: number): string =>
  `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

export function VideoPanel({ input, source }: SourcePanelProps<VideoRecord>) {
  const { state } = useViews();
  const { video: film = null, preview = null } = (source && state.sourceControls.value) ?? {};
  const [now, setNow] = useState(0);
  useLayoutEffect(() => {
    const follow = (): void => setNow(film?.currentTime ?? 0);
    const events = ["timeupdate", "seeked", "durationchange"];
    for (const name of events) film?.addEventListener(name, follow);
    follow();
    return () => {
      for (const name of events) film?.removeEventListener(name, follow);
    };
  }, [film]);
  if (source !== null && state.sourceStatus.value.phase === "elsewhere") return null;
  const length = film !== null && Number.isFinite(film.duration) ? film.duration : 0;
  return (
    <div class="nbg-film">
      {film !== null && preview !== null && source !== null && (
        <>
          <MediaPreview element={preview} mirrored={source.mirrored} label="The video" />
          <span class="nbg-source-tools">
            <button
              type="button"
              class="nbg-button nbg-square"
              aria-label={source.playing ? "Pause the video" : "Play the video"}
              onClick={() => togglePlaying(state)}
            >
              {source.playing ? <PauseIcon /> : <PlayIcon />}
            </button>
            <input
              type="range"
              min={0}
              max={length}
              step={0.04}
              value={now}
              aria-label="Position in the video"
              aria-valuetext={`${formatTime(now)} of ${formatTime(length)}`}
              onInput={(event) => {
                film.currentTime = Number(event.currentTarget.value);
              }}
            />
            <span class="nbg-second">
              {formatTime(now)} of {formatTime(length)}
            </span>
            <label>
              <input
                type="checkbox"
                defaultChecked={film.loop}
                onChange={(event) => {
                  film.loop = event.currentTarget.checked;
                }}
              />{" "}
              Loop
            </label>
          </span>
        </>
      )}
      {source !== null &&
        film === null &&
        state.sourceStatus.value.phase === "waiting" &&
        source.data !== "" && (
          <p class="nbg-second" role="status">
            Loading the video from Python…
          </p>
        )}
      <FilePicker input={input} fileKind="video" accept="video/*" />
    </div>
  );
}
