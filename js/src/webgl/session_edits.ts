// A session's edits on the GPU: the requested ones, the ones whose resources exist, and the ones of the last run.

import { checkEdits, checkPreview, checkValueExists } from "../plan/check_edits.ts";
import { type EditPreview, splitKey } from "../plan/derived_values.ts";
import { packUniformBlocks } from "../plan/edit_program.ts";
import {
  type EditRequest,
  type EditSchedule,
  haveSamePasses,
  scheduleEdits,
} from "../plan/edit_schedule.ts";
import { buildEditStacks, type EditedTextures, editedTexture } from "../plan/edit_stacks.ts";
import type { Edit } from "../plan/edits.ts";
import { ContextLostError, PlanError, SessionClosed } from "../plan/runtime.ts";
import type { Pass, PlanHeader, Value } from "../plan/schema.ts";
import type { Sections } from "../plan/sections.ts";
import { EditResources, ResourceRequests } from "./edit_resources.ts";
import type { GlDevice } from "./gl_device.ts";
import type { PlanObjects } from "./plan_objects.ts";

interface ScheduledEdits {
  readonly schedule: EditSchedule;
  readonly resourceRequests: ResourceRequests;
}

interface Waiter {
  resolve(): void;
  reject(error: unknown): void;
}

const EMPTY_REQUEST: EditRequest = {
  edits: [],
  getArray: (hash) => {
    throw new PlanError(`the array ${hash} is not here`);
  },
  uneditedKeys: [],
  intermediateKeys: [],
  preview: null,
};

export class SessionEdits {
  /** The number of changes; each one makes computed values outdated. */
  changeCount = 0;
  private readonly device: GlDevice;
  private readonly plan: PlanHeader;
  private readonly sections: Sections;
  private readonly onChanged: () => void;
  private resources: EditResources | undefined;
  private request = EMPTY_REQUEST;
  /** The edits of the next run, whose resources exist, and the schedule of the last run. */
  private nextEdits: ScheduledEdits;
  private activeSchedule: EditSchedule;
  private uniformBlocks = new Uint8Array();
  private passCache = new Map<string, readonly Pass[]>();
  private waiters: Waiter[] = [];
  private buildTask: Promise<void> = Promise.resolve();
  private isBuilding = false;
  /** The version of inputs and weights for which each unedited value is kept. */
  private readonly keptVersions = new Map<number, number>();
  private previewCount = 0;
  private failure: { readonly of: EditRequest; readonly error: unknown } | undefined;
  private isClosed = false;

  /** `objects`: the Plan's objects, if they exist already. */
  constructor(
    device: GlDevice,
    plan: PlanHeader,
    sections: Sections,
    onChanged: () => void,
    objects?: PlanObjects,
  ) {
    this.device = device;
    this.plan = plan;
    this.sections = sections;
    this.onChanged = onChanged;
    if (objects !== undefined) this.resources = new EditResources(device, objects);
    this.nextEdits = this.scheduleRequest(EMPTY_REQUEST);
    this.activeSchedule = this.nextEdits.schedule;
  }

  /** Whether anything is edited, compared or previewed. */
  get hasEdits(): boolean {
    return !isEmptyRequest(this.activeSchedule.request);
  }

  /** All values at their locations after the last run, by key. */
  get values(): ReadonlyMap<string, Value> {
    return this.activeSchedule.values;
  }

  /** A value at its current location, including derived values; undefined if there is none. */
  findValue(key: string): Value | undefined {
    const found = this.activeSchedule.values.get(key);
    const [what, own] = splitKey(key);
    const isSame =
      what === "before" ||
      what.startsWith("stage ") || // of edits that were removed
      (what === "without" && this.activeSchedule.editedTextures.size === 0);
    return found ?? (isSame ? this.activeSchedule.values.get(own) : undefined);
  }

  /** The Plan's value that a value is, or is derived from. */
  baseValue(value: Value): Value {
    return this.activeSchedule.baseValues.get(value) ?? value;
  }

