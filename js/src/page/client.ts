// The client of an exported page's engine: it shows what the page holds, and what scripts of the page ask for.

import { effect } from "@preact/signals";
import { type Arrays, type Given, isPicture, namedInputs, onlyOrAll } from "../arrays.ts";
import { Checks } from "../engine/checks.ts";
import { createEngine } from "../engine/engine.ts";
import { apartIn, sampled } from "../engine/samples.ts";
import { pageStore } from "../engine/store.ts";
import type { Content, Engine, Fed } from "../engine/types.ts";
import type { Feature, Host, Running } from "../features/feature.ts";
import { COLOR_RANGES, COLORMAPS, type Exported, VIEWS } from "../messages.ts";
import { beforeKey } from "../plan/derived_values.ts";
import type { Edit } from "../plan/edits.ts";
import { parsePlan } from "../plan/format.ts";
import { needed } from "../plan/required_inputs.ts";
import { PlanError, type Progress, type Runtime } from "../plan/runtime.ts";
import type { Input, PlanHeader } from "../plan/schema.ts";
import { said } from "../state/edits.ts";
import { createState, type ViewerState } from "../state.ts";
import { says } from "../status.ts";
import { selectionOf, turn, viewOf } from "../view_sync.ts";
import type { Contents } from "./contents.ts";
import { judged, stretchesOf } from "./samples.ts";

/** What to turn the views to, in the words of Python's `view`. */
export interface View {
  /** By default "explain" for a pixel, "maps" for a layer, else "network". */
  readonly name?: string;
  readonly layer?: string | null;
  readonly channels?: readonly number[];
  /** y and x. */
  readonly pixel?: readonly number[] | null;
}

/** What `window.nbglcnn` promises, for scripts in the page and around it, besides what features add. */
export interface Page {
  /** Names that `read` takes: inputs, layers and modules in call order, outputs. */
  readonly keys: readonly string[];
  /** A value or parameter of the whole batch, row-major. */
  read(key: string): Promise<Float32Array>;
  /**
   * Runs another input, row-major, or several by name: the output, or all by name where there are several. Instead of
   * an array an input of 1, 3 or 4 channels takes a canvas, image, video, ImageBitmap or ImageData of any size.
   */
  run(input: Given | Readonly<Record<string, Given>>): Promise<Float32Array | Arrays>;
  /** Turns the views. */
  show(view: View): void;
}

/** The page has one Plan. */
const PLAN = "plan";
/** And is the only one that a source or a training can be of. */
const PAGE = "page";
/** Those of no feature. */
const VIEWS_OF_ALL: readonly string[] = ["network", "maps", "filters", "explain", "profile"];

export class PageClient {
  readonly state: ViewerState;
  private readonly engine: Engine;
  private readonly store = pageStore();
  private readonly exported: Exported;
  private readonly features: readonly Running[];
  private readonly views: readonly string[];
  private plan: PlanHeader | undefined;
  /** The input that is fed. */
  private fed = "";
  private content: Content = { plan: PLAN, weights: [], inputs: [] };
  /** One run or read at a time, in the order in which they are asked for. */
  private turn: Promise<unknown> = Promise.resolve();
  private busy = 0;
  private given = 0;
  private compilingSince = 0;
  /** The edits that were asked for last. */
  private bends: readonly Edit[] = [];
  private readonly checks: Checks;
  /** The inputs and edits that the page came with: its samples are of these. */
  private firstInputs: readonly string[] = [];
  private readonly firstSaid: string | null;
  /** Values in which examples with the same input differ, as far as that was seen. */
  private readonly apart = new Set<string>();

