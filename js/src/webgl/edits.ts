// The edits of a session on its device: which are wanted, whose objects are there, and which the last run had.

import { checkEdits, checkPreview, checkValue } from "../plan/check_edits.ts";
import { type Preview, splitKey } from "../plan/derived_values.ts";
import { blocksOf } from "../plan/edit_program.ts";
import { type Laid, lay, sameShape, type Wanted } from "../plan/edit_schedule.ts";
import { type Bent, stacksOf, textureOf } from "../plan/edit_stacks.ts";
import type { Edit } from "../plan/edits.ts";
import { ContextLostError, PlanError, SessionClosed } from "../plan/runtime.ts";
import type { Pass, PlanHeader, Value } from "../plan/schema.ts";
import type { Sections } from "../plan/sections.ts";
import type { GlDevice } from "./device.ts";
import { Needs, Shelf } from "./edit_resources.ts";
import type { PlanObjects } from "./objects.ts";

interface Made {
  readonly laid: Laid;
  readonly needs: Needs;
}

interface Waiter {
  resolve(): void;
  reject(error: unknown): void;
}

const NOTHING: Wanted = {
  edits: [],
  array: (hash) => {
    throw new PlanError(`the array ${hash} is not here`);
  },
  compared: [],
  staged: [],
  preview: null,
};

export class Edits {
  /** How often they were changed, so that what was computed is old. */
  changes = 0;
  private readonly device: GlDevice;
  private readonly plan: PlanHeader;
  private readonly sections: Sections;
  private readonly changed: () => void;
  private shelf: Shelf | undefined;
  private wanted = NOTHING;
  /** Those of the next run, whose objects are there, and those of the last one. */
  private next: Made;
  private taken: Laid;
  private blocks = new Uint8Array();
  private listed = new Map<string, readonly Pass[]>();
  private waiting: Waiter[] = [];
  private working: Promise<void> = Promise.resolve();
  private busy = false;
  /** For which inputs and weights each value without edits is there. */
  private readonly kept = new Map<number, number>();
  private previews = 0;
  private failure: { readonly of: Wanted; readonly error: unknown } | undefined;
  private closed = false;

  /** `objects` are those that are there already. */
  constructor(
    device: GlDevice,
    plan: PlanHeader,
    sections: Sections,
    changed: () => void,
    objects?: PlanObjects,
  ) {
    this.device = device;
    this.plan = plan;
    this.sections = sections;
    this.changed = changed;
    if (objects !== undefined) this.shelf = new Shelf(device, objects);
    this.next = this.lay(NOTHING);
    this.taken = this.next.laid;
  }

  /** Something is edited, or compared or previewed. */
  get any(): boolean {
    return !isNothing(this.taken.wanted);
  }

  /** All values as they lie after the last run, by their keys. */
  get values(): ReadonlyMap<string, Value> {
    return this.taken.values;
  }

  /** A value as it lies now, one that follows from it too; undefined where there is none. */
  find(key: string): Value | undefined {
    const found = this.taken.values.get(key);
    const [what, own] = splitKey(key);
    const isSame =
      what === "before" ||
      what.startsWith("stage ") || // of edits that are there no more
      (what === "without" && this.taken.bent.size === 0);
    return found ?? (isSame ? this.taken.values.get(own) : undefined);
  }

  /** The Plan's value that one is, or follows from. */
  base(value: Value): Value {
    return this.taken.bases.get(value) ?? value;
  }

  /** Of the next run. Resolves when their objects are there; the last call wins. */
  async set(edits: readonly Edit[], array: (hash: string) => Float32Array): Promise<void> {
    checkEdits(this.plan, edits, array);
    await this.want({ edits, array });
  }

  async compare(keys: readonly string[]): Promise<void> {
    for (const key of keys) checkValue(this.plan, key);
    await this.want({ compared: [...new Set(keys)] });
  }

  async stages(keys: readonly string[]): Promise<void> {
    for (const key of keys) checkValue(this.plan, key);
    await this.want({ staged: [...new Set(keys)] });
  }

  /** The keys of what is made; from the next run on, or when `aside` are drawn. */
  async preview(asked: Preview | null): Promise<readonly string[]> {
    if (asked === null && this.wanted.preview === null) return [];
    if (asked !== null) checkPreview(this.plan, asked);
    const id = this.previews++;
    await this.want({ preview: asked && { ...asked, id } });
    const { laid } = this.next;
    return laid.wanted.preview?.id === id ? laid.previews : [];
  }

