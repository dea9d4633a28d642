// The edits requested for any shown network; applies to a session those that its Plan supports.
import type { Edit } from "../plan/edits.ts";
import { ContextLostError, PlanError, type Session, SessionClosed } from "../plan/runtime.ts";
import { NOT_EDITABLE, type PlanHeader } from "../plan/schema.ts";
import type { PageStore } from "./page_store.ts";

const NO_EDITS: readonly Edit[] = [];

export class RequestedEdits {
  private readonly store: PageStore;
  private readonly onSkipped: (skippedEdits: readonly Edit[]) => void;
  private requested = NO_EDITS;
  /** The last edits that failed, and the error. */
  private lastFailure: { readonly edits: readonly Edit[]; readonly error: unknown } | undefined;
  private skipped = NO_EDITS;
  /** The edits applied to each session. */
  private readonly appliedEdits = new WeakMap<Session, readonly Edit[]>();

  constructor(store: PageStore, onSkipped: (left: readonly Edit[]) => void) {
    this.store = store;
    this.onSkipped = onSkipped;
  }

  /**
   * Replace the requested edits and retain their arrays. The returned callback throws the error if applying them
   * failed.
   */
  request(edits: readonly Edit[]): () => void {
    const own = [...edits]; // a copy makes equal edits new: a missing array may have arrived
    this.replace(own);
    return () => {
      if (this.lastFailure?.edits === own) throw this.lastFailure.error;
    };
  }

  dispose(): void {
    this.replace(NO_EDITS);
  }

  /**
   * Apply the requested edits that this session's Plan supports. Returns whether the session's edits changed. If they
   * fail, a session that already `has` edits keeps them; a new session gets none.
   */
  async applyTo(session: Session, keepsPreviousEdits: boolean): Promise<boolean> {
    const { requested } = this;
    const before = this.appliedEdits.get(session) ?? NO_EDITS;
    if (before === requested) return false;
    const own = requested.filter((edit) => this.isApplicable(session.plan, edit));
    let skippedEdits: readonly Edit[] = requested.filter((edit) => !own.includes(edit));
    try {
      await session.setEdits(own, (hash) => this.arrayOf(hash));
    } catch (error) {
      if (error instanceof ContextLostError || error instanceof SessionClosed) throw error;
      this.lastFailure = { edits: requested, error };
      if (keepsPreviousEdits) {
        if (this.requested === requested) this.replace(before);
        return false;
      }
      skippedEdits = requested;
    }
    this.appliedEdits.set(session, requested);
    if (skippedEdits.length > 0 || this.skipped.length > 0) this.onSkipped(skippedEdits);
    this.skipped = skippedEdits;
    return own.length > 0 || before.length > 0;
  }

  private replace(edits: readonly Edit[]): void {
    const arrays = (of: readonly Edit[]) => of.flatMap(({ array_hash }) => array_hash || []);
    for (const hash of arrays(edits)) this.store.retain(hash);
    for (const hash of arrays(this.requested)) this.store.release(hash);
    this.requested = edits;
  }

  private isApplicable({ values }: PlanHeader, { layer, channels, array_hash }: Edit): boolean {
    const value = values.find(({ key }) => key === layer);
    if (value === undefined || value.edit_pass === NOT_EDITABLE) return false;
    const [n, c, h, w] = value.nchw;
    const inside = channels === null || channels.every((channel) => channel < c);
    const bytes = n * (channels?.length ?? c) * h * w * 4;
    return inside && (array_hash === "" || this.store.get(array_hash)?.byteLength === bytes);
  }

  private arrayOf(hash: string): Float32Array {
    const data = this.store.get(hash);
    if (data === undefined) throw new PlanError(`the injected array ${hash} has not loaded`);
    return new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
  }
}
