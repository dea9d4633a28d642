// One edit of the stack: its drag handle, its switch, its parameters, its channels.
import { useState } from "preact/hooks";
import { type Edit, GLSL, TRANSFORMS } from "../../../plan/edits.ts";
import type { Value } from "../../../plan/schema.ts";
import { setEdits } from "../../../state/edits.ts";
import { useViews } from "../../../views/context.ts";
import { bendViewState } from "./channel_selection.ts";
import { DragHandle, RemoveButton, type RowReorder } from "./drag_reorder.tsx";
import {
  channelCountText,
  editTitle,
  isBend,
  MIX_PARAMETER,
  parametersOf,
  updateEdit,
  updateParameter,
} from "./edit_operations.ts";
import { NumberControl } from "./number_control.tsx";

export function BendRow(props: {
  edit: Edit;
  value: Value;
  rowReorder: RowReorder;
  positionText: string;
}) {
  const { edit, value, rowReorder, positionText } = props;
  const { state } = useViews();
  const { editedBendName } = bendViewState(state);
  const [troubles, setTroubles] = useState<Readonly<Record<string, string>>>({});
  const { name, transform, channels, enabled, mix } = edit;
  const called = editTitle(edit);
  const own = name === transform ? "" : name;
  const numbers = isBend(edit) ? parametersOf(edit) : [];
  const edits = () => state.currentEdits.peek().edits;
  const say = (what: string) => (text: string) => setTroubles((old) => ({ ...old, [what]: text }));
  const trouble = Object.entries(troubles).filter(([, text]) => text !== "");
  const says = TRANSFORMS.find((one) => one.name === transform)?.says ?? edit.source;
  const count = channelCountText(channels, value.nchw[1]);
  return (
    <li class={enabled ? "nbg-bend-row" : "nbg-bend-row nbg-off"} data-bend={name}>
      <DragHandle editLabel={called} positionText={positionText} rowReorder={rowReorder} />
      <label class="nbg-bend-name" title={says}>
        <input
          type="checkbox"
          checked={enabled}
          onChange={(event) => {
            setEdits(state, updateEdit(edits(), name, { enabled: event.currentTarget.checked }));
          }}
        />
        <strong>{called}</strong>
        {own !== "" && (
          <code class="nbg-second" title={own}>
            {own}
          </code>
        )}
      </label>
      <span class="nbg-bend-numbers">
        {numbers.map((parameter, k) => (
          <NumberControl
            key={parameter.name}
            parameter={parameter}
            value={edit.parameters[k] ?? 0}
            ownerLabel={called}
            setValue={(number, step) =>
              setEdits(state, updateParameter(edits(), edit, k, number), step)
            }
            reportError={say(parameter.name)}
          />
        ))}
        {isBend(edit) && (
          <NumberControl
            parameter={MIX_PARAMETER}
            value={mix}
            ownerLabel={called}
            setValue={(number, step) =>
              setEdits(state, updateEdit(edits(), name, { mix: number }), step)
            }
            reportError={say("mix")}
          />
        )}
        {transform === GLSL && <code class="nbg-second nbg-bend-source">{edit.source}</code>}
      </span>
      {isBend(edit) ? (
        <button
          type="button"
          class="nbg-pill"
          aria-pressed={editedBendName.value === name}
          aria-label={`Channels of ${called}: ${count}`}
          title={
            editedBendName.value === name ? "done" : "show and change these channels in the grid"
          }
          onClick={() => {
            editedBendName.value = editedBendName.peek() === name ? "" : name;
          }}
        >
          {count}
        </button>
      ) : (
        <span class="nbg-pill">{count}</span>
      )}
      <RemoveButton editLabel={called} isRemovedBend={isBend(edit)} rowReorder={rowReorder} />
      {trouble.length > 0 && (
        <p class="nbg-bend-trouble" role="alert">
          {trouble.map(([what, text]) => `${what}: ${text}`).join(" ")}
        </p>
      )}
    </li>
  );
}
