// A Viewer's teaching in this page: what Python has, what this page changes of it, and each example's data.
//
// A change acts here at once and goes to Python, which says by its number that it has heard it. What Python or another
// page changes comes with a Listing; this page's changes that Python hadn't heard by then are made of it again.
import {
  batch,
  computed,
  effect,
  type ReadonlySignal,
  type Signal,
  signal,
  untracked,
} from "@preact/signals";
import { CHUNK } from "../messages.ts";
import { said } from "../state/edits.ts";
import type { ViewerState } from "../state.ts";
import {
  type Change,
  type Listing,
  MOST_EXAMPLES,
  type TaughtHead,
  type TaughtNetwork,
} from "../teaching.ts";
import { changed, changeOf, type Example, NOTHING, type Taught } from "./changes.ts";
import type { Saved } from "./file.ts";
import { best, fit, heldOut, type Linear, probabilities } from "./head.ts";
import {
  beside,
  featuresAgain,
  featuresOf,
  type Sample,
  sampleOf,
  sampleOfPicture,
} from "./reading.ts";

/** Training may hold the page for so long, so that frames go on. */
const SLICE_MS = 12;
/** Blobs that are asked for at once. */
const AT_ONCE = 8;

/** What is being done, for people; null for nothing. */
export interface Busy {
  readonly what: "training" | "computing" | "coming";
  readonly done: number;
  readonly total: number;
}

export interface Teaching {
  readonly taught: ReadonlySignal<Taught>;
  /** What of the examples is here, by their ids; grows as it comes. */
  readonly data: ReadonlySignal<ReadonlyMap<string, Sample>>;
  /** The head of now; null where there is none, or it is on its way. */
  readonly linear: ReadonlySignal<Linear | null>;
  readonly busy: ReadonlySignal<Busy | null>;
  readonly trouble: Signal<string>;
  /** What was deleted last, in words, until something else is; "" for nothing. */
  readonly deleted: ReadonlySignal<string>;
  /** Follows Python as long as a view shows it; returns what ends that. */
  open(): () => void;
  addClass(name: string): void;
  rename(id: string, name: string): void;
  remove(id: string): void;
  forget(id: string): void;
  undelete(): void;
  /**
   * Makes what enters now an example; false where that cannot be, or there was no other run since the last, unless it is
   * the `first`.
   */
  collect(of: string, first: boolean): Promise<boolean>;
  /** Files of pictures become examples. */
  take(of: string, files: readonly Blob[]): Promise<void>;
  /** Takes what was saved, in the place of all that is here. */
  restore(saved: Saved): void;
  /** Whether there are two classes, each with an example. */
  readonly trainable: boolean;
  train(): Promise<void>;
  /** Examples with features of other weights or bends than those of now. */
  stale(): readonly Example[];
  /** The probabilities of what enters now, by class; null where there is no head or it cannot be read. */
  look(): Promise<ReadonlyMap<string, number> | null>;
  /** Whether classes or examples have changed since the head was trained. */
  readonly outdated: boolean;
}

const known = new WeakMap<ViewerState, Teaching>();

/** The one of a Viewer in this page. */
export function teachingOf(state: ViewerState): Teaching {
  const found = known.get(state) ?? createTeaching(state);
  known.set(state, found);
  return found;
}

const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

/** Edits as text, whoever wrote it. */
const plain = (edits: string): string => (edits === "" ? "" : JSON.stringify(JSON.parse(edits)));

interface Told {
  readonly number: number;
  readonly change: Change;
}

