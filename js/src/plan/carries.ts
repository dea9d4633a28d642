// State that lives over runs: what a commit copies, and when.

import type { Carry, Pass, PlanHeader } from "./schema.ts";
import { sectionsByTexture } from "./sections.ts";

/**
 * A commit is carried out when the next run begins. Until then the textures hold all that the last run read, so that it
 * can be run again, for its time or since others drew where its values lay, and gives what it gave.
 */
export class Carries {
  private readonly carries: readonly Carry[];
  private readonly writers: ReadonlyMap<number, ReadonlySet<number>>;
  /** Sections that ran since the last commit. */
  private readonly sectionsRun = new Set<number>();
  private pendingCopies = new Set<Carry>();

  constructor(plan: PlanHeader) {
    this.carries = plan.carries;
    this.writers = sectionsByTexture(plan);
  }

  get isEmpty(): boolean {
    return this.carries.length === 0;
  }

  /** Something is to be copied before the next run. */
  get hasPendingCopies(): boolean {
    return this.pendingCopies.size > 0;
  }

  markRun(sections: readonly number[]): void {
    for (const section of sections) this.sectionsRun.add(section);
  }

  commit(): void {
    for (const carry of this.carries) {
      const isNew = [...(this.writers.get(carry.source) ?? [])].some((one) =>
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

  /** What was computed with other weights is nobody's state. */
  discardRuns(): void {
    this.sectionsRun.clear();
  }

  /** The state is as it was at first. */
  reset(): void {
    this.sectionsRun.clear();
    this.pendingCopies.clear();
  }

  /** The targets of all carries, each with the texture that its state lies in now. */
  get stateTextures(): readonly (readonly [target: number, lies: number])[] {
    return this.carries.map((carry) => [
      carry.target,
      this.pendingCopies.has(carry) ? carry.source : carry.target,
    ]);
  }

  /** How a state is read: what was committed lies in the source still. */
  redirectReads(step: Pass): Pass {
    const sources = new Map([...this.pendingCopies].map(({ source, target }) => [target, source]));
    if (!step.inputs.some((texture) => sources.has(texture))) return step;
    return { ...step, inputs: step.inputs.map((texture) => sources.get(texture) ?? texture) };
  }
}
