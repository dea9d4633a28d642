// How often which value occurs: counted on the device as values from each edge on, subtracted here.
import type { Value } from "../plan/schema.ts";
import { groupsOf, stripsOf } from "../plan/uniforms.ts";
import { countedHere } from "../statistics/bins.ts";
import { whenDone } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import { COUNTS_SLOTS, PARTIAL_SUMS_SLOTS } from "./kernels.ts";
import type { OwnPrograms } from "./lazy_programs.ts";
import type { PlanObjects } from "./objects.ts";
import {
  drawPasses,
  freeSurface,
  layersOf,
  type OwnPass,
  surfaceOf,
  whole,
  writePasses,
} from "./passes.ts";
import type { Linked } from "./programs.ts";

/** Edges that one fragment counts at: 4 targets of 4 lanes. */
const EDGES = 16;
/** Fragments that are added on the device; their counts stay far below 2^24, up to which float32 is exact. */
const ADDED = 256;

/** Counts values of an image from each edge on, of one channel or of all; resolves once the device has. */
type Count = (
  value: Value,
  image: number,
  channel: number | undefined,
  objects: PlanObjects,
  edges: Float32Array,
) => Promise<readonly number[]>;

/** `programs`: those of COUNTING, or of RESHAPED_COUNTING. */
export async function counter(device: GlDevice, programs: OwnPrograms): Promise<Count> {
  const { generation } = device;
  if (device.resources.drawn === "rgba16f") {
    return async (value, image, channel, objects, edges) => {
      device.check(generation);
      objects.draw(value.read.step);
      const [, c, h, w] = value.nchw;
      const [first, channels] = channel === undefined ? [0, c] : [channel, 1];
      const from = (image * c + first) * h * w;
      return countedHere(
        objects.read(value.read.step).subarray(from, from + channels * h * w),
        edges,
      );
    };
  }
  const linked = await programs.ready();
  return (value, image, channel, objects, edges) => {
    device.check(generation);
    if (edges.length === 0) return Promise.resolve([]);
    const [counts, partialSums] = linked as [Linked, Linked];
    const texture = objects.texture(value.texture);
    const groups = channel === undefined ? groupsOf(value) : 1;
    const { strips, lines } = stripsOf(value);
    const parts = groups * strips;
    const each = Math.min(parts, ADDED);
    const sums = Math.ceil(parts / each);
    const blocks = Math.ceil(edges.length / EDGES);
    const total = blocks * sums * each;
    const { resources } = device;
    const size = { width: blocks * 4, height: 1, layers: 1 };
    const list = resources.texture(size, "rgba32f");
    const padded = new Float32Array(blocks * EDGES);
    padded.set(edges);
    for (const _ of resources.upload(list, size, padded));
    const [scratch, result] = [surfaceOf(device, total), surfaceOf(device, blocks * sums)];
    const buffer = resources.buffer(0, "DYNAMIC_DRAW");
    const counting = COUNTS_SLOTS.fill({
      work: [image, strips, lines, total],
      width: scratch.width,
      first_group: channel === undefined ? 0 : channel >> 2,
      channel: channel ?? -1,
      fragments: sums * each,
      filled: parts,
    });
    const adding = PARTIAL_SUMS_SLOTS.fill({
      each,
      texels: total,
      results: blocks * sums,
      width: result.width,
      width_before: scratch.width,
    });
    const passes: OwnPass[] = [
      {
        linked: counts,
        inputs: [texture, list],
        target: scratch,
        area: whole(scratch),
        numbers: { nchw: [value.nchw], words: value.words, own: counting },
      },
      {
        linked: partialSums,
        inputs: [scratch.texture],
        target: result,
        area: whole(result),
        numbers: { own: adding },
      },
    ];
    writePasses(device, buffer, passes);
    drawPasses(device, buffer, passes);
    const readLayers = layersOf(device, result);
    for (const target of [scratch, result]) freeSurface(device, target);
    resources.freeTexture(list);
    resources.freeBuffer(buffer);
    const read = (): number[] => {
      const layers = readLayers();
      return Array.from(edges, (_, k) => {
        const [block, at] = [Math.floor(k / EDGES), k % EDGES];
        const lanes = layers[at >> 2] ?? padded;
        let sum = 0;
        for (let s = 0; s < sums; s++) sum += lanes[(block * sums + s) * 4 + (at & 3)] ?? 0;
        return sum;
      });
    };
    const counted = whenDone(device, read);
    counted.catch(() => undefined); // a run that fails is asked again: nobody waits for this one
    return counted;
  };
}
