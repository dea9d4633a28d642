// A Viewer's teaching in this page: what views ask of it, and the data of each example.

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { said } from "../../state/edits.ts";
import type { ViewerState } from "../../state.ts";
import { decodePicture } from "../sources/picture_decoder.ts";
import { changeOf, type Example, newId, type Taught } from "./changes.ts";
import type { Saved } from "./file.ts";
import { type Linear, probabilities } from "./head.ts";
import { type Busy, learn, Stopped } from "./learn.ts";
import { createLog } from "./log.ts";
import {
  beside,
  featuresAgain,
  featuresOf,
  type Sample,
  sampleOf,
  sampleOfPicture,
} from "./reading.ts";
import {
  type Change,
  MOST_CLASSES,
  MOST_EXAMPLES,
  type TaughtHead,
  type TaughtNetwork,
} from "./records.ts";

/** Blobs that are asked for at once. */
const AT_ONCE = 8;

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

/** Edits as text, whoever wrote it. */
const plain = (edits: string): string => (edits === "" ? "" : JSON.stringify(JSON.parse(edits)));

/** What an example's features are of, in words. */
const wordsOf = ({ weights, edits }: TaughtNetwork): string => `${weights} ${edits}`;

const contents = ({ classes, examples }: Taught): string =>
  JSON.stringify([classes.map((one) => one.id), examples]);

interface Deleted {
  readonly words: string;
  /** What brings it back. */
  readonly changes: readonly Change[];
  readonly data: ReadonlyMap<string, Sample>;
}
const NOTHING_DELETED: Deleted = { words: "", changes: [], data: new Map() };

function createTeaching(state: ViewerState): Teaching {
  const data = signal<ReadonlyMap<string, Sample>>(new Map());
  const linear = signal<Linear | null>(null);
  const busy = signal<Busy | null>(null);
  const trouble = signal("");
  const deleted = signal(NOTHING_DELETED);
  /** By whom the features of each example that is here were computed. */
  const networks = new Map<string, string>();
  /** The class ids and examples that the head has learned from; "" where nobody here knows. */
  let learned = "";
  let headHere = "";
  let training = 0;
  let lastSequence = -1;
  let lastSession: unknown;

  const log = createLog(state, {
    onBegin() {
      learned = headHere = "";
      training += 1;
      networks.clear();
      batch(() => {
        data.value = new Map();
        linear.value = null;
        busy.value = null;
        trouble.value = "";
        deleted.value = NOTHING_DELETED;
      });
    },
    onListing: (listed, isWanted) =>
      fetchData(listed, isWanted).finally(() => {
        if (isWanted() && busy.peek()?.what === "coming") busy.value = null;
      }),
    onTrouble(text) {
      if (busy.peek()?.what === "coming") busy.value = null;
      trouble.value = text;
    },
  });
  const { taught, tell } = log;
  const record = () => state.teaching.peek();
  const put = (key: string, sample: Sample, network: TaughtNetwork): void => {
    networks.set(key, wordsOf(network));
    data.value = new Map(data.peek()).set(key, sample);
  };

  async function fetchData(listed: Taught, isWanted: () => boolean): Promise<void> {
    const now = record();
    if (now === null) return;
    const isHere = ({ id, network }: Example): boolean => networks.get(id) === wordsOf(network);
    const missing = listed.examples.filter((one) => !isHere(one));
    const [channels, height, width] = now.shape;
    const size = 4 * now.count;
    for (let at = 0; at < missing.length; at += AT_ONCE) {
      busy.value = { what: "coming", done: at, total: missing.length };
      const some = missing.slice(at, at + AT_ONCE);
      const came = await Promise.allSettled(some.map((one) => log.blob(one.id)));
      if (!isWanted()) return;
      const all = new Map(data.peek());
      for (const [k, { id, network }] of some.entries()) {
        const found = came[k];
        const bytes = found?.status === "fulfilled" ? found.value : undefined;
        if (bytes?.length !== size + channels * height * width) continue; // it was deleted meanwhile
        const own = bytes.slice();
        const features = new Float32Array(own.buffer, 0, now.count).slice();
        all.set(id, { features, picture: own.subarray(size) });
        networks.set(id, wordsOf(network));
      }
      data.value = all;
    }
    const { head } = listed;
    if (head === null) {
      headHere = "";
      if (taught.peek().head === null) linear.value = null;
    } else if (head.id !== headHere) {
      const bytes = (await log.blob(head.id)).slice();
      if (!isWanted()) return;
      const numbers = new Float32Array(bytes.buffer);
      const weights = head.classes.length * now.count;
      headHere = head.id;
      learned = contents(listed);
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
    put(key, sample, network);
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
        put(key, { ...sample, features }, network);
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
      const isWanted = (): boolean => mine === training && record()?.id === now.id;
      const found = await learn(features, labels, classes.length, isWanted);
      const head = {
        id: newId(),
        classes: classes.map((one) => one.id),
        right: found.right,
        count: labels.length,
        held_right: found.heldRight,
        held_count: found.heldCount,
      };
      putHead(head, found.linear, { ...all, examples: own });
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
    open: log.open,
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
      const { classes, examples } = taught.peek();
      const count = (what: Change["what"]): number =>
        changes.filter((change) => change.what === what).length;
      if (
        classes.length + count("class") > MOST_CLASSES ||
        examples.length + count("example") > MOST_EXAMPLES
      ) {
        trouble.value = `There is no room for it: at most ${MOST_CLASSES} classes and ${MOST_EXAMPLES} examples are possible.`;
        return;
      }
      deleted.value = NOTHING_DELETED;
      for (const change of changes) {
        const sample = kept.get(change.id);
        if (change.what !== "example") tell(change);
        else if (sample !== undefined && change.network !== null) {
          put(change.id, sample, change.network);
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
            const picture = await decodePicture(file).catch(() => null);
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
      const is = new Map<string, boolean>();
      return taught.value.examples.filter(({ network }) => {
        const of = wordsOf(network);
        if (!is.has(of)) is.set(of, isNow(network));
        return !is.get(of);
      });
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

const words = (error: unknown): string => (error instanceof Error ? error.message : String(error));
