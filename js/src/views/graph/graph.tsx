// The Network tab's graph view: modules closed or opened in place, skip connections, live pictures; zoom, pan and keys.
import { batch, computed, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Network } from "../../network/network.ts";
import type { Camera } from "../../state.ts";
import { useViews, ViewsContext } from "../context.ts";
import { px } from "../layout.ts";
import {
  createGestureHandlers,
  fitCamera,
  initialCamera,
  overflows,
  reveal,
  type Size,
  type ViewportState,
  windowHeight,
  zoomAt,
} from "./camera.ts";
import { EdgeLines } from "./edge_lines.tsx";
import { graphLayout } from "./graph_layout.ts";
import { neighbour } from "./key_navigation.ts";
import { Minimap } from "./minimap.tsx";
import {
  type GraphNode,
  initiallyOpenGroups,
  moduleTree,
  openGroupsAround,
} from "./module_graph.ts";
import { ModuleLayers } from "./module_layers.tsx";
import type { ModuleGroup, ModuleTree } from "./module_tree.ts";
import { NodeView } from "./node.tsx";
import { type GraphLayout, NODE_SIDE, type PlacedNode } from "./node_boxes.ts";
import { openAllGroups, openGroup } from "./repeated_blocks.ts";

/** Nodes smaller than this, and smaller than initially, show only their names as blocks, without pictures. */
const MIN_PICTURE_SIDE = 54;
/** Below `side` pixels names have no room: nodes show pictures again if there are at most `most` of them. */
const TINY_NODE_LIMITS = { side: 30, most: 64 };
/** Below this zoom, 12-pixel captions would be smaller than 11 pixels: only names are shown, and kept at that size. */
const MIN_CAPTION_ZOOM = 11 / 12;
/** Below this zoom, the stacked names of nested modules would touch. */
const MIN_NESTED_ZOOM = 0.7;
/** If the zoom is below this when a module is opened, the camera zooms in. */
const MIN_OPENED_ZOOM = 0.55;
/** Milliseconds without change after which a zoom gesture has ended and pictures are drawn at the new zoom. */
const ZOOM_SETTLE_MS = 120;

/** The node that shows a value: the layer's own node, or the closed module around it. */
const nodeOfValue = (
  nodes: readonly PlacedNode[],
  key: string | undefined,
): PlacedNode | undefined =>
  nodes.find(({ node }) => node.layers.some(({ name }) => name === key)) ??
  nodes.find(({ node }) => node.value.key === key);

/** The bounding box of a group, open or closed. */
function groupBounds({ nodes }: GraphLayout, id: string) {
  const own = nodes.filter(
    ({ node }) =>
      node.groups.some((group) => group.id === id) ||
      node.blocks.some(({ group }) => group.id === id),
  );
  const [x, y] = [Math.min(...own.map((one) => one.x)), Math.min(...own.map((one) => one.y))];
  const width = Math.max(...own.map((one) => one.x + one.width)) - x;
  return { x, y, width, height: Math.max(...own.map((one) => one.y + one.height)) - y };
}

export function GraphView({ network }: { network: Network }) {
  const views = useViews();
  const { state, width } = views;
  const plan = state.plan.value;
  if (plan === null || width.value === 0) return null;
  const tree = moduleTree(plan, network);
  const chosen = state.openGroups.value ?? initiallyOpenGroups(tree);
  const sought = state.searchedLayer.value;
  const open = useMemo(
    () => (sought === null ? chosen : openGroupsAround(tree, chosen, sought)),
    [tree, chosen, sought],
  );
  useEffect(() => {
    if (sought === null) return;
    batch(() => {
      state.openGroups.value = open;
      state.searchedLayer.value = null;
    });
  }, [state, sought, open]);
  return <GraphWindow tree={tree} openGroups={open} layout={graphLayout(tree, open)} />;
}

