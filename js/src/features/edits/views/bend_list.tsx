// The list of a layer's edits from top to bottom, with links to edits of other layers.
import type { Edit } from "../../../plan/edits.ts";
import type { Value } from "../../../plan/schema.ts";
import { useViews } from "../../../views/context.ts";
import { px } from "../../../views/layout.ts";
import { BendRow } from "./bend_row.tsx";
import { useReorder } from "./drag_reorder.tsx";
import { editsOfLayer, editTitle } from "./edit_operations.ts";

/** CSS pixels between rows. */
const ROW_GAP = 8;

export function BendList({ value }: { value: Value }) {
  const { state } = useViews();
  const { edits } = state.currentEdits.value;
  const own = editsOfLayer(edits, value.key);
  const others = edits.filter(({ layer }) => layer !== value.key);
  const { list, drag, grip } = useReorder(value.key, ROW_GAP);
  const trouble = state.editError.value;
  return (
    <section class="nbg-bend-stack" aria-label="Bends, top to bottom">
      <header class="nbg-bend-heading">
        <h3>Bends, top to bottom</h3>
        <span class="nbg-second nbg-wide">changes show at once</span>
      </header>
      {own.length === 0 && (
        <p class="nbg-second">
          No bends. Select channels (none selected: all channels), then choose a transform below.
        </p>
      )}
      <ol class="nbg-bend-rows" ref={list} data-dragged={drag !== null || undefined}>
        {own.map((edit, k) => (
          <BendRow
            key={edit.name}
            edit={edit}
            value={value}
            rowReorder={grip(edit, k)}
            positionText={`${k + 1} of ${own.length}`}
          />
        ))}
      </ol>
      {drag !== null && <span class="nbg-bend-line" style={{ "--nb-at": px(drag.dropMarkerY) }} />}
      {trouble !== "" && (
        <p class="nbg-bend-trouble" role="alert">
          {trouble}
        </p>
      )}
      {others.length > 0 && <OtherBends edits={others} />}
    </section>
  );
}

function OtherBends({ edits }: { edits: readonly Edit[] }) {
  const { state } = useViews();
  return (
    <p class="nbg-bend-others">
      <span class="nbg-second">other bends:</span>
      {edits.map((edit) => (
        <button
          type="button"
          key={edit.name}
          class={edit.enabled ? "nbg-underlined" : "nbg-underlined nbg-second"}
          onClick={() => {
            state.selected.value = { layer: edit.layer, channel: null };
          }}
        >
          {edit.layer} {editTitle(edit).toLowerCase()}
        </button>
      ))}
    </p>
  );
}
