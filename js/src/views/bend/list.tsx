// The edits of a layer from top to bottom, and those of other layers as links.
import { useRef, useState } from "preact/hooks";
import type { Edit } from "../../edits.ts";
import type { Value } from "../../plan.ts";
import { change } from "../../state/edits.ts";
import { useViews } from "../context.ts";
import { px } from "../layout.ts";
import { type Grip, Row } from "./row.tsx";
import { calledOf, moved, ofLayer, without } from "./stack.ts";

interface Drag {
  readonly from: number;
  readonly to: number;
  /** Where a line says that it would stand, in CSS pixels of the list. */
  readonly line: number;
}

export function StackList({ value }: { value: Value }) {
  const { state, root, zoom } = useViews();
  const list = useRef<HTMLOListElement>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const { edits } = state.edited.value;
  const own = ofLayer(edits, value.key);
  const others = edits.filter(({ layer }) => layer !== value.key);
  const go = (from: number, to: number): void => {
    if (to < 0 || to >= own.length || from === to) return;
    change(state, moved(state.edited.peek().edits, value.key, from, to));
  };
  const focus = (selector: string): void => {
    root.focus({ preventScroll: true });
    requestAnimationFrame(() => root.querySelector<HTMLElement>(selector)?.focus());
  };
  const grip = (edit: Edit, from: number): Grip => ({
    begin(event) {
      if (event.button !== 0) return;
      const handle = event.currentTarget as HTMLElement;
      handle.setPointerCapture(event.pointerId);
      const around = list.current?.getBoundingClientRect();
      const rows = [...(list.current?.children ?? [])].map((one) => one.getBoundingClientRect());
      let drag: Drag | null = null;
      const follow = ({ clientY }: PointerEvent): void => {
        if (around === undefined) return;
        // Before the first row whose middle is below the pointer.
        const before = rows.findIndex((row) => clientY < (row.top + row.bottom) / 2);
        const at = before < 0 ? rows.length : before;
        const edge = before < 0 ? (rows.at(-1)?.bottom ?? 0) + 4 : (rows[at]?.top ?? 0) - 4;
        const to = at > from ? at - 1 : at;
        drag = { from, to, line: (edge - around.top) / zoom.peek() };
        setDrag(drag);
      };
      const end = (up: PointerEvent): void => {
        handle.removeEventListener("pointermove", follow);
        for (const type of ["pointerup", "pointercancel"] as const) {
          handle.removeEventListener(type, end);
        }
        setDrag(null);
        if (up.type === "pointerup" && drag !== null) go(drag.from, drag.to);
      };
      handle.addEventListener("pointermove", follow);
      handle.addEventListener("pointerup", end);
      handle.addEventListener("pointercancel", end);
    },
    move(by) {
      go(from, from + by);
      focus(`[data-bend="${CSS.escape(edit.name)}"] .nbg-grip`);
    },
    remove() {
      change(state, without(state.edited.peek().edits, edit.name));
      // To the next one; undo by a key is for whoever has the focus here.
      focus(`.nbg-bend-row:nth-child(${Math.min(from + 1, own.length - 1)}) .nbg-bend-remove`);
    },
  });
  const trouble = state.editTrouble.value;
  return (
    <section class="nbg-bend-stack" aria-label="Bends, top to bottom">
      <header class="nbg-bend-heading">
        <h3>Bends, top to bottom</h3>
        <span class="nbg-second nbg-wide">a change shows on the next frame</span>
      </header>
      {own.length === 0 && (
        <p class="nbg-second">
          None yet. Pick channels, then a transform below; without any picked it bends all.
        </p>
      )}
      <ol class="nbg-bend-rows" ref={list} data-dragged={drag !== null || undefined}>
        {own.map((edit, k) => (
          <Row
            key={edit.name}
            edit={edit}
            value={value}
            grip={grip(edit, k)}
            place={`${k + 1} of ${own.length}`}
          />
        ))}
      </ol>
      {drag !== null && <span class="nbg-bend-line" style={{ "--nb-at": px(drag.line) }} />}
      {trouble !== "" && (
        <p class="nbg-bend-trouble" role="alert">
          {trouble}
        </p>
      )}
      {others.length > 0 && <Others edits={others} />}
    </section>
  );
}

function Others({ edits }: { edits: readonly Edit[] }) {
  const { state } = useViews();
  return (
    <p class="nbg-bend-others">
      <span class="nbg-second">also bent:</span>
      {edits.map((edit) => (
        <button
          type="button"
          key={edit.name}
          class={edit.enabled ? "nbg-underlined" : "nbg-underlined nbg-second"}
          onClick={() => {
            state.selected.value = { layer: edit.layer, channel: null };
          }}
        >
          {edit.layer} {calledOf(edit).toLowerCase()}
        </button>
      ))}
    </p>
  );
}
