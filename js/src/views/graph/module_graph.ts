// The network as nodes and edges, for any set of open modules: a closed module is one node.

import { relativeName } from "../../network/layer_names.ts";
import { type Network, type Stage, shortType } from "../../network/network.ts";
import type { Layer, PlanHeader, Value } from "../../plan/schema.ts";
import type { ModuleGroup, ModuleTree, TreeItem } from "./module_tree.ts";
import { closedSegments, findRepeatedBlocks, openGroup, segmentTitle } from "./repeated_blocks.ts";

export interface GraphNode {
  readonly id: string;
  readonly kind: "input" | "output" | "stage" | "group" | "merge" | "step";
  readonly title: string;
  /** The value that its picture shows. */
  readonly value: Value;
  /** All layers that the node represents. */
  readonly layers: readonly Layer[];
  readonly stages: readonly Stage[];
  /** The open groups around the node, outermost first. */
  readonly groups: readonly ModuleGroup[];
  /** For a closed group, the group itself, or several repeated blocks, each with its output value. */
  readonly blocks: readonly ClosedBlock[];
}

export interface ClosedBlock {
  readonly group: ModuleGroup;
  readonly value: Value;
}

export interface GraphEdge {
  readonly from: string;
  readonly to: string;
  /** Key of the tensor that the edge carries. */
  readonly key: string;
  /** For a skip connection, the merge operator at its end: "cat" or "+"; else "". */
  readonly skipOperator: string;
}

export interface NodeGraph {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
}

const treesByNetwork = new WeakMap<Network, ModuleTree>();

/** The edges between stages and inputs, and the modules around them; cached per network. */
export function moduleTree(plan: PlanHeader, network: Network): ModuleTree {
  const tree = treesByNetwork.get(network) ?? buildTree(plan, network);
  treesByNetwork.set(network, tree);
  return tree;
}

function buildTree(plan: PlanHeader, network: Network): ModuleTree {
  const { inputs, stages, values } = network;
  const producers = new Map<string, number>(inputs.map((value, i) => [value.key, i]));
  for (const [i, stage] of stages.entries()) {
    for (const layer of stage.layers) producers.set(layer.name, inputs.length + i);
  }
  const all = new Map(plan.layers.map((layer) => [layer.name, layer]));
  /** The visible sources of a layer; looks through layers whose values the Plan does not keep. */
  const seen = (keys: readonly string[]): Set<string> => {
    const found = new Set<string>();
    const known = new Set(keys);
    for (const key of known) {
      if (producers.has(key)) found.add(key);
      else for (const before of all.get(key)?.inputs ?? []) known.add(before);
    }
    return found;
  };
  const modules = enclosingGroups(stages);
  const items: TreeItem[] = inputs.map((value) => ({ stage: null, value, groups: [], links: [] }));
  for (const [i, stage] of stages.entries()) {
    const value = values.get(stage.valueKey);
    if (value === undefined) continue;
    const keys = seen(stage.layers.flatMap((layer) => layer.inputs));
    const links = [...keys].map((key) => ({ from: producers.get(key) ?? 0, key }));
    const others = links.filter((link) => link.from !== inputs.length + i);
    items.push({ stage, value, groups: modules[i] ?? [], links: others });
  }
  const readerCounts = items.map(() => 0);
  for (const from of items.flatMap((item) => [...new Set(item.links.map((link) => link.from))])) {
    readerCounts[from] = (readerCounts[from] ?? 0) + 1;
  }
  const groups = [...new Set(modules.flat())];
  return {
    items,
    groups,
    repeatedBlocks: findRepeatedBlocks(items, groups),
    readerCounts,
    network,
  };
}

/**
 * The groups around each stage: runs of consecutive stages in the same module. A run of one stage, or one equal to the
 * surrounding group, is no group.
 */
function enclosingGroups(stages: readonly Stage[]): ModuleGroup[][] {
  const around: ModuleGroup[][] = stages.map(() => []);
  const used = new Map<string, number>();
  const walk = (first: number, end: number, depth: number, outer: string): void => {
    for (let i = first; i < end; ) {
      const module = stages[i]?.modules[depth];
      let next = i + 1;
      while (next < end && stages[next]?.modules[depth] === module) next++;
      if (module !== undefined) {
        const whole = i === first && next === end && outer !== "";
        const several = next - i > 1 && !whole;
        if (several) {
          const times = used.get(module) ?? 0;
          used.set(module, times + 1);
          const id = times === 0 ? module : `${module} ${times + 1}`;
          const group = { id, module, title: relativeName(module, outer) };
          for (let k = i; k < next; k++) around[k]?.push(group);
        }
        walk(i, next, depth + 1, several ? module : outer);
      }
      i = next;
    }
  };
  walk(0, stages.length, 0, "");
  return around;
}

