// A lesson as a file in the safetensors format, which Python's `teaching.load` reads.

import type { Sample } from "./feature_extraction.ts";
import type { LinearHead } from "./head.ts";
import type { Lesson } from "./lesson_changes.ts";
import { type FeatureVersion, MAX_CLASSES, MAX_EXAMPLES, type TeachingRecord } from "./records.ts";
import {
  deserializeMetadata,
  deserializeTensors,
  float32Tensor,
  serializeTensors,
  type Tensor,
} from "./safetensors.ts";

/** Transpose (channels, height, width) to (height, width, channels). */
function toChannelsLast(picture: Uint8Array, [channels, height, width]: TeachingRecord["shape"]) {
  const places = height * width;
  return Uint8Array.from(
    { length: picture.length },
    (_, k) => picture[(k % channels) * places + Math.floor(k / channels)] ?? 0,
  );
}

export function serializeLesson(
  record: TeachingRecord,
  { classes, examples, head }: Lesson,
  samples: ReadonlyMap<string, Sample>,
  linear: LinearHead | null,
): Uint8Array<ArrayBuffer> {
  const [channels, height, width] = record.shape;
  const numbers = new Map(classes.map(({ id }, k) => [id, k]));
  const own = examples.filter(({ id }) => samples.has(id));
  const networks: FeatureVersion[] = [];
  const of = own.map(({ version }) => {
    const words = JSON.stringify(version);
    const at = networks.findIndex((one) => JSON.stringify(one) === words);
    return at < 0 ? networks.push(version) - 1 : at;
  });
  const size = channels * height * width;
  const pictures = new Uint8Array(own.length * size);
  const features = new Float32Array(own.length * record.feature_count);
  for (const [k, { id }] of own.entries()) {
    const sample = samples.get(id);
    if (sample === undefined) continue;
    pictures.set(toChannelsLast(sample.picture, record.shape), k * size);
    features.set(sample.features, k * record.feature_count);
  }
  const labels = Int32Array.from(own, (one) => numbers.get(one.classId) ?? 0);
  const tensors: Tensor[] = [
    {
      name: "pictures",
      dtype: "U8",
      shape: [own.length, height, width, channels],
      data: pictures,
    },
    { name: "labels", dtype: "I32", shape: [own.length], data: new Uint8Array(labels.buffer) },
    float32Tensor("features", [own.length, record.feature_count], features),
  ];
  const metadata: Record<string, unknown> & { head?: number[]; told?: number[] } = {
    classes: classes.map(({ name }) => name),
    cut: record.layer,
    averaged: record.averaged,
    networks,
    of,
  };
  if (head !== null && linear !== null) {
    tensors.push(
      float32Tensor("weight", [head.classes.length, record.feature_count], linear.weight),
    );
    tensors.push(float32Tensor("bias", [head.classes.length], linear.bias));
    metadata.head = head.classes.map((id) => numbers.get(id) ?? 0);
    metadata.told = [head.correct, head.count, head.held_out_correct, head.held_out_count];
  }
  const words = Object.entries(metadata).map(([name, value]) => [name, JSON.stringify(value)]);
  return serializeTensors(tensors, Object.fromEntries(words));
}

export interface SavedLesson {
  /** Class names. */
  readonly classes: readonly string[];
  /** `classIndex`: the index of the example's class. */
  readonly examples: readonly {
    classIndex: number;
    sample: Sample;
    featureVersion: FeatureVersion;
  }[];
  readonly head: {
    classes: readonly number[];
    accuracyCounts: readonly number[];
    linear: LinearHead;
  } | null;
}

const NOT_A_LESSON_TEXT = "it is not an nbglcnn lesson file";

/**
 * Parse a lesson file. Throws an error with a message if the file is no lesson, or if its pictures or features don't
 * match.
 */
export function parseLesson(record: TeachingRecord, file: Uint8Array<ArrayBuffer>): SavedLesson {
  const [channels, height, width] = record.shape;
  const words: {
    classes?: string[];
    networks?: FeatureVersion[];
    of?: number[];
    head?: number[];
    told?: number[];
  } = {};
  let tensors: Map<string, Tensor>;
  try {
    for (const [name, text] of Object.entries(deserializeMetadata(file)))
      Object.assign(words, { [name]: JSON.parse(text) });
    tensors = new Map(deserializeTensors(file).map((tensor) => [tensor.name, tensor]));
  } catch {
    throw new Error(NOT_A_LESSON_TEXT);
  }
  const bytes = (name: string) => new Uint8Array(tensors.get(name)?.data ?? []).buffer;
  const floats = (name: string) => new Float32Array(bytes(name));
  const pictures = tensors.get("pictures");
  const labels = [...new Int32Array(bytes("labels"))];
  const features = floats("features");
  const { classes, networks, of, head, told: accuracyCounts = [] } = words;
  if (pictures === undefined || classes === undefined || of === undefined)
    throw new Error(NOT_A_LESSON_TEXT);
  if (classes.length > MAX_CLASSES)
    throw new Error(`it has ${classes.length} classes; the limit is ${MAX_CLASSES}`);
  if (labels.length > MAX_EXAMPLES)
    throw new Error(`it has ${labels.length} examples; the limit is ${MAX_EXAMPLES}`);
  const sides = [labels.length, height, width, channels].join("×");
  if (pictures.shape.join("×") !== sides)
    throw new Error(`its pictures are ${pictures.shape.join("×")}; this network needs ${sides}`);
  if (features.length !== labels.length * record.feature_count)
    throw new Error(
      `its examples don’t have the ${record.feature_count} features of ${record.layer}`,
    );
  const places = height * width;
  const size = channels * places;
  const examples = labels.flatMap((label, k) => {
    const network = networks?.[of[k] ?? -1];
    if (network === undefined || classes[label] === undefined) return [];
    const picture = Uint8Array.from(
      { length: size },
      (_, at) => pictures.data[k * size + (at % places) * channels + Math.floor(at / places)] ?? 0,
    );
    const own = features.slice(k * record.feature_count, (k + 1) * record.feature_count);
    return [{ classIndex: label, featureVersion: network, sample: { features: own, picture } }];
  });
  const linear = { weight: floats("weight"), bias: floats("bias") };
  const fits = head !== undefined && linear.weight.length === head.length * record.feature_count;
  return { classes, examples, head: fits ? { classes: head, accuracyCounts, linear } : null };
}
