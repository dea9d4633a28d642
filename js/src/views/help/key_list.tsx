// The list of keys, as a room.
import { useEffect, useRef } from "preact/hooks";
import { useViews } from "../context.ts";

const KEYS: readonly (readonly [string, string])[] = [
  ["← →", "the layer before, the layer after"],
  ["↑ ↓", "the channel before, the channel after; in the graph, along its lines"],
  ["Space", "let the source go on, or pause it"],
  ["Enter", "open the layer; in the graph, a module in place"],
  ["Backspace", "in the graph, close the module around"],
  ["/", "find a layer"],
  ["e", "explain the selected pixel"],
  ["b", "bend the layer"],
  ["a", "while it is held, without bends"],
  ["Alt and a click", "mute a channel, or no longer"],
  ["Ctrl Z", "undo the last bend; with Shift, redo it"],
  ["Shift and a click", "show up to four channels beside each other"],
  ["c", "next colour map"],
  ["r", "range of each channel, or of the layer"],
  ["[ ]", "the example before, the example after; of a source, its pictures"],
  [".", "the source’s next picture"],
  ["p", "for a projector: the whole window, larger type; p or Esc leads back"],
  ["Esc", "back; twice leaves the Viewer"],
  ["?", "this list"],
];

export function KeyList() {
  const { isHelpOpen } = useViews();
  const list = useRef<HTMLElement>(null);
  // Asked for by a key, it may be out of sight.
  useEffect(() => {
    if (isHelpOpen.value) list.current?.scrollIntoView({ block: "nearest" });
  }, [isHelpOpen.value]);
  if (!isHelpOpen.value) return null;
  return (
    <section class="nbg-keys" aria-label="Keys" ref={list}>
      <dl>
        {KEYS.map(([key, text]) => (
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
