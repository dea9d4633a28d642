// Which channels of a layer are picked to be bent, or those of a bend whose channels are changed; kept as long as the page.
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Edit } from "../../../plan/edits.ts";
import type { Value } from "../../../plan/schema.ts";
import { change } from "../../../state/edits.ts";
import type { ViewerState } from "../../../state.ts";
import { useViews } from "../../../views/context.ts";
import { all } from "./sets.ts";
import { asChannels, withPart } from "./stack.ts";

interface Picking {
  /** By layer. */
  readonly picked: Signal<ReadonlyMap<string, readonly number[]>>;
  /** The name of the bend whose channels the grid shows and changes; "" for none. */
  readonly of: Signal<string>;
  /** How A and B are shown, and of what. */
  readonly showing: Signal<"beside" | "wipe" | "hold">;
  readonly about: Signal<"output" | "layer">;
}

const known = new WeakMap<ReadonlySignal<unknown>, Picking>();

/** Of a viewer: each has its own. */
export function pickingOf({ edited }: ViewerState): Picking {
  const found = known.get(edited) ?? {
    picked: signal(new Map()),
    of: signal(""),
    showing: signal("beside"),
    about: signal("output"),
  };
  known.set(edited, found as Picking);
  return found as Picking;
}

export interface Picks {
  readonly picked: ReadonlySet<number>;
  /** The bend whose channels these are; null where they are for the next one. */
  readonly of: Edit | null;
  pick(channels: Iterable<number>): void;
}

export function usePicks(value: Value): Picks {
  const { state } = useViews();
  const { picked, of: name } = pickingOf(state);
  const { edits } = state.edited.value;
  const count = value.nchw[1];
  const of = edits.find((one) => one.name === name.value && one.layer === value.key) ?? null;
  const own = of === null ? (picked.value.get(value.key) ?? []) : (of.channels ?? all(count));
  return {
    of,
    picked: new Set(own),
    pick(channels) {
      const numbers = [...new Set(channels)].sort((a, b) => a - b);
      if (of === null) picked.value = new Map([...picked.peek(), [value.key, numbers]]);
      else {
        const part = { channels: asChannels(numbers, count) };
        change(state, withPart(state.edited.peek().edits, of.name, part));
      }
    },
  };
}
