// What views watch of a training: parameters, and gradients of its last step.
import type { Session } from "../../plan/runtime.ts";
import type { TrainingConfig } from "./records.ts";

interface TensorWatcher {
  readonly keys: readonly string[];
  readonly onArrays: (arrays: Float32Array[]) => void;
}

export class TensorWatchers {
  private readonly gradientKeys: ReadonlySet<string>;
  private readonly watchers = new Set<TensorWatcher>();
  /** The gradients of the last step of which they were read. */
  private readonly gradientCache = new Map<string, Float32Array>();

  constructor(course: TrainingConfig) {
    this.gradientKeys = new Set(Object.values(course.gradients));
  }

  /** `read` gives a watch its arrays at once. */
  add(
    keys: readonly string[],
    onArrays: (arrays: Float32Array[]) => void,
    read: () => void,
  ): () => void {
    const watch = { keys, onArrays };
    this.watchers.add(watch);
    read();
    return () => {
      this.watchers.delete(watch);
    };
  }

  /** Reads the gradients of a step that has run and isn't committed yet. */
  async captureGradients(session: Session): Promise<void> {
    this.gradientCache.clear();
    for (const key of this.watchedKeys(true)) this.gradientCache.set(key, await session.read(key));
  }

  /**
   * Gives all watches their arrays as they are now; `stepped`: gradients that nobody has read before are those of the
   * last batch with the weights of now.
   */
  async notify(session: Session, stepped: boolean): Promise<void> {
    const keys = [...this.watchedKeys(false)];
    if (stepped)
      keys.push(...[...this.watchedKeys(true)].filter((key) => !this.gradientCache.has(key)));
    const found = new Map(this.gradientCache);
    for (const key of keys) found.set(key, await session.read(key));
    for (const { keys, onArrays } of this.watchers) {
      onArrays(keys.map((key) => found.get(key) ?? zeros(session, key)));
    }
  }

  /** Nothing is known of a step. */
  clear(): void {
    this.gradientCache.clear();
  }

  private watchedKeys(gradients: boolean): Set<string> {
    const all = [...this.watchers].flatMap(({ keys }) => keys);
    return new Set(all.filter((key) => this.gradientKeys.has(key) === gradients));
  }
}

const zeros = (session: Session, key: string): Float32Array =>
  new Float32Array(session.value(key)?.shape.reduce((product, size) => product * size, 1) ?? 0);