function createTeaching(state: ViewerState): Teaching {
  const taught = signal<Taught>(NOTHING);
  const data = signal<ReadonlyMap<string, Sample>>(new Map());
  const linear = signal<Linear | null>(null);
  const busy = signal<Busy | null>(null);
  const trouble = signal("");
  const deleted = signal<{ words: string; changes: readonly Change[]; data: Map<string, Sample> }>({
    words: "",
    changes: [],
    data: new Map(),
  });
  /** The teaching that all this is of. */
  let id = "";
  /** What Python has, as far as it is known here, and what it has not heard yet. */
  let base: Taught = NOTHING;
  let pending: Told[] = [];
  let number = 0;
  let listings = 0;
  let gathering = false;
  /** What Python and other pages had changed when its Listing was made. */
  let seen = "";
  /** The class ids and examples that the head has learned from; "" where nobody here knows. */
  let learned = "";
  let headHere = "";
  let training = 0;
  let lastSequence = -1;
  let lastSession: unknown;

  const record = () => state.teaching.peek();
  const page = (): string => state.feeder.peek()?.page ?? "";
  const show = (): void => {
    taught.value = pending.reduce((all, { change }) => changed(all, change), base);
  };
  const put = (key: string, sample: Sample | null): void => {
    const all = new Map(data.peek());
    if (sample === null) all.delete(key);
    else all.set(key, sample);
    data.value = all;
  };
  const contents = ({ classes, examples }: Taught): string =>
    JSON.stringify([classes.map((one) => one.id), examples]);

  function tell(change: Change, own: readonly Uint8Array<ArrayBuffer>[] = []): void {
    const now = record();
    if (now === null) return;
    number += 1;
    const send = state.teach.peek();
    if (send === null) base = changed(base, change);
    else pending = [...pending, { number, change }];
    show();
    if (send === null) return;
    const bytes = own.reduce((sum, part) => sum + part.byteLength, 0);
    const whole = new Uint8Array(bytes);
    let at = 0;
    for (const part of own) {
      whole.set(part, at);
      at += part.byteLength;
    }
    const count = Math.max(1, Math.ceil(bytes / CHUNK));
    const about = { type: "taught", page: page(), teaching: now.id, number, change } as const;
    for (let part = 0; part < count; part++) {
      const piece = whole.slice(part * CHUNK, (part + 1) * CHUNK);
      send({ ...about, part, count, bytes }, piece.buffer);
    }
  }

  /** What Python and others have done, as this page would know it. */
  const others = (turn: number, heard: Readonly<Record<string, number>>): string =>
    JSON.stringify([turn, Object.entries(heard).filter(([name]) => name !== page())]);

  function follow(): void {
    const now = state.teaching.value;
    if (now === null) return;
    untracked(() => {
      if (now.id !== id) begin(now.id);
      const heard = now.heard[page()] ?? 0;
      for (const { number: at, change } of pending) if (at <= heard) base = changed(base, change);
      pending = pending.filter((one) => one.number > heard);
      show();
      if (others(now.turn, now.heard) !== seen) void gather();
    });
  }

  function begin(name: string): void {
    id = name;
    base = NOTHING;
    pending = [];
    number = 0;
    seen = learned = headHere = "";
    training += 1;
    batch(() => {
      taught.value = NOTHING;
      data.value = new Map();
      linear.value = null;
      busy.value = null;
      trouble.value = "";
      deleted.value = { words: "", changes: [], data: new Map() };
    });
  }

  /** Asks Python for what there is, and for the data that isn't here. */
  async function gather(): Promise<void> {
    if (gathering) return;
    gathering = true;
    try {
      let now = record();
      while (now !== null && others(now.turn, now.heard) !== seen) {
        const of = now.id;
        listings += 1;
        const bytes = await blob(`${of}.${listings}`);
        if (record()?.id !== of || id !== of) return;
        const listing: Listing = JSON.parse(new TextDecoder().decode(bytes));
        const heard = listing.heard[page()] ?? 0;
        pending = pending.filter((one) => one.number > heard);
        base = takenFrom(listing);
        seen = others(listing.turn, listing.heard);
        show();
        await fetchData(of);
        now = record();
      }
    } catch (error) {
      trouble.value = `What was taught is not here: ${words(error)}`;
    } finally {
      gathering = false;
      if (busy.peek()?.what === "coming") busy.value = null;
    }
  }

  const blob = (name: string): Promise<Uint8Array<ArrayBuffer>> =>
    state.feeder.peek()?.blob(name) ?? Promise.reject(new Error("Python is gone"));

  async function fetchData(of: string): Promise<void> {
    const now = record();
    if (now === null) return;
    const missing = base.examples.filter(({ id: key }) => !data.peek().has(key));
    const [channels, height, width] = now.shape;
    const size = 4 * now.count;
    for (let at = 0; at < missing.length; at += AT_ONCE) {
      busy.value = { what: "coming", done: at, total: missing.length };
      const some = missing.slice(at, at + AT_ONCE);
      const came = await Promise.allSettled(some.map((one) => blob(one.id)));
      if (id !== of) return;
      const all = new Map(data.peek());
      for (const [k, found] of came.entries()) {
        const bytes = found.status === "fulfilled" ? found.value : undefined;
        const key = some[k]?.id ?? "";
        if (bytes?.length !== size + channels * height * width) continue; // it was deleted meanwhile
        const own = bytes.slice();
        const features = new Float32Array(own.buffer, 0, now.count).slice();
        all.set(key, { features, picture: own.subarray(size) });
      }
      data.value = all;
    }
    const { head } = base;
    if (head === null) {
      headHere = "";
      if (taught.peek().head === null) linear.value = null;
    } else if (head.id !== headHere) {
      const bytes = (await blob(head.id)).slice();
      if (id !== of || base.head?.id !== head.id) return;
      const numbers = new Float32Array(bytes.buffer);
      const weights = head.classes.length * now.count;
      headHere = head.id;
      learned = contents(base);
      linear.value = { weight: numbers.slice(0, weights), bias: numbers.slice(weights) };
    }
  }

  function networkNow(): TaughtNetwork | null {
    const edits = said(state);
    const now = record();
    return now === null || edits === null ? null : { weights: now.weights, edits };
  }

  function isNow(network: TaughtNetwork): boolean {
    const now = networkNow();
    return now?.weights === network.weights && plain(now.edits) === plain(network.edits);
  }

  function add(of: string, sample: Sample, network: TaughtNetwork): void {
    const key = newId();
    put(key, sample);
    tell(changeOf({ what: "example", id: key, of, network }), [
      new Uint8Array(sample.features.buffer),
      sample.picture,
    ]);
  }

  function hasRoom(): boolean {
    const room = taught.peek().examples.length < MOST_EXAMPLES;
    if (!room) trouble.value = `There are ${MOST_EXAMPLES} examples, and that is the most.`;
    return room;
  }

  const drop = (text: string, changes: readonly Change[], own: readonly Example[]): void => {
    const kept = new Map(
      own.flatMap(({ id: key }) => {
        const sample = data.peek().get(key);
        return sample === undefined ? [] : [[key, sample] as const];
      }),
    );
    deleted.value = { words: text, changes, data: kept };
  };

  const backOf = (own: readonly Example[]): Change[] =>
    own.map(({ id: key, of, network }) => changeOf({ what: "example", id: key, of, network }));

  async function computeAgain(): Promise<void> {
    const now = record();
    const own = teaching.stale();
    const network = networkNow();
    if (now === null || network === null || own.length === 0) return;
    await beside(state, async (session) => {
      for (const [k, { id: key }] of own.entries()) {
        busy.value = { what: "computing", done: k, total: own.length };
        const sample = data.peek().get(key);
        if (sample === undefined || record()?.id !== now.id) continue;
        const features = await featuresAgain(session, now, sample.picture);
        put(key, { ...sample, features });
        const bytes = new Uint8Array(features.buffer);
        tell(changeOf({ what: "features", id: key, network }), [bytes]);
      }
    });
  }

  function putHead(head: TaughtHead, found: Linear, of: Taught): void {
    headHere = head.id;
    learned = contents(of);
    batch(() => {
      linear.value = found;
      tell(changeOf({ what: "head", id: head.id, head }), [
        new Uint8Array(found.weight.buffer),
        new Uint8Array(found.bias.buffer),
      ]);
    });
  }

  /** Trains on what is there; where somebody asks again meanwhile, that one counts. */
  async function train(): Promise<void> {
    const mine = ++training;
    const now = record();
    if (now === null || !teaching.trainable) return;
    try {
      await computeAgain();
      if (mine !== training) return;
      busy.value = { what: "training", done: 0, total: 0 };
      const all = taught.peek();
      const { classes } = all;
      const own = all.examples.filter(({ id: key }) => data.peek().has(key));
      const features = own.flatMap(({ id: key }) => data.peek().get(key)?.features ?? []);
      const labels = own.map(({ of }) => classes.findIndex((one) => one.id === of));
      let slice = performance.now();
      const breathe = (): Promise<void> | undefined => {
        if (mine !== training) throw new Stopped();
        if (performance.now() - slice < SLICE_MS) return undefined;
        return new Promise((done) =>
          setTimeout(() => {
            slice = performance.now();
            done();
          }),
        );
      };
      const found = await fit(features, labels, classes.length, breathe);
      const held = heldOut(labels);
      const rest = labels.flatMap((_, k) => (held[k] ? [] : [k]));
      const without = held.includes(true)
        ? await fit(
            rest.map((k) => features[k] ?? new Float32Array()),
            rest.map((k) => labels[k] ?? 0),
            classes.length,
            breathe,
          )
        : null;
      const rights = (by: Linear, which: readonly number[]): number =>
        which.filter(
          (k) => best(probabilities(by, features[k] ?? new Float32Array())) === labels[k],
        ).length;
      const tested = labels.flatMap((_, k) => (held[k] ? [k] : []));
      if (mine !== training || record()?.id !== now.id) return;
      const head = {
        id: newId(),
        classes: classes.map((one) => one.id),
        right: rights(found, [...labels.keys()]),
        count: labels.length,
        held_right: without === null ? 0 : rights(without, tested),
        held_count: tested.length,
      };
      putHead(head, found, { ...all, examples: own });
    } catch (error) {
      if (error instanceof Stopped) return;
      trouble.value = `The head could not be trained: ${words(error)}`;
    } finally {
      if (mine === training) busy.value = null;
    }
  }

  const teaching: Teaching = {
    taught,
    data,
    linear,
    busy,
    trouble,
    deleted: computed(() => deleted.value.words),
    open: () => effect(follow),
    addClass: (name) => tell(changeOf({ what: "class", id: newId(), text: name })),
    rename: (key, name) => tell(changeOf({ what: "class", id: key, text: name })),
    remove(key) {
      const { classes, examples } = taught.peek();
      const name = classes.find((one) => one.id === key)?.name ?? "";
      const own = examples.filter(({ of }) => of === key);
      const back = changeOf({ what: "class", id: key, text: name });
      drop(`class “${name}”`, [back, ...backOf(own)], own);
      tell(changeOf({ what: "remove", id: key }));
      if (taught.peek().head === null) linear.value = null;
    },
    forget(key) {
      const { classes, examples } = taught.peek();
      const own = examples.filter((one) => one.id === key);
      const name = classes.find((one) => one.id === own[0]?.of)?.name ?? "";
      drop(`an example of “${name}”`, backOf(own), own);
      tell(changeOf({ what: "forget", id: key }));
    },
    undelete() {
      const { changes, data: kept } = deleted.peek();
      deleted.value = { words: "", changes: [], data: new Map() };
      for (const change of changes) {
        const sample = kept.get(change.id);
        if (change.what !== "example") tell(change);
        else if (sample !== undefined) {
          put(change.id, sample);
          tell(change, [new Uint8Array(sample.features.buffer), sample.picture]);
        }
      }
    },
    async collect(of, first) {
      if (first) {
        lastSession = undefined;
        trouble.value = "";
      }
      const now = record();
      const session = state.session.peek();
      const network = networkNow();
      if (now === null || session === null || network === null || !hasRoom()) return false;
      const { sequence } = session;
      if (sequence === 0 || (session === lastSession && sequence === lastSequence)) return false;
      lastSession = session;
      lastSequence = sequence;
      const sample = await sampleOf(session, now);
      const same = record()?.id === now.id && networkNow()?.edits === network.edits;
      if (sample === null || !same) return false;
      add(of, sample, network);
      return true;
    },
    async take(of, files) {
      const now = record();
      const network = networkNow();
      if (now === null || network === null) return;
      trouble.value = "";
      try {
        await beside(state, async (session) => {
          for (const [k, file] of files.entries()) {
            busy.value = { what: "computing", done: k, total: files.length };
            if (!hasRoom()) return;
            const picture = await createImageBitmap(file).catch(() => null);
            const sample = picture && (await sampleOfPicture(session, now, picture));
            picture?.close();
            if (sample) add(of, sample, network);
            else
              trouble.value = `${"name" in file ? file.name : "A file"} is no picture that this browser can read.`;
          }
        });
      } catch (error) {
        trouble.value = `The pictures could not be taken: ${words(error)}`;
      } finally {
        busy.value = null;
      }
    },
    restore(saved) {
      for (const { id: key } of taught.peek().classes) tell(changeOf({ what: "remove", id: key }));
      const keys = saved.classes.map(() => newId());
      for (const [k, text] of saved.classes.entries())
        tell(changeOf({ what: "class", id: keys[k] ?? "", text }));
      for (const { of, sample, network } of saved.examples) add(keys[of] ?? "", sample, network);
      linear.value = null;
      if (saved.head === null) return;
      const [right = 0, count = 0, held_right = 0, held_count = 0] = saved.head.told;
      const classes = saved.head.classes.map((k) => keys[k] ?? "");
      const told = { right, count, held_right, held_count };
      putHead({ id: newId(), classes, ...told }, saved.head.linear, taught.peek());
    },
    get trainable() {
      const { classes, examples } = taught.value;
      const own = (key: string) => examples.some(({ of }) => of === key);
      return classes.length >= 2 && classes.every((one) => own(one.id));
    },
    train,
    stale() {
      state.teaching.value;
      state.edited.value;
      return taught.value.examples.filter(({ network }) => !isNow(network));
    },
    async look() {
      const now = record();
      const head = taught.peek().head;
      const by = linear.peek();
      const session = state.session.peek();
      if (now === null || head === null || by === null || session === null) return null;
      if (session.sequence === 0) return null;
      const found = probabilities(by, featuresOf(now, await session.read(now.cut)));
      return new Map(head.classes.map((key, k) => [key, found[k] ?? 0]));
    },
    get outdated() {
      return learned !== contents(taught.value);
    },
  };
  return teaching;
}

/** A training that another one has replaced. */
class Stopped extends Error {}

const words = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function takenFrom({ classes, examples, networks, head }: Listing): Taught {
  const nothing: TaughtNetwork = { weights: "", edits: "" };
  return {
    classes,
    examples: examples.map(({ id, of, network }) => ({
      id,
      of,
      network: networks[network] ?? nothing,
    })),
    head,
  };
}
