// Reads fields of unvalidated external data.

/** A field of an unknown value; undefined if the value is not an object. */
export function readField(owner: unknown, key: string): unknown {
  return typeof owner === "object" && owner !== null
    ? (owner as Readonly<Record<string, unknown>>)[key]
    : undefined;
}
