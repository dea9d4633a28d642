// What views watch of a training: parameters, and gradients of its last step.
import type { Session } from "../../plan/runtime.ts";
import type { Course } from "./records.ts";

interface Watch {
  readonly keys: readonly string[];
  readonly take: (arrays: Float32Array[]) => void;
}

export class Watches {
  private readonly gradients: ReadonlySet<string>;
  private readonly watches = new Set<Watch>();
  /** The gradients of the last step of which they were read. */
  private readonly known = new Map<string, Float32Array>();

  constructor(course: Course) {
    this.gradients = new Set(Object.values(course.gradients));
  }

  /** `read` gives a watch its arrays at once. */
  add(
    keys: readonly string[],
    take: (arrays: Float32Array[]) => void,
    read: () => void,
  ): () => void {
    const watch = { keys, take };
    this.watches.add(watch);
    read();
    return () => {
      this.watches.delete(watch);
    };
  }

  /** Reads the gradients of a step that has run and isn't committed yet. */
  async learn(session: Session): Promise<void> {
    this.known.clear();
    for (const key of this.wanted(true)) this.known.set(key, await session.read(key));
  }

  /**
   * Gives all watches their arrays as they are now; `stepped`: gradients that nobody has read before are those of the
   * last batch with the weights of now.
   */
  async give(session: Session, stepped: boolean): Promise<void> {
    const keys = [...this.wanted(false)];
    if (stepped) keys.push(...[...this.wanted(true)].filter((key) => !this.known.has(key)));
    const found = new Map(this.known);
    for (const key of keys) found.set(key, await session.read(key));
    for (const { keys, take } of this.watches) {
      take(keys.map((key) => found.get(key) ?? zeros(session, key)));
    }
  }

  /** Nothing is known of a step. */
  forget(): void {
    this.known.clear();
  }

  private wanted(gradients: boolean): Set<string> {
    const all = [...this.watches].flatMap(({ keys }) => keys);
    return new Set(all.filter((key) => this.gradients.has(key) === gradients));
  }
}

const zeros = (session: Session, key: string): Float32Array =>
  new Float32Array(session.value(key)?.shape.reduce((product, size) => product * size, 1) ?? 0);
