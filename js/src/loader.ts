// What anywidget imports for each Viewer: it evaluates the bundle once a page, however many Viewers there are.
import type { InitializeProps, RenderProps } from "@anywidget/types";
import type createWidget from "./widget.ts";

/*
 * Hosts import the text of `_esm` anew for each model, and a page never lets go of a module: 1 MB a run
 * of a cell if that were the bundle. So the bundle comes as a trait of the model, a string that goes
 * with it, and only the first one is made a module. The model has it in every host, also one without
 * a kernel; asking Python for it would be a round trip that such a page waits for in vain.
 */
type Bundle = Promise<{ readonly default: typeof createWidget }>;

/** By their text: notebooks of one page may use several versions, or builds of one. */
function bundles(): Map<string, Bundle> {
  const page = globalThis as unknown as Record<symbol, Map<string, Bundle> | undefined>;
  const key = Symbol.for("nbglcnn.bundles");
  const found = page[key] ?? new Map<string, Bundle>();
  page[key] = found;
  return found;
}

function load(text: string): Bundle {
  const known = bundles();
  const old = known.get(text);
  if (old !== undefined) return old;
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const made: Bundle = import(url).finally(() => URL.revokeObjectURL(url));
  known.set(text, made);
  made.catch(() => known.delete(text)); // the next Viewer tries again
  return made;
}

/** Called once for each model, as anywidget's interface has it. */
export default () => {
  let widget: ReturnType<typeof createWidget> | undefined;
  return {
    async initialize(props: InitializeProps): Promise<() => void> {
      const bundle = await load(String(props.model.get("_bundle")));
      if (props.signal?.aborted) return () => undefined; // closed meanwhile
      widget = bundle.default();
      return widget.initialize(props);
    },
    render: (props: RenderProps) => widget?.render(props),
  };
};
