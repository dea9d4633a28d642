// The Network tab as a graph: modules closed or open in place, skips, live pictures; zoom, pan and keys.
import { batch, computed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Network } from "../../network/network.ts";
import type { Camera } from "../../state.ts";
import { useViews, ViewsContext } from "../context.ts";
import { px } from "../layout.ts";
import { type Placed, type Placement, SIDE } from "./boxes.ts";
import { fit, gestures, reveal, windowHeight, zoomAt } from "./camera.ts";
import { Lines } from "./lines.tsx";
import { Look } from "./look.tsx";
import { NodeView } from "./node.tsx";
import { placementOf } from "./place.ts";
import { firstOpen, type Tree, treeOf } from "./tree.ts";
import { neighbour } from "./walk.ts";

/** A node's picture this small on screen has no words: four letters of a name are wider. */
const TINY = 40;
/** Below this zoom captions of 12 pixels have fewer than 11: only names are left, and are kept that large. */
const NAMES = 11 / 12;
/** Below this one the word of a sign, "cat", is wider than the sign. */
const SIGNS = 0.65;
/** Below this one a module that was opened is looked at from near. */
const NEAR = 0.55;
/** Milliseconds after which a zoom is over, and pictures are drawn for it. */
const STILL_MS = 120;

/** The node that shows a value: the layer's own, or the closed module around it. */
const nodeWith = (nodes: readonly Placed[], key: string | undefined): Placed | undefined =>
  nodes.find(({ node }) => node.layers.some(({ name }) => name === key)) ??
  nodes.find(({ node }) => node.value.key === key);

export function Graph({ network }: { network: Network }) {
  const views = useViews();
  const { state, width } = views;
  const plan = state.plan.value;
  if (plan === null || width.value === 0) return null;
  const tree = treeOf(plan, network);
  const open = state.opened.value ?? firstOpen(tree);
  return <Window tree={tree} open={open} placement={placementOf(tree, open)} />;
}

function Window(props: { tree: Tree; open: ReadonlySet<string>; placement: Placement }) {
  const { tree, open, placement } = props;
  const views = useViews();
  const { state } = views;
  const element = useRef<HTMLDivElement>(null);
  const view = { width: views.width.value, height: windowHeight(placement, views.width.value) };
  const fitted = fit(placement, view);
  const camera = state.camera.value ?? fitted;
  const current = useRef(camera);
  current.current = camera;
  const handlers = useMemo(() => gestures(() => current.current, state.camera), [state]);
  const sharp = useSharpZoom(camera.zoom);
  // Inside, a CSS pixel is `zoom` of them: pictures are drawn for the device's pixels all the same.
  const inner = useMemo(
    () => ({ ...views, ratio: computed(() => views.ratio.value * sharp.value) }),
    [views, sharp],
  );

  const { nodes } = placement;
  const chosen = nodeWith(nodes, state.selected.value?.layer);
  const stop = chosen ?? nodes[0];
  const focus = useRef(false);
  useLayoutEffect(() => {
    if (!focus.current) return;
    focus.current = false;
    const button = element.current?.querySelector<HTMLElement>(".nbg-picture[tabindex='0']");
    button?.focus({ preventScroll: true });
  });

  const select = ({ node }: Placed): void => {
    const within = node.layers.find(({ name }) => name === state.selected.peek()?.layer);
    const last = node.kind === "output" ? node.layers.at(-1)?.name : undefined;
    const layer = node.kind === "group" ? node.value.key : (within?.name ?? last ?? node.value.key);
    state.selected.value = { layer, channel: null };
    if (views.pointed.peek() !== null) views.pointed.value = layer;
  };
  /** Opens or closes a group; what was at `from` stays where it is on screen. */
  const toggle = (id: string, from: Placed): void => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    const there = placementOf(tree, next);
    const all = fit(there, { ...view, height: windowHeight(there, view.width) });
    const to = nodeWith(there.nodes, from.node.layers[0]?.name);
    batch(() => {
      state.opened.value = next;
      if (to && (state.camera.peek() !== null || all.zoom < Math.min(NEAR, camera.zoom))) {
        const { zoom } = camera;
        state.camera.value = {
          ...{ zoom, x: camera.x + (from.x - to.x) * zoom, y: camera.y + (from.y - to.y) * zoom },
        };
      }
    });
    focus.current = element.current?.contains(document.activeElement) ?? false;
  };
  const enter = (placed: Placed): void => {
    select(placed);
    if (placed.node.kind === "group") toggle(placed.node.id, placed);
    else state.tab.value = "layer";
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    const target = event.target instanceof Element ? event.target.closest("[data-node]") : null;
    const id = target?.getAttribute("data-node");
    const from = nodes.find(({ node }) => node.id === id);
    if (from === undefined || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey)
      return;
    const to = neighbour(placement, from, event.key);
    const around = from.node.groups.at(-1);
    if (to) {
      select(to);
      focus.current = true;
    } else if (event.key === "Enter" && event.target === target?.querySelector(".nbg-picture")) {
      enter(from);
    } else if (event.key === "Backspace" && around) {
      toggle(around.id, from);
    } else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const onFocusIn = (event: FocusEvent): void => {
    const id = (event.target as Element).closest("[data-node]")?.getAttribute("data-node");
    const box = nodes.find(({ node }) => node.id === id);
    const next = box && reveal(camera, view, box);
    if (next && next !== camera) state.camera.value = next;
  };
  // A layer that was chosen elsewhere, in Python or by its name, is looked for.
  const wanted = chosen?.node.id;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another choice moves the window
  useEffect(() => {
    const seen = state.camera.peek();
    const next = chosen && seen && reveal(seen, view, chosen);
    if (next && next !== seen) state.camera.value = next;
  }, [wanted]);

  const words = SIDE * camera.zoom < TINY ? "none" : camera.zoom < NAMES ? "names" : "all";
  const visible = ({ x, y, width, height }: Placed): boolean => {
    const left = camera.x + x * camera.zoom;
    const top = camera.y + y * camera.zoom;
    const right = left + width * camera.zoom;
    const bottom = top + height * camera.zoom;
    return right > 0 && bottom > 0 && left < view.width && top < view.height;
  };
  return (
    <div class="nbg-graph">
      <div
        ref={element}
        class={state.camera.value === null ? "nbg-window" : "nbg-window nbg-moved"}
        role="group"
        aria-label="Network as a graph, from input to output"
        style={{ height: px(view.height) }}
        onKeyDown={onKeyDown}
        onFocusIn={onFocusIn}
        {...handlers}
      >
        <div
          class="nbg-sheet"
          data-words={words}
          data-signs={camera.zoom >= SIGNS ? "" : undefined}
          style={sheet(camera, placement)}
        >
          <Lines placement={placement} zoom={camera.zoom} selected={state.selected.value?.layer} />
          {placement.brackets.map(({ group, x, y, width, named }) => (
            <button
              type="button"
              class={group.title === group.module ? "nbg-bracket" : "nbg-bracket nbg-nested"}
              key={`${group.id} ${y} ${x}`}
              tabIndex={named ? 0 : -1}
              aria-expanded="true"
              aria-label={`Close ${group.module}`}
              title={`Close ${group.module}`}
              style={{ left: px(x), top: px(y), width: px(width) }}
              onClick={() => {
                const one = nodes.find(({ node }) => node.groups.includes(group));
                if (one) toggle(group.id, one);
              }}
            >
              {named && <span>{group.title}</span>}
            </button>
          ))}
          <ViewsContext.Provider value={inner}>
            {nodes.map((placed) => (
              <NodeView
                key={placed.node.id}
                placed={placed}
                chosen={placed === chosen}
                stop={placed === stop}
                drawn={visible(placed)}
                select={select}
                enter={enter}
              />
            ))}
          </ViewsContext.Provider>
        </div>
      </div>
      <Tools tree={tree} open={open} camera={camera} view={view} />
      {chosen?.node.kind === "group" && <Look node={chosen.node} />}
    </div>
  );
}

