// Edits of values and weights made by the reader, with undo.
import { effect } from "@preact/signals";
import type { Edit } from "../../plan/edits.ts";
import { PlanError } from "../../plan/runtime.ts";
import { type EditSnapshot, setEdits } from "../../state/edits.ts";
import type { ViewerState } from "../../state.ts";
import type { ExportedPage, Feature, FeatureInstance } from "../feature.ts";
import stack from "./views/bend_list.css";
import { BendTools } from "./views/bend_tools.tsx";
import { BendView } from "./views/bend_view.tsx";
import { EditBadge, EditPill, EditStatus } from "./views/edit_badges.tsx";
import { EditListeners } from "./views/edit_listeners.tsx";
import manipulations from "./views/manipulate/style.css";
import style from "./views/style.css";

/** The edit functions for scripts of an exported page. */
export interface EditScriptApi {
  /** Replace all edits, in the format of Python's `viewer.bends.to_dict()["bends"]`. */
  edit(edits: readonly Edit[]): Promise<void>;
}

declare module "../../page/page_client.ts" {
  interface PageApi extends EditScriptApi {}
}

interface EditHistory {
  readonly past: readonly EditSnapshot[];
  readonly future: readonly EditSnapshot[];
}
const NO_HISTORY: EditHistory = { past: [], future: [] };

export const edits: Feature = {
  name: "edits",
  traits: (state) => [
    {
      names: ["_edits", "_history"],
      apply(edited, history) {
        state.currentEdits.value =
          (edited as EditSnapshot | undefined) ?? state.currentEdits.peek();
        const { past, future } = (history as EditHistory | undefined) ?? NO_HISTORY;
        state.undoStack.value = past;
        state.redoStack.value = future;
      },
      values: () => [
        state.currentEdits.value,
        { past: state.undoStack.value, future: state.redoStack.value },
      ],
    },
  ],
  start: ({ state, pageId, python, exported }) => {
    if (exported !== undefined) return startInExportedPage(state, exported);
    const stop = effect(() => {
      state.setWeight.value = state.isConnected.value
        ? (edit) => python?.send({ type: "setweight", page: pageId, ...edit })
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
    barName: EditPill,
    globalListeners: EditListeners,
    status: EditStatus,
    layerMark: EditBadge,
    bend: BendView,
    bendTools: BendTools,
  },
  styles: [style, stack, manipulations],
};

function startInExportedPage(
  state: ViewerState,
  { record, valueKeys, settled }: ExportedPage,
): FeatureInstance {
  state.currentEdits.value = { edits: record.edits as unknown as readonly Edit[], weights: 0 };
  const edit: EditScriptApi["edit"] = async (edits) => {
    for (const { layer } of edits) {
      if (!valueKeys().includes(layer)) {
        throw new RangeError(`no layer ${layer} with kept values`);
      }
    }
    setEdits(state, edits);
    await settled();
    if (state.editError.peek() !== "") throw new PlanError(state.editError.peek());
  };
  return { scriptApi: { edit } };
}