function GraphWindow(props: {
  tree: ModuleTree;
  openGroups: ReadonlySet<string>;
  layout: GraphLayout;
}) {
  const { tree, openGroups, layout } = props;
  const views = useViews();
  const { state } = views;
  const element = useRef<HTMLDivElement>(null);
  const { value: width } = views.width;
  const heightOf = (size: GraphLayout): number =>
    windowHeight(size, width, views.contentHeight.value);
  const viewport = { width, height: heightOf(layout) };
  const camera = state.graphCamera.value ?? initialCamera(layout, viewport);
  const scene = useRef<ViewportState>({ camera, graphSize: layout, viewport });
  scene.current = { camera, graphSize: layout, viewport };
  const handlers = useMemo(
    () => createGestureHandlers(() => scene.current, state.graphCamera),
    [state],
  );
  const beyond = overflows(camera, layout, viewport);
  const settledZoom = useSettledZoom(camera.zoom);
  // Inside the graph, a CSS pixel is scaled by `zoom`; pictures are still drawn in device pixels.
  const inner = useMemo(
    () => ({ ...views, pixelRatio: computed(() => views.pixelRatio.value * settledZoom.value) }),
    [views, settledZoom],
  );

  const { nodes } = layout;
  const chosen = nodeOfValue(nodes, state.selected.value?.layer);
  const stop = chosen ?? nodes[0];
  const focus = useRef(false);
  useLayoutEffect(() => {
    if (!focus.current) return;
    focus.current = false;
    const button = element.current?.querySelector<HTMLElement>(".nbg-picture[tabindex='0']");
    button?.focus({ preventScroll: true });
  });

  const select = ({ node }: PlacedNode): void => {
    const within = node.layers.find(({ name }) => name === state.selected.peek()?.layer);
    const last = node.kind === "output" ? node.layers.at(-1)?.name : undefined;
    const layer = node.kind === "group" ? node.value.key : (within?.name ?? last ?? node.value.key);
    state.selected.value = { layer, channel: null };
    if (views.hoveredLayer.peek() !== null) views.hoveredLayer.value = layer;
  };
  /** Open or close a group; the node `from` stays in place on screen. */
  const toggle = (id: string, from: PlacedNode): void => {
    const next = openGroups.has(id)
      ? new Set([...openGroups].filter((one) => one !== id))
      : openGroup(tree, openGroups, id);
    const there = graphLayout(tree, next);
    const all = initialCamera(there, { ...viewport, height: heightOf(there) });
    const inside = tree.items.find(({ groups }) => groups.some((group) => group.id === id));
    const to = nodeOfValue(there.nodes, inside?.stage?.valueKey);
    batch(() => {
      state.openGroups.value = next;
      const far =
        all.zoom < Math.min(MIN_OPENED_ZOOM, camera.zoom) || overflows(all, there, viewport);
      if (to && (state.graphCamera.peek() !== null || far)) {
        const { zoom } = camera;
        const x = camera.x + (from.x - to.x) * zoom;
        const stays = { zoom, x, y: camera.y + (from.y - to.y) * zoom };
        // If the graph now overflows the window, move the opened group into view.
        state.graphCamera.value = overflows(all, there, viewport)
          ? reveal(stays, viewport, groupBounds(there, id))
          : stays;
      }
    });
    focus.current = element.current?.contains(document.activeElement) ?? false;
  };
  /** Open a closed module, or one of the repeated blocks of a node. */
  const openBlock = (
    placed: PlacedNode,
    block = blockToOpen(tree, openGroups, placed.node),
  ): void => {
    if (block === undefined) return;
    state.selected.value = { layer: block.value.key, channel: null };
    toggle(block.group.id, placed);
  };
  const enter = (placed: PlacedNode): void => {
    select(placed);
    if (placed.node.kind === "group") openBlock(placed);
    else state.tab.value = "layer";
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    const target = event.target instanceof Element ? event.target.closest("[data-node]") : null;
    const id = target?.getAttribute("data-node");
    const from = nodes.find(({ node }) => node.id === id);
    if (from === undefined || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey)
      return;
    const to = neighbour(layout, from, event.key);
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
    const next = box && reveal(camera, viewport, box);
    if (next && next !== camera) state.graphCamera.value = next;
  };
  // Move a layer that was selected elsewhere, from Python or by the search field, into view.
  const wanted = chosen?.node.id;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another choice moves the window
  useEffect(() => {
    const seen = state.graphCamera.peek();
    const next = chosen && seen && reveal(seen, viewport, chosen);
    if (next && next !== seen) state.graphCamera.value = next;
  }, [wanted]);

  const far =
    NODE_SIDE * camera.zoom < MIN_PICTURE_SIDE &&
    camera.zoom < 0.97 * initialCamera(layout, viewport).zoom;
  const tiny = NODE_SIDE * camera.zoom < TINY_NODE_LIMITS.side;
  const shows =
    tiny && nodes.length > TINY_NODE_LIMITS.most ? "nothing" : far && !tiny ? "name" : "picture";
  const words = far ? "blocks" : camera.zoom < MIN_CAPTION_ZOOM ? "names" : "all";
  const visible = ({ x, y, width, height }: PlacedNode): boolean => {
    const left = camera.x + x * camera.zoom;
    const top = camera.y + y * camera.zoom;
    const right = left + width * camera.zoom;
    const bottom = top + height * camera.zoom;
    return right > 0 && bottom > 0 && left < viewport.width && top < viewport.height;
  };
  return (
    <div class="nbg-graph">
      <div
        ref={element}
        class={`nbg-window ${state.graphCamera.value === null ? "" : "nbg-moved"} ${beyond ? "nbg-beyond" : ""}`}
        role="group"
        aria-label="Network as a graph, from input to output"
        style={{ height: px(viewport.height) }}
        onKeyDown={onKeyDown}
        onFocusIn={onFocusIn}
        {...handlers}
      >
        <div
          class="nbg-sheet"
          data-words={words}
          data-nested={camera.zoom >= MIN_NESTED_ZOOM ? "" : undefined}
          style={cameraStyle(camera, layout)}
        >
          <EdgeLines layout={layout} zoom={camera.zoom} selectedKey={state.selected.value?.layer} />
          {layout.brackets.map(({ group, x, y, width, hasName }) => (
            <button
              type="button"
              class={group.title === group.module ? "nbg-bracket" : "nbg-bracket nbg-nested"}
              key={`${group.id} ${y} ${x}`}
              tabIndex={hasName ? 0 : -1}
              aria-expanded="true"
              aria-label={`Close ${group.module}`}
              title={`Close ${group.module}`}
              style={{ left: px(x), top: px(y), width: px(width) }}
              onClick={() => {
                const one = nodes.find(({ node }) => node.groups.includes(group));
                if (one) toggle(group.id, one);
              }}
            >
              {hasName && <span>{bracketTitle(tree, group)}</span>}
            </button>
          ))}
          <ViewsContext.Provider value={inner}>
            {nodes.map((placed) => (
              <NodeView
                key={placed.node.id}
                placedNode={placed}
                isSelected={placed === chosen}
                isTabStop={placed === stop}
                isVisible={visible(placed)}
                detail={shows}
                select={select}
                openNode={enter}
              />
            ))}
          </ViewsContext.Provider>
        </div>
      </div>
      <GraphToolbar
        tree={tree}
        openGroups={openGroups}
        layout={layout}
        camera={camera}
        viewport={viewport}
      >
        {beyond && (
          <Minimap
            layout={layout}
            camera={camera}
            viewport={viewport}
            setCamera={(next) => {
              state.graphCamera.value = next;
            }}
          />
        )}
      </GraphToolbar>
      {chosen?.node.kind === "group" && (
        <ModuleLayers node={chosen.node} openBlock={(block) => openBlock(chosen, block)} />
      )}
    </div>
  );
}

