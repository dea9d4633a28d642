// Looks into what comes from outside, which nobody has checked.

/** A field of what may be no object at all, or undefined. */
export function fieldOf(owner: unknown, key: string): unknown {
  return typeof owner === "object" && owner !== null
    ? (owner as Readonly<Record<string, unknown>>)[key]
    : undefined;
}
