// Snapshots for a saved notebook that is reopened without its kernel. ipywidgets then has no model for the output and
// would show "Error displaying widget". It first looks into the notebook's widget state, so this file stores the
// output's snapshot image there. A no-op if the host doesn't expose its notebook.
import type { AnyModel } from "@anywidget/types";
import { SNAPSHOT_ALT, SNAPSHOT_CAPTION } from "../snapshot_text.ts";
import { readField } from "../unvalidated_field.ts";

const VIEW_MIME_TYPE = "application/vnd.jupyter.widget-view+json";
const STATE_MIME_TYPE = "application/vnd.jupyter.widget-state+json";
const SNAPSHOT_CLASS = "nbglcnn-snapshot";

type JsonObject = Readonly<Record<string, unknown>>;

/** The document context of JupyterLab and Notebook 7, from `widget_manager.context`. */
interface NotebookContext {
  readonly saveState: {
    connect(slot: (sender: unknown, state: string) => void): void;
    disconnect(slot: (sender: unknown, state: string) => void): void;
  };
  readonly model: {
    toJSON(): unknown;
    getMetadata(key: string): unknown;
    setMetadata(key: string, value: unknown): void;
  };
}

/** Write the Viewers' snapshots into the notebook on every save. Returns a callback that stops this. */
export function saveSnapshots(model: AnyModel): () => void {
  const context = findNotebookContext(model);
  if (context === undefined) return () => undefined;
  const save = (_: unknown, state: string) => {
    if (state !== "started") return;
    try {
      writeSnapshots(context);
    } catch (error) {
      console.warn(`nbglcnn: no snapshot was saved: ${error}`);
    }
  };
  context.saveState.connect(save);
  return () => context.saveState.disconnect(save);
}

function findNotebookContext(model: AnyModel): NotebookContext | undefined {
  const context = readField(readField(model, "widget_manager"), "context");
  const has = (owner: string, name: string) =>
    typeof readField(readField(context, owner), name) === "function";
  const whole =
    has("saveState", "connect") && has("model", "toJSON") && has("model", "setMetadata");
  return whole && has("model", "getMetadata") ? (context as NotebookContext) : undefined;
}

function writeSnapshots({ model }: NotebookContext): void {
  const widgets = objectOrEmpty(model.getMetadata("widgets"));
  const saved = { version_major: 2, version_minor: 0, ...objectOrEmpty(widgets[STATE_MIME_TYPE]) };
  // Drop our snapshots of removed outputs. A saved state of the Viewer itself could not be displayed.
  const others = Object.entries(objectOrEmpty(readField(saved, "state"))).filter(
    ([, entry]) => !String(readField(readField(entry, "state"), "value")).includes(SNAPSHOT_CLASS),
  );
  const pictures = snapshotWidgets(model.toJSON());
  if (pictures.length === 0 && !(STATE_MIME_TYPE in widgets)) return;
  const state = Object.fromEntries([...others, ...pictures]);
  model.setMetadata("widgets", { ...widgets, [STATE_MIME_TYPE]: { ...saved, state } });
}

/** An ipywidgets HTML widget with the output's PNG for each Viewer, keyed by the Viewer's model id. */
function snapshotWidgets(notebook: unknown): [string, JsonObject][] {
  const found: [string, JsonObject][] = [];
  for (const cell of listOrEmpty(readField(notebook, "cells"))) {
    for (const output of listOrEmpty(readField(cell, "outputs"))) {
      const data = readField(output, "data");
      const id = readField(readField(data, VIEW_MIME_TYPE), "model_id");
      const png = joinLines(readField(data, "image/png"));
      const isViewer = joinLines(readField(data, "text/plain")).startsWith("Viewer of ");
      if (typeof id === "string" && png !== "" && isViewer) found.push([id, snapshotWidget(png)]);
    }
  }
  return found;
}

/** Join notebook text, which is a string or a list of lines. */
function joinLines(text: unknown): string {
  return Array.isArray(text) ? text.join("") : typeof text === "string" ? text : "";
}

function snapshotWidget(png: string): JsonObject {
  const value =
    `<figure class="${SNAPSHOT_CLASS}" style="margin:0"><img alt="${SNAPSHOT_ALT}" style="max-width:100%" ` +
    `src="data:image/png;base64,${png.replace(/\s/g, "")}"/>` +
    `<figcaption><b>${SNAPSHOT_CAPTION}</b> Run the cell to bring it to life.</figcaption></figure>`;
  return {
    model_name: "HTMLModel",
    model_module: "@jupyter-widgets/controls",
    model_module_version: "2.0.0",
    state: { value },
  };
}

function objectOrEmpty(value: unknown): JsonObject {
  return typeof value === "object" && value !== null ? (value as JsonObject) : {};
}

function listOrEmpty(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
