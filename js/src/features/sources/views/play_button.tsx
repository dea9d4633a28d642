// The play button at the left of the bar: plays or pauses the source.
import { useLayoutEffect } from "preact/hooks";
import type { ViewerState } from "../../../state.ts";
import { useViews, type Views } from "../../../views/context.ts";
import { PauseIcon, PlayIcon } from "../../../views/icons.tsx";
import { PAGE_LOCAL_KINDS } from "../records.ts";
import { canPlay, sourceKindOfFile } from "../source_kinds.ts";
import { selectedInput, startFromFile } from "./source_selection.ts";

/** Play or pause the source. Returns whether there is a source that can play. */
export function togglePlaying({ source, sourceControls, sourceStatus }: ViewerState): boolean {
  const now = source.peek();
  if (now === null || !canPlay(now) || sourceStatus.peek().phase === "elsewhere") return false;
  const off = ["waiting", "failed"].includes(sourceStatus.peek().phase);
  if (off && !(now.playing && !PAGE_LOCAL_KINDS.includes(now.kind))) sourceControls.peek()?.start();
  else source.value = { ...now, playing: !now.playing };
  return true;
}

/** Elements with a space bar action of their own. */
const SPACE_BAR_TARGETS =
  "button, input, select, textarea, summary, a, video, [role=option], [role=tab]";

/** Keys for the next and the previous picture. */
const STEP_KEYS: Readonly<Record<string, 1 | -1>> = { ".": 1, "]": 1, "[": -1 };

function addListeners(views: Views): () => void {
  const { root, state } = views;
  const onKey = (event: KeyboardEvent): void => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === " ") {
      const own = target instanceof Element && target.closest(SPACE_BAR_TARGETS) !== null;
      if (!own && !event.defaultPrevented && togglePlaying(state)) event.preventDefault();
      return;
    }
    const by = STEP_KEYS[key];
    const types = target instanceof Element && target.closest("input, select, textarea") !== null;
    if (by !== undefined && !types) state.sourceControls.peek()?.step(by);
  };
  const onPaste = (event: ClipboardEvent): void => {
    const { target } = event;
    if (target instanceof Element && target.closest("input, textarea") !== null) return;
    const file = event.clipboardData?.files[0];
    const input = selectedInput(state, "");
    if (file === undefined || input === undefined || input.fit === "") return;
    if (sourceKindOfFile(file) === undefined) return;
    event.preventDefault();
    startFromFile(state, input, file);
  };
  root.addEventListener("keydown", onKey);
  root.addEventListener("paste", onPaste);
  return () => {
    root.removeEventListener("keydown", onKey);
    root.removeEventListener("paste", onPaste);
  };
}

export function PlayPauseButton() {
  const views = useViews();
  const { state } = views;
  useLayoutEffect(() => addListeners(views), [views]);
  const source = state.source.value;
  const { phase } = state.sourceStatus.value;
  if (source === null || !canPlay(source) || phase === "elsewhere") return null;
  const on = source.playing && (phase === "live" || phase === "still" || phase === "asking");
  return (
    <button
      type="button"
      class="nbg-button nbg-square nbg-playing"
      aria-label={on ? "Pause the source" : "Play the source"}
      title={on ? "Pause (Space)" : "Play (Space)"}
      onClick={() => togglePlaying(state)}
    >
      {on ? <PauseIcon /> : <PlayIcon />}
    </button>
  );
}
