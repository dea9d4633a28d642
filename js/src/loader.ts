// The module that anywidget imports for each Viewer. It requests the Viewer's code from Python, once per page.
import type { AnyModel, InitializeProps, RenderProps } from "@anywidget/types";
import { canDecompress, downloadCode, loadedModule, receiveCodeChunk } from "./code_download.ts";
import type { MessageBuffer } from "./message_buffers.ts";
import type { BlobChunk, FromPage } from "./messages.ts";
import { SNAPSHOT_ALT, SNAPSHOT_CAPTION } from "./snapshot_text.ts";
import type createWidget from "./widget.ts";

/*
 * Hosts import the text of `_esm` again for each model, a page never frees a module, and a saved notebook may contain
 * every trait. So the code is neither in `_esm` nor in a trait: it arrives in the messages that also bring weights.
 */
type WidgetModule = { readonly default: typeof createWidget };
type Widget = ReturnType<typeof createWidget>;

/** A page with only a placeholder has no name yet; Python counts its messages as a sign of life. */
const NO_PAGE_ID = "";
/** Delay before the waiting message is shown. */
const WAITING_MESSAGE_DELAY_MS = 1_000;

/** Load the module `widget.js`; call `setMessage` with the reason for a delay, and with "" once it has loaded. */
async function loadWidget(
  model: AnyModel,
  closeSignal: AbortSignal,
  setMessage: (text: string) => void,
): Promise<WidgetModule> {
  const names = model.get("_code") as { readonly gzip: string; readonly plain: string };
  const name = canDecompress() ? names.gzip : names.plain;
  const here = loadedModule(name);
  // Return early: functions that are never called take almost no memory, and the page keeps this module for each Viewer
  // it has had.
  if (here !== undefined) return (await here) as WidgetModule;
  const send = (message: FromPage): void => model.send(message);
  const onMessage = (content: unknown, buffers: readonly MessageBuffer[]): void => {
    const { type } = content as { type?: unknown };
    if (type === "blobchunk") receiveCodeChunk(content as BlobChunk, buffers);
  };
  model.on("msg:custom", onMessage);
  const late = setTimeout(
    () => setMessage("Waiting for Python to send the Viewer’s code."),
    WAITING_MESSAGE_DELAY_MS,
  );
  try {
    const line = {
      requestChunks: (blob: string, chunks: number[]) =>
        send({ type: "requestblob", page: NO_PAGE_ID, blob, chunks }),
      reportProgress: (done: number, total: number) =>
        send({ type: "progress", page: NO_PAGE_ID, stage: "receiving", done, total }),
      onError: (text: string) =>
        setMessage(
          `The Viewer’s code has not loaded. ${text} Run the cell again if nothing happens.`,
        ),
    };
    return (await downloadCode(name, line, closeSignal)) as WidgetModule;
  } finally {
    clearTimeout(late);
    model.off("msg:custom", onMessage);
    setMessage("");
  }
}

/** False in pages exported by marimo, which have no Python and set this global. */
const hasPython = (): boolean => !("__MARIMO_STATIC__" in globalThis);

/** The content of a view without code: a text, and the Viewer's snapshot kept by the host. */
function createPlaceholder(model: AnyModel, message: string): Node | string {
  const url: unknown = model.get("_snapshot_url");
  if (message === "" || typeof url !== "string" || !url.startsWith("data:image/png;"))
    return message;
  const [figure, image, caption] = ["figure", "img", "figcaption"].map((name) =>
    document.createElement(name),
  ) as [HTMLElement, HTMLImageElement, HTMLElement];
  figure.style.margin = "0";
  image.style.maxWidth = "100%";
  image.alt = SNAPSHOT_ALT;
  image.src = url;
  caption.textContent = message;
  figure.append(image, caption);
  return figure;
}

/** Creates the widget; anywidget calls it once for each model. */
export default () => {
  const views = new Set<() => void>();
  let widget: Widget | undefined;
  let words = "";
  const setMessage = (text: string): void => {
    words = text;
    for (const show of views) show();
  };
  return {
    /** Return before the code has loaded, so that views can show the reason for waiting. */
    initialize({ model, signal }: InitializeProps): () => void {
      if (!hasPython()) {
        const caption = model.get("_snapshot_url") ? SNAPSHOT_CAPTION : "This page has no Python.";
        setMessage(`${caption} Run the notebook to bring it to life.`);
        return () => undefined;
      }
      const closing = new AbortController();
      let dispose = (): void => undefined;
      const close = (): void => {
        closing.abort();
        dispose();
      };
      signal?.addEventListener("abort", close, { once: true });
      const onDisconnect = (): void => closing.abort(); // Python disconnected: no code will arrive
      model.on("comm_live_update", onDisconnect);
      loadWidget(model, closing.signal, setMessage).then(
        (code) => {
          model.off("comm_live_update", onDisconnect);
          if (closing.signal.aborted) return;
          widget = code.default();
          dispose = widget.initialize({ model, signal: closing.signal } as InitializeProps);
          for (const show of views) show();
        },
        (error: unknown) => {
          const parted = error instanceof DOMException && error.name === "AbortError";
          const why = parted ? "Python is not connected." : String(error);
          setMessage(`The Viewer’s code could not be loaded. ${why} Run the cell again.`);
        },
      );
      return close;
    },
    render(props: RenderProps): () => void {
      let remove: (() => void) | undefined;
      const show = (): void => {
        if (widget === undefined) {
          props.el.replaceChildren(createPlaceholder(props.model, words));
          return;
        }
        views.delete(show);
        props.el.textContent = "";
        remove = widget.render(props);
      };
      views.add(show);
      show();
      return () => {
        views.delete(show);
        remove?.();
        props.el.textContent = "";
      };
    },
  };
};
