// State that persists across runs: what a commit copies, and when.

import type { Carry, Pass, PlanHeader } from "./schema.ts";
import { sectionsByTexture } from "./sections.ts";

/**
 * Defers a commit to the start of the next run. Until then the textures keep everything that the last run read. So that
 * run can be repeated with the same result: to time it, or because other work has overwritten its values.
 */
export class Carries {
  private readonly carries: readonly Carry[];
  private readonly sectionsByTexture: ReadonlyMap<number, ReadonlySet<number>>;
  /** Sections that ran since the last commit. */
  private readonly sectionsRun = new Set<number>();
  private pendingCopies = new Set<Carry>();

  constructor(plan: PlanHeader) {
    this.carries = plan.carries;
    this.sectionsByTexture = sectionsByTexture(plan);
  }

  get isEmpty(): boolean {
    return this.carries.length === 0;
  }

  /** Whether there are copies to make before the next run. */
  get hasPendingCopies(): boolean {
    return this.pendingCopies.size > 0;
  }

  markRun(sections: readonly number[]): void {
    for (const section of sections) this.sectionsRun.add(section);
  }

  commit(): void {
    for (const carry of this.carries) {
      const isNew = [...(this.sectionsByTexture.get(carry.source) ?? [])].some((one) =>
        this.sectionsRun.has(one),
      );
      if (isNew) this.pendingCopies.add(carry);
    }
    this.sectionsRun.clear();
  }

  copyCommitted(objects: { copy(source: number, target: number): void }): void {
    for (const { source, target } of this.pendingCopies) objects.copy(source, target);
    this.pendingCopies.clear();
  }

  /** Exclude runs with other weights from the next commit. */
  discardUncommittedRuns(): void {
    this.sectionsRun.clear();
  }

  /** Reset to the initial state. */
  reset(): void {
    this.sectionsRun.clear();
    this.pendingCopies.clear();
  }

  /** The targets of all carries, each with the texture that currently holds its state. */
  get stateTextures(): readonly (readonly [target: number, lies: number])[] {
    return this.carries.map((carry) => [
      carry.target,
      this.pendingCopies.has(carry) ? carry.source : carry.target,
    ]);
  }

  /** Redirect reads of state: after a commit it stays in the source texture until it is copied. */
  redirectReads(step: Pass): Pass {
    const sources = new Map([...this.pendingCopies].map(({ source, target }) => [target, source]));
    if (!step.inputs.some((texture) => sources.has(texture))) return step;
    return { ...step, inputs: step.inputs.map((texture) => sources.get(texture) ?? texture) };
  }
}