  constructor(exported: Exported, runtime: Runtime, features: readonly Feature[]) {
    this.exported = exported;
    this.engine = createEngine(runtime, {
      onProgress: (progress) => this.follow(progress),
      onLost: () => {
        this.state.status.value = says.lost(this.plan?.layers.length ?? 0);
      },
      onRestored: () => {
        this.queue(() => this.bring()).catch(() => undefined); // the message says it
      },
      onTimed: () => undefined,
      onPace: () => undefined,
      isBusy: () => this.busy > 0,
    });
    this.state = createState(features, this.engine.signals);
    this.state.status.value = says.opening();
    const { state } = this;
    const { view, selected, colormap, color_range, symmetric, example, classes } = exported;
    state.colormap.value = COLORMAPS.find((one) => one === colormap) ?? "signed";
    state.range.value = COLOR_RANGES.find((one) => one === color_range) ?? "layer";
    state.imageRanges.value = exported.image_ranges as typeof state.imageRanges.value;
    state.symmetric.value = symmetric;
    state.example.value = example;
    state.classes.value = classes;
    state.selected.value = selectionOf(selected);
    turn(state, view);
    this.features = features.flatMap((feature) => feature.run?.(this.host()) ?? []);
    this.views = [
      ...VIEWS_OF_ALL,
      ...features.flatMap((feature) => feature.views?.(exported) ?? []),
    ];
    this.firstSaid = said(state);
    this.checks = new Checks(this.engine, {
      isReady: () => this.whyUnchecked() === "" && this.engine.shown !== undefined,
      ask: () => void this.queue(() => this.compare()).catch(() => undefined),
      isApart: () => this.isApart(),
    });
    effect(() => {
      state.run.value;
      state.acting.value;
      state.withoutEdits.value;
      state.unchecked.value = this.whyUnchecked();
    });
  }

  private host(): Host {
    const { state, engine } = this;
    return {
      page: PAGE,
      state,
      engine,
      exported: { record: this.exported, keys: () => this.keys, settled: () => this.turn },
      blob: (name) => this.blob(name),
      drop: () => undefined,
      feed: (fed) => (fed === null ? this.keepFed() : this.feed(fed)),
      read: (key) => this.read(key),
    };
  }

  get keys(): readonly string[] {
    const values = this.plan?.values.filter(({ kind }) => kind !== "contributed");
    return values?.map(({ key }) => key) ?? [];
  }

  /** What scripts of the page find. */
  page(): Page {
    const own = {
      keys: this.keys,
      read: (key: string) => this.read(key),
      run: (input: Parameters<Page["run"]>[0]) => this.run(input),
      show: (view: View) => this.show(view),
    };
    // With their getters.
    const added = this.features.map(({ scripts = {} }) =>
      Object.getOwnPropertyDescriptors(scripts),
    );
    return Object.freeze(Object.defineProperties(own, Object.assign({}, ...added)) as Page);
  }

  /** A view was mounted; returns what to call when it is taken away. */
  watch(): () => void {
    return this.engine.watch();
  }

