// Parses a Plan file, and validates its numbers before anything is allocated.

import { checkPlan } from "./check_plan.ts";
import { crc32 } from "./crc32.ts";
import { waitForPoll } from "./run_slices.ts";
import { PlanError } from "./runtime.ts";
import {
  ALIGNMENT_BYTES,
  type Kind,
  MAGIC,
  type PlanHeader,
  RECORDS,
  TEXEL_BYTES,
  VERSION,
} from "./schema.ts";

export interface PlanFile {
  readonly plan: PlanHeader;
  readonly uniforms: Uint8Array;
  /** The packed rows of a weight texture, by content hash. */
  readonly getWeight: (hash: string) => Float32Array;
}

const damagedFileError = (problem: string) => new PlanError(`damaged Plan file: ${problem}`);

/**
 * Parse a Plan file into its header, its uniforms and everything after the header; blobs may be stored elsewhere. No
 * checksum is verified here: data fetched by content hash needs none.
 */
export function parseHeaderAndUniforms(bytes: Uint8Array): {
  readonly plan: PlanHeader;
  readonly uniforms: Uint8Array;
  readonly body: Uint8Array;
} {
  if (!hasMagic(bytes)) {
    throw new PlanError(
      "not a Plan file of this version (its first 8 bytes differ); compile the model again",
    );
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = bytes.length < 16 ? -1 : view.getUint32(8, true);
  if (size < 0 || size > bytes.length - 16) {
    throw damagedFileError(`a header of ${size} bytes in a file of ${bytes.length}`);
  }
  let json: unknown;
  try {
    json = JSON.parse(
      new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(16, 16 + size)),
    );
  } catch (error) {
    throw damagedFileError(
      `its header is not JSON (${error instanceof Error ? error.message : error})`,
    );
  }
  const plan = parseHeader(json);
  const body = bytes.subarray(Math.min(bytes.length, alignUp(16 + size)));
  if (plan.uniform_bytes > body.length) throw damagedFileError("its uniforms are incomplete");
  checkPlan(plan, plan.uniform_bytes);
  return { plan, uniforms: body.subarray(0, plan.uniform_bytes), body };
}

/** Bytes of the checksum between two pauses: about 10 ms. */
const CHECKSUM_BURST_BYTES = 2 ** 22;

/**
 * Throw at the end if the checksum is wrong; yields between parts of the file. A file without the magic number is left
 * for `parseHeaderAndUniforms` to report.
 */
function* verifyChecksum(bytes: Uint8Array): Generator<void> {
  if (bytes.length < 16 || !hasMagic(bytes)) return;
  const kept = new DataView(bytes.buffer, bytes.byteOffset).getUint32(12, true);
  let found = crc32(bytes.subarray(0, 12));
  for (let at = 16; at < bytes.length; at += CHECKSUM_BURST_BYTES) {
    found = crc32(bytes.subarray(at, at + CHECKSUM_BURST_BYTES), found);
    yield;
  }
  if (kept !== found) {
    const [a, b] = [found, kept].map((sum) => sum.toString(16).padStart(8, "0"));
    throw damagedFileError(`its checksum is ${a}, not ${b}; copy it again`);
  }
}

const hasMagic = (bytes: Uint8Array): boolean =>
  String.fromCharCode(...bytes.subarray(0, MAGIC.length)) === MAGIC;

/** Parse the output of `Plan.to_bytes`, checking its checksum and every offset and size. */
export function parsePlan(file: ArrayBuffer | Uint8Array): PlanFile {
  const bytes = alignedBytes(file);
  for (const _ of verifyChecksum(bytes));
  return parseVerifiedPlan(bytes);
}

/**
 * Parse a Plan file now, and check its checksum in pauses of other work; `whenVerified` rejects if it is wrong. A file
 * that cannot be parsed is checked at once: the checksum explains the other error.
 */
export function openPlan(
  file: ArrayBuffer | Uint8Array,
): PlanFile & { readonly whenVerified: Promise<void> } {
  const bytes = alignedBytes(file);
  const check = verifyChecksum(bytes);
  try {
    const parsed = parseVerifiedPlan(bytes);
    const whenVerified = inPauses(check);
    whenVerified.catch(() => undefined); // the caller awaits it later
    return { ...parsed, whenVerified };
  } catch (error) {
    for (const _ of check);
    throw error;
  }
}

async function inPauses(work: Generator<void>): Promise<void> {
  do await waitForPoll(true);
  while (work.next().done !== true);
}