// Networks of up to this many stages are fully open; larger ones start with about this many nodes.
const MAX_FULLY_OPEN_STAGES = 12;
const TARGET_NODE_COUNT = 7;

/**
 * The groups that are open initially: as many levels as give about seven nodes, rather more than fewer. Repeated blocks
 * are closed.
 */
export function initiallyOpenGroups(tree: ModuleTree): ReadonlySet<string> {
  const { items, repeatedBlocks } = tree;
  const openTo = (depth: number): ReadonlySet<string> =>
    new Set(
      items.flatMap(({ groups }) => {
        const folded = groups.findIndex(({ id }) => repeatedBlocks.has(id));
        return groups.slice(0, folded < 0 ? depth : Math.min(depth, folded)).map(({ id }) => id);
      }),
    );
  const depths = Math.max(...items.map((item) => item.groups.length));
  const stages = items.filter((item) => item.stage !== null).length;
  if (stages <= MAX_FULLY_OPEN_STAGES) return openTo(depths);
  const inputs = items.length - stages;
  let best: { cost: number; open: ReadonlySet<string> } = { cost: Infinity, open: new Set() };
  for (let depth = 0; depth <= depths; depth++) {
    const open = openTo(depth);
    const shown = new Set(nodeIds(tree, open)).size - inputs;
    const cost = Math.max(
      Math.log(shown / TARGET_NODE_COUNT),
      1.5 * Math.log(TARGET_NODE_COUNT / shown),
    );
    if (cost < best.cost) best = { cost, open };
  }
  return best.open;
}

const closedGroup = (item: TreeItem, openGroups: ReadonlySet<string>): ModuleGroup | undefined =>
  item.groups.find((group) => !openGroups.has(group.id));

/** The open groups, plus the ones that must be open for a layer to have its own node. */
export function openGroupsAround(tree: ModuleTree, openGroups: ReadonlySet<string>, layer: string) {
  const item = tree.items.find(({ stage }) => stage?.layers.some(({ name }) => name === layer));
  return (item?.groups ?? []).reduce((all, { id }) => openGroup(tree, all, id), openGroups);
}

/** The node id of each item: its own, or the one of the closed group or the repeated blocks that contain it. */
function nodeIds(tree: ModuleTree, openGroups: ReadonlySet<string>): string[] {
  const segments = closedSegments(tree, openGroups);
  return tree.items.map((item) => {
    const closed = closedGroup(item, openGroups);
    if (closed === undefined) return item.stage?.valueKey ?? item.value.key;
    const [first, ...more] = segments.get(closed.id) ?? [];
    return first && more.length > 0 ? `${first.id} × ${1 + more.length}` : closed.id;
  });
}

/** Build the nodes, in call order, and the edges between them for a set of open groups. */
export function buildGraph(tree: ModuleTree, openGroups: ReadonlySet<string>): NodeGraph {
  const { items, network } = tree;
  const ids = nodeIds(tree, openGroups);
  const members = new Map<string, TreeItem[]>();
  for (const [i, item] of items.entries()) {
    const id = ids[i] ?? "";
    members.set(id, [...(members.get(id) ?? []), item]);
  }
  const edges = new Map<string, GraphEdge>();
  for (const [i, item] of items.entries()) {
    const to = ids[i] ?? "";
    const latest = Math.max(...item.links.map((link) => link.from));
    for (const { from: source, key } of item.links) {
      const from = ids[source] ?? "";
      const head = item.stage?.layers[0];
      const merges = head !== undefined && item.links.length > 1 && head.role === "merges";
      const skips = merges && source !== latest && (tree.readerCounts[source] ?? 0) > 1;
      const skipOperator = skips ? shortType(head) : "";
      const name = `${from}\n${to}\n${key}`;
      // If a closed module both reads a value and adds it at its end, the graph shows one edge and no skip connection.
      const known = edges.get(name);
      if (from !== to && (!known || (known.skipOperator && !skipOperator)))
        edges.set(name, { from, to, key, skipOperator });
    }
  }
  // If another value already connects two nodes, no skip connection is shown between them.
  const joined = new Set(
    [...edges.values()].map((edge) => !edge.skipOperator && `${edge.from}\n${edge.to}`),
  );
  const closed = new Set(closedSegments(tree, openGroups).keys());
  const lines = new Map<string, GraphEdge>();
  for (const edge of edges.values()) {
    const ends = `${edge.from}\n${edge.to}`;
    const one = joined.has(ends) ? { ...edge, skip: "" } : edge;
    // If several blocks are merged into one node, only the edge of the last one is shown.
    const many = members
      .get(edge.from)
      ?.some(({ groups }) => groups.some(({ id }) => closed.has(id)));
    lines.set(many ? ends : `${ends}\n${edge.key}`, one);
  }
  const all = [...lines.values()];
  const single = network.inputs.length === 1;
  const nodes = [...members].map(([id, own]) => {
    const node = buildNode(id, own, openGroups, all);
    return node.kind === "input" && single ? { ...node, title: "Input" } : node;
  });
  return addOutputs({ nodes, edges: all }, network);
}

