// A session with pictures: a Runner, the ranges of what it computes, and the display.

import { clippedBy, clippingEdges } from "../pictures/clipping.ts";
import {
  ContextLostError,
  type Delivery,
  type DrawJob,
  PlanError,
  type Progress,
  type RangePace,
  type Session,
} from "../plan/runtime.ts";
import { Turns } from "../plan/schedule.ts";
import type { PlanHeader, Value } from "../plan/schema.ts";
import { isReshaped } from "../plan/uniforms.ts";
import { edgesOf, histogram, spanOf } from "../statistics/bins.ts";
import { channelSummary, type Reduced, summary } from "../statistics/summary.ts";
import type { Shown } from "./atlas.ts";
import { calm, finished, whenDone } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import { Display } from "./display.ts";
import { Edits } from "./edits.ts";
import { counter } from "./histogram.ts";
import { COUNTING, REDUCING, RESHAPED_COUNTING, RESHAPED_REDUCING } from "./kernels.ts";
import { OwnPrograms } from "./lazy_programs.ts";
import { profile } from "./profile.ts";
import { numbersOf, type Place, Ranges } from "./ranges.ts";
import { readValue, sampleValue } from "./reads.ts";
import { Runner } from "./runner.ts";
import { Scores } from "./scores.ts";
import { reducer } from "./statistics.ts";
import { time } from "./time.ts";

type Span = ReturnType<typeof spanOf>;

const NO_VALUES: ReadonlyMap<string, Value> = new Map();

/** Reducing so many numbers may hold the page for longer than a frame. */
const LONG = { gpu: 2 ** 21, software: 2 ** 18 };

/** The programs of numbers that somebody asks for. */
interface Measuring {
  readonly reducing: OwnPrograms;
  readonly counting: OwnPrograms;
}

/** What only drawing needs; made anew with each context. */
interface Pictures {
  readonly generation: number;
  ranges: Ranges;
  /** The values whose ranges those are. */
  values: ReadonlyMap<string, Value>;
  readonly display: Display;
  readonly measuring: Measuring;
  /** For values that are shown in another nchw than they lie in. */
  readonly reshaped: Measuring;
}

