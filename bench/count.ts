// Counts WebGL calls.
export interface Counts {
  readonly calls: number;
  readonly draws: number;
  readonly creates: number;
  readonly deletes: number;
  /** fenceSync and deleteSync: they signal completion and hold no memory. */
  readonly fences: number;
}

/** Counts every call of every WebGL 2 context while `work` runs, except queries of a fence's state. */
export async function count(work: () => Promise<void>): Promise<Counts> {
  const prototype = WebGL2RenderingContext.prototype as unknown as Record<string, unknown>;
  const found = { calls: 0, draws: 0, creates: 0, deletes: 0, fences: 0 };
  const waiting = new Set(["clientWaitSync", "getSyncParameter", "isContextLost", "getError"]);
  const originals = new Map<string, unknown>();
  for (const name of Object.getOwnPropertyNames(prototype)) {
    const descriptor = Object.getOwnPropertyDescriptor(prototype, name);
    const original = descriptor?.value;
    if (typeof original !== "function" || waiting.has(name) || name === "constructor") continue;
    originals.set(name, original);
    prototype[name] = function (this: unknown, ...all: unknown[]) {
      found.calls += 1;
      if (name.startsWith("draw") && name !== "drawBuffers") found.draws += 1;
      if (name.startsWith("create")) found.creates += 1;
      if (name === "fenceSync" || name === "deleteSync") found.fences += 1;
      else if (name.startsWith("delete")) found.deletes += 1;
      return original.apply(this, all);
    };
  }
  try {
    await work();
  } finally {
    for (const [name, original] of originals) prototype[name] = original;
  }
  return found;
}
