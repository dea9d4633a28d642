// The network's graph before anything is drawn: modules, edges, skips, and where everything is placed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { indexNetwork } from "../src/network/network.ts";
import type { Layer, PlanHeader, Value } from "../src/plan/schema.ts";
import {
  fitCamera,
  initialCamera,
  overflows,
  pan,
  reveal,
  windowHeight,
  zoomAt,
} from "../src/views/graph/camera.ts";
import { graphLayout } from "../src/views/graph/graph_layout.ts";
import { neighbour } from "../src/views/graph/key_navigation.ts";
import {
  buildGraph,
  initiallyOpenGroups,
  moduleTree,
  openGroupsAround,
} from "../src/views/graph/module_graph.ts";
import type { ModuleTree } from "../src/views/graph/module_tree.ts";
import type { GraphLayout, PlacedNode } from "../src/views/graph/node_boxes.ts";
import { openAllGroups, openGroup } from "../src/views/graph/repeated_blocks.ts";
import { makeLayer } from "./layer_records.ts";

type LayerRow = readonly [
  name: string,
  operator: string,
  inputs: string,
  channels: number,
  side: number,
];

/** A network of layers by rows; an addition or concatenation belongs to no module. */
function treeFrom(
  rows: readonly LayerRow[],
  kept: (name: string) => boolean = () => true,
  side = 64,
): ModuleTree {
  const value = (key: string, kind: Value["kind"], texture: number, nchw: number[]) =>
    ({ key, kind, texture, shape: nchw, nchw }) as unknown as Value;
  const shapes = new Map([["x", [1, 3, side, side]]]);
  const layers: Layer[] = rows.map(([name, operator, inputs, channels, side]) => {
    const keys = inputs.split(" ");
    shapes.set(name, [1, channels, side, side]);
    return makeLayer(name, operator, keys, {
      module: ["Add", "Concat"].includes(operator) ? "" : operator,
      input_shapes: keys.map((key) => shapes.get(key) ?? []),
      output_shape: [1, channels, side, side],
      parameters: operator.startsWith("Conv") ? 9 : 0,
    });
  });
  const values = layers
    .filter(({ name }) => kept(name))
    .map(({ name }, i) => value(name, "layer", i + 1, shapes.get(name) ?? []));
  const plan = {
    values: [value("x", "input", 0, [1, 3, side, side]), ...values],
    parameters: [],
    outputs: [],
    layers,
    comparison: { pairs: [] },
  } as unknown as PlanHeader;
  return moduleTree(plan, indexNetwork(plan));
}

const blockRow = (name: string, from: string, channels: number, side: number): LayerRow[] => [
  [`${name}.0`, "Conv", from, channels, side],
  [`${name}.1`, "Relu", `${name}.0`, channels, side],
  [`${name}.2`, "Conv", `${name}.1`, channels, side],
  [`${name}.3`, "Relu", `${name}.2`, channels, side],
];
const UNET: readonly LayerRow[] = [
  ...blockRow("down1", "x", 4, 64),
  ["pool", "MaxPool", "down1.3", 4, 32],
  ...blockRow("down2", "pool", 8, 32),
  ["pool:1", "MaxPool", "down2.3", 8, 16],
  ...blockRow("mid", "pool:1", 16, 16),
  ["up2", "ConvTranspose", "mid.3", 8, 32],
  ["cat", "Concat", "up2 down2.3", 16, 32],
  ...blockRow("dec2", "cat", 8, 32),
  ["up1", "ConvTranspose", "dec2.3", 4, 64],
  ["cat_1", "Concat", "up1 down1.3", 8, 64],
  ...blockRow("dec1", "cat_1", 4, 64),
  ["head", "Conv", "dec1.3", 3, 64],
];
const residualRows = (name: string, from: string): LayerRow[] => [
  [`${name}.conv1`, "Conv", from, 4, 32],
  [`${name}.relu`, "Relu", `${name}.conv1`, 4, 32],
  [`${name}.conv2`, "Conv", `${name}.relu`, 4, 32],
  [`${name}.add`, "Add", `${name}.conv2 ${from}`, 4, 32],
  [`${name}.relu:1`, "Relu", `${name}.add`, 4, 32],
];

