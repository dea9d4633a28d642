// Estimates how long a run takes: as long as the last run of the same sections, or else by the cost of its passes.
import type { Pass } from "./schema.ts";

const totalCost = (passes: readonly Pass[]): number =>
  passes.reduce((sum, { cost }) => sum + cost, 0);

/** Factor by which a time that was noticed late is reduced at each run. */
const LATE_TIME_DECAY = 0.7;

export class RunTimeEstimate {
  private readonly planCost: number;
  /** Milliseconds and cost of the last runs that built no pipeline, by their sections. */
  private readonly measuredRuns = new Map<string, readonly [ms: number, cost: number]>();
  /** Estimate for all passes until such a run exists: from their costs, and at most the time measured. */
  private fullRunMs = Number.POSITIVE_INFINITY;

  constructor(passes: readonly Pass[]) {
    this.planCost = totalCost(passes);
  }

  /** Bound the estimate by the device's speed, in texels read per millisecond. */
  calibrate(readsPerMs: number): void {
    this.fullRunMs = Math.min(this.fullRunMs, this.planCost / readsPerMs);
  }

  /**
   * The measured time of a run of these sections, if one ran without building pipelines, scaled by cost, since edits
   * change the cost.
   */
  measuredMs(sections: readonly number[], passes: readonly Pass[]): number | undefined {
    const [ms, cost] = this.measuredRuns.get(sections.join()) ?? [];
    if (ms === undefined || cost === undefined) return undefined;
    const now = totalCost(passes);
    return now === cost || cost === 0 ? ms : (ms * now) / cost;
  }

  /** The expected time of a run, as far as it is known. */
  expectedMs(sections: readonly number[], passes: readonly Pass[]): number {
    return this.measuredMs(sections, passes) ?? this.fullRunMs * this.costFraction(passes);
  }

  /**
   * Record a run's time. `isFenceTimed`: measured by the fences of several slices, each noticed up to a frame late. A
   * short run that was delayed once would be cut, appear longer for that, and be cut further. So the time decays, down
   * to the estimate from the costs.
   */
  record(
    sections: readonly number[],
    passes: readonly Pass[],
    ms: number,
    hasBuiltPipelines: boolean,
    isFenceTimed = false,
  ): void {
    const least = this.fullRunMs * this.costFraction(passes);
    const shorter = Math.max(
      least,
      LATE_TIME_DECAY * Math.min(ms, this.expectedMs(sections, passes)),
    );
    if (!hasBuiltPipelines)
      this.measuredRuns.set(sections.join(), [
        isFenceTimed ? Math.min(ms, shorter) : ms,
        totalCost(passes),
      ]);
    else if (this.costFraction(passes) > 0)
      this.fullRunMs = Math.min(this.fullRunMs, ms / this.costFraction(passes));
  }

  /** A lower bound of the time of a run. */
  lowerBoundMs(sections: readonly number[], passes: readonly Pass[]): number {
    return Math.min(this.expectedMs(sections, passes), this.fullRunMs * this.costFraction(passes));
  }

  private costFraction(passes: readonly Pass[]): number {
    return this.planCost > 0 ? totalCost(passes) / this.planCost : 1;
  }
}
