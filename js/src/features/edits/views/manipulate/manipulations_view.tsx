// The "Manipulations" column of the source drawer: bends on the network's input picture, top to bottom.

import { useState } from "preact/hooks";
import { displayStyle } from "../../../../network/display_kind.ts";
import type { Network } from "../../../../network/network.ts";
import type { ColorRange } from "../../../../plan/runtime.ts";
import type { Value } from "../../../../plan/schema.ts";
import { setEdits } from "../../../../state/edits.ts";
import { useViews } from "../../../../views/context.ts";
import { px } from "../../../../views/layout.ts";
import { useColorRange } from "../../../../views/maps.tsx";
import { useReorder } from "../drag_reorder.tsx";
import { editsOfLayer, isBendable, makeBend, notBendableText } from "../edit_operations.ts";
import { useEditStages } from "../session_values.ts";
import { ManipulationRow } from "./manipulation_row.tsx";
import { availableManipulations } from "./manipulations.ts";
import { useOcclusionAtPointer } from "./pointer_occlusion.ts";

/** The manipulations applied to one input, named by its key, before the network reads it. */
export function Manipulations({ network, input }: { network: Network; input: string }) {
  const value = network.values.get(input);
  if (value === undefined) return null;
  return (
    <section class="nbg-manipulate" aria-label="Manipulations">
      {isBendable(value) ? (
        <ManipulationList key={input} network={network} value={value} />
      ) : (
        <p class="nbg-second">{notBendableText(value)}</p>
      )}
    </section>
  );
}

function ManipulationList({ network, value }: { network: Network; value: Value }) {
  const { state } = useViews();
  const { edits } = state.currentEdits.value;
  const own = editsOfLayer(edits, value.key);
  const { list, drag, grip } = useReorder(value.key, 0);
  const [before, ...after] = useEditStages(value, own.length);
  // The range of the unmodified picture, so that a change of brightness is visible.
  const chosen = useColorRange(displayStyle(value).isImage ? (before ?? value) : value);
  const isBytes = state.plan.value?.inputs.some(
    ({ key, dtype }) => key === value.key && dtype === "uint8",
  );
  // A picture with alpha has no selectable range: its values are drawn in the fixed range of a picture.
  const range: ColorRange =
    value.nchw[1] === 4 ? { mode: "fixed", low: 0, high: isBytes ? 255 : 1 } : chosen;
  const [asked, setFollowing] = useState("");
  const following = own.some(({ name, enabled }) => name === asked && enabled) ? asked : "";
  useOcclusionAtPointer(value.key, following);
  const trouble = state.editError.value;
  return (
    <>
      <header class="nbg-manipulate-heading">
        <h3>
          Manipulations <span class="nbg-second">on the GPU, top to bottom</span>
        </h3>
        <AddManipulation value={value} />
      </header>
      {own.length === 0 && (
        <p class="nbg-second">No manipulations. The network receives the unmodified picture.</p>
      )}
      <div class="nbg-manipulate-list">
        <ol ref={list} data-dragged={drag !== null || undefined}>
          {own.map((edit, k) => (
            <ManipulationRow
              key={edit.name}
              network={network}
              edit={edit}
              input={value}
              value={after[k] ?? value}
              range={range}
              rowReorder={grip(edit, k)}
              positionText={`${k + 1} of ${own.length}`}
              isFollowingPointer={following === edit.name}
              setFollowingPointer={(on) => setFollowing(on ? edit.name : "")}
            />
          ))}
        </ol>
        {drag !== null && (
          <span class="nbg-manipulate-line" style={{ "--nb-at": px(drag.dropMarkerY) }} />
        )}
      </div>
      {trouble !== "" && (
        <p class="nbg-bend-trouble" role="alert">
          {trouble}
        </p>
      )}
    </>
  );
}

function AddManipulation({ value }: { value: Value }) {
  const { state } = useViews();
  const [, count, height, width] = value.nchw;
  const all = availableManipulations(count);
  const add = (name: string): void => {
    const one = all.find(({ transform }) => transform === name);
    if (one === undefined) return;
    const { edits } = state.currentEdits.peek();
    const parameters = one.initialParameters?.({ height, width });
    const made = makeBend(edits, value.key, one.kind, null, parameters && { parameters });
    setEdits(state, [...edits, made]);
  };
  return (
    <select
      class="nbg-select"
      aria-label="Add a manipulation"
      value=""
      onChange={(event) => {
        add(event.currentTarget.value);
        event.currentTarget.value = "";
      }}
    >
      <option value="" hidden>
        + Add
      </option>
      {all.map(({ label, transform }) => (
        <option key={transform} value={transform}>
          {label}
        </option>
      ))}
    </select>
  );
}