  /** Passes of sections with those of edits among them. */
  passes(sections: readonly number[]): readonly Pass[] {
    const { behind, last, bent } = this.taken;
    if (behind.size === 0 && last.length === 0) return this.sections.passes(sections);
    const name = sections.join();
    let found = this.listed.get(name);
    if (found === undefined) {
      found = [...this.among(sections, behind, bent), ...last];
      this.listed.set(name, found);
    }
    return found;
  }

  /** Passes of sections that aren't skipped, with others behind them, reading edited values where those are. */
  private among(
    sections: readonly number[],
    behind: ReadonlyMap<number, readonly Pass[]>,
    bent: Bent,
  ): Pass[] {
    const { plan } = this;
    const { skipped } = this.taken;
    const own = this.sections.numbers(sections).flatMap((number) => {
      const pass = plan.passes[number];
      const more = behind.get(number) ?? [];
      if (pass === undefined || skipped.passes.has(number)) return more;
      if (bent.size === 0) return [pass, ...more];
      const inputs = pass.inputs.map((texture, k) => {
        const value = pass.values[k] ?? -1;
        return value < 0 ? texture : textureOf(plan, value, bent);
      });
      return [{ ...pass, inputs }, ...more];
    });
    return [...(behind.get(-1) ?? []), ...own];
  }

  /** What is drawn behind the network's own passes. */
  get aside(): readonly Pass[] {
    return this.taken.last;
  }

  /**
   * The passes of sections without edits but for a latent's, and those that keep what is asked for of that; none where it is kept for
   * these inputs and weights.
   */
  without(sections: readonly number[], given: number): readonly Pass[] {
    const { copies } = this.taken;
    const some = this.copied(sections);
    if (some.every((number) => this.kept.get(number) === given)) return [];
    const behind = new Map<number, Pass[]>();
    const bent = new Map<number, number>();
    for (const [number, { texture, pass }] of this.taken.given) {
      const after = this.plan.values[number]?.after ?? -1;
      behind.set(after, [...(behind.get(after) ?? []), pass]);
      bent.set(number, texture);
    }
    return [
      ...this.among(sections, behind, bent),
      ...some.flatMap((number) => copies.get(number) ?? []),
    ];
  }

  /** These were run without edits. */
  hasKept(sections: readonly number[], given: number): void {
    for (const number of this.copied(sections)) this.kept.set(number, given);
  }

  private copied(sections: readonly number[]): number[] {
    return [...this.taken.copies.keys()].filter((number) =>
      sections.includes(this.sections.of(this.plan.values[number]?.texture ?? -1)),
    );
  }

  /** What is wanted counts from here on: no run is under way. */
  flush(objects: PlanObjects): void {
    const { shelf, next } = this;
    if (shelf?.objects !== objects || this.taken === next.laid) return;
    const { laid, needs } = next;
    const blocks = blocksOf(laid.numbers);
    const [from, to] = difference(this.blocks, blocks);
    if (from < to) objects.tell(blocks, from, to);
    this.blocks = blocks;
    shelf.fill(needs, laid.wanted.array);
    const latents = ({ wanted }: Laid) => wanted.edits.filter(({ skips }) => skips);
    // Another code is another network without its edits.
    if (latents(laid).some((one, k) => one !== latents(this.taken)[k])) this.kept.clear();
    this.taken = laid;
    this.listed = new Map();
    if (this.busy) return; // some of the textures are for what comes next
    const { edits, staged } = laid.wanted;
    const still = stacksOf(this.plan, edits).flatMap(({ number, value }) => [
      `bent ${number} `,
      ...(staged.includes(value.key) ? [`stage ${number} `] : []),
    ]);
    const names = edits.map(({ name }) => `table of ${name} `);
    // What is switched off for a while comes back as it is.
    shelf.tidy(needs, [...still, ...names]);
    for (const number of this.kept.keys()) if (!laid.copies.has(number)) this.kept.delete(number);
  }

  /** New objects: all is made again in them. */
  async restore(objects: PlanObjects): Promise<void> {
    await this.working;
    this.shelf = new Shelf(this.device, objects);
    this.blocks = new Uint8Array();
    this.kept.clear();
    this.next = this.lay(NOTHING);
    this.taken = this.next.laid;
    this.listed = new Map();
    const { wanted } = this;
    if (isNothing(wanted)) this.wanted = NOTHING;
    await this.begin();
    // It was here before: nobody waits for it who could be told that it has no room now.
    if (this.shelf?.objects === objects && this.failure?.of === wanted) throw this.failure.error;
  }

