// Feature extraction: reads the input and its features, from the current run or, for other pictures, from a forked
// session.
import { pageStore } from "../../engine/page_store.ts";
import { beforeEditsKey } from "../../plan/derived_values.ts";
import type { ImageSource, Session } from "../../plan/runtime.ts";
import type { ViewerState } from "../../state.ts";
import type { TeachingRecord } from "./records.ts";

export interface Sample {
  readonly features: Float32Array<ArrayBuffer>;
  /** (channels, height, width); byte 255 represents 1. */
  readonly picture: Uint8Array<ArrayBuffer>;
}

/** The feature vector from the feature layer's value: the value itself, or its means over height and width. */
export function pooledFeatures(
  { feature_count, averaged }: TeachingRecord,
  value: Float32Array,
): Float32Array<ArrayBuffer> {
  if (!averaged) return new Float32Array(value);
  const places = value.length / feature_count;
  return Float32Array.from({ length: feature_count }, (_, k) => {
    let sum = 0;
    for (let at = k * places; at < (k + 1) * places; at++) sum += value[at] ?? 0;
    return sum / places;
  });
}

const toBytes = (numbers: Float32Array): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(numbers, (one) => Math.round(255 * Math.min(1, Math.max(0, one))));

/**
 * Read the features and the input of a session's last run. Retries if another run intervenes; null if that keeps
 * happening.
 */
export async function readSample(session: Session, record: TeachingRecord): Promise<Sample | null> {
  for (let tries = 0; tries < 4; tries++) {
    const before = session.sequence;
    const asked = [record.layer, beforeEditsKey(record.input)].map((key) => session.read(key));
    const [value, input] = await Promise.all(asked);
    if (value === undefined || input === undefined || session.sequence !== before) continue;
    return { features: pooledFeatures(record, value), picture: toBytes(input) };
  }
  return null;
}

/** The array that one of the reader's edits injects. */
function getInjectedArray(hash: string): Float32Array {
  const data = pageStore().get(hash);
  return data === undefined
    ? new Float32Array()
    : new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
}

/** Call `work` with a forked session that has the shown session's weights and edits. */
export async function withForkedSession<T>(
  state: ViewerState,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const open = state.forkSession.peek();
  if (open === null) throw new Error("the network has not loaded");
  const session = await open();
  try {
    await session.setEdits(state.currentEdits.peek().edits, getInjectedArray);
    return await work(session);
  } finally {
    session.dispose();
  }
}

/** Compute the features of a stored picture. */
export async function recomputeFeatures(
  session: Session,
  record: TeachingRecord,
  picture: Uint8Array,
): Promise<Float32Array<ArrayBuffer>> {
  session.write(
    record.input,
    Float32Array.from(picture, Math.fround).map((one) => one / 255),
  );
  return pooledFeatures(record, await session.read(record.layer));
}

/** The sample of a picture of any size. */
export async function sampleFromPicture(
  session: Session,
  record: TeachingRecord,
  picture: ImageSource,
): Promise<Sample | null> {
  session.feed(record.input, picture, false);
  await session.run();
  return readSample(session, record);
}