  /** Set the edits of the next run. Resolves when their resources exist; the last call wins. */
  async setEdits(edits: readonly Edit[], getArray: (hash: string) => Float32Array): Promise<void> {
    checkEdits(this.plan, edits, getArray);
    await this.updateRequest({ edits, getArray });
  }

  async keepUnedited(keys: readonly string[]): Promise<void> {
    for (const key of keys) checkValueExists(this.plan, key);
    await this.updateRequest({ uneditedKeys: [...new Set(keys)] });
  }

  async keepIntermediates(keys: readonly string[]): Promise<void> {
    for (const key of keys) checkValueExists(this.plan, key);
    await this.updateRequest({ intermediateKeys: [...new Set(keys)] });
  }

  /**
   * Set a preview; returns the keys of the preview's values, which exist from the next run on, or once `finalPasses`
   * are drawn.
   */
  async previewEdits(preview: EditPreview | null): Promise<readonly string[]> {
    if (preview === null && this.request.preview === null) return [];
    if (preview !== null) checkPreview(this.plan, preview);
    const id = this.previewCount++;
    await this.updateRequest({ preview: preview && { ...preview, id } });
    const { schedule } = this.nextEdits;
    return schedule.request.preview?.id === id ? schedule.previewKeys : [];
  }

  /** The passes of sections, including the passes of edits. */
  passes(sections: readonly number[]): readonly Pass[] {
    const { passesAfter, finalPasses, editedTextures } = this.activeSchedule;
    if (passesAfter.size === 0 && finalPasses.length === 0) return this.sections.passes(sections);
    const name = sections.join();
    let found = this.passCache.get(name);
    if (found === undefined) {
      found = [...this.interleavePasses(sections, passesAfter, editedTextures), ...finalPasses];
      this.passCache.set(name, found);
    }
    return found;
  }

  /**
   * The passes of sections without skipped ones, with additional passes after them, reading edited values where they
   * exist.
   */
  private interleavePasses(
    sections: readonly number[],
    passesAfter: ReadonlyMap<number, readonly Pass[]>,
    editedTextures: EditedTextures,
  ): Pass[] {
    const { plan } = this;
    const { skipped } = this.activeSchedule;
    const own = this.sections.passIndices(sections).flatMap((number) => {
      const pass = plan.passes[number];
      const more = passesAfter.get(number) ?? [];
      if (pass === undefined || skipped.passIndices.has(number)) return more;
      if (editedTextures.size === 0) return [pass, ...more];
      const inputs = pass.inputs.map((texture, k) => {
        const value = pass.input_values[k] ?? -1;
        return value < 0 ? texture : editedTexture(plan, value, editedTextures);
      });
      return [{ ...pass, inputs }, ...more];
    });
    return [...(passesAfter.get(-1) ?? []), ...own];
  }

  /** The passes after the network's own. */
  get finalPasses(): readonly Pass[] {
    return this.activeSchedule.finalPasses;
  }

  /**
   * The passes of sections without edits except latents, and the passes that copy the requested unedited values; empty
   * if the copies are current for these inputs and weights (`uneditedVersion`).
   */
  uneditedPasses(sections: readonly number[], uneditedVersion: number): readonly Pass[] {
    const { uneditedCopies } = this.activeSchedule;
    const some = this.copiedValueIndices(sections);
    if (some.every((number) => this.keptVersions.get(number) === uneditedVersion)) return [];
    const passesAfter = new Map<number, Pass[]>();
    const editedTextures = new Map<number, number>();
    for (const [number, { texture, pass }] of this.activeSchedule.latentValues) {
      const after = this.plan.values[number]?.edit_pass ?? -1;
      passesAfter.set(after, [...(passesAfter.get(after) ?? []), pass]);
      editedTextures.set(number, texture);
    }
    return [
      ...this.interleavePasses(sections, passesAfter, editedTextures),
      ...some.flatMap((number) => uneditedCopies.get(number) ?? []),
    ];
  }

  /** Record that these sections were run without edits. */
  markUneditedRun(sections: readonly number[], uneditedVersion: number): void {
    for (const number of this.copiedValueIndices(sections))
      this.keptVersions.set(number, uneditedVersion);
  }

