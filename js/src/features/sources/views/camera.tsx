import type { PartProps } from "./part.ts";
// The webcam: the button that starts it, and its picture as it is.

import { useViews } from "../../../views/context.ts";
import { isStill } from "../page_sources.ts";
import type { WebcamRecord } from "../records.ts";
import { startCamera } from "./choose.ts";
import { KindIcon } from "./kind_icon.tsx";
import { Shown } from "./shown.tsx";

export function CameraPart({ input, source }: PartProps<WebcamRecord>) {
  const { state } = useViews();
  const { phase, rate } = state.sourceStatus.value;
  const seen = source === null ? null : (state.controls.value?.seen ?? null);
  const on = seen !== null;
  const set = (part: Partial<WebcamRecord>): void => {
    if (source !== null) state.source.value = { ...source, ...part };
  };
  if (source !== null && phase === "elsewhere") return null;
  return (
    <div class="nbg-camera">
      {on ? (
        <Shown element={seen} mirrored={source?.mirrored ?? false} label="The camera’s picture" />
      ) : (
        <div class="nbg-empty-picture" aria-hidden="true">
          <KindIcon kind="webcam" />
        </div>
      )}
      <div class="nbg-source-words">
        {on ? (
          <p class="nbg-second">{phase === "live" ? `${rate} pictures/s` : "Paused."}</p>
        ) : (
          <>
            {phase !== "failed" && <strong>Webcam is off</strong>}
            <p class="nbg-second">
              The browser asks before it starts. Pictures stay in this page, but for those that
              Python reads.
              {isStill() && " It begins paused, as you want little to move."}
            </p>
            <button
              type="button"
              class="nbg-button nbg-main-button"
              disabled={source !== null && phase === "asking"}
              onClick={() => startCamera(state, input)}
            >
              {source !== null && phase === "asking" ? "The browser asks you" : "Start the camera"}
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
              The camera at the back
            </label>
          </span>
        )}
      </div>
    </div>
  );
}