function buildNode(
  id: string,
  items: readonly TreeItem[],
  openGroups: ReadonlySet<string>,
  edges: readonly GraphEdge[],
): GraphNode {
  const stages = items.flatMap(({ stage }) => stage ?? []);
  const layers = stages.flatMap((stage) => stage.layers);
  const leaving = new Set(edges.filter((edge) => edge.from === id).map((edge) => edge.key));
  const last =
    items.findLast(({ stage }) => stage?.layers.some(({ name }) => leaving.has(name))) ??
    items.at(-1);
  const [first] = items;
  if (first === undefined || last === undefined) throw new Error(`${id} stands for nothing`);
  const groups = first.groups.filter((group) => openGroups.has(group.id));
  const common = { id, value: last.value, layers, stages, groups, blocks: [] };
  if (first.stage === null) return { ...common, kind: "input", title: id, value: first.value };
  const blocks = new Map<ModuleGroup, ClosedBlock>();
  for (const item of items) {
    const group = closedGroup(item, openGroups);
    if (group) blocks.set(group, { group, value: item.value });
  }
  if (blocks.size > 0) {
    const title = segmentTitle([...blocks.keys()], groups.at(-1)?.module ?? "");
    return { ...common, kind: "group", title, blocks: [...blocks.values()] };
  }
  const [layer] = layers;
  const before = edges.filter((edge) => edge.to === id);
  const after = edges.filter((edge) => edge.from === id);
  const alone = layers.length === 1 && layer !== undefined;
  const joins = alone && before.length > 1 && layer.role === "merges";
  const steps =
    alone &&
    before.length === 1 &&
    after.length === 1 &&
    layer.role === "resamples" &&
    changesResolution(layer);
  const kind = joins && after.length > 0 ? "merge" : steps ? "step" : "stage";
  const name = relativeName(first.stage.title, groups.at(-1)?.module ?? "");
  const signs = { merge: shortType, step: (one: Layer) => stepTitle(one, name), stage: () => name };
  const title = layer ? signs[kind](layer) : name;
  return { ...common, kind, title };
}

/** "MaxPool ½"; a layer with weights has its name: "up1 ConvT ×2". */
function stepTitle(layer: Layer, name: string): string {
  const [before = 1] = layer.input_shapes[0]?.slice(2) ?? [];
  const [after = 1] = layer.output_shape.slice(2);
  const less = Math.round(before / after);
  const by = after > before ? `×${Math.round(after / before)}` : less === 2 ? "½" : `÷${less}`;
  return `${layer.parameters > 0 ? `${name} ` : ""}${shortType(layer)} ${by}`;
}

/** Whether input and output of a pool or resampling are maps of different sizes. */
function changesResolution({ input_shapes: [input = []], output_shape: output }: Layer): boolean {
  const maps = (shape: readonly number[]) => shape.slice(2).some((length) => length > 1);
  return maps(input) && maps(output) && input.slice(2).join() !== output.slice(2).join();
}

/**
 * Add the output nodes: the stage that computes an output becomes the output's node; otherwise the output gets a node
 * after its source.
 */
function addOutputs({ nodes, edges }: NodeGraph, { outputs, values }: Network): NodeGraph {
  const all = new Map(nodes.map((node) => [node.id, node]));
  const more: GraphEdge[] = [];
  for (const value of outputs) {
    const title = outputs.length > 1 ? value.key : "Output";
    const makes = (key: string): boolean => values.get(key)?.texture === value.texture;
    const maker = nodes.find((node) => node.layers.some(({ name }) => makes(name)));
    if (maker === undefined) continue;
    const ends =
      all.get(maker.id)?.kind === "stage" && !edges.some((edge) => edge.from === maker.id);
    if (ends && makes(maker.value.key)) {
      all.set(maker.id, { ...maker, kind: "output", title, value });
    } else {
      const key = maker.layers.findLast(({ name }) => makes(name))?.name ?? maker.value.key;
      all.set(value.key, {
        id: value.key,
        kind: "output",
        title,
        value,
        layers: [],
        stages: [],
        groups: [],
        blocks: [],
      });
      more.push({ from: maker.id, to: value.key, key, skipOperator: "" });
    }
  }
  return { nodes: [...all.values()], edges: [...edges, ...more] };
}
