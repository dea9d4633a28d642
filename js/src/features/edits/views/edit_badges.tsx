// Badges for bends in other views: a mark at a bent layer, a pill in the bar, a word in the status line.
import type { Edit } from "../../../plan/edits.ts";
import type { Layer } from "../../../plan/schema.ts";
import { activeEdits, setEdits } from "../../../state/edits.ts";
import { useViews } from "../../../views/context.ts";
import { CurveIcon } from "../../../views/icons.tsx";
import { editTitle } from "./edit_operations.ts";

/** Group edits by layer, in the order of each layer's first edit. */
function groupByLayer(edits: readonly Edit[]): ReadonlyMap<string, readonly Edit[]> {
  const found = new Map<string, Edit[]>();
  for (const one of edits) found.set(one.layer, [...(found.get(one.layer) ?? []), one]);
  return found;
}

/**
 * The badge beside a layer's name; on the Network tab, beside a stage or collapsed module that contains a bent layer.
 */
export function EditBadge({ layer, layers }: { layer: string; layers?: readonly Layer[] }) {
  const { network, state } = useViews();
  const bent = groupByLayer(activeEdits(state.currentEdits.value.edits));
  if (bent.size === 0) return null;
  const stage =
    state.tab.value === "network"
      ? network.value?.stages.find(({ layers }) => layers.some(({ name }) => name === layer))
      : undefined;
  const names = (layers ?? stage?.layers)?.map(({ name }) => name) ?? [layer];
  const said = names.flatMap((name) => {
    const own = bent.get(name)?.map((edit) => editTitle(edit).toLowerCase()) ?? [];
    return own.length === 0 ? [] : [name === layer ? own.join(", ") : `${name} ${own.join(", ")}`];
  });
  if (said.length === 0) return null;
  const words = `bent: ${said.join("; ")}`;
  return (
    <span class="nbg-bent" role="img" aria-label={words} title={words} data-bent={layer}>
      <CurveIcon />
    </span>
  );
}

/** A pill such as "2 bends on decoder.5" that opens the bends. */
export function EditPill() {
  const { state } = useViews();
  const bent = groupByLayer(activeEdits(state.currentEdits.value.edits));
  const count = [...bent.values()].reduce((sum, own) => sum + own.length, 0);
  const layer = [...bent.keys()].at(-1);
  if (layer === undefined) return null;
  const where = bent.size === 1 ? layer : `${bent.size} layers`;
  return (
    <button
      type="button"
      class="nbg-pill nbg-bent-pill"
      title={`${[...bent.keys()].join(", ")}: open the bends`}
      onClick={() => {
        state.selected.value = { layer, channel: null };
        state.layerSection.value = "bend";
        state.tab.value = "layer";
      }}
    >
      <CurveIcon /> {count} {count === 1 ? "bend" : "bends"} on {where}
    </button>
  );
}

/** The status line's word with a button that removes all edits; this can be undone. */
export function EditStatus() {
  const { state, root } = useViews();
  if (activeEdits(state.currentEdits.value.edits).length === 0) return null;
  return (
    <span class="nbg-bent-word">
      <strong class="nbg-mine">
        {state.areEditsBypassed.value ? "shown without bends" : "bent"}
      </strong>
      <button
        type="button"
        class="nbg-second nbg-underlined"
        title="removes all bends; can be undone"
        onClick={() => {
          root.focus({ preventScroll: true }); // the button disappears; undo needs the focus
          setEdits(state, []);
        }}
      >
        Remove all
      </button>
    </span>
  );
}