const nodeById = ({ nodes }: GraphLayout, id: string): PlacedNode => {
  const found = nodes.find(({ node }) => node.id === id);
  if (found === undefined) throw new Error(`no node ${id}`);
  return found;
};
const middleY = ({ y, height }: PlacedNode): number => y + height / 2;
const NONE_OPEN: ReadonlySet<string> = new Set();

test("closed modules are nodes, and edges lead between what is seen", () => {
  const { nodes, edges } = buildGraph(treeFrom(UNET), NONE_OPEN);
  assert.deepEqual(
    nodes.map(({ id, kind }) => `${id} ${kind}`),
    [
      ...["x input", "down1 group", "pool step", "down2 group", "pool:1 step", "mid group"],
      ...[
        "up2 step",
        "cat merge",
        "dec2 group",
        "up1 step",
        "cat_1 merge",
        "dec1 group",
        "head stage",
      ],
    ],
  );
  assert.deepEqual(
    edges
      .filter(({ skipOperator }) => skipOperator)
      .map(({ from, to, key, skipOperator }) => [from, to, key, skipOperator]),
    [
      ["down2", "cat", "down2.3", "cat"],
      ["down1", "cat_1", "down1.3", "cat"],
    ],
  );
  assert.equal(edges.length, 14);
  assert.deepEqual(
    nodes.filter(({ kind }) => kind === "step").map(({ title }) => title),
    ["MaxPool ½", "MaxPool ½", "up2 ConvT ×2", "up1 ConvT ×2"],
  );
});

test("an open module's layers are its own nodes, called by their name in it", () => {
  const { nodes } = buildGraph(treeFrom(UNET), new Set(["down2"]));
  const inside = nodes.filter(({ groups }) => groups.some(({ id }) => id === "down2"));
  assert.deepEqual(
    inside.map(({ title, layers }) => [title, layers.length]),
    [
      ["0–1", 2],
      ["2–3", 2],
    ],
  );
});

test("what a Plan keeps nothing of is read through", () => {
  const tree = treeFrom(UNET, (name) => !name.startsWith("mid") && name !== "up2");
  const { edges } = buildGraph(tree, NONE_OPEN);
  assert.ok(
    edges.some(({ from, to, key }) => from === "pool:1" && to === "cat" && key === "pool:1"),
  );
});

test("at first so much is open as can be read at a glance", () => {
  const stages = (count: number): LayerRow[] =>
    Array.from({ length: count }, (_, k): LayerRow => {
      const side = k < count / 2 ? "encoder" : "decoder";
      return [
        `${side}.${k}`,
        "Conv",
        k ? `${k - 1 < count / 2 ? "encoder" : "decoder"}.${k - 1}` : "x",
        4,
        64,
      ];
    });
  assert.deepEqual([...initiallyOpenGroups(treeFrom(stages(6)))], ["encoder", "decoder"]);
  assert.deepEqual([...initiallyOpenGroups(treeFrom(stages(60)))], []);
  const resnet = [1, 2, 3, 4].flatMap((k) =>
    [0, 1].flatMap((j) => {
      const before = j ? `layer${k}.0.relu:1` : k > 1 ? `layer${k - 1}.1.relu:1` : "conv1";
      return residualRows(`layer${k}.${j}`, before).map(
        ([a, b, c, d]): LayerRow => [a, b, c, d, 64 >> k],
      );
    }),
  );
  const tree = treeFrom([
    ["conv1", "Conv", "x", 4, 32],
    ...resnet,
    ["fc", "Gemm", "layer4.1.relu:1", 9, 1],
  ]);
  const ids = buildGraph(tree, initiallyOpenGroups(tree)).nodes.map(({ id }) => id);
  assert.deepEqual(ids, ["x", "conv1", "layer1", "layer2", "layer3", "layer4", "fc"]);
});

