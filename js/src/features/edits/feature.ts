// Edits of values and weights, which the reader makes and undoes.
import { effect } from "@preact/signals";
import type { Edit } from "../../plan/edits.ts";
import { PlanError } from "../../plan/runtime.ts";
import { change, type Moment } from "../../state/edits.ts";
import type { ViewerState } from "../../state.ts";
import type { ExportedPage, Feature, Running } from "../feature.ts";
import { Everywhere } from "./views/everywhere.tsx";
import manipulations from "./views/manipulate/style.css";
import { Mark, Pill, Word } from "./views/marks.tsx";
import stack from "./views/stack.css";
import style from "./views/style.css";
import { Tools } from "./views/tools.tsx";
import { BendView } from "./views/view.tsx";

/** What scripts of an exported page can do. */
export interface EditScripts {
  /** Makes these the edits, in the form of Python's `viewer.bends.to_dict()["bends"]`. */
  edit(edits: readonly Edit[]): Promise<void>;
}

declare module "../../page/client.ts" {
  interface Page extends EditScripts {}
}

interface History {
  readonly past: readonly Moment[];
  readonly future: readonly Moment[];
}
const NONE: History = { past: [], future: [] };

export const edits: Feature = {
  name: "edits",
  traits: (state) => [
    {
      names: ["_edits", "_history"],
      take(edited, history) {
        state.edited.value = (edited as Moment | undefined) ?? state.edited.peek();
        const { past, future } = (history as History | undefined) ?? NONE;
        state.past.value = past;
        state.future.value = future;
      },
      tell: () => [state.edited.value, { past: state.past.value, future: state.future.value }],
    },
  ],
  run: ({ state, page, python, exported }) => {
    if (exported !== undefined) return inExported(state, exported);
    const stop = effect(() => {
      state.setWeight.value = state.connected.value
        ? (edit) => python?.send({ type: "setweight", page, ...edit })
        : null;
    });
    return {
      close() {
        stop();
        state.setWeight.value = null;
      },
    };
  },
  views: () => ["bend"],
  slots: {
    barName: Pill,
    everywhere: Everywhere,
    status: Word,
    layerMark: Mark,
    bend: BendView,
    bendTools: Tools,
  },
  styles: [style, stack, manipulations],
};

function inExported(state: ViewerState, { record, keys, settled }: ExportedPage): Running {
  state.edited.value = { edits: record.edits as unknown as readonly Edit[], weights: 0 };
  const edit: EditScripts["edit"] = async (edits) => {
    for (const { layer } of edits) {
      if (!keys().includes(layer)) {
        throw new RangeError(`there is no layer ${layer} whose values are kept`);
      }
    }
    change(state, edits);
    await settled();
    if (state.editTrouble.peek() !== "") throw new PlanError(state.editTrouble.peek());
  };
  return { scripts: { edit } };
}
