import type { SourcePanelProps } from "./panel_props.ts";
// The panel of the webcam: the start button, and the unmodified camera picture.

import { useViews } from "../../../views/context.ts";
import { prefersReducedMotion } from "../local_sources.ts";
import type { WebcamRecord } from "../records.ts";
import { KindIcon } from "./kind_icon.tsx";
import { MediaPreview } from "./media_preview.tsx";
import { startCamera } from "./source_selection.ts";

export function WebcamPanel({ input, source }: SourcePanelProps<WebcamRecord>) {
  const { state } = useViews();
  const { phase, picturesPerSecond } = state.sourceStatus.value;
  const seen = source === null ? null : (state.sourceControls.value?.preview ?? null);
  const on = seen !== null;
  const set = (part: Partial<WebcamRecord>): void => {
    if (source !== null) state.source.value = { ...source, ...part };
  };
  if (source !== null && phase === "elsewhere") return null;
  return (
    <div class="nbg-camera">
      {on ? (
        <MediaPreview
          element={seen}
          mirrored={source?.mirrored ?? false}
          label="The camera’s picture"
        />
      ) : (
        <div class="nbg-empty-picture" aria-hidden="true">
          <KindIcon kind="webcam" />
        </div>
      )}
      <div class="nbg-source-words">
        {on ? (
          <p class="nbg-second">
            {phase === "live" ? `${picturesPerSecond} pictures/s` : "Paused."}
          </p>
        ) : (
          <>
            {phase !== "failed" && <strong>Webcam is off</strong>}
            <p class="nbg-second">
              The browser asks for permission. Pictures stay in this page unless Python reads them.{" "}
              {prefersReducedMotion() &&
                " The camera starts paused, because your system reduces motion."}
            </p>
            <button
              type="button"
              class="nbg-button nbg-main-button"
              disabled={source !== null && phase === "asking"}
              onClick={() => startCamera(state, input)}
            >
              {source !== null && phase === "asking"
                ? "Waiting for permission…"
                : "Start the camera"}
            </button>
          </>
        )}
        {source !== null && (
          <span class="nbg-source-tools">
            <label>
              <input
                type="checkbox"
                checked={source.mirrored}
                onChange={(event) => set({ mirrored: event.currentTarget.checked })}
              />{" "}
              Mirrored
            </label>
            <label>
              <input
                type="checkbox"
                checked={source.faces === "environment"}
                onChange={(event) =>
                  set({ faces: event.currentTarget.checked ? "environment" : "user" })
                }
              />{" "}
              Rear camera
            </label>
          </span>
        )}
      </div>
    </div>
  );
}