test("a module that is entered again later is another group, so that edges never lead back", () => {
  const again = (call: string, from: string): LayerRow[] => [
    [`enc.0${call}`, "Conv", from, 4, 64],
    [`enc.1${call}`, "MaxPool", `enc.0${call}`, 4, 64],
  ];
  const tree = treeFrom([
    ...again("", "x"),
    ["mid", "MaxPool", "enc.1", 4, 64],
    ...again(":1", "mid"),
  ]);
  const { nodes, edges } = buildGraph(tree, NONE_OPEN);
  assert.deepEqual(
    nodes.map(({ id }) => id),
    ["x", "enc", "mid", "enc 2"],
  );
  const order = nodes.map(({ id }) => id);
  assert.ok(edges.every(({ from, to }) => order.indexOf(from) < order.indexOf(to)));
});

test("a U-Net looks like a U: resolution steps down, flow steps right, skips are level", () => {
  const placement = graphLayout(treeFrom(UNET), NONE_OPEN);
  const [down1, down2, mid, dec2, dec1] = ["down1", "down2", "mid", "dec2", "dec1"].map((id) =>
    nodeById(placement, id),
  ) as [PlacedNode, PlacedNode, PlacedNode, PlacedNode, PlacedNode];
  assert.equal(middleY(down1), middleY(dec1));
  assert.equal(middleY(down2), middleY(dec2));
  assert.ok(down1.y + down1.height < down2.y && down2.y + down2.height < mid.y);
  const across = [down1, down2, mid, dec2, dec1].map(({ x }) => x);
  assert.deepEqual(
    across,
    across.toSorted((a, b) => a - b),
  );
  assert.deepEqual(
    [down2.captionSide, dec2.captionSide, mid.captionSide],
    ["left", "right", "right"],
  );
  const skips = placement.lines.filter(({ edge }) => edge.skipOperator);
  assert.equal(skips.length, 2);
  for (const { edge, path, labelPosition: word } of skips) {
    const y = middleY(nodeById(placement, edge.from));
    assert.match(path, new RegExp(`^M[\\d.]+,${y}L[\\d.]+,${y}M`), "a straight line to its arrow");
    assert.equal(word.y, y);
  }
});

test("28, 14, 7 and 4 have a row each, on the way down and up, and what is a little smaller shares it", () => {
  const down: LayerRow[] = [
    ["a", "Conv", "x", 4, 26],
    ["b", "Conv", "a", 8, 14],
    ["c", "Conv", "b", 8, 7],
    ["d", "Conv", "c", 8, 4],
  ];
  const up: LayerRow[] = [
    ["up3", "ConvTranspose", "d", 8, 7],
    ["e", "Conv", "up3", 8, 7],
    ["up2", "ConvTranspose", "e", 8, 13],
    ["f", "Conv", "up2", 8, 13],
    ["up1", "ConvTranspose", "f", 4, 28],
    ["g", "Conv", "up1", 4, 28],
  ];
  const rowsOf = (rows: readonly LayerRow[]) => {
    const { nodes } = graphLayout(
      treeFrom(rows, () => true, 28),
      NONE_OPEN,
    );
    const pictures = nodes.filter(({ node }) => node.kind !== "step");
    const levels = [...new Set(pictures.map(({ y }) => y))].sort((a, b) => a - b);
    return pictures.map(({ node, y }) => `${node.id} ${levels.indexOf(y)}`).join(", ");
  };
  assert.equal(rowsOf(down), "x 0, a 0, b 1, c 2, d 3");
  assert.equal(rowsOf([...down, ...up]), "x 0, a 0, b 1, c 2, d 3, e 2, f 1, g 0");
});

