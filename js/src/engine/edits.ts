// Which edits are wanted of whatever network is shown, and giving a session those that it can have.
import type { Edit } from "../plan/edits.ts";
import { ContextLostError, PlanError, type Session, SessionClosed } from "../plan/runtime.ts";
import { NOT_EDITABLE, type PlanHeader } from "../plan/schema.ts";
import type { Store } from "./store.ts";

const NONE: readonly Edit[] = [];

export class WantedEdits {
  private readonly store: Store;
  private readonly tell: (left: readonly Edit[]) => void;
  private wanted = NONE;
  /** The last ones that could not be, and why. */
  private failed: { readonly edits: readonly Edit[]; readonly error: unknown } | undefined;
  private left = NONE;
  /** What sessions were given. */
  private readonly given = new WeakMap<Session, readonly Edit[]>();

  constructor(store: Store, tell: (left: readonly Edit[]) => void) {
    this.store = store;
    this.tell = tell;
  }

  /** Keeps their arrays too. What is returned throws, once they were given, why they could not be. */
  want(edits: readonly Edit[]): () => void {
    const own = [...edits]; // the same once more is new: an array that was missing may have come
    this.replace(own);
    return () => {
      if (this.failed?.edits === own) throw this.failed.error;
    };
  }

  dispose(): void {
    this.replace(NONE);
  }

  /**
   * Gives a session what is wanted but for what it has no place for; whether it has others now. Where they cannot be,
   * those that it `has` stay; a new one has none then.
   */
  async give(session: Session, has: boolean): Promise<boolean> {
    const { wanted } = this;
    const before = this.given.get(session) ?? NONE;
    if (before === wanted) return false;
    const own = wanted.filter((edit) => this.fits(session.plan, edit));
    let left: readonly Edit[] = wanted.filter((edit) => !own.includes(edit));
    try {
      await session.setEdits(own, (hash) => this.floats(hash));
    } catch (error) {
      if (error instanceof ContextLostError || error instanceof SessionClosed) throw error;
      this.failed = { edits: wanted, error };
      if (has) {
        if (this.wanted === wanted) this.replace(before);
        return false;
      }
      left = wanted;
    }
    this.given.set(session, wanted);
    if (left.length > 0 || this.left.length > 0) this.tell(left);
    this.left = left;
    return own.length > 0 || before.length > 0;
  }

  private replace(edits: readonly Edit[]): void {
    const arrays = (of: readonly Edit[]) => of.flatMap(({ array }) => array || []);
    for (const hash of arrays(edits)) this.store.hold(hash);
    for (const hash of arrays(this.wanted)) this.store.release(hash);
    this.wanted = edits;
  }

  private fits({ values }: PlanHeader, { layer, channels, array }: Edit): boolean {
    const value = values.find(({ key }) => key === layer);
    if (value === undefined || value.after === NOT_EDITABLE) return false;
    const [n, c, h, w] = value.nchw;
    const inside = channels === null || channels.every((channel) => channel < c);
    const bytes = n * (channels?.length ?? c) * h * w * 4;
    return inside && (array === "" || this.store.get(array)?.byteLength === bytes);
  }

  private floats(hash: string): Float32Array {
    const data = this.store.get(hash);
    if (data === undefined) throw new PlanError(`the injected array ${hash} is not here`);
    return new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
  }
}
