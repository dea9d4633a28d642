// How long a run will take: as long as the last one of the same sections, or by the cost of its passes.
import type { Pass } from "./schema.ts";

const costOf = (passes: readonly Pass[]): number => passes.reduce((sum, { cost }) => sum + cost, 0);

/** By how much a time that was seen late is made shorter each time. */
const DOWN = 0.7;

export class Expected {
  private readonly cost: number;
  /** Milliseconds and cost of the last runs that built no pipeline, by their sections. */
  private readonly runs = new Map<string, readonly [ms: number, cost: number]>();
  /** Of all passes, before there is such a run: by their costs, and no more than what was seen. */
  private whole = Number.POSITIVE_INFINITY;

  constructor(passes: readonly Pass[]) {
    this.cost = costOf(passes);
  }

  /** The device reads so many texels in a millisecond. */
  estimate(perMs: number): void {
    this.whole = Math.min(this.whole, this.cost / perMs);
  }

  /** What a run of these sections took, if any was without building; by its cost, which edits of values change. */
  measured(sections: readonly number[], passes: readonly Pass[]): number | undefined {
    const [ms, cost] = this.runs.get(sections.join()) ?? [];
    if (ms === undefined || cost === undefined) return undefined;
    const now = costOf(passes);
    return now === cost || cost === 0 ? ms : (ms * now) / cost;
  }

  /** What it will take, as far as that is known. */
  of(sections: readonly number[], passes: readonly Pass[]): number {
    return this.measured(sections, passes) ?? this.whole * this.shareOf(passes);
  }

  /**
   * `seen`: by fences of several slices, each of which is seen a frame late. A short run that the machine once held up
   * would be cut, seem longer for that, and be cut into more: so it comes down again, as far as the costs say.
   */
  learn(
    sections: readonly number[],
    passes: readonly Pass[],
    ms: number,
    builds: boolean,
    seen = false,
  ): void {
    const least = this.whole * this.shareOf(passes);
    const shorter = Math.max(least, DOWN * Math.min(ms, this.of(sections, passes)));
    if (!builds)
      this.runs.set(sections.join(), [seen ? Math.min(ms, shorter) : ms, costOf(passes)]);
    else if (this.shareOf(passes) > 0) this.whole = Math.min(this.whole, ms / this.shareOf(passes));
  }

  /** At most what it takes. */
  least(sections: readonly number[], passes: readonly Pass[]): number {
    return Math.min(this.of(sections, passes), this.whole * this.shareOf(passes));
  }

  private shareOf(passes: readonly Pass[]): number {
    return this.cost > 0 ? costOf(passes) / this.cost : 1;
  }
}