test("in a stair nothing stands below another, and steps are low", () => {
  const tree = treeFrom([
    ["a", "Conv", "x", 4, 32],
    ["b", "Conv", "a", 8, 16],
    ["c", "Conv", "b", 8, 8],
  ]);
  const { nodes } = graphLayout(tree, NONE_OPEN);
  assert.equal(nodes.length, 4);
  nodes.reduce((before, node) => {
    assert.ok(node.x > before.x + before.width);
    assert.ok(node.y > before.y && node.y < before.y + before.height / 2);
    return node;
  });
});

test("a skip over its own branch is an arch above it; another branch has a lane", () => {
  const tree = treeFrom([["conv1", "Conv", "x", 4, 32], ...residualRows("a", "conv1")]);
  const placement = graphLayout(tree, new Set(["a"]));
  const skip = placement.lines.find(({ edge }) => edge.skipOperator === "+");
  assert.ok(skip && skip.labelPosition.y < nodeById(placement, "a.conv2").y);
  const forked = graphLayout(
    treeFrom([
      ["p", "Conv", "x", 4, 64],
      ["q", "Conv", "x", 4, 64],
      ["j", "Concat", "p q", 8, 64],
      ["end", "Conv", "j", 8, 64],
    ]),
    NONE_OPEN,
  );
  assert.equal(nodeById(forked, "p").x, nodeById(forked, "q").x);
  assert.ok(nodeById(forked, "q").y > nodeById(forked, "p").y + nodeById(forked, "p").height);
});

test("a skip over another skip is a higher arch", () => {
  const { lines } = graphLayout(
    treeFrom([
      ["a", "Conv", "x", 4, 64],
      ["b", "Conv", "a", 4, 64],
      ["c", "Conv", "b", 4, 64],
      ["inner", "Concat", "c b", 8, 64],
      ["outer", "Concat", "inner a", 12, 64],
    ]),
    NONE_OPEN,
  );
  const height = (from: string, to: string): number => {
    const found = lines.find(({ edge }) => edge.from === from && edge.to === to);
    assert.ok(found, `${from} → ${to}`);
    return found.labelPosition.y;
  };
  assert.ok(height("a", "outer") < height("b", "inner") - 5);
});

/** 200 layers or more: eight levels down and up, skips between, residual blocks in each. */
function largeTree(): ModuleTree {
  const rows: LayerRow[] = [];
  let last = "x";
  const stage = (name: string, side: number): void => {
    for (let k = 0; k < 2; k++) {
      rows.push(
        ...residualRows(`${name}.${k}`, last).map(([a, b, c, d]): LayerRow => [a, b, c, d, side]),
      );
      last = `${name}.${k}.relu:1`;
    }
  };
  const ends: string[] = [];
  for (let k = 0; k < 10; k++) {
    stage(`down${k}`, 1024 >> k);
    ends.push(last);
    rows.push([`pool${k}`, "MaxPool", last, 4, 512 >> k]);
    last = `pool${k}`;
  }
  for (let k = 9; k >= 0; k--) {
    rows.push([`cat${k}`, "Concat", `${last} ${ends[k]}`, 4, 1024 >> k]);
    last = `cat${k}`;
    stage(`up${k}`, 1024 >> k);
  }
  return treeFrom(rows);
}

test("no two nodes of a large network overlap, whatever is open", () => {
  const tree = largeTree();
  const all = new Set(tree.groups.map(({ id }) => id));
  for (const open of [
    NONE_OPEN,
    all,
    initiallyOpenGroups(tree),
    new Set(["down3", "up0", "up0.1"]),
  ]) {
    const boxes = graphLayout(tree, open).nodes.filter(({ node }) => node.kind !== "step");
    assert.ok(boxes.length > 20);
    for (const [i, a] of boxes.entries()) {
      for (const b of boxes.slice(0, i)) {
        const apart =
          a.x + a.width <= b.x ||
          b.x + b.width <= a.x ||
          a.y + a.height <= b.y ||
          b.y + b.height <= a.y;
        assert.ok(apart, `${a.node.id} and ${b.node.id}`);
      }
    }
  }
});