  private copiedValueIndices(sections: readonly number[]): number[] {
    return [...this.activeSchedule.uneditedCopies.keys()].filter((number) =>
      sections.includes(this.sections.sectionOf(this.plan.values[number]?.texture ?? -1)),
    );
  }

  /** Apply the edits of the next run; no run may be in flight. */
  applyNext(objects: PlanObjects): void {
    const { resources, nextEdits } = this;
    if (resources?.objects !== objects || this.activeSchedule === nextEdits.schedule) return;
    const { schedule, resourceRequests: requests } = nextEdits;
    const blocks = packUniformBlocks(schedule.uniforms);
    const [from, to] = changedRange(this.uniformBlocks, blocks);
    if (from < to) objects.writeAddedUniforms(blocks, from, to);
    this.uniformBlocks = blocks;
    resources.writeContents(requests, schedule.request.getArray);
    const latents = ({ request }: EditSchedule) =>
      request.edits.filter(({ skips_upstream }) => skips_upstream);
    // Another latent changes the unedited network too.
    if (latents(schedule).some((one, k) => one !== latents(this.activeSchedule)[k]))
      this.keptVersions.clear();
    this.activeSchedule = schedule;
    this.passCache = new Map();
    if (this.isBuilding) return; // some textures belong to the next schedule
    const { edits, intermediateKeys } = schedule.request;
    const still = buildEditStacks(this.plan, edits).flatMap(({ valueIndex, value }) => [
      `bent ${valueIndex} `,
      ...(intermediateKeys.includes(value.key) ? [`stage ${valueIndex} `] : []),
    ]);
    const names = edits.map(({ name }) => `table of ${name} `);
    // Keep the resources of disabled edits, so that they can be re-enabled unchanged.
    resources.freeUnused(requests, [...still, ...names]);
    for (const number of this.keptVersions.keys())
      if (!schedule.uneditedCopies.has(number)) this.keptVersions.delete(number);
  }

  /** Rebuild all resources with new objects. */
  async restore(objects: PlanObjects): Promise<void> {
    await this.buildTask;
    this.resources = new EditResources(this.device, objects);
    this.uniformBlocks = new Uint8Array();
    this.keptVersions.clear();
    this.nextEdits = this.scheduleRequest(EMPTY_REQUEST);
    this.activeSchedule = this.nextEdits.schedule;
    this.passCache = new Map();
    const { request } = this;
    if (isEmptyRequest(request)) this.request = EMPTY_REQUEST;
    await this.startBuild();
    // The edits existed before the loss: no caller waits for them who would get the out-of-memory error.
    if (this.resources?.objects === objects && this.failure?.of === request)
      throw this.failure.error;
  }

  /** The objects are lost, or about to be freed. */
  detachResources(): void {
    if (this.resources !== undefined) this.resources.isDetached = true;
    this.resources = undefined;
  }

  dispose(): void {
    this.isClosed = true;
    this.detachResources();
    for (const { reject } of this.waiters.splice(0)) reject(closedError());
  }

  private updateRequest(change: Partial<EditRequest>): Promise<void> {
    if (this.isClosed) throw closedError();
    this.request = { ...this.request, ...change };
    if (!this.isBuilding && this.resources !== undefined) {
      const made = this.scheduleRequest(this.request);
      if (this.resources.hasAllRequested(made.resourceRequests)) {
        this.acceptSchedule(made);
        return Promise.resolve();
      }
    }
    const taken = new Promise<void>((resolve, reject) => this.waiters.push({ resolve, reject }));
    if (this.resources !== undefined) void this.startBuild();
    return taken;
  }

