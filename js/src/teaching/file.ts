// A teaching as one file in the safetensors format, which Python's `teaching.load` takes.

import type { TaughtNetwork, TeachingRecord } from "../teaching.ts";
import { fileOf, type Tensor, tensorOf } from "../tensorfile.ts";
import type { Taught } from "./changes.ts";
import type { Linear } from "./head.ts";
import type { Sample } from "./reading.ts";

/** (channels, height, width) as (height, width, channels). */
function channelsLast(picture: Uint8Array, [channels, height, width]: TeachingRecord["shape"]) {
  const places = height * width;
  return Uint8Array.from(
    { length: picture.length },
    (_, k) => picture[(k % channels) * places + Math.floor(k / channels)] ?? 0,
  );
}

export function teachingFile(
  record: TeachingRecord,
  { classes, examples, head }: Taught,
  data: ReadonlyMap<string, Sample>,
  linear: Linear | null,
): Uint8Array<ArrayBuffer> {
  const [channels, height, width] = record.shape;
  const numbers = new Map(classes.map(({ id }, k) => [id, k]));
  const own = examples.filter(({ id }) => data.has(id));
  const networks: TaughtNetwork[] = [];
  const of = own.map(({ network }) => {
    const words = JSON.stringify(network);
    const at = networks.findIndex((one) => JSON.stringify(one) === words);
    return at < 0 ? networks.push(network) - 1 : at;
  });
  const size = channels * height * width;
  const pictures = new Uint8Array(own.length * size);
  const features = new Float32Array(own.length * record.count);
  for (const [k, { id }] of own.entries()) {
    const sample = data.get(id);
    if (sample === undefined) continue;
    pictures.set(channelsLast(sample.picture, record.shape), k * size);
    features.set(sample.features, k * record.count);
  }
  const labels = Int32Array.from(own, (one) => numbers.get(one.of) ?? 0);
  const tensors: Tensor[] = [
    {
      name: "pictures",
      dtype: "U8",
      shape: [own.length, height, width, channels],
      data: pictures,
    },
    { name: "labels", dtype: "I32", shape: [own.length], data: new Uint8Array(labels.buffer) },
    tensorOf("features", [own.length, record.count], features),
  ];
  const metadata: Record<string, unknown> & { head?: number[]; told?: number[] } = {
    classes: classes.map(({ name }) => name),
    cut: record.cut,
    averaged: record.averaged,
    networks,
    of,
  };
  if (head !== null && linear !== null) {
    tensors.push(tensorOf("weight", [head.classes.length, record.count], linear.weight));
    tensors.push(tensorOf("bias", [head.classes.length], linear.bias));
    metadata.head = head.classes.map((id) => numbers.get(id) ?? 0);
    metadata.told = [head.right, head.count, head.held_right, head.held_count];
  }
  const words = Object.entries(metadata).map(([name, value]) => [name, JSON.stringify(value)]);
  return fileOf(tensors, Object.fromEntries(words));
}