test("200 layers are placed only once", () => {
  const tree = largeTree();
  const all = new Set(tree.groups.map(({ id }) => id));
  const placement = graphLayout(tree, all);
  assert.ok(placement.nodes.flatMap(({ node }) => node.layers).length >= 200);
  assert.equal(graphLayout(tree, new Set([...all].reverse())), placement);
});

test("arrows lead along the edges, and to what is above or below", () => {
  const placement = graphLayout(treeFrom(UNET), NONE_OPEN);
  const go = (from: string, key: string) =>
    neighbour(placement, nodeById(placement, from), key)?.node.id;
  assert.equal(go("x", "ArrowRight"), "down1");
  assert.equal(go("down1", "ArrowRight"), "pool");
  assert.equal(go("pool", "ArrowRight"), "down2");
  assert.equal(go("down2", "ArrowUp"), "pool");
  assert.equal(go("dec1", "ArrowLeft"), "cat_1");
  assert.equal(go("cat_1", "ArrowLeft"), "up1");
  assert.equal(go("x", "ArrowLeft"), undefined);
});

test("zooming keeps what is under the pointer, fitting shows all, revealing moves no more than needed", () => {
  const size = { width: 1000, height: 500, minReadableZoom: 0.45 };
  const view = { width: 600, height: windowHeight(size, 600) };
  const all = fitCamera(size, view);
  assert.ok(all.x >= 20 && all.y >= 20 && all.x + size.width * all.zoom <= 580.001);
  const near = zoomAt(all, 3, 100, 50);
  const under = (camera: typeof all) => [
    (100 - camera.x) / camera.zoom,
    (50 - camera.y) / camera.zoom,
  ];
  for (const [k, place] of under(near).entries())
    assert.ok(Math.abs(place - (under(all)[k] ?? 0)) < 1e-9);
  const box = { x: 900, y: 10, width: 60, height: 60 };
  const seen = reveal(near, view, box);
  assert.ok(seen.x + (box.x + box.width) * seen.zoom <= view.width);
  assert.equal(reveal(seen, view, box), seen);
});

test("a large graph is not made smaller than can be read: it begins at its input and is moved through", () => {
  const largeTree = { width: 4000, height: 300, minReadableZoom: 0.5 };
  const view = { width: 848, height: windowHeight(largeTree, 848) };
  const first = initialCamera(largeTree, view);
  assert.deepEqual(first, { zoom: 0.75, x: 20, y: first.y });
  assert.ok(overflows(first, largeTree, view));
  assert.equal(zoomAt(first, 0.01, 0, 0).zoom, 44 / 108, "44 pixels a picture at least");
  // But where all of it is wanted, and no smaller than that then.
  const all = fitCamera(largeTree, view);
  assert.equal(all.zoom, (848 - 40) / 4000);
  assert.ok(!overflows(all, largeTree, view));
  assert.equal(zoomAt(all, 0.8, 0, 0).zoom, all.zoom);
  assert.ok(Math.abs(zoomAt(all, 1.25, 0, 0).zoom / all.zoom - 1.25) < 1e-9);
  // What fits and can be read is all there.
  const small = { width: 1500, height: 300, minReadableZoom: 0.5 };
  assert.equal(initialCamera(small, view).zoom, (848 - 40) / 1500);
  assert.ok(!overflows(initialCamera(small, view), small, view));
  // The same size with longer names.
  assert.equal(initialCamera({ ...small, minReadableZoom: 0.6 }, view).zoom, 0.75);
  // Sideways no further than the ends.
  assert.equal(pan(first, 50, 0, largeTree, view), first);
  const right = pan(first, -100_000, 0, largeTree, view);
  assert.equal(right.x + largeTree.width * right.zoom, view.width - 20);
  assert.equal(pan(right, -10, 0, largeTree, view), right);
});