  private acceptSchedule(scheduled: ScheduledEdits): void {
    const { schedule: before } = this.nextEdits;
    const { schedule } = scheduled;
    const same = haveSamePasses(before, schedule);
    // Keep the Value objects, so that holders of a value or of its ranges can continue.
    this.nextEdits = same
      ? {
          ...scheduled,
          schedule: { ...schedule, values: before.values, baseValues: before.baseValues },
        }
      : scheduled;
    const { request } = schedule;
    const { edits, uneditedKeys, intermediateKeys } = before.request;
    const isOld =
      (request.edits !== edits && request.edits.length + edits.length > 0) ||
      (request.uneditedKeys.join() !== uneditedKeys.join() && schedule.uneditedCopies.size > 0) ||
      (request.intermediateKeys.join() !== intermediateKeys.join() &&
        schedule.passesAfter.size > 0);
    if (isOld) {
      this.changeCount += 1;
      this.onChanged();
    }
  }

  private startBuild(): Promise<void> {
    if (!this.isBuilding) {
      this.isBuilding = true;
      this.buildTask = this.buildRequested();
    }
    return this.buildTask;
  }

  /** Build the requested edits until they are complete. */
  private async buildRequested(): Promise<void> {
    while (
      !this.isClosed &&
      this.resources !== undefined &&
      this.nextEdits.schedule.request !== this.request
    ) {
      const { request, resources } = this;
      const waiting = this.waiters.splice(0);
      try {
        const check = () => this.checkResources(resources);
        await resources.allocate(
          this.scheduleRequest(request).resourceRequests,
          request.getArray,
          check,
        );
        check();
        this.acceptSchedule(this.scheduleRequest(request));
        for (const { resolve } of waiting) resolve();
      } catch (error) {
        if (error instanceof ContextLostError && !this.isClosed) {
          this.waiters.unshift(...waiting); // they resolve in the next context
          break;
        }
        this.failure = { of: request, error };
        this.revertRequest(request);
        for (const { reject } of waiting) reject(error);
      }
    }
    this.isBuilding = false;
    if (this.nextEdits.schedule.request !== this.request) return;
    for (const { resolve } of this.waiters.splice(0)) resolve();
  }

  /** Revert the failed parts of the request, so that the next change does not retry them. */
  private revertRequest(failedRequest: EditRequest): void {
    const before = this.nextEdits.schedule.request;
    const { request } = this;
    this.request = {
      ...(request.edits === failedRequest.edits
        ? { edits: before.edits, getArray: before.getArray }
        : { edits: request.edits, getArray: request.getArray }),
      uneditedKeys:
        request.uneditedKeys === failedRequest.uneditedKeys
          ? before.uneditedKeys
          : request.uneditedKeys,
      intermediateKeys:
        request.intermediateKeys === failedRequest.intermediateKeys
          ? before.intermediateKeys
          : request.intermediateKeys,
      preview: request.preview === failedRequest.preview ? before.preview : request.preview,
    };
    if (isSameRequest(this.request, before)) this.request = before;
  }

  private checkResources(resources: EditResources): void {
    if (this.isClosed) throw closedError();
    if (this.resources !== resources) throw new ContextLostError();
    this.device.check(resources.objects.generation);
  }

  /** Schedule a request: its passes, with -1 for missing objects, and all resources that it needs. */
  private scheduleRequest(request: EditRequest): ScheduledEdits {
    const resourceRequests = new ResourceRequests(this.device, this.resources);
    return { schedule: scheduleEdits(this.plan, request, resourceRequests), resourceRequests };
  }
}

const closedError = (): SessionClosed => new SessionClosed("this session was closed");

const isEmptyRequest = ({ edits, uneditedKeys, intermediateKeys, preview }: EditRequest): boolean =>
  edits.length + uneditedKeys.length + intermediateKeys.length === 0 && preview === null;

const isSameRequest = (a: EditRequest, b: EditRequest): boolean =>
  a.edits === b.edits &&
  a.uneditedKeys === b.uneditedKeys &&
  a.intermediateKeys === b.intermediateKeys &&
  a.preview === b.preview;

/** The range of bytes that differ; all of the second array if the lengths differ. */
function changedRange(a: Uint8Array, b: Uint8Array): [number, number] {
  if (a.length !== b.length) return [0, b.length];
  let [from, to] = [0, b.length];
  while (from < to && a[from] === b[from]) from++;
  while (to > from && a[to - 1] === b[to - 1]) to--;
  return [from, to];
}
