// Rows of edits that can be reordered within their layer by drag or by keys.
import { useRef, useState } from "preact/hooks";
import type { Edit } from "../../../plan/edits.ts";
import { setEdits } from "../../../state/edits.ts";
import { useViews } from "../../../views/context.ts";
import { CloseIcon, DragHandleIcon } from "../../../views/icons.tsx";
import { editsOfLayer, moveEdit, removeEdit } from "./edit_operations.ts";

/** A row's callbacks to its list. */
export interface RowReorder {
  startDrag(event: PointerEvent): void;
  moveBy(rowCount: number): void;
  remove(): void;
}

interface ReorderDrag {
  readonly fromIndex: number;
  readonly toIndex: number;
  /** The y position of the drop marker, in CSS pixels of the list. */
  readonly dropMarkerY: number;
}

/** Reordering for the list of a layer's edits: its children are the rows in order, `gap` CSS pixels apart. */
export function useReorder(layer: string, gap: number) {
  const { state, root, zoom } = useViews();
  const list = useRef<HTMLOListElement>(null);
  const [drag, setDrag] = useState<ReorderDrag | null>(null);
  const { edits } = state.currentEdits.value;
  const count = editsOfLayer(edits, layer).length;
  const go = (from: number, to: number): void => {
    if (to < 0 || to >= count || from === to) return;
    setEdits(state, moveEdit(state.currentEdits.peek().edits, layer, from, to));
  };
  const focus = (row: number, selector: string): void => {
    root.focus({ preventScroll: true });
    requestAnimationFrame(() => {
      list.current?.children[row]?.querySelector<HTMLElement>(selector)?.focus();
    });
  };
  const grip = (edit: Edit, fromIndex: number): RowReorder => ({
    startDrag(event) {
      if (event.button !== 0) return;
      const handle = event.currentTarget as HTMLElement;
      handle.setPointerCapture(event.pointerId);
      const around = list.current?.getBoundingClientRect();
      const rows = [...(list.current?.children ?? [])].map((one) => one.getBoundingClientRect());
      let drag: ReorderDrag | null = null;
      const follow = ({ clientY }: PointerEvent): void => {
        if (around === undefined) return;
        // Insert before the first row whose middle is below the pointer.
        const before = rows.findIndex((row) => clientY < (row.top + row.bottom) / 2);
        const at = before < 0 ? rows.length : before;
        const half = gap / 2;
        const edge = before < 0 ? (rows.at(-1)?.bottom ?? 0) + half : (rows[at]?.top ?? 0) - half;
        const toIndex = at > fromIndex ? at - 1 : at;
        drag = { fromIndex, toIndex, dropMarkerY: (edge - around.top) / zoom.peek() };
        setDrag(drag);
      };
      const end = (up: PointerEvent): void => {
        handle.removeEventListener("pointermove", follow);
        for (const type of ["pointerup", "pointercancel"] as const) {
          handle.removeEventListener(type, end);
        }
        setDrag(null);
        if (up.type === "pointerup" && drag !== null) go(drag.fromIndex, drag.toIndex);
      };
      handle.addEventListener("pointermove", follow);
      handle.addEventListener("pointerup", end);
      handle.addEventListener("pointercancel", end);
    },
    moveBy(by) {
      go(fromIndex, fromIndex + by);
      focus(Math.min(Math.max(fromIndex + by, 0), count - 1), ".nbg-grip");
    },
    remove() {
      setEdits(state, removeEdit(state.currentEdits.peek().edits, edit.name));
      // Focus the next row; the undo key needs the focus inside the view.
      focus(Math.min(fromIndex, count - 2), ".nbg-bend-remove");
    },
  });
  return { list, drag, grip };
}

/** A row's drag handle. */
export function DragHandle(props: {
  editLabel: string;
  positionText: string;
  rowReorder: RowReorder;
}) {
  const { editLabel, positionText, rowReorder } = props;
  return (
    <button
      type="button"
      class="nbg-grip"
      aria-label={`Move ${editLabel}, ${positionText}`}
      aria-keyshortcuts="Alt+ArrowUp Alt+ArrowDown"
      title="drag, or Alt+↑ and Alt+↓"
      onPointerDown={rowReorder.startDrag}
      onKeyDown={(event) => {
        const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
        if (by === undefined || !event.altKey) return;
        event.preventDefault();
        rowReorder.moveBy(by);
      }}
    >
      <DragHandleIcon />
    </button>
  );
}

/** Remove an edit's row; an injected or frozen value is released. */
export function RemoveButton(props: {
  editLabel: string;
  isRemovedBend: boolean;
  rowReorder: RowReorder;
}) {
  const { editLabel, isRemovedBend, rowReorder } = props;
  return (
    <button
      type="button"
      class="nbg-bend-remove"
      aria-label={isRemovedBend ? `Remove ${editLabel}` : `Release: end ${editLabel.toLowerCase()}`}
      title={isRemovedBend ? "Remove" : "Release"}
      onClick={rowReorder.remove}
    >
      <CloseIcon />
    </button>
  );
}
