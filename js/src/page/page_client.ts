// The engine's client in an exported page: shows the embedded network, and serves scripts of the page.

import { effect } from "@preact/signals";
import { createEngine } from "../engine/engine.ts";
import { pageStore } from "../engine/page_store.ts";
import { ParityScheduler } from "../engine/parity_check_schedule.ts";
import type { Engine, InputOverride, NetworkContent } from "../engine/types.ts";
import { findMismatches, readSamples } from "../engine/value_samples.ts";
import type { Feature, FeatureInstance, ViewerHost } from "../features/feature.ts";
import { COLOR_RANGE_MODES, COLORMAPS, type PageData, VIEW_NAMES } from "../messages.ts";
import {
  type Arrays,
  type InputData,
  isPicture,
  namedInputs,
  singleOrNamed,
} from "../named_arrays.ts";
import { beforeEditsKey } from "../plan/derived_values.ts";
import type { Edit } from "../plan/edits.ts";
import { parsePlan } from "../plan/plan_file.ts";
import { requiredInputs } from "../plan/required_inputs.ts";
import { PlanError, type Progress, type Runtime } from "../plan/runtime.ts";
import type { Input, PlanHeader } from "../plan/schema.ts";
import { serializeActiveEdits } from "../state/edits.ts";
import { createState, type ViewerState } from "../state.ts";
import { statuses } from "../status.ts";
import { applyView, currentView, parseSelection } from "../view_sync.ts";
import type { PageContents } from "./page_contents.ts";
import { compareSamples, sampleRequests } from "./parity_samples.ts";

/** What the views should show, in the format of Python's `view`. */
export interface ViewRequest {
  /** By default "explain" for a pixel, "maps" for a layer, else "network". */
  readonly name?: string;
  readonly layer?: string | null;
  readonly channels?: readonly number[];
  /** y and x. */
  readonly pixel?: readonly number[] | null;
}

/** The API of `window.nbglcnn` for scripts in and around the page, without the additions of features. */
export interface PageApi {
  /** Names that `read` takes: inputs, layers and modules in call order, outputs. */
  readonly keys: readonly string[];
  /** A value or parameter of the whole batch, row-major. */
  read(key: string): Promise<Float32Array>;
  /**
   * Run another input, row-major, or several by name. Resolve with the output, or with all outputs by name if there are
   * several. Instead of an array, an input of 1, 3 or 4 channels accepts a canvas, image, video, ImageBitmap or
   * ImageData of any size.
   */
  run(input: InputData | Readonly<Record<string, InputData>>): Promise<Float32Array | Arrays>;
  /** Change what the views show. */
  show(view: ViewRequest): void;
}

/** Store key of the page's only Plan. */
const PLAN_NAME = "plan";
/** Name of the page, the only possible owner of a source or a training. */
const EXPORTED_PAGE_ID = "page";
/** The views that exist without any feature. */
const BASE_VIEWS: readonly string[] = ["network", "maps", "filters", "explain", "profile"];

export class PageClient {
  readonly state: ViewerState;
  private readonly engine: Engine;
  private readonly store = pageStore();
  private readonly exported: PageData;
  private readonly features: readonly FeatureInstance[];
  private readonly views: readonly string[];
  private plan: PlanHeader | undefined;
  /** The key of the overridden input; "" for none. */
  private overriddenInputKey = "";
  private content: NetworkContent = { planHash: PLAN_NAME, weightHashes: [], inputHashes: [] };
  /** Runs and reads execute one at a time, in call order. */
  private lastTask: Promise<unknown> = Promise.resolve();
  private taskCount = 0;
  private inputCount = 0;
  private compilingSince = 0;
  /** The most recently requested edits. */
  private requestedEdits: readonly Edit[] = [];
  private readonly parityScheduler: ParityScheduler;
  /** The page's initial inputs and edits, which its samples belong to. */
  private initialInputs: readonly string[] = [];
  private readonly initialEdits: string | null;
  /** Values in which examples with equal inputs are known to differ. */
  private readonly knownMismatches = new Set<string>();

