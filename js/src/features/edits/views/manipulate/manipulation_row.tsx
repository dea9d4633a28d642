// One manipulation: its drag handle, its switch, a thumbnail of its result, its main parameter, and further controls.

import { useState } from "preact/hooks";
import type { Network } from "../../../../network/network.ts";
import type { Edit, Parameter } from "../../../../plan/edits.ts";
import type { ColorRange } from "../../../../plan/runtime.ts";
import type { Value } from "../../../../plan/schema.ts";
import { setEdits } from "../../../../state/edits.ts";
import { useViews } from "../../../../views/context.ts";
import { Icon } from "../../../../views/icons.tsx";
import { DragHandle, RemoveButton, type RowReorder } from "../drag_reorder.tsx";
import {
  channelCountText,
  editTitle,
  isBend,
  MIX_PARAMETER,
  parametersOf,
  TRANSFORMS,
  updateEdit,
  updateParameter,
} from "../edit_operations.ts";
import { NumberControl } from "../number_control.tsx";
import { EditThumb } from "./edit_thumb.tsx";
import { manipulationOf, orderParameters } from "./manipulations.ts";

export function ManipulationRow(props: {
  network: Network;
  edit: Edit;
  /** The input, and its value after this edit. */
  input: Value;
  value: Value;
  range: ColorRange | undefined;
  rowReorder: RowReorder;
  positionText: string;
  isFollowingPointer: boolean;
  /** Start or stop following the pointer. */
  setFollowingPointer: (on: boolean) => void;
}) {
  const {
    network,
    edit,
    input,
    value,
    range,
    rowReorder,
    positionText,
    isFollowingPointer,
    setFollowingPointer,
  } = props;
  const { state } = useViews();
  const [open, setOpen] = useState(false);
  const [troubles, setTroubles] = useState<Readonly<Record<string, string>>>({});
  const { name, enabled, channels } = edit;
  const own = manipulationOf(edit);
  const word = own?.label ?? editTitle(edit);
  const [, count, height, width] = input.nchw;
  const parameters = isBend(edit) ? parametersOf(edit) : [];
  const [main, ...more] = orderParameters(parameters, own, { height, width });
  const mixed = edit.mix !== 1;
  const says = TRANSFORMS.find((one) => one.name === edit.transform)?.says ?? edit.source;
  const edits = () => state.currentEdits.peek().edits;
  const say = (what: string) => (text: string) => setTroubles((old) => ({ ...old, [what]: text }));
  const trouble = Object.entries(troubles).filter(([, text]) => text !== "");
  const number = ([k, parameter]: readonly [number, Parameter]) => (
    <NumberControl
      key={parameter.name}
      parameter={parameter}
      value={edit.parameters[k] ?? 0}
      ownerLabel={word}
      setValue={(to, step) => setEdits(state, updateParameter(edits(), edit, k, to), step)}
      reportError={say(parameter.name)}
    />
  );
  return (
    <li class={enabled ? "nbg-manipulation" : "nbg-manipulation nbg-off"} data-bend={name}>
      <DragHandle editLabel={word} positionText={positionText} rowReorder={rowReorder} />
      <input
        type="checkbox"
        aria-label={word}
        checked={enabled}
        onChange={(event) => {
          setEdits(state, updateEdit(edits(), name, { enabled: event.currentTarget.checked }));
        }}
      />
      <EditThumb
        network={network}
        value={value}
        range={range}
        label={`The picture after ${word}`}
      />
      <span class="nbg-manipulate-word" title={says}>
        <strong>{word}</strong>
        {channels !== null && (
          <span class="nbg-second"> {channelCountText(channels, count)} channels</span>
        )}
      </span>
      <span class="nbg-manipulate-main">
        {main && number(main)}
        {edit.transform === "occlude" && (
          <button
            type="button"
            class="nbg-button"
            aria-pressed={isFollowingPointer}
            title="the patch follows the pointer over any picture of the input"
            onClick={() => setFollowingPointer(!isFollowingPointer)}
          >
            Follow
          </button>
        )}
      </span>
      <span class="nbg-manipulate-tools">
        {(more.length > 0 || mixed) && (
          <button
            type="button"
            class="nbg-manipulate-more"
            aria-label={`More of ${word}`}
            aria-expanded={open}
            title={[...more.map(([, one]) => one.name), ...(mixed ? ["mix"] : [])].join(", ")}
            onClick={() => setOpen(!open)}
          >
            <MoreIcon />
          </button>
        )}
        <RemoveButton editLabel={word} isRemovedBend={isBend(edit)} rowReorder={rowReorder} />
      </span>
      {open && (
        <span class="nbg-manipulate-rest">
          {more.map(number)}
          {mixed && (
            <NumberControl
              parameter={MIX_PARAMETER}
              value={edit.mix}
              ownerLabel={word}
              setValue={(mix, step) => setEdits(state, updateEdit(edits(), name, { mix }), step)}
              reportError={say("mix")}
            />
          )}
        </span>
      )}
      {trouble.length > 0 && (
        <p class="nbg-bend-trouble" role="alert">
          {trouble.map(([what, text]) => `${what}: ${text}`).join(" ")}
        </p>
      )}
    </li>
  );
}

const MoreIcon = () => (
  <Icon>
    <path d="M3.5 8v0M8 8v0M12.5 8v0" stroke-width="2.2" />
  </Icon>
);
