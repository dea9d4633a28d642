// Error messages for a rejected shader or an unknown name.
import { PlanError } from "./runtime.ts";

/** The compiler's log with excerpts of the numbered source lines that it mentions. */
export function shaderMessage(name: string, log: string, source: string): string {
  const lines = source.split("\n");
  const named = [...log.matchAll(/\b\d+:(\d+)/g)].map((match) => Number(match[1]));
  const shown = new Set<number>();
  for (const line of named.slice(0, 4)) {
    for (let k = Math.max(1, line - 2); k <= Math.min(lines.length, line + 2); k++) shown.add(k);
  }
  const excerpt = [...shown]
    .sort((a, b) => a - b)
    .map((k) => `${String(k).padStart(5)}${named.includes(k) ? " >" : "  "} ${lines[k - 1]}`);
  const words = log.replaceAll("\0", "").trim() || "the browser gives no reason";
  return [`this browser refuses the shader ${JSON.stringify(name)}: ${words}`, ...excerpt].join(
    "\n",
  );
}

/** "a", "b" and 3 more. */
export function formatList(names: readonly string[], maxCount = 8): string {
  const shown = names.slice(0, maxCount).map((name) => JSON.stringify(name));
  if (names.length > maxCount) shown.push(`${names.length - maxCount} more`);
  const last = shown.pop();
  return last === undefined ? "none" : shown.length > 0 ? `${shown.join(", ")} and ${last}` : last;
}

export const noPictureInputError = (key: string): PlanError =>
  new PlanError(`input ${JSON.stringify(key)} takes no pictures`);