  constructor(exported: PageData, runtime: Runtime, features: readonly Feature[]) {
    this.exported = exported;
    this.engine = createEngine(runtime, {
      onProgress: (progress) => this.reportProgress(progress),
      onContextLost: () => {
        this.state.status.value = statuses.lost(this.plan?.layers.length ?? 0);
      },
      onContextRestored: () => {
        this.enqueue(() => this.showContent()).catch(() => undefined); // the view shows it
      },
      onRunTimed: () => undefined,
      onRunRate: () => undefined,
      isBusy: () => this.taskCount > 0,
    });
    this.state = createState(features, this.engine.signals);
    this.state.status.value = statuses.opening();
    const { state } = this;
    const { view, selected, colormap, color_range, symmetric, example, classes } = exported;
    state.colormap.value = COLORMAPS.find((one) => one === colormap) ?? "signed";
    state.rangeMode.value = COLOR_RANGE_MODES.find((one) => one === color_range) ?? "layer";
    state.imageRanges.value = exported.image_ranges as typeof state.imageRanges.value;
    state.isSymmetric.value = symmetric;
    state.example.value = example;
    state.classNames.value = classes;
    state.selected.value = parseSelection(selected);
    applyView(state, view);
    this.features = features.flatMap((feature) => feature.start?.(this.host()) ?? []);
    this.views = [...BASE_VIEWS, ...features.flatMap((feature) => feature.views?.(exported) ?? [])];
    this.initialEdits = serializeActiveEdits(state);
    this.parityScheduler = new ParityScheduler(this.engine, {
      isReadyToCheck: () =>
        this.uncheckedReason() === "" && this.engine.currentContent !== undefined,
      requestCheck: () => void this.enqueue(() => this.checkParity()).catch(() => undefined),
      hasNewMismatch: () => this.hasNewMismatch(),
    });
    effect(() => {
      state.run.value;
      state.engineEdits.value;
      state.areEditsBypassed.value;
      state.uncheckedReason.value = this.uncheckedReason();
    });
  }

  private host(): ViewerHost {
    const { state, engine } = this;
    return {
      pageId: EXPORTED_PAGE_ID,
      state,
      engine,
      exported: { record: this.exported, valueKeys: () => this.keys, settled: () => this.lastTask },
      blob: (name) => this.blob(name),
      release: () => undefined,
      feed: (fed) => (fed === null ? this.adoptOverride() : this.overrideInput(fed)),
      read: (key) => this.read(key),
    };
  }

  get keys(): readonly string[] {
    const values = this.plan?.values.filter(({ kind }) => kind !== "contributed");
    return values?.map(({ key }) => key) ?? [];
  }

  /** The API for scripts of the page. */
  createApi(): PageApi {
    const own = {
      keys: this.keys,
      read: (key: string) => this.read(key),
      run: (input: Parameters<PageApi["run"]>[0]) => this.run(input),
      show: (view: ViewRequest) => this.show(view),
    };
    // Keeps getters as getters.
    const added = this.features.map(({ scriptApi = {} }) =>
      Object.getOwnPropertyDescriptors(scriptApi),
    );
    return Object.freeze(Object.defineProperties(own, Object.assign({}, ...added)) as PageApi);
  }

  /** Register a mounted view; return a function to call on unmount. */
  addView(): () => void {
    return this.engine.addView();
  }