const sheet = ({ zoom, x, y }: Camera, { width, height }: Placement) => ({
  width: px(width),
  height: px(height),
  transform: `translate(${x}px, ${y}px) scale(${zoom})`,
  "--nb-zoom": zoom,
});

/** The zoom for which pictures are drawn: it follows when a gesture is over. */
function useSharpZoom(zoom: number) {
  const sharp = useSignal(zoom);
  useEffect(() => {
    const timer = setTimeout(() => {
      sharp.value = zoom;
    }, STILL_MS);
    return () => clearTimeout(timer);
  }, [sharp, zoom]);
  return sharp;
}

function Tools(props: {
  tree: Tree;
  open: ReadonlySet<string>;
  camera: Camera;
  view: { width: number; height: number };
}) {
  const { tree, open, camera, view } = props;
  const { state } = useViews();
  const zoom = (by: number): void => {
    state.camera.value = zoomAt(camera, by, view.width / 2, view.height / 2);
  };
  const ids = tree.groups.map(({ id }) => id);
  const hasPython = state.plan.value?.layers.some(({ python }) => python !== "") ?? false;
  const button = (word: string, label: string, act: () => void, off = false) => (
    <button
      type="button"
      class={word.length > 1 ? "nbg-button" : "nbg-button nbg-square"}
      aria-label={label}
      title={label}
      disabled={off}
      onClick={act}
    >
      {word}
    </button>
  );
  const set = (all: readonly string[]) => () => {
    batch(() => {
      state.opened.value = new Set(all);
      state.camera.value = null;
    });
  };
  return (
    <div class="nbg-graph-tools" role="toolbar" aria-label="Graph">
      {ids.length > 0 && button("Open all", "Open all modules", set(ids), open.size === ids.length)}
      {ids.length > 0 && button("Close all", "Close all modules", set([]), open.size === 0)}
      {button("−", "Smaller", () => zoom(1 / 1.25))}
      {button("+", "Larger", () => zoom(1.25))}
      {button("Fit", "Fit the whole graph in", () => {
        state.camera.value = null;
      })}
      <span class="nbg-second">
        {ids.length > open.size && "a stacked edge is a closed module · "}
        {hasPython && "a dashed one is computed in Python · "}
        drag moves, Ctrl or ⌘ with the wheel zooms
      </span>
    </div>
  );
}
