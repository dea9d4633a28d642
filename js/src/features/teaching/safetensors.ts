// Reader and writer for the safetensors format: an eight-byte length, a JSON header of that length, and the data.

/** Bytes per element of each dtype. */
const DTYPE_BYTES: Readonly<Record<string, number>> = {
  F64: 8,
  I64: 8,
  F32: 4,
  I32: 4,
  I16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
};

export interface Tensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

/** The header key of a file's metadata. */
const METADATA_KEY = "__metadata__";

type HeaderEntry = Omit<Tensor, "name" | "data"> & {
  readonly data_offsets: readonly [number, number];
};

/** A float32 tensor. */
export const float32Tensor = (
  name: string,
  shape: readonly number[],
  array: Float32Array,
): Tensor => ({
  name,
  dtype: "F32",
  shape,
  data: new Uint8Array(array.buffer, array.byteOffset, array.byteLength),
});

function parseHeader(file: Uint8Array) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const from = 8 + Number(view.getBigUint64(0, true));
  return { header: JSON.parse(new TextDecoder().decode(file.subarray(8, from))), from };
}

/** The metadata of a file. */
export function deserializeMetadata(file: Uint8Array): Readonly<Record<string, string>> {
  return parseHeader(file).header[METADATA_KEY] ?? {};
}

/** The tensors of a file. */
export function deserializeTensors(file: Uint8Array): Tensor[] {
  const { header, from } = parseHeader(file);
  delete header[METADATA_KEY];
  return Object.entries(header as Record<string, HeaderEntry>).map(([name, entry]) => {
    const { dtype, shape, data_offsets } = entry;
    const [first, end] = data_offsets;
    return { name, dtype, shape, data: file.subarray(from + first, from + end) };
  });
}

/** Serialise tensors: those with the widest dtype first, so that each tensor is aligned for its reader. */
export function serializeTensors(
  tensors: readonly Tensor[],
  metadata: Readonly<Record<string, string>> | null = null,
): Uint8Array<ArrayBuffer> {
  const width = ({ dtype }: Tensor): number => DTYPE_BYTES[dtype] ?? 1;
  const sorted = [...tensors].sort((a, b) => width(b) - width(a));
  const header: [string, HeaderEntry][] = [];
  let at = 0;
  for (const { name, dtype, shape, data } of sorted) {
    header.push([name, { dtype, shape, data_offsets: [at, at + data.length] }]);
    at += data.length;
  }
  const first = metadata === null ? {} : { [METADATA_KEY]: metadata };
  const all = { ...first, ...Object.fromEntries(header) };
  const words = new TextEncoder().encode(JSON.stringify(all));
  const length = Math.ceil(words.length / 8) * 8;
  const file = new Uint8Array(8 + length + at);
  new DataView(file.buffer).setBigUint64(0, BigInt(length), true);
  file.fill(32, 8, 8 + length); // pad the JSON header with spaces
  file.set(words, 8);
  at = 8 + length;
  for (const { data } of sorted) {
    file.set(data, at);
    at += data.length;
  }
  return file;
}