/** The repeated block that a node opens: the one next to the open block, else the first. */
function blockToOpen(
  { repeatedBlocks }: ModuleTree,
  openGroups: ReadonlySet<string>,
  { blocks }: GraphNode,
) {
  const fold = repeatedBlocks.get(blocks[0]?.group.id ?? "") ?? [];
  const opened = fold.findIndex(({ id }) => openGroups.has(id));
  const before = fold.findIndex(({ id }) => id === blocks[0]?.group.id) < opened;
  return before ? blocks.at(-1) : blocks[0];
}

/** "3", for repeated blocks "3 · one of 12 identical blocks". */
function bracketTitle({ repeatedBlocks }: ModuleTree, group: ModuleGroup): string {
  const fold = repeatedBlocks.get(group.id);
  return fold === undefined
    ? group.title
    : `${group.title} · one of ${fold.length} identical blocks`;
}

const cameraStyle = ({ zoom, x, y }: Camera, { width, height }: GraphLayout) => ({
  width: px(width),
  height: px(height),
  transform: `translate(${x}px, ${y}px) scale(${zoom})`,
  "--nb-zoom": zoom,
});

/** The zoom that pictures are drawn for: it follows after a gesture has ended. */
function useSettledZoom(zoom: number) {
  const settledZoom = useSignal(zoom);
  useEffect(() => {
    const timer = setTimeout(() => {
      settledZoom.value = zoom;
    }, ZOOM_SETTLE_MS);
    return () => clearTimeout(timer);
  }, [settledZoom, zoom]);
  return settledZoom;
}

function GraphToolbar(props: {
  tree: ModuleTree;
  openGroups: ReadonlySet<string>;
  layout: GraphLayout;
  camera: Camera;
  viewport: Size;
  children: ComponentChildren;
}) {
  const { tree, openGroups, layout, camera, viewport, children } = props;
  const { state } = useViews();
  const zoom = (by: number): void => {
    state.graphCamera.value = zoomAt(camera, by, viewport.width / 2, viewport.height / 2);
  };
  const all = openAllGroups(tree);
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
  const set = (ids: ReadonlySet<string>) => () => {
    batch(() => {
      state.openGroups.value = ids;
      state.graphCamera.value = null;
    });
  };
  return (
    <div class="nbg-graph-tools" role="toolbar" aria-label="Graph">
      {all.size > 0 &&
        button("Open all", "Open all modules", set(all), openGroups.size === all.size)}
      {all.size > 0 &&
        button("Close all", "Close all modules", set(new Set()), openGroups.size === 0)}
      {button("−", "Zoom out", () => zoom(1 / 1.25))}
      {button("+", "Zoom in", () => zoom(1.25))}
      {button("Fit", "Fit the whole graph", () => {
        const [whole, first] = [fitCamera(layout, viewport), initialCamera(layout, viewport)];
        state.graphCamera.value = whole.zoom === first.zoom ? null : whole;
      })}
      <span class="nbg-second nbg-graph-hint">
        {tree.groups.length > openGroups.size && "stacked outline: closed module · "}
        {hasPython && "dashed outline: computed in Python · "}
        drag to pan, Ctrl/⌘ + wheel to zoom
      </span>
      {children}
    </div>
  );
}