/** The bytes, at an offset that Float32Arrays can have. */
function alignedBytes(file: ArrayBuffer | Uint8Array): Uint8Array {
  const bytes = file instanceof Uint8Array ? file : new Uint8Array(file);
  return bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
}

function parseVerifiedPlan(bytes: Uint8Array): PlanFile {
  const { plan, uniforms, body } = parseHeaderAndUniforms(bytes);
  const blobs = new Map<string, Float32Array>();
  for (const { hash, texture } of plan.weights) {
    const place = Object.hasOwn(plan.blobs, hash) ? plan.blobs[hash] : undefined;
    const { width = 0, height = 0, layers = 0, format = "rgba32f" } = plan.textures[texture] ?? {};
    const [at, length] = place ?? [0, -1];
    const fits = at % 4 === 0 && at >= 0 && at + length <= body.length;
    if (length !== width * height * layers * TEXEL_BYTES[format] || !fits) {
      throw damagedFileError(`weight ${hash} is missing or has a wrong size`);
    }
    const from = body.byteOffset + at;
    blobs.set(
      hash,
      format === "rgba32f"
        ? new Float32Array(body.buffer, from, length / 4)
        : halfToFloat(new Uint16Array(body.buffer, from, length / 2)),
    );
  }
  return {
    plan,
    uniforms,
    getWeight: (hash) => {
      const blob = blobs.get(hash);
      if (blob === undefined) throw new PlanError(`the Plan file has no weight ${hash}`);
      return blob;
    },
  };
}

/** Convert 16-bit floats (IEEE 754's binary16) to float32, which represents all of them exactly. */
function halfToFloat(halves: Uint16Array): Float32Array {
  const numbers = new Float32Array(halves.length);
  const bits = new Uint32Array(numbers.buffer);
  for (const [k, half] of halves.entries()) {
    const [sign, rest] = [(half & 0x8000) << 16, half & 0x7fff];
    if (rest >= 0x7c00)
      bits[k] = sign | 0x7f800000 | ((rest & 0x3ff) << 13); // infinite, or NaN
    else if (rest >= 0x400) bits[k] = sign | ((rest << 13) + 0x38000000);
    else numbers[k] = (sign === 0 ? 1 : -1) * rest * 2 ** -24; // subnormal, or zero
  }
  return numbers;
}

/** Validate a header parsed from JSON; throw PlanError if it doesn't match the record `PlanHeader`. */
export function parseHeader(json: unknown): PlanHeader {
  const version = (json as { version?: unknown } | null)?.version;
  if (version !== VERSION) {
    throw new PlanError(
      `Plan of format ${version}; this page reads ${VERSION}. Compile the model again`,
    );
  }
  checkRecordType(json, { record: "PlanHeader" }, "damaged Plan: header");
  return json as PlanHeader;
}

/** Throw if `value` isn't of this kind; `path` names the value in the message. */
export function checkRecordType(value: unknown, kind: Kind, path: string, records = RECORDS): void {
  const fail: (wanted: string) => never = (wanted) => {
    throw new PlanError(`${path} is not ${wanted}`);
  };
  if (kind === "any") return;
  if (kind === "integer") {
    if (!Number.isSafeInteger(value)) fail("an integer");
  } else if (typeof kind === "string") {
    if (typeof value !== kind) fail(`a ${kind}`);
  } else if ("oneOf" in kind) {
    if (!kind.oneOf.includes(value as string)) fail(`one of ${kind.oneOf.join(", ")}`);
  } else if ("list" in kind || "tuple" in kind) {
    if (!Array.isArray(value)) fail("a list");
    if ("tuple" in kind && value.length !== kind.tuple.length) fail(`${kind.tuple.length} values`);
    for (const [k, item] of value.entries()) {
      const inner = "list" in kind ? kind.list : (kind.tuple[k] ?? "any");
      checkRecordType(item, inner, `${path}[${k}]`, records);
    }
  } else {
    if (typeof value !== "object" || value === null || Array.isArray(value)) fail("a record");
    if ("map" in kind) {
      for (const [key, item] of Object.entries(value)) {
        checkRecordType(item, kind.map, `${path}.${key}`, records);
      }
      return;
    }
    for (const [field, inner] of Object.entries(records.get(kind.record) ?? {})) {
      if (!Object.hasOwn(value, field)) fail(`a ${kind.record}: it has no ${field}`);
      checkRecordType(
        (value as Record<string, unknown>)[field],
        inner,
        `${path}.${field}`,
        records,
      );
    }
  }
}

function alignUp(size: number): number {
  return Math.ceil(size / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
}
