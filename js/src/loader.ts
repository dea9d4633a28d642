// What anywidget imports for each Viewer: it asks Python for the Viewer's code, which a page needs once.
import type { AnyModel, InitializeProps, RenderProps } from "@anywidget/types";
import { canDecompress, downloadCode, loadedModule, receiveCode } from "./code_download.ts";
import type { MessageBuffer } from "./message_buffers.ts";
import type { BlobChunk, FromPage } from "./messages.ts";
import { SNAPSHOT_ALT, SNAPSHOT_CAPTION } from "./snapshot_text.ts";
import type createWidget from "./widget.ts";

/*
 * Hosts import the text of `_esm` anew for each model, a page never lets go of a module, and a saved notebook
 * may hold every trait. So the code itself is neither: it comes in the messages that bring weights.
 */
type WidgetModule = { readonly default: typeof createWidget };
type Widget = ReturnType<typeof createWidget>;

/** A page that shows only this has no name yet; Python counts its words as a sign of life. */
const NO_PAGE = "";
/** Before this nobody reads what is going on. */
const MESSAGE_DELAY_MS = 1_000;

/** The module `widget.js`; calls `say` with why it takes so long, and with "" when it is here. */
async function loadWidget(
  model: AnyModel,
  closed: AbortSignal,
  say: (text: string) => void,
): Promise<WidgetModule> {
  const names = model.get("_code") as { readonly gzip: string; readonly plain: string };
  const name = canDecompress() ? names.gzip : names.plain;
  const here = loadedModule(name);
  // Functions that are never called take next to no memory, and a page keeps them for each Viewer that it had.
  if (here !== undefined) return (await here) as WidgetModule;
  const send = (message: FromPage): void => model.send(message);
  const hear = (content: unknown, buffers: readonly MessageBuffer[]): void => {
    const { type } = content as { type?: unknown };
    if (type === "blobchunk") receiveCode(content as BlobChunk, buffers);
  };
  model.on("msg:custom", hear);
  const late = setTimeout(
    () => say("Waiting for Python to send the Viewer’s code."),
    MESSAGE_DELAY_MS,
  );
  try {
    const line = {
      requestParts: (blob: string, chunks: number[]) =>
        send({ type: "requestblob", page: NO_PAGE, blob, chunks }),
      reportProgress: (done: number, total: number) =>
        send({ type: "progress", page: NO_PAGE, stage: "receiving", done, total }),
      onError: (text: string) =>
        say(`The Viewer’s code has not loaded. ${text} Run the cell again if nothing happens.`),
    };
    return (await downloadCode(name, line, closed)) as WidgetModule;
  } finally {
    clearTimeout(late);
    model.off("msg:custom", hear);
    say("");
  }
}

/** marimo's exported pages have no Python, and this name. */
const hasPython = (): boolean => !("__MARIMO_STATIC__" in globalThis);

/** What stands in a view's place: words, and the snapshot that the host has kept of the Viewer. */
function placeholder(model: AnyModel, words: string): Node | string {
  const url: unknown = model.get("_snapshot_url");
  if (words === "" || typeof url !== "string" || !url.startsWith("data:image/png;")) return words;
  const [figure, image, caption] = ["figure", "img", "figcaption"].map((name) =>
    document.createElement(name),
  ) as [HTMLElement, HTMLImageElement, HTMLElement];
  figure.style.margin = "0";
  image.style.maxWidth = "100%";
  image.alt = SNAPSHOT_ALT;
  image.src = url;
  caption.textContent = words;
  figure.append(image, caption);
  return figure;
}

/** Called once for each model, as anywidget's interface has it. */
export default () => {
  const views = new Set<() => void>();
  let widget: Widget | undefined;
  let words = "";
  const say = (text: string): void => {
    words = text;
    for (const show of views) show();
  };
  return {
    /** Ends before the code is here, so that views can say what they wait for. */
    initialize({ model, signal }: InitializeProps): () => void {
      if (!hasPython()) {
        const caption = model.get("_snapshot_url") ? SNAPSHOT_CAPTION : "This page has no Python.";
        say(`${caption} Run the notebook to bring it to life.`);
        return () => undefined;
      }
      const closing = new AbortController();
      let dispose = (): void => undefined;
      const close = (): void => {
        closing.abort();
        dispose();
      };
      signal?.addEventListener("abort", close, { once: true });
      const gone = (): void => closing.abort(); // the kernel: nothing will come
      model.on("comm_live_update", gone);
      loadWidget(model, closing.signal, say).then(
        (code) => {
          model.off("comm_live_update", gone);
          if (closing.signal.aborted) return;
          widget = code.default();
          dispose = widget.initialize({ model, signal: closing.signal } as InitializeProps);
          for (const show of views) show();
        },
        (error: unknown) => {
          const parted = error instanceof DOMException && error.name === "AbortError";
          const why = parted ? "Python is not connected." : String(error);
          say(`The Viewer’s code could not be loaded. ${why} Run the cell again.`);
        },
      );
      return close;
    },
    render(props: RenderProps): () => void {
      let remove: (() => void) | undefined;
      const show = (): void => {
        if (widget === undefined) {
          props.el.replaceChildren(placeholder(props.model, words));
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
