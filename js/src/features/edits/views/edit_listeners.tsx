// Listeners for bends in every view: keys, and Alt-click to mute a channel.
import { useLayoutEffect } from "preact/hooks";
import { redoEdits, setEdits, undoEdits } from "../../../state/edits.ts";
import { type Hover, useViews, type Views } from "../../../views/context.ts";
import { isBendable, notBendableText, toggleMute } from "./edit_operations.ts";

export function EditListeners() {
  const views = useViews();
  useLayoutEffect(() => addListeners(views), [views]);
  return null;
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  target.closest("textarea, select, input:not([type=range], [type=checkbox])") !== null;
/** In a field with unsaved text, Ctrl+Z is the browser's own undo. */
const isDraftField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest("[data-draft], [type=search], textarea") !== null;

const isUndo = (event: KeyboardEvent): boolean =>
  (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "z";
const isReorder = (event: KeyboardEvent): boolean =>
  event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown");

/**
 * The channel at a target: from its data-channel attribute if it is no picture, else from the picture under the
 * pointer.
 */
function channelAt(target: Element, hover: Hover | null) {
  const one = target.closest<HTMLElement>("[data-channel]");
  if (one !== null) return { key: one.dataset.of ?? "", channel: Number(one.dataset.channel) };
  if (hover?.element.contains(target) !== true) return null;
  const [channel, ...more] = hover.channels;
  return channel === undefined || more.length > 0 ? null : { key: hover.value.key, channel };
}

function addListeners(views: Views): () => void {
  const { root, state, hover } = views;
  const inside = (event: Event): boolean =>
    event.target instanceof Node && root.contains(event.target);

  // As in keyboard.ts: JupyterLab listens on the document in the capture phase.
  const before = (event: KeyboardEvent): void => {
    if (inside(event) && (isUndo(event) || isReorder(event))) {
      root.toggleAttribute("data-lm-suppress-shortcuts", true);
    }
  };
  const down = (event: KeyboardEvent): void => {
    if (isUndo(event) && !isDraftField(event.target)) {
      event.preventDefault();
      event.stopPropagation();
      (event.shiftKey ? redoEdits : undoEdits)(state);
      return;
    }
    const plain = !(event.ctrlKey || event.metaKey || event.altKey || event.shiftKey);
    if (!plain || isTyping(event.target)) return;
    if (event.key === "a" && state.tab.peek() !== "compare") state.areEditsBypassed.value = true;
    if (event.key === "b" && state.tab.peek() !== "compare") {
      event.preventDefault();
      root.focus({ preventScroll: true });
      state.layerSection.value = "bend";
      state.tab.value = "layer";
    }
  };
  const release = (): void => {
    state.areEditsBypassed.value = false;
  };
  const up = (event: KeyboardEvent): void => {
    if (event.key.toLowerCase() === "a") release();
  };
  const click = (event: MouseEvent): void => {
    const at = event.altKey ? channelAt(event.target as Element, hover.peek()) : null;
    if (at === null) return;
    const { key, channel } = at;
    event.preventDefault();
    event.stopPropagation();
    const value = views.network.peek()?.values.get(key);
    if (value === undefined) return;
    const possible = isBendable(value);
    state.editError.value = possible ? "" : notBendableText(value);
    if (possible) setEdits(state, toggleMute(state.currentEdits.peek().edits, value.key, channel));
  };

  window.addEventListener("keydown", before, true);
  root.addEventListener("keydown", down);
  root.addEventListener("keyup", up);
  root.addEventListener("focusout", release);
  root.addEventListener("click", click, true);
  window.addEventListener("blur", release);
  return () => {
    window.removeEventListener("keydown", before, true);
    root.removeEventListener("keydown", down);
    root.removeEventListener("keyup", up);
    root.removeEventListener("focusout", release);
    root.removeEventListener("click", click, true);
    window.removeEventListener("blur", release);
    release();
  };
}
