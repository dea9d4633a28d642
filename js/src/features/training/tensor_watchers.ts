// Tensors of a training that views watch: parameters, and gradients of the last step.
import type { Session } from "../../plan/runtime.ts";
import type { TrainingConfig } from "./records.ts";

interface TensorWatcher {
  readonly keys: readonly string[];
  readonly onArrays: (arrays: Float32Array[]) => void;
}

export class TensorWatchers {
  private readonly gradientKeys: ReadonlySet<string>;
  private readonly watchers = new Set<TensorWatcher>();
  /** The gradients of the last step for which they were read. */
  private readonly gradientCache = new Map<string, Float32Array>();

  constructor(config: TrainingConfig) {
    this.gradientKeys = new Set(Object.values(config.gradients));
  }

  /** Add a watcher. `read` delivers its arrays at once. */
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

  /** Read the gradients of a step that has run but is not yet committed. */
  async captureGradients(session: Session): Promise<void> {
    this.gradientCache.clear();
    for (const key of this.watchedKeys(true)) this.gradientCache.set(key, await session.read(key));
  }

  /**
   * Pass their current arrays to all watchers. `hasStepped`: also read gradients that are not cached; they belong to
   * the last batch with the current weights.
   */
  async notify(session: Session, hasStepped: boolean): Promise<void> {
    const keys = [...this.watchedKeys(false)];
    if (hasStepped)
      keys.push(...[...this.watchedKeys(true)].filter((key) => !this.gradientCache.has(key)));
    const found = new Map(this.gradientCache);
    for (const key of keys) found.set(key, await session.read(key));
    for (const { keys, onArrays } of this.watchers) {
      onArrays(keys.map((key) => found.get(key) ?? zerosLike(session, key)));
    }
  }

  /** Discard the gradients of the last step. */
  clear(): void {
    this.gradientCache.clear();
  }

  private watchedKeys(isForGradients: boolean): Set<string> {
    const all = [...this.watchers].flatMap(({ keys }) => keys);
    return new Set(all.filter((key) => this.gradientKeys.has(key) === isForGradients));
  }
}

const zerosLike = (session: Session, key: string): Float32Array =>
  new Float32Array(session.value(key)?.shape.reduce((product, size) => product * size, 1) ?? 0);
