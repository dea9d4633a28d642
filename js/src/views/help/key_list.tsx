// The list of keyboard shortcuts, as a panel.
import { useEffect, useRef } from "preact/hooks";
import { useViews } from "../context.ts";

const KEYBOARD_SHORTCUTS: readonly (readonly [string, string])[] = [
  ["← →", "previous or next layer"],
  ["↑ ↓", "previous or next channel; in the graph, along its lines"],
  ["Space", "play or pause the source"],
  ["Enter", "open the layer; in the graph, a module in place"],
  ["Backspace", "in the graph, close the enclosing module"],
  ["/", "find a layer"],
  ["e", "explain the selected pixel"],
  ["b", "bend the layer"],
  ["a", "hold: show without bends"],
  ["Alt + click", "mute or unmute a channel"],
  ["Ctrl Z", "undo the last bend; with Shift: redo"],
  ["Shift + click", "show up to four channels side by side"],
  ["c", "next colour map"],
  ["r", "range per channel or per layer"],
  ["[ ]", "previous or next example (or picture of the source)"],
  [".", "next picture of the source"],
  ["p", "presentation mode: full window, larger type; p or Esc to leave"],
  ["Esc", "back; press twice to leave the Viewer"],
  ["?", "this list"],
];

export function KeyList() {
  const { isHelpOpen } = useViews();
  const list = useRef<HTMLElement>(null);
  // When it is opened by a key, it may be outside the visible area.
  useEffect(() => {
    if (isHelpOpen.value) list.current?.scrollIntoView({ block: "nearest" });
  }, [isHelpOpen.value]);
  if (!isHelpOpen.value) return null;
  return (
    <section class="nbg-keys" aria-label="Keys" ref={list}>
      <dl>
        {KEYBOARD_SHORTCUTS.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