  /** The objects are gone, or about to be. */
  lose(): void {
    if (this.shelf !== undefined) this.shelf.isLeft = true;
    this.shelf = undefined;
  }

  dispose(): void {
    this.closed = true;
    this.lose();
    for (const { reject } of this.waiting.splice(0)) reject(closedError());
  }

  private want(change: Partial<Wanted>): Promise<void> {
    if (this.closed) throw closedError();
    this.wanted = { ...this.wanted, ...change };
    if (!this.busy && this.shelf !== undefined) {
      const made = this.lay(this.wanted);
      if (this.shelf.has(made.needs)) {
        this.take(made);
        return Promise.resolve();
      }
    }
    const taken = new Promise<void>((resolve, reject) => this.waiting.push({ resolve, reject }));
    if (this.shelf !== undefined) void this.begin();
    return taken;
  }

  private take(made: Made): void {
    const { laid: before } = this.next;
    const { laid } = made;
    const same = sameShape(before, laid);
    // Whoever holds a value, or its ranges, can go on.
    this.next = same
      ? { ...made, laid: { ...laid, values: before.values, bases: before.bases } }
      : made;
    const { wanted } = laid;
    const { edits, compared, staged } = before.wanted;
    const isOld =
      (wanted.edits !== edits && wanted.edits.length + edits.length > 0) ||
      (wanted.compared.join() !== compared.join() && laid.copies.size > 0) ||
      (wanted.staged.join() !== staged.join() && laid.behind.size > 0);
    if (isOld) {
      this.changes += 1;
      this.changed();
    }
  }

  private begin(): Promise<void> {
    if (!this.busy) {
      this.busy = true;
      this.working = this.work();
    }
    return this.working;
  }

  /** Makes what is wanted, until that is there. */
  private async work(): Promise<void> {
    while (!this.closed && this.shelf !== undefined && this.next.laid.wanted !== this.wanted) {
      const { wanted, shelf } = this;
      const waiting = this.waiting.splice(0);
      try {
        const check = () => this.checkShelf(shelf);
        await shelf.make(this.lay(wanted).needs, wanted.array, check);
        check();
        this.take(this.lay(wanted));
        for (const { resolve } of waiting) resolve();
      } catch (error) {
        if (error instanceof ContextLostError && !this.closed) {
          this.waiting.unshift(...waiting); // they are served in the next context
          break;
        }
        this.failure = { of: wanted, error };
        this.giveUp(wanted);
        for (const { reject } of waiting) reject(error);
      }
    }
    this.busy = false;
    if (this.next.laid.wanted !== this.wanted) return;
    for (const { resolve } of this.waiting.splice(0)) resolve();
  }

  /** What cannot be is not tried again with the next change. */
  private giveUp(failed: Wanted): void {
    const before = this.next.laid.wanted;
    const { wanted } = this;
    this.wanted = {
      ...(wanted.edits === failed.edits
        ? { edits: before.edits, array: before.array }
        : { edits: wanted.edits, array: wanted.array }),
      compared: wanted.compared === failed.compared ? before.compared : wanted.compared,
      staged: wanted.staged === failed.staged ? before.staged : wanted.staged,
      preview: wanted.preview === failed.preview ? before.preview : wanted.preview,
    };
    if (sameWanted(this.wanted, before)) this.wanted = before;
  }

  private checkShelf(shelf: Shelf): void {
    if (this.closed) throw closedError();
    if (this.shelf !== shelf) throw new ContextLostError();
    this.device.check(shelf.objects.generation);
  }

  /** Its passes, with numbers of objects that are not there left open, and all that it needs. */
  private lay(wanted: Wanted): Made {
    const needs = new Needs(this.device, this.shelf);
    return { laid: lay(this.plan, wanted, needs), needs };
  }
}

const closedError = (): SessionClosed => new SessionClosed("this session was closed");

const isNothing = ({ edits, compared, staged, preview }: Wanted): boolean =>
  edits.length + compared.length + staged.length === 0 && preview === null;

const sameWanted = (a: Wanted, b: Wanted): boolean =>
  a.edits === b.edits &&
  a.compared === b.compared &&
  a.staged === b.staged &&
  a.preview === b.preview;

/** From where to where two rows of bytes differ; all of the second where they are of several lengths. */
function difference(a: Uint8Array, b: Uint8Array): [number, number] {
  if (a.length !== b.length) return [0, b.length];
  let [from, to] = [0, b.length];
  while (from < to && a[from] === b[from]) from++;
  while (to > from && a[to - 1] === b[to - 1]) to--;
  return [from, to];
}