/** A stem, and as many residual blocks as sizes are given, the first of them with one more layer. */
const towerRows = (sides: readonly number[], more = false): LayerRow[] => {
  let last = "stem";
  const rows = sides.flatMap((side, k) => {
    const block = residualRows(`blocks.${k}`, last).map(
      ([a, b, c, d]): LayerRow => [a, b, c, d, side],
    );
    if (more && k === 0) {
      block.splice(3, 0, ["blocks.0.down", "Conv", last, 4, side]);
    }
    last = `blocks.${k}.relu:1`;
    return block;
  });
  return [["stem", "Conv", "x", 4, 32], ...rows, ["head", "Conv", last, 3, 32]];
};
const nodeTitles = (tree: ModuleTree, open: ReadonlySet<string>): string[] =>
  buildGraph(tree, open).nodes.map(({ title }) => title);

test("repeated blocks are one node, of which one block opens at a time", () => {
  const tree = treeFrom(towerRows(Array(8).fill(32)));
  assert.deepEqual(nodeTitles(tree, NONE_OPEN), ["Input", "stem", "blocks", "head"]);
  const blocks = openGroup(tree, NONE_OPEN, "blocks");
  assert.deepEqual(nodeTitles(tree, blocks), ["Input", "stem", "0–7 × 8", "head"]);
  const third = openGroup(tree, blocks, "blocks.2");
  const seen = nodeTitles(tree, third);
  assert.deepEqual([seen[2], seen.at(-2)], ["0–1 × 2", "3–7 × 5"]);
  assert.equal(
    buildGraph(tree, third).nodes.filter(({ groups }) => groups.some(({ id }) => id === "blocks.2"))
      .length,
    seen.length - 5,
  );
  const fourth = openGroup(tree, third, "blocks.3");
  assert.deepEqual([...fourth], ["blocks", "blocks.3"], "it takes the open one's place");
  const last = nodeTitles(tree, openGroup(tree, fourth, "blocks.7"));
  assert.ok(last.includes("0–6 × 7") && !last.some((title) => title.startsWith("7–")));
  assert.ok(nodeTitles(tree, openGroup(tree, fourth, "blocks.1")).includes("0"), "one is no fold");
  assert.deepEqual([...openAllGroups(tree)], ["blocks", "blocks.0"]);
  assert.deepEqual([...openGroupsAround(tree, fourth, "blocks.5.conv2")], ["blocks", "blocks.5"]);
  // All of a fold's layers are its own, and it gives what its last block gives.
  const fold = buildGraph(tree, blocks).nodes[2];
  assert.equal(fold?.layers.length, 40);
  assert.equal(fold?.value.key, "blocks.7.relu:1");
  assert.deepEqual(
    fold?.blocks.map(({ value }) => value.key),
    Array.from({ length: 8 }, (_, k) => `blocks.${k}.relu:1`),
  );
});

test("blocks fold only where they are alike, follow each other and are three", () => {
  const all = (rows: LayerRow[]): string[] => {
    const tree = treeFrom(rows);
    return nodeTitles(tree, new Set(["blocks"])).slice(2, -1);
  };
  assert.deepEqual(all(towerRows([32, 32])), ["0", "1"]);
  assert.deepEqual(
    all(towerRows([32, 32, 32, 32], true)),
    ["0", "1–3 × 3"],
    "another layer in the first",
  );
  assert.deepEqual(
    all(towerRows([32, 32, 32, 16, 16, 16])),
    ["0–2 × 3", "3–5 × 3"],
    "half the size",
  );
  // Branches side by side are no chain.
  const branches = [0, 1, 2].flatMap((k): LayerRow[] => [
    [`blocks.${k}.a`, "Conv", "stem", 4, 32],
    [`blocks.${k}.b`, "Conv", `blocks.${k}.a`, 4, 32],
  ]);
  const join: LayerRow[] = [["cat", "Concat", "blocks.0.b blocks.1.b blocks.2.b", 12, 32]];
  const beside = [["stem", "Conv", "x", 4, 32] as LayerRow, ...branches, ...join];
  assert.deepEqual(all([...beside, ["head", "Conv", "cat", 3, 32]]).slice(0, 3), ["0", "1", "2"]);
});