  /** Takes what the page holds; rejects where that is damaged, and the view says it. */
  async take(contents: Promise<Contents>): Promise<void> {
    try {
      const { file, inputs } = await contents;
      const { plan, weight } = parsePlan(file);
      this.plan = plan;
      this.store.put(PLAN, file, 1);
      for (const { hash } of plan.weights) {
        const { buffer, byteOffset, byteLength } = weight(hash);
        this.store.put(hash, new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength), 1);
      }
      // Features write the inputs that they contribute.
      const own = inputs.slice(0, plan.inputs.filter(({ contributed }) => !contributed).length);
      for (const [k, name] of [...this.exported.injected, ...this.exported.blobs].entries()) {
        const data = inputs[own.length + k];
        if (data !== undefined) this.store.put(name, data, 1);
      }
      this.content = {
        plan: PLAN,
        weights: plan.weights.map(({ hash }) => hash),
        inputs: own.map((data) => this.keep(data)),
      };
      this.firstInputs = this.content.inputs;
      for (const name of this.firstInputs) this.store.hold(name);
      this.engine.describe(PLAN);
      for (const feature of this.features) await feature.open?.();
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  /** Runs it; rejects where that cannot be, and the view says why. */
  async start(): Promise<void> {
    const { unavailable } = this.engine;
    if (unavailable !== undefined) {
      this.state.snapshot.value = this.exported.snapshot;
      const found = `${unavailable.message} (${unavailable.detail})`;
      this.state.status.value = says.unsupported(unavailable.reason, found, true);
      throw unavailable;
    }
    effect(() => {
      const { acting, unlisted, withoutEdits } = this.state;
      const edits = (withoutEdits.value ? unlisted : acting).value;
      this.bends = edits;
      // Of several that wait the last: who drags makes more than can be run.
      void this.queue(async () => {
        if (this.bends === edits) await this.bend(edits);
      });
    });
    await this.queue(() => this.bring());
  }

  /** Between two steps, where the network trains. */
  read(key: string): Promise<Float32Array> {
    return this.queue(() => this.engine.use((session) => session.read(key)));
  }

  run(input: Given | Readonly<Record<string, Given>>): Promise<Float32Array | Arrays> {
    return this.queue(async () => {
      const plan = this.plan as PlanHeader;
      const own = plan.inputs.filter(({ layer, contributed }) => layer < 0 && !contributed);
      const arrays: [string, Float32Array][] = [];
      const asked = needed(plan).filter((one) => own.includes(one));
      for (const [key, given] of namedInputs(input, asked)) {
        const one = inputOf(own, key);
        // The input keeps these numbers, whatever becomes of the picture.
        const array = isPicture(given) ? await this.engine.resamplePicture(one, given) : given;
        checkInput(one, array);
        arrays.push([key, array]);
      }
      this.fed = ""; // nothing of what was fed stays
      for (const feature of this.features) feature.inputGiven?.();
      await this.give(arrays, true);
      const outputs: [string, Float32Array][] = [];
      for (const key of plan.outputs) outputs.push([key, await this.engine.read(key)]);
      return onlyOrAll(outputs);
    });
  }

  show(view: View): void {
    const { state } = this;
    const { layer = null, channels = [], pixel = null } = view;
    const name = view.name ?? (layer === null ? "network" : pixel === null ? "maps" : "explain");
    const names = VIEWS.filter((one) => this.views.includes(one));
    if (!names.some((one) => one === name)) {
      throw new RangeError(`there is no view ${name}; there are ${names.join(", ")}`);
    }
    if (layer !== null && !this.keys.includes(layer)) {
      throw new RangeError(`there is no layer ${layer} whose values are kept`);
    }
    if (layer !== null) state.selected.value = { layer, channel: channels[0] ?? null };
    turn(state, { ...viewOf(state), name, layer, channels, pixel });
  }

  /** Makes these arrays the page's inputs, and shows what comes of them. */
  private async give(arrays: readonly (readonly [string, Float32Array])[], urgent: boolean) {
    const names = [...this.content.inputs];
    const old: string[] = [];
    for (const [key, array] of arrays) {
      const at = this.plan?.inputs.findIndex((one) => one.key === key) ?? -1;
      old.push(names[at] ?? "");
      const copy = new Float32Array(array);
      names[at] = this.keep(new Uint8Array(copy.buffer));
    }
    this.content = { ...this.content, inputs: names };
    this.tellChanged(arrays.map(([key]) => key));
    void this.engine.feed(null).catch(() => undefined); // and with the next run it is gone
    await this.bring(urgent);
    for (const name of old) this.store.release(name);
  }

  /** What Python computed was of the inputs that the page came with. */
  private tellChanged(keys: readonly string[]): void {
    const { changed } = this.state;
    if (keys.some((key) => !changed.peek().has(key)))
      changed.value = new Set([...changed.peek(), ...keys]);
  }

  /** Why what is shown cannot be compared with the samples that the page carries; "" where it can. */
  private whyUnchecked(): string {
    const { samples, unchecked } = this.exported;
    if (samples === null) return unchecked;
    const areFirst = this.content.inputs.every((name, k) => this.isSame(name, this.firstInputs[k]));
    if (!areFirst || this.engine.fedInput !== "") return "another input";
    if (this.state.editTrouble.peek() !== "") return "bends that this device cannot make";
    return said(this.state) === this.firstSaid ? "" : "other bends";
  }

  /** Whether two inputs have the same numbers. */
  private isSame(name: string, other = ""): boolean {
    if (name === other) return true;
    const [a, b] = [this.store.get(name), this.store.get(other)];
    return a !== undefined && a.length === b?.length && a.every((byte, k) => byte === b[k]);
  }

  /** Compares this device's numbers with the samples; asked again where something comes between. */
  private async compare(): Promise<void> {
    const { engine, plan, exported } = this;
    const { samples } = exported;
    if (plan === undefined || samples === null) return;
    const isFree = () => this.busy <= 1; // this one
    await engine.use(async (session) => {
      if (this.whyUnchecked() !== "" || this.bends !== this.state.acting.peek()) return;
      const texels = await sampled(session, stretchesOf(samples), isFree);
      const { twins } = engine;
      const apart = twins === undefined ? [] : await apartIn(session, twins, isFree);
      if (texels === undefined || apart === undefined) return;
      for (const [key] of apart) this.apart.add(key);
      const { buffer, byteOffset, byteLength } = await this.blob("samples");
      const numbers = new Float32Array(buffer, byteOffset, byteLength / 4);
      const { reference, flawed, beyond } = samples;
      const found = judged(plan, samples, numbers, texels, apart);
      const bent = this.firstSaid !== "";
      const own = { reference, flawed, beyond, sampled: true, bent, at: Date.now() };
      this.state.parity.value = { ...own, ...found };
      this.checks.made();
    });
  }

  private isApart(): Promise<boolean> {
    const { engine } = this;
    return this.queue(() =>
      engine.use(async (session) => {
        const { twins } = engine;
        const found = twins && (await apartIn(session, twins, () => this.busy <= 1));
        return found?.some(([key]) => !this.apart.has(key)) ?? false;
      }),
    );
  }

  private async blob(name: string): Promise<Uint8Array<ArrayBuffer>> {
    const data = this.store.get(name);
    if (data === undefined) throw new Error("This page was saved without it.");
    return data;
  }

  private async feed(fed: Fed): Promise<void> {
    this.fed = fed.key;
    this.tellChanged([fed.key]);
    await this.engine.feed(fed);
  }

  /** What was fed last is the input from here on. */
  private keepFed(): Promise<void> {
    return this.queue(async () => {
      const key = this.fed;
      this.fed = "";
      if (key === "") return;
      const data = await this.engine.use((session) => session.read(beforeKey(key)));
      await this.give([[key, data]], false);
    });
  }

  /** Bytes in the page's store, under a name of their own. */
  private keep(data: Uint8Array<ArrayBuffer>): string {
    const name = `input ${this.given++}`;
    this.store.put(name, data, 1);
    return name;
  }

  private queue<T>(job: () => Promise<T>): Promise<T> {
    this.busy += 1;
    const done = this.turn.then(job).finally(() => {
      this.busy -= 1;
      this.engine.idle();
    });
    this.turn = done.catch(() => undefined);
    return done;
  }

  private async bend(edits: readonly Edit[]): Promise<void> {
    const { editTrouble } = this.state;
    try {
      await this.engine.edit(edits);
      editTrouble.value = "";
    } catch (error) {
      editTrouble.value = error instanceof Error ? error.message : String(error);
    }
  }

  private async bring(urgent = false): Promise<void> {
    try {
      await this.engine.show(this.content, { urgent });
    } catch (error) {
      this.fail(error);
      throw error;
    }
    if (this.engine.shown !== undefined) this.state.status.value = says.ready(); // else it was lost meanwhile
  }

  private follow({ stage, done, total }: Progress): void {
    if (stage === "compile") {
      this.compilingSince ||= performance.now();
      const seconds = (performance.now() - this.compilingSince) / 1000;
      this.state.status.value = says.compiling(done, total, seconds);
    } else if (stage === "run" && this.compilingSince > 0) {
      this.compilingSince = 0;
      this.state.status.value = says.running();
    }
  }

  private fail(error: unknown): void {
    if (this.engine.device?.lost) return; // it comes back
    const text = error instanceof Error ? error.message : String(error);
    this.state.status.value = says.failed("This network could not be run here", text);
  }
}

function inputOf(inputs: readonly Input[], key: string): Input {
  const input = inputs.find((one) => one.key === key);
  if (input !== undefined) return input;
  const names = inputs.map((one) => one.key).join(", ");
  throw new PlanError(`there is no input ${key}; there are ${names}`);
}

function checkInput({ key, shape }: Input, array: unknown): void {
  const count = shape.reduce((product, size) => product * size, 1);
  if (!(array instanceof Float32Array) || array.length !== count) {
    const found =
      array instanceof Float32Array ? `${array.length} numbers` : "no Float32Array of them";
    throw new PlanError(`input ${key} takes ${count} numbers (${shape.join("×")}), not ${found}`);
  }
}
