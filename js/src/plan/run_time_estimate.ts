// How long a run will take: as long as the last one of the same sections, or by the cost of its passes.
import type { Pass } from "./schema.ts";

const totalCost = (passes: readonly Pass[]): number =>
  passes.reduce((sum, { cost }) => sum + cost, 0);

/** By how much a time that was seen late is made shorter each time. */
const LATE_TIME_DECAY = 0.7;

export class RunTimeEstimate {
  private readonly planCost: number;
  /** Milliseconds and cost of the last runs that built no pipeline, by their sections. */
  private readonly measuredRuns = new Map<string, readonly [ms: number, cost: number]>();
  /** Of all passes, before there is such a run: by their costs, and no more than what was seen. */
  private fullRunMs = Number.POSITIVE_INFINITY;

  constructor(passes: readonly Pass[]) {
    this.planCost = totalCost(passes);
  }

  /** The device reads so many texels in a millisecond. */
  calibrate(perMs: number): void {
    this.fullRunMs = Math.min(this.fullRunMs, this.planCost / perMs);
  }

  /** What a run of these sections took, if any was without building; by its cost, which edits of values change. */
  measuredMs(sections: readonly number[], passes: readonly Pass[]): number | undefined {
    const [ms, cost] = this.measuredRuns.get(sections.join()) ?? [];
    if (ms === undefined || cost === undefined) return undefined;
    const now = totalCost(passes);
    return now === cost || cost === 0 ? ms : (ms * now) / cost;
  }

  /** What it will take, as far as that is known. */
  expectedMs(sections: readonly number[], passes: readonly Pass[]): number {
    return this.measuredMs(sections, passes) ?? this.fullRunMs * this.costShare(passes);
  }

  /**
   * `seen`: by fences of several slices, each of which is seen a frame late. A short run that the machine once held up
   * would be cut, seem longer for that, and be cut into more: so it comes down again, as far as the costs say.
   */
  record(
    sections: readonly number[],
    passes: readonly Pass[],
    ms: number,
    builds: boolean,
    seen = false,
  ): void {
    const least = this.fullRunMs * this.costShare(passes);
    const shorter = Math.max(
      least,
      LATE_TIME_DECAY * Math.min(ms, this.expectedMs(sections, passes)),
    );
    if (!builds)
      this.measuredRuns.set(sections.join(), [
        seen ? Math.min(ms, shorter) : ms,
        totalCost(passes),
      ]);
    else if (this.costShare(passes) > 0)
      this.fullRunMs = Math.min(this.fullRunMs, ms / this.costShare(passes));
  }

  /** At most what it takes. */
  lowerBoundMs(sections: readonly number[], passes: readonly Pass[]): number {
    return Math.min(this.expectedMs(sections, passes), this.fullRunMs * this.costShare(passes));
  }

  private costShare(passes: readonly Pass[]): number {
    return this.planCost > 0 ? totalCost(passes) / this.planCost : 1;
  }
}
