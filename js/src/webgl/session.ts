// A session with pictures: a Runner, the colour ranges of its values, and the display.

import { clippedCounts, clippingCountEdges } from "../pictures/clipping.ts";
import { Semaphore } from "../plan/run_slices.ts";
import {
  type CanvasTransfer,
  ContextLostError,
  type DrawJob,
  PlanError,
  type Progress,
  type RangeSmoothing,
  type Session,
} from "../plan/runtime.ts";
import type { PlanHeader, Value } from "../plan/schema.ts";
import { isReshaped } from "../plan/uniforms.ts";
import {
  binEdges,
  combineChannelRanges,
  histogramFromCounts,
} from "../statistics/histogram_bins.ts";
import {
  type ChannelReduction,
  summarizeChannel,
  summarizeChannels,
} from "../statistics/summary.ts";
import type { DrawItem } from "./atlas_drawing.ts";
import { CanvasDisplay } from "./canvas_display.ts";
import { createChannelReducer } from "./channel_reductions.ts";
import { ColorRanges, elementsPerImage, type RangeTexel } from "./color_ranges.ts";
import type { GlDevice } from "./gl_device.ts";
import { readWhenIdle, waitForFence, waitForIdle } from "./gpu_clock.ts";
import { createBinEdgeCounter } from "./histogram.ts";
import {
  HISTOGRAM_PROGRAMS,
  REDUCTION_PROGRAMS,
  RESHAPED_HISTOGRAM_PROGRAMS,
  RESHAPED_REDUCTION_PROGRAMS,
} from "./kernels.ts";
import { profileLayers } from "./layer_profile.ts";
import { LazyPrograms } from "./lazy_programs.ts";
import { measureRun } from "./measure_run.ts";
import { readValue, sampleValue } from "./read_values.ts";
import { Runner } from "./runner.ts";
import { ScoreReductions } from "./score_reductions.ts";
import { SessionEdits } from "./session_edits.ts";

type CombinedRange = ReturnType<typeof combineChannelRanges>;

const NO_VALUES: ReadonlyMap<string, Value> = new Map();

/** Reducing this many elements may block the page for longer than a frame. */
const LONG_REDUCTION_ELEMENTS = { gpu: 2 ** 21, software: 2 ** 18 };

/** Programs of statistics that views request. */
interface StatisticsPrograms {
  readonly reductions: LazyPrograms;
  readonly histograms: LazyPrograms;
}

/** Resources that only drawing needs; created for each context. */
interface DrawResources {
  readonly generation: number;
  ranges: ColorRanges;
  /** The values that the ranges belong to. */
  values: ReadonlyMap<string, Value>;
  readonly display: CanvasDisplay;
  readonly statistics: StatisticsPrograms;
  /** For values whose displayed nchw differs from their stored shape. */
  readonly reshapedStatistics: StatisticsPrograms;
}

