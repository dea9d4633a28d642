// The selected channels of a layer, for the next bend or for the edited bend; kept for the life of the page.
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Edit } from "../../../plan/edits.ts";
import type { Value } from "../../../plan/schema.ts";
import { setEdits } from "../../../state/edits.ts";
import type { ViewerState } from "../../../state.ts";
import { useViews } from "../../../views/context.ts";
import { allChannels } from "./channel_sets.ts";
import { toChannelList, updateEdit } from "./edit_operations.ts";

interface BendViewState {
  /** Keyed by layer. */
  readonly selectedChannels: Signal<ReadonlyMap<string, readonly number[]>>;
  /** The name of the bend whose channels the grid shows and edits; "" if none. */
  readonly editedBendName: Signal<string>;
  /** The comparison mode of A and B. */
  readonly compareMode: Signal<"beside" | "wipe" | "hold">;
  readonly compareSubject: Signal<"output" | "layer">;
}

const states = new WeakMap<ReadonlySignal<unknown>, BendViewState>();

/** The state for one viewer: each viewer has its own. */
export function bendViewState({ currentEdits }: ViewerState): BendViewState {
  const found = states.get(currentEdits) ?? {
    selectedChannels: signal(new Map()),
    editedBendName: signal(""),
    compareMode: signal("beside"),
    compareSubject: signal("output"),
  };
  states.set(currentEdits, found as BendViewState);
  return found as BendViewState;
}

export interface ChannelSelection {
  readonly selected: ReadonlySet<number>;
  /** The bend that these channels belong to; null if they are for the next bend. */
  readonly bend: Edit | null;
  select(channels: Iterable<number>): void;
}

export function useChannelSelection(value: Value): ChannelSelection {
  const { state } = useViews();
  const { selectedChannels, editedBendName: name } = bendViewState(state);
  const { edits } = state.currentEdits.value;
  const count = value.nchw[1];
  const bend = edits.find((one) => one.name === name.value && one.layer === value.key) ?? null;
  const own =
    bend === null
      ? (selectedChannels.value.get(value.key) ?? [])
      : (bend.channels ?? allChannels(count));
  return {
    bend,
    selected: new Set(own),
    select(channels) {
      const numbers = [...new Set(channels)].sort((a, b) => a - b);
      if (bend === null)
        selectedChannels.value = new Map([...selectedChannels.peek(), [value.key, numbers]]);
      else {
        const part = { channels: toChannelList(numbers, count) };
        setEdits(state, updateEdit(state.currentEdits.peek().edits, bend.name, part));
      }
    },
  };
}
