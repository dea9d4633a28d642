// Information from the host application about itself and its kernel, if it exposes any.
import type { AnyModel } from "@anywidget/types";
import { readField } from "../unvalidated_field.ts";

/** A Lumino signal of JupyterLab and Notebook 7. */
interface LuminoSignal {
  connect(slot: (sender: unknown, what: unknown) => void): void;
  disconnect(slot: (sender: unknown, what: unknown) => void): void;
}

/**
 * Call `onKernelGone` when the kernel was shut down or has died for good: widgets are only notified of a restart.
 * Returns a callback that stops watching. A no-op if the host doesn't expose its kernel.
 */
export function watchKernel(model: AnyModel, onKernelGone: () => void): () => void {
  const kernel = readField(readField(model, "widget_manager"), "kernel");
  const heard = (_: unknown, what: unknown): void => {
    if (what === "dead") onKernelGone();
  };
  const pairs = [
    [readField(kernel, "statusChanged"), heard],
    [readField(kernel, "disposed"), onKernelGone],
  ] as const;
  const signals = pairs.filter(
    (pair): pair is readonly [LuminoSignal, typeof heard] =>
      typeof readField(pair[0], "connect") === "function" &&
      typeof readField(pair[0], "disconnect") === "function",
  );
  for (const [signal, slot] of signals) signal.connect(slot);
  return () => {
    for (const [signal, slot] of signals) signal.disconnect(slot);
  };
}

/** The host's name, such as "JupyterLab 4.6.6" or "VS Code", or "". */
export function hostName(): string {
  const config = document.getElementById("jupyter-config-data")?.textContent;
  if (config) {
    try {
      const { appName, appVersion } = JSON.parse(config);
      if (typeof appName === "string") return `${appName} ${appVersion ?? ""}`.trim().slice(0, 100);
    } catch {
      return "Jupyter";
    }
  }
  if (location.protocol === "vscode-webview:") return "VS Code";
  if (location.hostname.endsWith(".googleusercontent.com")) return "Colab";
  return document.querySelector("marimo-filename, marimo-code") === null ? "" : "marimo";
}