/** Compile, allocate and upload, without a run. `getWeight` is called again when a lost context is rebuilt. */
export async function createSession(
  device: GlDevice,
  plan: PlanHeader,
  uniforms: Uint8Array,
  getWeight: (hash: string) => Float32Array,
  onProgress?: (progress: Progress) => void,
): Promise<Session> {
  const long = device.capabilities.isSoftware
    ? LONG_REDUCTION_ELEMENTS.software
    : LONG_REDUCTION_ELEMENTS.gpu;
  const runner = await Runner.create(device, plan, uniforms, getWeight, onProgress);
  let disposed = false;
  // With software renderers, browsers copy each canvas separately, which is slower than a readback.
  let delivery: CanvasTransfer = device.capabilities.isSoftware ? "readback" : "canvas";
  let rangePace: RangeSmoothing = "exact";
  let pictures: DrawResources | undefined;
  let scores: ScoreReductions | undefined;

  /** The score reductions, while the session is open. */
  function scoreReductions(): typeof scores {
    if (!disposed) scores ??= new ScoreReductions(device, runner);
    return scores;
  }

  async function prepare(): Promise<void> {
    pictures = undefined;
    const { generation } = device;
    const ranges = await ColorRanges.create(device, plan.values);
    let display: CanvasDisplay | undefined;
    try {
      display = await CanvasDisplay.create(device, plan);
      // Software renderers build a program's pipeline at its first draw: the first picture, or a read after it, would
      // block the page until all are built.
      ranges.warmUp();
      display.warmUp(ranges, delivery);
      await waitForIdle(device);
      device.check(generation);
      device.resources.checkMemory(runner.bytes + ranges.bytes + display.bytes);
    } catch (error) {
      if (device.generation === generation) {
        ranges.dispose();
        display?.dispose();
      }
      throw error;
    }
    const statistics = {
      reductions: new LazyPrograms(device, REDUCTION_PROGRAMS),
      histograms: new LazyPrograms(device, HISTOGRAM_PROGRAMS),
    };
    const reshapedStatistics = {
      reductions: new LazyPrograms(device, RESHAPED_REDUCTION_PROGRAMS),
      histograms: new LazyPrograms(device, RESHAPED_HISTOGRAM_PROGRAMS),
    };
    pictures = { generation, ranges, values: NO_VALUES, display, statistics, reshapedStatistics };
    if (disposed) free();
  }

  function free(): void {
    if (pictures?.generation === device.generation) {
      pictures.ranges.dispose();
      pictures.display.dispose();
      for (const { reductions, histograms } of [pictures.statistics, pictures.reshapedStatistics]) {
        reductions.dispose();
        histograms.dispose();
      }
    }
    pictures = undefined;
  }

  function ready(): DrawResources {
    runner.requireObjects();
    if (pictures === undefined) throw new ContextLostError();
    return pictures;
  }

  function measuringOf(value: Value): StatisticsPrograms {
    const { statistics, reshapedStatistics } = ready();
    return isReshaped(value) ? reshapedStatistics : statistics;
  }

  /** The reduced channels of one image, cached per run, and the run's number. */
  const known = { sequence: -1, of: new Map<string, Promise<ChannelReduction[]>>() };
  const semaphore = new Semaphore(long);
  async function reduced(
    value: Value,
    image: number,
  ): Promise<readonly [number, ChannelReduction[]]> {
    const reduce = await createChannelReducer(device, measuringOf(value).reductions);
    const { key } = value;
    return semaphore.run(elementsPerImage(value), async () => {
      const [sequence, asked] = await runner.whenFresh(value, (objects) => {
        const { sequence } = runner;
        if (known.sequence !== sequence) Object.assign(known, { sequence, of: new Map() });
        const { of } = known;
        const name = `${image} ${key}`;
        let asked = of.get(name);
        if (asked === undefined) {
          const read = reduce(runner.findValue(key), image, objects); // an edit may have moved it
          asked = readWhenIdle(device, read);
        }
        asked.catch(() => of.delete(name)); // retry on the next request
        of.set(name, asked);
        return [sequence, asked] as const;
      });
      return [sequence, await asked] as const;
    });
  }

  async function editing<T>(work: (edits: SessionEdits) => Promise<T>): Promise<T> {
    return work(runner.sessionEdits ?? runner.openEdits(SessionEdits));
  }

  /** Request that edits keep derived values, and update those values. */
  const keeping =
    (what: "keepUnedited" | "keepIntermediates") => async (keys: readonly string[]) => {
      if (runner.sessionEdits === undefined && keys.length === 0) return;
      await editing((own) => own[what](keys));
      await runner.refreshDerived();
    };

  /** The items to draw, in groups that show one image of each value; requires a live context. */
  function shownOf(jobs: readonly DrawJob[], made: DrawResources): DrawItem[][] {
    const objects = runner.requireObjects();
    const { edits } = runner;
    if (made.values !== edits.values) {
      // Edits have moved values to other textures, so other values may share a range now.
      if (made.values !== NO_VALUES || edits.hasEdits)
        made.ranges = made.ranges.recreateForValues(edits.values.values());
      made.values = edits.values;
    }
    const shown = jobs.map((job): DrawItem => {
      const value = edits.findValue(job.key);
      if (value === undefined) throw new PlanError(`no value ${JSON.stringify(job.key)} to draw`);
      checkJob(job, value);
      const { texture } = value;
      return { job, value, texture: objects.texture(texture), size: objects.textureSize(texture) };
    });
    return groupByImage(shown, (value) => made.ranges.locate(value));
  }

  function drawable(): DrawResources | undefined {
    if (disposed || device.gl.isContextLost()) return undefined;
    return pictures?.generation === device.generation ? pictures : undefined;
  }

  function findRanges(group: readonly DrawItem[], { ranges }: DrawResources): number {
    const ranged = group.filter(({ job }) => job.range.mode !== "fixed");
    const wanted = ranged.map((one) => ({ ...one, image: one.job.image }));
    return ranges.update(wanted, runner.sequence, rangePace);
  }

  function draw(jobs: readonly DrawJob[]): void {
    const made = drawable();
    if (made === undefined) return;
    for (const group of shownOf(jobs, made)) {
      const prepared = made.display.prepare(group, made.ranges, delivery);
      findRanges(group, made);
      made.display.draw(prepared, made.ranges);
    }
  }

  function settle(jobs: readonly DrawJob[]): Promise<void> | undefined {
    const most = jobs.reduce((sum, { key }) => {
      const value = runner.edits.findValue(key);
      return sum + (value === undefined ? 0 : elementsPerImage(value));
    }, 0);
    if (most <= long) return undefined;
    const made = drawable();
    const groups = made === undefined ? [] : shownOf(jobs, made);
    // A value keeps the ranges of one image only: with several groups, they would be computed twice.
    const [group] = groups;
    if (made === undefined || group === undefined || groups.length > 1) return undefined;
    made.display.prepare(group, made.ranges, delivery); // check memory before the GPU is busy
    return findRanges(group, made) > long ? waitForFence(device) : undefined;
  }

  /**
   * Count the values of one image, of one channel or of all; `createCount` derives the edges from the span of the
   * values.
   */
  async function counted<T>(
    key: string,
    image: number,
    channel: number | undefined,
    createCount: (
      span: CombinedRange,
    ) => { edges: Float32Array; result: (from: readonly number[]) => T } | null,
  ): Promise<T | null> {
    const value = runner.findValue(key);
    // Request both before the first await: a session closed in between would never release its programs.
    const { reductions, histograms } = measuringOf(value);
    const [reduce, count] = await Promise.all([
      createChannelReducer(device, reductions),
      createBinEdgeCounter(device, histograms),
    ]);
    const [sequence, channels] = await reduced(value, image);
    return runner.whenFresh(value, (objects) => {
      const now = runner.findValue(key);
      // If another run has finished meanwhile, read its span synchronously: span and counts must be of the same run.
      const all = runner.sequence === sequence ? channels : reduce(now, image, objects)();
      const asked = createCount(
        combineChannelRanges(channel === undefined ? all : all.slice(channel, channel + 1)),
      );
      if (asked === null) return Promise.resolve(null);
      return count(now, image, channel, objects, asked.edges).then(asked.result);
    });
  }

  try {
    runner.onRebuilt = prepare;
    await prepare();
  } catch (error) {
    runner.dispose();
    throw error;
  }

  return {
    plan,
    get bytes() {
      return runner.bytes + (pictures?.ranges.bytes ?? 0) + (pictures?.display.bytes ?? 0);
    },
    get sequence() {
      return runner.sequence;
    },
    write: (key, data) => runner.write(key, data),
    feed: (key, picture, mirrored) => runner.feed(key, picture, mirrored),
    setWeight: (texture, data, hash) => runner.setWeight(texture, data, hash),
    patchWeight: (patch) => runner.patchWeight(patch),
    run: async (options) => runner.run(options),
    setEdits: (edits, array) => {
      // There are no edits to remove: the next run is unedited anyway.
      if (runner.sessionEdits === undefined && edits.length === 0) return Promise.resolve();
      return editing((own) => own.setEdits(edits, array));
    },
    value: (key) => runner.edits.findValue(key),
    keepUnedited: keeping("keepUnedited"),
    keepIntermediates: keeping("keepIntermediates"),
    async previewEdits(asked) {
      if (runner.sessionEdits === undefined && asked === null) return [];
      const keys = await editing((own) => own.previewEdits(asked));
      await runner.refreshDerived();
      return keys;
    },
    commit: () => runner.commit(),
    committedState: () => runner.committedState(),
    measureRun: (most) => measureRun(device, runner, most),
    read: (key) => readValue(runner, key),
    sample: (key, bands) => sampleValue(runner, key, bands),
    draw,
    prepareDraw: settle,
    get rangeSmoothing() {
      return rangePace;
    },
    set rangeSmoothing(pace) {
      rangePace = pace;
    },
    colorLimits: async (key, channel) =>
      readWhenIdle(device, ready().ranges.readLimits(runner.findValue(key), channel)),
    get canvasTransfer() {
      return delivery;
    },
    set canvasTransfer(way) {
      delivery = way;
    },
    profile: (...given) => profileLayers(runner, ...given),
    async statistics(key, image = 0) {
      const value = runner.findValue(key);
      const [sequence, channels] = await reduced(value, image);
      return {
        sequence,
        image,
        layer: summarizeChannels(channels),
        channels: channels.map(summarizeChannel),
      };
    },
    topk: async (...given) => scoreReductions()?.topk(...given),
    argmax: async (...given) => scoreReductions()?.argmax(...given),
    histogram: (key, bins, image = 0, channel) =>
      counted(key, image, channel, ({ low, high, ...rest }) => {
        if (low > high) return null;
        const edges = low < high ? binEdges(low, high, bins) : new Float32Array();
        return { edges, result: (from) => histogramFromCounts({ low, high, ...rest }, from, bins) };
      }),
    async countClipped(key, range, image = 0) {
      const edges = clippingCountEdges(range);
      const result = (span: CombinedRange) => (from: readonly number[]) =>
        clippedCounts(range, span, from);
      const found = await counted(key, image, undefined, (span) => ({
        edges,
        result: result(span),
      }));
      return found ?? { below: 0, above: 0 };
    },
    dispose() {
      disposed = true;
      scores?.dispose();
      free();
      runner.dispose();
    },
  };
}

function checkJob({ image, channels }: DrawJob, { key, nchw }: Value): void {
  const [n, c] = nchw;
  const inside = (k: number, most: number) => Number.isInteger(k) && k >= 0 && k < most;
  if (!inside(image, n)) throw new RangeError(`image ${image} of ${key}, which has ${n}`);
  const wrong = channels.find((channel) => !inside(channel, c));
  if (wrong !== undefined) throw new RangeError(`channel ${wrong} of ${key}, which has ${c}`);
}

/** Split jobs into groups that show one image of each value, since ranges are kept for one image only. */
function groupByImage(
  items: readonly DrawItem[],
  locate: (value: Value) => RangeTexel,
): DrawItem[][] {
  const groups: { images: Map<RangeTexel, number>; items: DrawItem[] }[] = [];
  for (const one of items) {
    const at = locate(one.value);
    const { image } = one.job;
    let group = groups.find(({ images }) => (images.get(at) ?? image) === image);
    if (group === undefined) {
      group = { images: new Map(), items: [] };
      groups.push(group);
    }
    group.images.set(at, image);
    group.items.push(one);
  }
  return groups.map((group) => group.items);
}
