// A session with pictures: a Runner, the ranges of what it computes, and the display.
import type { PlanHeader, Value } from "../plan.ts";
import { finished } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import { Display } from "./display.ts";
import { profile } from "./profile.ts";
import { type Place, Ranges } from "./ranges.ts";
import { Runner } from "./runner.ts";
import type { Shown } from "./sheets.ts";
import { Reducer } from "./statistics.ts";
import { channelSummary, summary } from "./summary.ts";
import {
  ContextLostError,
  type Delivery,
  type Device,
  type DrawJob,
  PlanError,
  type Progress,
  type Session,
} from "./types.ts";

/** What only drawing needs; made anew with each context. */
interface Pictures {
  readonly generation: number;
  readonly ranges: Ranges;
  readonly display: Display;
  readonly reducer: Reducer;
}

/** Compiles, allocates and uploads; nothing is run. `weight` is asked again when a lost context is rebuilt. */
export async function createSession(
  given: Device,
  plan: PlanHeader,
  uniforms: Uint8Array,
  weight: (hash: string) => Float32Array,
  onProgress?: (progress: Progress) => void,
): Promise<Session> {
  const device = given as GlDevice;
  const runner = await Runner.make(device, plan, uniforms, weight, onProgress);
  const values = new Map<string, Value>(plan.values.map((value) => [value.key, value]));
  let disposed = false;
  let delivery: Delivery = "canvas";
  let pictures: Pictures | undefined;

  async function prepare(): Promise<void> {
    pictures = undefined;
    const { generation } = device;
    const ranges = await Ranges.make(device, plan);
    let display: Display | undefined;
    try {
      display = await Display.make(device);
      // Software renderers build a program's pipeline when it first draws: the first picture, or a read behind it,
      // would hold the page until all are there.
      ranges.warm();
      display.warm(ranges);
      await finished(device);
      device.check(generation);
      device.resources.checkMemory(runner.bytes + ranges.bytes + display.bytes);
    } catch (error) {
      if (device.generation === generation) {
        ranges.dispose();
        display?.dispose();
      }
      throw error;
    }
    pictures = { generation, ranges, display, reducer: new Reducer(device) };
    if (disposed) free();
  }

  function free(): void {
    if (pictures?.generation === device.generation) {
      pictures.ranges.dispose();
      pictures.display.dispose();
      pictures.reducer.dispose();
    }
    pictures = undefined;
  }

  function reducer(): Reducer {
    runner.ready();
    if (pictures === undefined) throw new ContextLostError("the graphics context was lost");
    return pictures.reducer;
  }

  function draw(jobs: readonly DrawJob[]): void {
    if (disposed || device.gl.isContextLost() || pictures?.generation !== device.generation) return;
    const { ranges, display } = pictures;
    const objects = runner.ready();
    const shown = jobs.map((job): Shown => {
      const value = values.get(job.key);
      if (value === undefined) throw new PlanError(`no value ${JSON.stringify(job.key)} to draw`);
      checkJob(job, value);
      const size = plan.textures[value.texture];
      if (size === undefined) throw new PlanError(`the Plan has no texture ${value.texture}`);
      return { job, value, texture: objects.texture(value.texture), size };
    });
    for (const group of imagesApart(shown, (value) => ranges.place(value))) {
      const ranged = group.filter(({ job }) => job.range.mode !== "fixed");
      const wanted = ranged.map((one) => ({ ...one, image: one.job.image }));
      ranges.update(wanted, runner.sequence);
      display.draw(group, ranges, delivery);
    }
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
    setWeight: (texture, data) => runner.setWeight(texture, data),
    run: (options) => runner.run(options),
    read: (key) => runner.read(key),
    sample: (key, bands) => runner.sample(key, bands),
    draw,
    get delivery() {
      return delivery;
    },
    set delivery(way) {
      delivery = way;
    },
    profile: (onLayer, signal) => profile(runner, onLayer, signal),
    async statistics(key, image = 0) {
      const value = runner.find(key);
      const reduce = await reducer().ready();
      const [sequence, channels] = await runner.whenFresh(value, (objects) => [
        runner.sequence,
        reduce(value, image, objects),
      ]);
      return {
        sequence,
        image,
        layer: summary(channels),
        channels: channels.map(channelSummary),
      };
    },
    dispose() {
      disposed = true;
      free();
      runner.dispose();
    },
  };
}

function checkJob({ image, channels }: DrawJob, { key, layout }: Value): void {
  const [n, c] = layout.frame;
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
