// Lesson store of a Viewer in this page: the views' actions, and the data of each example.

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { serializeActiveEdits } from "../../state/edits.ts";
import type { ViewerState } from "../../state.ts";
import { decodePicture } from "../sources/picture_decoder.ts";
import { createChangeLog } from "./change_log.ts";
import {
  pooledFeatures,
  readSample,
  recomputeFeatures,
  type Sample,
  sampleFromPicture,
  withForkedSession,
} from "./feature_extraction.ts";
import { type LinearHead, probabilities } from "./head.ts";
import { type BusyStatus, TrainingSuperseded, trainHead } from "./head_training.ts";
import { type Example, type Lesson, makeChange, randomId } from "./lesson_changes.ts";
import type { SavedLesson } from "./lesson_file.ts";
import {
  type ClassifierHead,
  type FeatureVersion,
  type LessonChange,
  MAX_CLASSES,
  MAX_EXAMPLES,
} from "./records.ts";

/** Maximum number of concurrent blob requests. */
const MAX_CONCURRENT_REQUESTS = 8;

export interface LessonStore {
  readonly lesson: ReadonlySignal<Lesson>;
  /** The loaded examples' data, by id; grows while blobs arrive. */
  readonly samples: ReadonlySignal<ReadonlyMap<string, Sample>>;
  /** The current head; null if there is none or it is loading. */
  readonly linearHead: ReadonlySignal<LinearHead | null>;
  readonly busyStatus: ReadonlySignal<BusyStatus | null>;
  readonly error: Signal<string>;
  /** Description of the last deletion, until the next change; "" if none. */
  readonly deletionText: ReadonlySignal<string>;
  /** Follow Python while a view is mounted. Returns a callback that stops this. */
  connect(): () => void;
  addClass(name: string): void;
  renameClass(id: string, name: string): void;
  removeClass(id: string): void;
  removeExample(id: string): void;
  undelete(): void;
  /**
   * Add the current input as an example. Resolves to false if that is not possible, or if there was no run since the
   * last example, unless `isFirst`.
   */
  collectExample(classId: string, isFirst: boolean): Promise<boolean>;
  /** Add picture files as examples. */
  addPictures(classId: string, files: readonly Blob[]): Promise<void>;
  /** Replace the lesson by a saved one. */
  loadLesson(saved: SavedLesson): void;
  /** Whether there are at least two classes and each has an example. */
  readonly isTrainable: boolean;
  trainHead(): Promise<void>;
  /** Examples whose features were computed with other weights or edits than the current ones. */
  staleExamples(): readonly Example[];
  /** The class probabilities of the current input; null if there is no head or the input cannot be read. */
  classify(): Promise<ReadonlyMap<string, number> | null>;
  /** Whether classes or examples have changed since the head was trained. */
  readonly isHeadOutdated: boolean;
}

const stores = new WeakMap<ViewerState, LessonStore>();

/** The lesson store of a Viewer in this page. */
export function lessonStoreOf(state: ViewerState): LessonStore {
  const found = stores.get(state) ?? createLessonStore(state);
  stores.set(state, found);
  return found;
}

/** Edits as canonical JSON, so that texts from Python and the page compare equal. */
const canonicalEdits = (edits: string): string =>
  edits === "" ? "" : JSON.stringify(JSON.parse(edits));

/** A key for the weights and edits that features were computed with. */
const featureKey = ({ weights_hash, edits }: FeatureVersion): string => `${weights_hash} ${edits}`;

const lessonKey = ({ classes, examples }: Lesson): string =>
  JSON.stringify([classes.map((one) => one.id), examples]);

interface DeletedItems {
  readonly text: string;
  /** The changes that restore the deleted items. */
  readonly changes: readonly LessonChange[];
  readonly data: ReadonlyMap<string, Sample>;
}
const NO_DELETED_ITEMS: DeletedItems = { text: "", changes: [], data: new Map() };