test("several skips out of repeated blocks to one place are one line", () => {
  const before = (k: number): string =>
    ["stem", ...Array.from({ length: k }, (_, j) => `b.${j}.conv`)].join(" ");
  const dense = Array.from({ length: 6 }, (_, k): LayerRow[] => [
    [`b.${k}.cat`, "Concat", before(k), 4 + 4 * k, 32],
    [`b.${k}.conv`, "Conv", `b.${k}.cat`, 4, 32],
  ]);
  const tree = treeFrom([["stem", "Conv", "x", 4, 32], ...dense.flat()]);
  const { nodes, edges } = buildGraph(tree, new Set(["b", "b.4"]));
  assert.ok(nodes.some(({ title }) => title === "0–3 × 4"));
  const ends = edges.map(({ from, to }) => `${from} → ${to}`);
  // What only the network's code calls belongs to the module before it here.
  const out = ends.filter((one) => one.startsWith("b.0 × 4"));
  assert.deepEqual(out, ["b.0 × 4 → b.4.conv", "b.0 × 4 → b.5.cat"]);
  assert.equal(new Set(ends).size, ends.length);
});

test("tokens stay on the row of the maps that they come from", () => {
  const rows: LayerRow[] = [
    ["patches", "Conv", "x", 8, 8],
    ["tokens", "Transpose", "patches", 1, 60],
    ["block", "MatMul", "tokens", 1, 60],
    ["head", "MatMul", "block", 9, 1],
  ];
  const tree = treeFrom(rows);
  const kinds = new Map<string, Partial<Layer>>([
    ["patches", { position_axes: [2, 3], window: windowOfEight }],
    ["tokens", { position_axes: [1] }],
    ["block", { position_axes: [1] }],
  ]);
  for (const { layers } of tree.items.flatMap(({ stage }) => stage ?? [])) {
    for (const one of layers) Object.assign(one, kinds.get(one.name));
  }
  const placement = graphLayout(tree, NONE_OPEN);
  const y = (id: string): number => nodeById(placement, id).y;
  assert.ok(y("patches") > y("x"));
  assert.deepEqual([y("tokens"), y("block")], [y("patches"), y("patches")]);
});

const windowOfEight = {
  ...{ kernel: [8, 8], strides: [8, 8], dilations: [1, 1], pads_begin: [0, 0], pads_end: [0, 0] },
};

/** Points along a line without its arrow's head; of curves many. */
function pathPoints(path: string): [number, number][] {
  const [line = ""] = path.slice(1).split("M");
  const points: [number, number][] = [];
  for (const [, kind, text = ""] of `M${line}`.matchAll(/([MLQC])([^MLQC]*)/g)) {
    const given = text
      .trim()
      .split(" ")
      .map((one) => one.split(",").map(Number) as [number, number]);
    const [from = [0, 0], a = from, b = a, to = b] = [points.at(-1), ...given];
    if (kind !== "C") points.push(...given);
    else
      for (let k = 1; k <= 40; k++) {
        const [s, t] = [1 - k / 40, k / 40];
        const sum = (i: 0 | 1) =>
          s ** 3 * from[i] + 3 * s * s * t * a[i] + 3 * s * t * t * b[i] + t ** 3 * to[i];
        points.push([sum(0), sum(1)]);
      }
  }
  return points.flatMap((point, k) => {
    const before = points[k - 1] ?? point;
    const steps = Math.ceil(Math.hypot(point[0] - before[0], point[1] - before[1]) / 3) || 1;
    return Array.from({ length: steps }, (_, n): [number, number] => {
      const share = (n + 1) / steps;
      return [
        before[0] + (point[0] - before[0]) * share,
        before[1] + (point[1] - before[1]) * share,
      ];
    });
  });
}