  /** Load the page's contents; reject if they are damaged, and show the error in the view. */
  async load(contents: Promise<PageContents>): Promise<void> {
    try {
      const { planFile, blobs } = await contents;
      const { plan, getWeight } = parsePlan(planFile);
      this.plan = plan;
      this.store.add(PLAN_NAME, planFile, 1);
      for (const { hash } of plan.weights) {
        const { buffer, byteOffset, byteLength } = getWeight(hash);
        this.store.add(hash, new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength), 1);
      }
      // Contributed inputs are written by features.
      const own = blobs.slice(0, plan.inputs.filter(({ contributed }) => !contributed).length);
      for (const [k, name] of [
        ...this.exported.injected_arrays,
        ...this.exported.blobs,
      ].entries()) {
        const data = blobs[own.length + k];
        if (data !== undefined) this.store.add(name, data, 1);
      }
      this.content = {
        planHash: PLAN_NAME,
        weightHashes: plan.weights.map(({ hash }) => hash),
        inputHashes: own.map((data) => this.storeInput(data)),
      };
      this.initialInputs = this.content.inputHashes;
      for (const name of this.initialInputs) this.store.retain(name);
      this.engine.publishPlan(PLAN_NAME);
      for (const feature of this.features) await feature.onPageReady?.();
    } catch (error) {
      this.showError(error);
      throw error;
    }
  }

  /** Run the network; reject if that fails, and show the reason in the view. */
  async start(): Promise<void> {
    const { deviceError } = this.engine;
    if (deviceError !== undefined) {
      this.state.snapshotUrl.value = this.exported.snapshot;
      const found = `${deviceError.message} (${deviceError.detail})`;
      this.state.status.value = statuses.unsupported(deviceError.reason, found, true);
      throw deviceError;
    }
    effect(() => {
      const { engineEdits, featureEdits, areEditsBypassed } = this.state;
      const edits = (areEditsBypassed.value ? featureEdits : engineEdits).value;
      this.requestedEdits = edits;
      // Calls coalesce, the last one wins: a drag produces more edits than can be run.
      void this.enqueue(async () => {
        if (this.requestedEdits === edits) await this.applyEdits(edits);
      });
    });
    await this.enqueue(() => this.showContent());
  }

  /** Read a value; during training, between two steps. */
  read(key: string): Promise<Float32Array> {
    return this.enqueue(() => this.engine.withSession((session) => session.read(key)));
  }

  run(input: InputData | Readonly<Record<string, InputData>>): Promise<Float32Array | Arrays> {
    return this.enqueue(async () => {
      const plan = this.plan as PlanHeader;
      const own = plan.inputs.filter(({ layer, contributed }) => layer < 0 && !contributed);
      const arrays: [string, Float32Array][] = [];
      const asked = requiredInputs(plan).filter((one) => own.includes(one));
      for (const [key, given] of namedInputs(input, asked)) {
        const one = findInput(own, key);
        // Convert the picture now: the input keeps these values even if the picture changes.
        const array = isPicture(given) ? await this.engine.resamplePicture(one, given) : given;
        checkInput(one, array);
        arrays.push([key, array]);
      }
      this.overriddenInputKey = ""; // drop the override
      for (const feature of this.features) feature.onInputSet?.();
      await this.setInputs(arrays, true);
      const outputs: [string, Float32Array][] = [];
      for (const key of plan.outputs) outputs.push([key, await this.engine.read(key)]);
      return singleOrNamed(outputs);
    });
  }

  show(view: ViewRequest): void {
    const { state } = this;
    const { layer = null, channels = [], pixel = null } = view;
    const name = view.name ?? (layer === null ? "network" : pixel === null ? "maps" : "explain");
    const names = VIEW_NAMES.filter((one) => this.views.includes(one));
    if (!names.some((one) => one === name)) {
      throw new RangeError(`unknown view ${name}; expected one of ${names.join(", ")}`);
    }
    if (layer !== null && !this.keys.includes(layer)) {
      throw new RangeError(`no layer ${layer} with kept values`);
    }
    if (layer !== null) state.selected.value = { layer, channel: channels[0] ?? null };
    applyView(state, { ...currentView(state), name, layer, channels, pixel });
  }

  /** Make these arrays the page's inputs, and show the results. */
  private async setInputs(arrays: readonly (readonly [string, Float32Array])[], urgent: boolean) {
    const names = [...this.content.inputHashes];
    const old: string[] = [];
    for (const [key, array] of arrays) {
      const at = this.plan?.inputs.findIndex((one) => one.key === key) ?? -1;
      old.push(names[at] ?? "");
      const copy = new Float32Array(array);
      names[at] = this.storeInput(new Uint8Array(copy.buffer));
    }
    this.content = { ...this.content, inputHashes: names };
    this.markChanged(arrays.map(([key]) => key));
    void this.engine.overrideInput(null).catch(() => undefined); // takes effect with the next run
    await this.showContent(urgent);
    for (const name of old) this.store.release(name);
  }

  /** Mark values as changed: what Python computed belongs to the page's initial inputs. */
  private markChanged(keys: readonly string[]): void {
    const { changedValues } = this.state;
    if (keys.some((key) => !changedValues.peek().has(key)))
      changedValues.value = new Set([...changedValues.peek(), ...keys]);
  }

  /** The reason why the displayed values cannot be compared with the page's samples; "" if they can. */
  private uncheckedReason(): string {
    const { parity_samples, unchecked_reason } = this.exported;
    if (parity_samples === null) return unchecked_reason;
    const hasInitialInputs = this.content.inputHashes.every((name, k) =>
      this.haveSameBytes(name, this.initialInputs[k]),
    );
    if (!hasInitialInputs || this.engine.overriddenInputKey !== "") return "another input";
    if (this.state.editError.peek() !== "") return "bends that this device can’t compute";
    return serializeActiveEdits(this.state) === this.initialEdits ? "" : "other bends";
  }

  /** Whether two inputs have the same numbers. */
  private haveSameBytes(name: string, otherName = ""): boolean {
    if (name === otherName) return true;
    const [a, b] = [this.store.get(name), this.store.get(otherName)];
    return a !== undefined && a.length === b?.length && a.every((byte, k) => byte === b[k]);
  }

  /** Compare this device's values with the samples; requested again if other work interrupts. */
  private async checkParity(): Promise<void> {
    const { engine, plan, exported } = this;
    const { parity_samples } = exported;
    if (plan === undefined || parity_samples === null) return;
    const isFree = () => this.taskCount <= 1; // this task itself
    await engine.withSession(async (session) => {
      if (this.uncheckedReason() !== "" || this.requestedEdits !== this.state.engineEdits.peek())
        return;
      const texels = await readSamples(session, sampleRequests(parity_samples), isFree);
      const { equalExamples } = engine;
      const mismatches =
        equalExamples === undefined ? [] : await findMismatches(session, equalExamples, isFree);
      if (texels === undefined || mismatches === undefined) return;
      for (const [key] of mismatches) this.knownMismatches.add(key);
      const { buffer, byteOffset, byteLength } = await this.blob("samples");
      const numbers = new Float32Array(buffer, byteOffset, byteLength / 4);
      const { reference, non_finite, float16_overflow } = parity_samples;
      const found = compareSamples(plan, parity_samples, numbers, texels, mismatches);
      const isWithEdits = this.initialEdits !== "";
      const own = {
        reference,
        non_finite,
        float16_overflow,
        isSampled: true,
        hasReplayedEdits: isWithEdits,
        checkedAtMs: Date.now(),
      };
      this.state.parity.value = { ...own, ...found };
      this.parityScheduler.markCheckDone();
    });
  }

  private hasNewMismatch(): Promise<boolean> {
    const { engine } = this;
    return this.enqueue(() =>
      engine.withSession(async (session) => {
        const { equalExamples } = engine;
        const found =
          equalExamples &&
          (await findMismatches(session, equalExamples, () => this.taskCount <= 1));
        return found?.some(([key]) => !this.knownMismatches.has(key)) ?? false;
      }),
    );
  }

  private async blob(name: string): Promise<Uint8Array<ArrayBuffer>> {
    const data = this.store.get(name);
    if (data === undefined) throw new Error("This page was saved without it.");
    return data;
  }

  private async overrideInput(newOverride: InputOverride): Promise<void> {
    this.overriddenInputKey = newOverride.key;
    this.markChanged([newOverride.key]);
    await this.engine.overrideInput(newOverride);
  }

  /** Make the last override the page's input. */
  private adoptOverride(): Promise<void> {
    return this.enqueue(async () => {
      const key = this.overriddenInputKey;
      this.overriddenInputKey = "";
      if (key === "") return;
      const data = await this.engine.withSession((session) => session.read(beforeEditsKey(key)));
      await this.setInputs([[key, data]], false);
    });
  }

  /** Store bytes in the page's store under a unique name. */
  private storeInput(data: Uint8Array<ArrayBuffer>): string {
    const name = `input ${this.inputCount++}`;
    this.store.add(name, data, 1);
    return name;
  }

  private enqueue<T>(job: () => Promise<T>): Promise<T> {
    this.taskCount += 1;
    const done = this.lastTask.then(job).finally(() => {
      this.taskCount -= 1;
      this.engine.scheduleRunTiming();
    });
    this.lastTask = done.catch(() => undefined);
    return done;
  }

  private async applyEdits(edits: readonly Edit[]): Promise<void> {
    const { editError } = this.state;
    try {
      await this.engine.setEdits(edits);
      editError.value = "";
    } catch (error) {
      editError.value = error instanceof Error ? error.message : String(error);
    }
  }

  private async showContent(urgent = false): Promise<void> {
    try {
      await this.engine.show(this.content, { urgent });
    } catch (error) {
      this.showError(error);
      throw error;
    }
    if (this.engine.currentContent !== undefined) this.state.status.value = statuses.ready(); // else it was lost meanwhile
  }

  private reportProgress({ stage, done, total }: Progress): void {
    if (stage === "compile") {
      this.compilingSince ||= performance.now();
      const seconds = (performance.now() - this.compilingSince) / 1000;
      this.state.status.value = statuses.compiling(done, total, seconds);
    } else if (stage === "run" && this.compilingSince > 0) {
      this.compilingSince = 0;
      this.state.status.value = statuses.running();
    }
  }

  private showError(error: unknown): void {
    if (this.engine.device?.isLost) return; // the context will be restored
    const text = error instanceof Error ? error.message : String(error);
    this.state.status.value = statuses.failed("This page can’t run the network", text);
  }
}

function findInput(inputs: readonly Input[], key: string): Input {
  const input = inputs.find((one) => one.key === key);
  if (input !== undefined) return input;
  const names = inputs.map((one) => one.key).join(", ");
  throw new PlanError(`there is no input ${key}; there are ${names}`);
}

function checkInput({ key, shape }: Input, array: unknown): void {
  const count = shape.reduce((product, size) => product * size, 1);
  if (!(array instanceof Float32Array) || array.length !== count) {
    const found = array instanceof Float32Array ? `${array.length} values` : "no Float32Array";
    throw new PlanError(`input ${key} takes ${count} values (${shape.join("×")}), not ${found}`);
  }
}