/** Compiles, allocates and uploads; nothing is run. `weight` is asked again when a lost context is rebuilt. */
export async function createSession(
  device: GlDevice,
  plan: PlanHeader,
  uniforms: Uint8Array,
  weight: (hash: string) => Float32Array,
  onProgress?: (progress: Progress) => void,
): Promise<Session> {
  const long = device.capabilities.software ? LONG.software : LONG.gpu;
  const runner = await Runner.make(device, plan, uniforms, weight, onProgress);
  let disposed = false;
  // Browsers that draw on the processor bring each picture there by themselves, which takes longer.
  let delivery: Delivery = device.capabilities.software ? "readback" : "canvas";
  let rangePace: RangePace = "exact";
  let pictures: Pictures | undefined;
  let scores: Scores | undefined;

  /** What picks scores out, while the session is open. */
  function picking(): typeof scores {
    if (!disposed) scores ??= new Scores(device, runner);
    return scores;
  }

  async function prepare(): Promise<void> {
    pictures = undefined;
    const { generation } = device;
    const ranges = await Ranges.make(device, plan.values);
    let display: Display | undefined;
    try {
      display = await Display.make(device, plan);
      // Software renderers build a program's pipeline when it first draws: the first picture, or a read behind it,
      // would hold the page until all are there.
      ranges.warm();
      display.warm(ranges, delivery);
      await calm(device);
      device.check(generation);
      device.resources.checkMemory(runner.bytes + ranges.bytes + display.bytes);
    } catch (error) {
      if (device.generation === generation) {
        ranges.dispose();
        display?.dispose();
      }
      throw error;
    }
    const measuring = {
      reducing: new OwnPrograms(device, REDUCING),
      counting: new OwnPrograms(device, COUNTING),
    };
    const reshaped = {
      reducing: new OwnPrograms(device, RESHAPED_REDUCING),
      counting: new OwnPrograms(device, RESHAPED_COUNTING),
    };
    pictures = { generation, ranges, values: NO_VALUES, display, measuring, reshaped };
    if (disposed) free();
  }

  function free(): void {
    if (pictures?.generation === device.generation) {
      pictures.ranges.dispose();
      pictures.display.dispose();
      for (const { reducing, counting } of [pictures.measuring, pictures.reshaped]) {
        reducing.dispose();
        counting.dispose();
      }
    }
    pictures = undefined;
  }

  function ready(): Pictures {
    runner.ready();
    if (pictures === undefined) throw new ContextLostError();
    return pictures;
  }

  function measuringOf(value: Value): Measuring {
    const { measuring, reshaped } = ready();
    return isReshaped(value) ? reshaped : measuring;
  }

  /** The channels of one image, reduced once a run, and the run's number. */
  const known = { sequence: -1, of: new Map<string, Promise<Reduced[]>>() };
  const turns = new Turns(long);
  async function reduced(value: Value, image: number): Promise<readonly [number, Reduced[]]> {
    const reduce = await reducer(device, measuringOf(value).reducing);
    const { key } = value;
    return turns.take(numbersOf(value), async () => {
      const [sequence, asked] = await runner.whenFresh(value, (objects) => {
        const { sequence } = runner;
        if (known.sequence !== sequence) Object.assign(known, { sequence, of: new Map() });
        const { of } = known;
        const name = `${image} ${key}`;
        let asked = of.get(name);
        if (asked === undefined) {
          const read = reduce(runner.find(key), image, objects); // it may lie elsewhere now
          asked = whenDone(device, read);
        }
        asked.catch(() => of.delete(name)); // to be asked again
        of.set(name, asked);
        return [sequence, asked] as const;
      });
      return [sequence, await asked] as const;
    });
  }

  async function editing<T>(work: (edits: Edits) => Promise<T>): Promise<T> {
    return work(runner.edited ?? runner.editing(Edits));
  }

  /** Asks edits to keep what follows from values, and brings it up to date. */
  const keeping = (what: "compare" | "stages") => async (keys: readonly string[]) => {
    if (runner.edited === undefined && keys.length === 0) return;
    await editing((own) => own[what](keys));
    await runner.look();
  };

  /** What is to be drawn, apart by image; nothing while the context is lost. */
  function shownOf(jobs: readonly DrawJob[], made: Pictures): Shown[][] {
    const objects = runner.ready();
    const { edits } = runner;
    if (made.values !== edits.values) {
      // Edits have brought values elsewhere, where others than before may share their ranges.
      if (made.values !== NO_VALUES || edits.any)
        made.ranges = made.ranges.replaced(edits.values.values());
      made.values = edits.values;
    }
    const shown = jobs.map((job): Shown => {
      const value = edits.find(job.key);
      if (value === undefined) throw new PlanError(`no value ${JSON.stringify(job.key)} to draw`);
      checkJob(job, value);
      const { texture } = value;
      return { job, value, texture: objects.texture(texture), size: objects.size(texture) };
    });
    return imagesApart(shown, (value) => made.ranges.place(value));
  }

  function drawable(): Pictures | undefined {
    if (disposed || device.gl.isContextLost()) return undefined;
    return pictures?.generation === device.generation ? pictures : undefined;
  }

  function findRanges(group: readonly Shown[], { ranges }: Pictures): number {
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
      const value = runner.edits.find(key);
      return sum + (value === undefined ? 0 : numbersOf(value));
    }, 0);
    if (most <= long) return undefined;
    const made = drawable();
    const groups = made === undefined ? [] : shownOf(jobs, made);
    // A value's ranges are kept for one image: those of several groups would be found twice.
    const [group] = groups;
    if (made === undefined || group === undefined || groups.length > 1) return undefined;
    made.display.prepare(group, made.ranges, delivery); // whether there is room for it is asked before the device is busy
    return findRanges(group, made) > long ? finished(device) : undefined;
  }

  /** Counts values of one image, of one channel or of all: at which edges follows from what they span. */
  async function counted<T>(
    key: string,
    image: number,
    channel: number | undefined,
    asks: (span: Span) => { edges: Float32Array; result: (from: readonly number[]) => T } | null,
  ): Promise<T | null> {
    const value = runner.find(key);
    // Asked for at once: a session that was closed meanwhile would never give its programs back.
    const { reducing, counting } = measuringOf(value);
    const [reduce, count] = await Promise.all([
      reducer(device, reducing),
      counter(device, counting),
    ]);
    const [sequence, channels] = await reduced(value, image);
    return runner.whenFresh(value, (objects) => {
      const now = runner.find(key);
      // Where runs follow each other, its ends are waited for: they are to be those of this one.
      const all = runner.sequence === sequence ? channels : reduce(now, image, objects)();
      const asked = asks(spanOf(channel === undefined ? all : all.slice(channel, channel + 1)));
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
      // Nothing to take back, or to be told at once: the very next run has it.
      if (runner.edited === undefined && edits.length === 0) return Promise.resolve();
      return editing((own) => own.set(edits, array));
    },
    value: (key) => runner.edits.find(key),
    compareWith: keeping("compare"),
    stagesOf: keeping("stages"),
    async preview(asked) {
      if (runner.edited === undefined && asked === null) return [];
      const keys = await editing((own) => own.preview(asked));
      await runner.look();
      return keys;
    },
    commit: () => runner.commit(),
    saved: () => runner.saved(),
    time: (most) => time(device, runner, most),
    read: (key) => readValue(runner, key),
    sample: (key, bands) => sampleValue(runner, key, bands),
    draw,
    settle,
    get rangePace() {
      return rangePace;
    },
    set rangePace(pace) {
      rangePace = pace;
    },
    limits: async (key, channel) =>
      whenDone(device, ready().ranges.read(runner.find(key), channel)),
    get delivery() {
      return delivery;
    },
    set delivery(way) {
      delivery = way;
    },
    profile: (...given) => profile(runner, ...given),
    async statistics(key, image = 0) {
      const value = runner.find(key);
      const [sequence, channels] = await reduced(value, image);
      return {
        sequence,
        image,
        layer: summary(channels),
        channels: channels.map(channelSummary),
      };
    },
    largest: async (...given) => picking()?.largest(...given),
    likeliest: async (...given) => picking()?.likeliest(...given),
    histogram: (key, bins, image = 0, channel) =>
      counted(key, image, channel, ({ low, high, ...rest }) => {
        if (low > high) return null;
        const edges = low < high ? edgesOf(low, high, bins) : new Float32Array();
        return { edges, result: (from) => histogram({ low, high, ...rest }, from, bins) };
      }),
    async clipped(key, range, image = 0) {
      const edges = clippingEdges(range);
      const result = (span: Span) => (from: readonly number[]) => clippedBy(range, span, from);
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

/** Jobs in groups that show one image of each value: its ranges are kept for one. */
function imagesApart(shown: readonly Shown[], place: (value: Value) => Place): Shown[][] {
  const groups: { images: Map<Place, number>; shown: Shown[] }[] = [];
  for (const one of shown) {
    const at = place(one.value);
    const { image } = one.job;
    let group = groups.find(({ images }) => (images.get(at) ?? image) === image);
    if (group === undefined) {
      group = { images: new Map(), shown: [] };
      groups.push(group);
    }
    group.images.set(at, image);
    group.shown.push(one);
  }
  return groups.map((group) => group.shown);
}