/** "from → to through node" of each line that runs through a node that isn't its own. */
function crossedNodes({ nodes, lines }: GraphLayout): string[] {
  const boxes = nodes.filter(({ node }) => node.kind !== "step");
  return lines.flatMap(({ from, to, path }) => {
    const points = pathPoints(path);
    return boxes
      .filter(({ node }) => node !== from && node !== to)
      .filter(({ x, y, width, height }) =>
        points.some(([a, b]) => a > x && a < x + width && b > y && b < y + height),
      )
      .map(({ node }) => `${from.id} → ${to.id} through ${node.id}`);
  });
}

/** A network of a few layers that read whatever was there before, at three resolutions. */
function randomTree(seed: number): ModuleTree {
  let state = seed;
  const upTo = (most: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 16) % most;
  };
  const rows: LayerRow[] = [];
  const sides = new Map([["x", 64]]);
  const count = 5 + upTo(10);
  for (let k = 0; k < count; k++) {
    const known = [...sides.keys()];
    // The last ones mostly, so that there are chains.
    const some = (): string =>
      known[Math.max(0, known.length - 1 - upTo(upTo(3) === 0 ? 9 : 2))] ?? "x";
    const first = some();
    const side = sides.get(first) ?? 64;
    const alike = known.filter((one) => one !== first && sides.get(one) === side);
    const second = alike[upTo(alike.length || 1)];
    const kind = upTo(6);
    if (kind < 2 && second !== undefined) {
      rows.push([`j${k}`, kind === 0 ? "Add" : "Concat", `${first} ${second}`, 4, side]);
      sides.set(`j${k}`, side);
    } else if (kind === 2 && side > 16) {
      rows.push([`d${k}`, "Conv", first, 4, side / 2]);
      sides.set(`d${k}`, side / 2);
    } else if (kind === 3 && side < 64) {
      rows.push([`u${k}`, "ConvTranspose", first, 4, side * 2]);
      sides.set(`u${k}`, side * 2);
    } else {
      rows.push([`c${k}`, "Conv", first, 4, side]);
      sides.set(`c${k}`, side);
    }
  }
  return treeFrom(rows);
}

test("no line of any network runs through a node that isn't its own", () => {
  const found: string[] = [];
  let lines = 0;
  for (let seed = 1; seed <= 100; seed++) {
    const placement = graphLayout(randomTree(seed), NONE_OPEN);
    lines += placement.lines.length;
    found.push(...crossedNodes(placement).map((one) => `${seed}: ${one}`));
  }
  assert.ok(lines > 700);
  assert.deepEqual(found, []);
});

test("a difference and a product of two branches, and a sum with the enlarged input, are reached around nodes", () => {
  const branches = (["a", "b"] as const).flatMap((name): LayerRow[] => [
    [`${name}1`, "Conv", "x", 4, 32],
    [`${name}2`, "Conv", `${name}1`, 4, 32],
  ]);
  const siamese = treeFrom([
    ...branches,
    ["Sub", "Add", "a2 b2", 4, 32],
    ["Mul", "Add", "a2 b2", 4, 32],
    ["p", "Conv", "Sub", 4, 32],
    ["q", "Conv", "Mul", 4, 32],
  ]);
  assert.deepEqual(crossedNodes(graphLayout(siamese, NONE_OPEN)), []);
  const enlarged = treeFrom([
    ["f", "Conv", "x", 4, 64],
    ["b1", "Conv", "f", 4, 64],
    ["b2", "Conv", "b1", 4, 64],
    ["sum", "Add", "f b2", 4, 64],
    ["up", "ConvTranspose", "sum", 3, 128],
    ["bicubic", "Resize", "x", 3, 128],
    ["end", "Add", "bicubic up", 3, 128],
    ["clamp", "Clip", "end", 3, 128],
  ]);
  assert.deepEqual(crossedNodes(graphLayout(enlarged, NONE_OPEN)), []);
});