function createLessonStore(state: ViewerState): LessonStore {
  const samples = signal<ReadonlyMap<string, Sample>>(new Map());
  const linearHead = signal<LinearHead | null>(null);
  const busyStatus = signal<BusyStatus | null>(null);
  const trouble = signal("");
  const deleted = signal(NO_DELETED_ITEMS);
  /** The feature key of each loaded example. */
  const networks = new Map<string, string>();
  /** The class ids and examples that the head was trained on; "" if unknown in this page. */
  let trainedKey = "";
  let loadedHeadId = "";
  let training = 0;
  let lastSequence = -1;
  let lastSession: unknown;

  const log = createChangeLog(state, {
    onReset() {
      trainedKey = loadedHeadId = "";
      training += 1;
      networks.clear();
      batch(() => {
        samples.value = new Map();
        linearHead.value = null;
        busyStatus.value = null;
        trouble.value = "";
        deleted.value = NO_DELETED_ITEMS;
      });
    },
    onSnapshot: (listed, isWanted) =>
      fetchData(listed, isWanted).finally(() => {
        if (isWanted() && busyStatus.peek()?.task === "coming") busyStatus.value = null;
      }),
    onError(text) {
      if (busyStatus.peek()?.task === "coming") busyStatus.value = null;
      trouble.value = text;
    },
  });
  const { lesson, submit } = log;
  const record = () => state.teaching.peek();
  const put = (key: string, sample: Sample, network: FeatureVersion): void => {
    networks.set(key, featureKey(network));
    samples.value = new Map(samples.peek()).set(key, sample);
  };

  async function fetchData(listed: Lesson, isWanted: () => boolean): Promise<void> {
    const now = record();
    if (now === null) return;
    const isHere = ({ id, version }: Example): boolean => networks.get(id) === featureKey(version);
    const missing = listed.examples.filter((one) => !isHere(one));
    const [channels, height, width] = now.shape;
    const size = 4 * now.feature_count;
    for (let at = 0; at < missing.length; at += MAX_CONCURRENT_REQUESTS) {
      busyStatus.value = { task: "coming", done: at, total: missing.length };
      const some = missing.slice(at, at + MAX_CONCURRENT_REQUESTS);
      const came = await Promise.allSettled(some.map((one) => log.blob(one.id)));
      if (!isWanted()) return;
      const all = new Map(samples.peek());
      for (const [k, { id, version }] of some.entries()) {
        const found = came[k];
        const bytes = found?.status === "fulfilled" ? found.value : undefined;
        if (bytes?.length !== size + channels * height * width) continue; // deleted meanwhile
        const own = bytes.slice();
        const features = new Float32Array(own.buffer, 0, now.feature_count).slice();
        all.set(id, { features, picture: own.subarray(size) });
        networks.set(id, featureKey(version));
      }
      samples.value = all;
    }
    const { head } = listed;
    if (head === null) {
      loadedHeadId = "";
      if (lesson.peek().head === null) linearHead.value = null;
    } else if (head.id !== loadedHeadId) {
      const bytes = (await log.blob(head.id)).slice();
      if (!isWanted()) return;
      const numbers = new Float32Array(bytes.buffer);
      const weights = head.classes.length * now.feature_count;
      loadedHeadId = head.id;
      trainedKey = lessonKey(listed);
      linearHead.value = { weight: numbers.slice(0, weights), bias: numbers.slice(weights) };
    }
  }

  function networkNow(): FeatureVersion | null {
    const edits = serializeActiveEdits(state);
    const now = record();
    return now === null || edits === null ? null : { weights_hash: now.weights_hash, edits };
  }

  function isNow(network: FeatureVersion): boolean {
    const now = networkNow();
    return (
      now?.weights_hash === network.weights_hash &&
      canonicalEdits(now.edits) === canonicalEdits(network.edits)
    );
  }

  function add(classId: string, sample: Sample, version: FeatureVersion): void {
    const key = randomId();
    put(key, sample, version);
    submit(makeChange({ kind: "example", id: key, class_id: classId, version }), [
      new Uint8Array(sample.features.buffer),
      sample.picture,
    ]);
  }

  function hasRoom(): boolean {
    const room = lesson.peek().examples.length < MAX_EXAMPLES;
    if (!room) trouble.value = `The lesson has ${MAX_EXAMPLES} examples, which is the limit.`;
    return room;
  }

  const drop = (text: string, changes: readonly LessonChange[], own: readonly Example[]): void => {
    const kept = new Map(
      own.flatMap(({ id: key }) => {
        const sample = samples.peek().get(key);
        return sample === undefined ? [] : [[key, sample] as const];
      }),
    );
    deleted.value = { text: text, changes, data: kept };
  };

  const backOf = (own: readonly Example[]): LessonChange[] =>
    own.map(({ id: key, classId, version }) =>
      makeChange({ kind: "example", id: key, class_id: classId, version }),
    );

  async function computeAgain(): Promise<void> {
    const now = record();
    const own = teaching.staleExamples();
    const version = networkNow();
    if (now === null || version === null || own.length === 0) return;
    await withForkedSession(state, async (session) => {
      for (const [k, { id: key }] of own.entries()) {
        busyStatus.value = { task: "computing", done: k, total: own.length };
        const sample = samples.peek().get(key);
        if (sample === undefined || record()?.id !== now.id) continue;
        const features = await recomputeFeatures(session, now, sample.picture);
        put(key, { ...sample, features }, version);
        const bytes = new Uint8Array(features.buffer);
        submit(makeChange({ kind: "features", id: key, version }), [bytes]);
      }
    });
  }

  function putHead(head: ClassifierHead, found: LinearHead, of: Lesson): void {
    loadedHeadId = head.id;
    trainedKey = lessonKey(of);
    batch(() => {
      linearHead.value = found;
      submit(makeChange({ kind: "head", id: head.id, head }), [
        new Uint8Array(found.weight.buffer),
        new Uint8Array(found.bias.buffer),
      ]);
    });
  }

  /** Train on the current examples; a newer call supersedes this one. */
  async function train(): Promise<void> {
    const mine = ++training;
    const now = record();
    if (now === null || !teaching.isTrainable) return;
    try {
      await computeAgain();
      if (mine !== training) return;
      busyStatus.value = { task: "training", done: 0, total: 0 };
      const all = lesson.peek();
      const { classes } = all;
      const own = all.examples.filter(({ id: key }) => samples.peek().has(key));
      const features = own.flatMap(({ id: key }) => samples.peek().get(key)?.features ?? []);
      const labels = own.map(({ classId }) => classes.findIndex((one) => one.id === classId));
      const isWanted = (): boolean => mine === training && record()?.id === now.id;
      const found = await trainHead(features, labels, classes.length, isWanted);
      const head = {
        id: randomId(),
        classes: classes.map((one) => one.id),
        correct: found.correctCount,
        count: labels.length,
        held_out_correct: found.heldOutCorrectCount,
        held_out_count: found.heldOutCount,
      };
      putHead(head, found.linearHead, { ...all, examples: own });
    } catch (error) {
      if (error instanceof TrainingSuperseded) return;
      trouble.value = `The classifier could not be trained: ${errorText(error)}`;
    } finally {
      if (mine === training) busyStatus.value = null;
    }
  }

  const teaching: LessonStore = {
    lesson,
    samples,
    linearHead,
    busyStatus,
    error: trouble,
    deletionText: computed(() => deleted.value.text),
    connect: log.connect,
    addClass: (name) => submit(makeChange({ kind: "class", id: randomId(), text: name })),
    renameClass: (key, name) => submit(makeChange({ kind: "class", id: key, text: name })),
    removeClass(key) {
      const { classes, examples } = lesson.peek();
      const name = classes.find((one) => one.id === key)?.name ?? "";
      const own = examples.filter(({ classId }) => classId === key);
      const back = makeChange({ kind: "class", id: key, text: name });
      drop(`class “${name}”`, [back, ...backOf(own)], own);
      submit(makeChange({ kind: "remove", id: key }));
      if (lesson.peek().head === null) linearHead.value = null;
    },
    removeExample(key) {
      const { classes, examples } = lesson.peek();
      const own = examples.filter((one) => one.id === key);
      const name = classes.find((one) => one.id === own[0]?.classId)?.name ?? "";
      drop(`an example of “${name}”`, backOf(own), own);
      submit(makeChange({ kind: "forget", id: key }));
    },
    undelete() {
      const { changes, data: kept } = deleted.peek();
      const { classes, examples } = lesson.peek();
      const count = (what: LessonChange["kind"]): number =>
        changes.filter((change) => change.kind === what).length;
      if (
        classes.length + count("class") > MAX_CLASSES ||
        examples.length + count("example") > MAX_EXAMPLES
      ) {
        trouble.value = `It can’t be restored: the limit is ${MAX_CLASSES} classes and ${MAX_EXAMPLES} examples.`;
        return;
      }
      deleted.value = NO_DELETED_ITEMS;
      for (const change of changes) {
        const sample = kept.get(change.id);
        if (change.kind !== "example") submit(change);
        else if (sample !== undefined && change.version !== null) {
          put(change.id, sample, change.version);
          submit(change, [new Uint8Array(sample.features.buffer), sample.picture]);
        }
      }
    },
    async collectExample(of, first) {
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
      const sample = await readSample(session, now);
      const same = record()?.id === now.id && networkNow()?.edits === network.edits;
      if (sample === null || !same) return false;
      add(of, sample, network);
      return true;
    },
    async addPictures(of, files) {
      const now = record();
      const network = networkNow();
      if (now === null || network === null) return;
      trouble.value = "";
      try {
        await withForkedSession(state, async (session) => {
          for (const [k, file] of files.entries()) {
            busyStatus.value = { task: "computing", done: k, total: files.length };
            if (!hasRoom()) return;
            const picture = await decodePicture(file).catch(() => null);
            const sample = picture && (await sampleFromPicture(session, now, picture));
            picture?.close();
            if (sample) add(of, sample, network);
            else
              trouble.value = `${"name" in file ? file.name : "A file"} is not a picture that this browser can read.`;
          }
        });
      } catch (error) {
        trouble.value = `The pictures could not be added: ${errorText(error)}`;
      } finally {
        busyStatus.value = null;
      }
    },
    loadLesson(saved) {
      for (const { id: key } of lesson.peek().classes)
        submit(makeChange({ kind: "remove", id: key }));
      const keys = saved.classes.map(() => randomId());
      for (const [k, text] of saved.classes.entries())
        submit(makeChange({ kind: "class", id: keys[k] ?? "", text }));
      for (const { classIndex, sample, featureVersion } of saved.examples)
        add(keys[classIndex] ?? "", sample, featureVersion);
      linearHead.value = null;
      if (saved.head === null) return;
      const [correct = 0, count = 0, held_out_correct = 0, held_out_count = 0] =
        saved.head.accuracyCounts;
      const classes = saved.head.classes.map((k) => keys[k] ?? "");
      const told = { correct, count, held_out_correct, held_out_count };
      putHead({ id: randomId(), classes, ...told }, saved.head.linear, lesson.peek());
    },
    get isTrainable() {
      const { classes, examples } = lesson.value;
      const own = (key: string) => examples.some(({ classId }) => classId === key);
      return classes.length >= 2 && classes.every((one) => own(one.id));
    },
    trainHead: train,
    staleExamples() {
      state.teaching.value;
      state.currentEdits.value;
      const is = new Map<string, boolean>();
      return lesson.value.examples.filter(({ version }) => {
        const of = featureKey(version);
        if (!is.has(of)) is.set(of, isNow(version));
        return !is.get(of);
      });
    },
    async classify() {
      const now = record();
      const head = lesson.peek().head;
      const by = linearHead.peek();
      const session = state.session.peek();
      if (now === null || head === null || by === null || session === null) return null;
      if (session.sequence === 0) return null;
      const found = probabilities(by, pooledFeatures(now, await session.read(now.layer)));
      return new Map(head.classes.map((key, k) => [key, found[k] ?? 0]));
    },
    get isHeadOutdated() {
      return trainedKey !== lessonKey(lesson.value);
    },
  };
  return teaching;
}

const errorText = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
