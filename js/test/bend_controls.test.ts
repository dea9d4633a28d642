// Bends in the page: sets of channels, the list of edits, typed numbers, and the lines of Python.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  clusterChannels,
  everyNthChannel,
  invertChannels,
  randomHalf,
} from "../src/features/edits/views/channel_sets.ts";
import {
  channelCountText,
  MIX_PARAMETER,
  makeBend,
  moveEdit,
  toChannelList,
  toggleMute,
} from "../src/features/edits/views/edit_operations.ts";
import { editsAsPython } from "../src/features/edits/views/edits_as_python.ts";
import {
  formatNumber,
  parseNumber,
  stepNumber,
} from "../src/features/edits/views/parameter_text.ts";
import { applyPreset, PRESETS } from "../src/features/edits/views/presets.ts";
import { type Edit, TRANSFORMS } from "../src/plan/edits.ts";

const transformKind = (name: string) => {
  const found = TRANSFORMS.find((one) => one.name === name);
  assert.ok(found);
  return found;
};
const makeTestBend = (layer: string, name: string, more: Partial<Edit> = {}): Edit => ({
  ...makeBend([], layer, transformKind(name), null),
  ...more,
});

test("sets of channels are the same for the same seed and differ for another", () => {
  assert.deepEqual(everyNthChannel(2, 7), [0, 2, 4, 6]);
  assert.deepEqual(invertChannels(new Set([0, 2]), 4), [1, 3]);
  assert.deepEqual(randomHalf(32, 3), randomHalf(32, 3));
  assert.notDeepEqual(randomHalf(32, 3), randomHalf(32, 4));
  assert.equal(new Set(randomHalf(33, 0)).size, 17);
  assert.deepEqual(randomHalf(1, 5), [0]);
});

test("clusters are maps that point into one direction, whatever their size", () => {
  const shapes = [
    [1, 0, 0, 0],
    [0, 1, 1, 0],
  ];
  const kinds = [0, 1, 1, 0, 1, 0, 1, 1];
  const values = new Float32Array(
    kinds.flatMap((k, i) => (shapes[k] ?? []).map((x) => x * (i + 1) * 0.3)),
  );
  assert.deepEqual(clusterChannels(values, 8), [
    [1, 2, 4, 6, 7],
    [0, 3, 5],
  ]);
  const dead = clusterChannels(new Float32Array(64), 16);
  assert.deepEqual(
    dead.flat().sort((a, b) => a - b),
    everyNthChannel(1, 16),
    "each channel is in one",
  );
});

test("a layer's bends move among themselves, and others stay where they are", () => {
  const edits = [
    makeTestBend("a", "blur"),
    makeTestBend("b", "invert"),
    makeTestBend("a", "add"),
    makeTestBend("a", "scale"),
  ];
  const names = (list: readonly Edit[]) => list.map(({ name }) => name);
  assert.deepEqual(names(moveEdit(edits, "a", 2, 0)), ["scale", "invert", "blur", "add"]);
  assert.deepEqual(names(moveEdit(edits, "a", 0, 1)), ["add", "invert", "blur", "scale"]);
});

test("channels that are muted are one bend of the layer, which goes with the last", () => {
  const first = toggleMute([], "a", 3);
  const both = toggleMute(first, "a", 1);
  assert.deepEqual(
    both.map(({ name, transform, channels }) => [name, transform, channels]),
    [["mute", "ablate", [1, 3]]],
  );
  assert.equal(toggleMute(both, "b", 0).length, 2);
  assert.deepEqual(toggleMute(toggleMute(both, "a", 3), "a", 1), []);
  const own = makeTestBend("a", "ablate", { channels: [5] });
  assert.deepEqual(toggleMute([own], "a", 5).length, 2, "a bend of one's own is left as it is");
});

test("all channels are no list of them", () => {
  assert.equal(toChannelList([2, 0, 1], 3), null);
  assert.deepEqual(toChannelList([2, 0, 2], 3), [0, 2]);
  assert.equal(channelCountText(null, 32), "all 32");
  assert.equal(channelCountText([], 32), "none of 32");
});

test("a number that cannot be says why", () => {
  const [sigma] = transformKind("blur").parameters;
  const [, seed] = transformKind("noise").parameters;
  const [degrees] = transformKind("rotate").parameters;
  assert.ok(sigma && seed && degrees);
  assert.equal(parseNumber("0", sigma), "Enter more than 0.");
  assert.equal(parseNumber("17", sigma), "Enter at most 16.");
  assert.equal(parseNumber("1,5 px", sigma), 1.5);
  assert.equal(parseNumber("1.5", seed), "Enter an integer.");
  assert.equal(parseNumber("-1", seed), "Enter at least 0.");
  assert.equal(parseNumber("−720°", degrees), -720, "beyond the slider's ends");
  assert.equal(parseNumber("1e999", degrees), "Enter a finite number.");
  assert.equal(parseNumber("forty", degrees), "Enter a number.");
  assert.equal(parseNumber(" ", MIX_PARAMETER), "Enter a number.");
  assert.equal(formatNumber(-0.5), "−0.5");
  assert.equal(stepNumber(0.1, -1, sigma), 0.1);
  assert.equal(stepNumber(0.3, 1, MIX_PARAMETER), 0.31);
  assert.equal(stepNumber(0.995, 1, MIX_PARAMETER), 1);
});

test("the lines of Python name a bend only where Python would call it otherwise", () => {
  const edits = [
    makeTestBend("a.0", "rotate", { parameters: [40], channels: [5, 10, 12] }),
    makeTestBend("b", "rotate", {
      name: "rotate-2",
      parameters: [-1e-7],
      channels: everyNthChannel(2, 9),
      mix: 0.5,
    }),
    makeTestBend("b", "noise", {
      name: "grain",
      parameters: [0.1, 3],
      enabled: false,
      channels: [],
    }),
    makeTestBend("c", "ablate", {
      transform: "inject",
      name: "inject",
      array_hash: "x",
      is_frozen: true,
    }),
    makeTestBend("c", "ablate", {
      transform: "glsl",
      name: "glsl",
      source: 'y = x; // "1"',
      parameter_names: ["p0"],
      parameters: [2],
      channels: [0, 1, 2, 3],
    }),
  ];
  assert.deepEqual(editsAsPython(edits), [
    "from nbglcnn import transforms",
    'viewer.bend("a.0", transforms.rotate(40), channels=[5, 10, 12])',
    'viewer.bend("b", transforms.rotate(-1e-7), channels=range(0, 9, 2), mix=0.5)',
    'viewer.bend("b", transforms.noise(0.1, 3), channels=[], name="grain", enabled=False)',
    'viewer.freeze("c")',
    'viewer.bend("c", transforms.glsl("y = x; // \\"1\\"", p0=2), channels=range(0, 4))',
  ]);
  assert.deepEqual(editsAsPython([]), []);
});

test("every preset is a stack that can be, in the place of the layer's bends", () => {
  const before = [makeTestBend("a", "blur"), makeTestBend("b", "blur", { name: "blur-2" })];
  for (const [name, rows] of PRESETS) {
    const made = applyPreset(before, "a", rows, 9);
    assert.equal(made.length, rows.length + 1, name);
    assert.equal(new Set(made.map((edit) => edit.name)).size, made.length);
    for (const edit of made) {
      const { parameters } = transformKind(edit.transform);
      assert.equal(edit.parameters.length, parameters.length, name);
      for (const [k, value] of edit.parameters.entries()) {
        const own = parameters[k];
        assert.ok(own && parseNumber(formatNumber(value), own) === value, `${name}: ${own?.name}`);
      }
    }
  }
});
