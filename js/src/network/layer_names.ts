// Names of layers and modules: enclosing modules, titles and shortened forms.
import type { Layer } from "../plan/schema.ts";

const separatorOf = (name: string): string => (name.startsWith("/") ? "/" : ".");

/** Separates the call of a module from the name of an operator in it: "block.0: relu", "block:1: q @ k.T". */
export const CALL_SEPARATOR = ": ";

/** The index at which the last part of a name begins. */
function leafNameStart(name: string): number {
  const inside = name.indexOf(CALL_SEPARATOR);
  return inside < 0 ? name.lastIndexOf(separatorOf(name)) + 1 : inside + CALL_SEPARATOR.length;
}

export function enclosingModules(layers: readonly Layer[]): string[] {
  const owner = layers.findLast((layer) => layer.module !== "") ?? layers.at(-1);
  const name = owner?.name ?? "";
  const separator = separatorOf(name);
  const [module = "", inside] = name.split(CALL_SEPARATOR);
  const path = module.split(separator).filter((part) => part !== "");
  const own =
    inside === undefined ? path.slice(0, -1) : [...path.slice(0, -1), withoutCallNumber(path)];
  return own.map((_, i) => own.slice(0, i + 1).join(separator));
}

/** The last module of a path without the number of its call. */
const withoutCallNumber = (path: readonly string[]): string =>
  (path.at(-1) ?? "").replace(/:\d+$/, "");

/** A layer's name, or its label if the name is only an exporter's number. */
export const labelOf = (layer: Layer): string => layer.label || layer.name;

/** "encoder.0–2" for encoder.0, encoder.1, encoder.2; "layer1.0.conv1–relu" for names that are words. */
export function chainTitle(names: readonly string[]): string {
  const first = names[0] ?? "";
  const last = names.at(-1) ?? "";
  if (names.length < 2) return first;
  const at = leafNameStart(first);
  const sameParent =
    names.every((name) => leafNameStart(name) === at) &&
    names.every((name) => name.slice(0, at) === first.slice(0, at));
  return sameParent ? `${first}–${last.slice(at)}` : `${first} – ${last}`;
}

/** A name relative to its module's heading: "conv1–relu" of "layer1.0.conv1–relu" in layer1.0. */
export function relativeName(name: string, moduleName: string): string {
  if (moduleName !== "" && name.startsWith(`${moduleName}${CALL_SEPARATOR}`)) return leafName(name);
  const start = `${moduleName}${separatorOf(name)}`;
  const absolute = name.startsWith("/") ? `/${start}` : start;
  return moduleName !== "" && name.startsWith(absolute) ? name.slice(absolute.length) : name;
}

/** The last part of a layer's name, for display beside its module's: "2" of "encoder.2". */
export const leafName = (name: string): string => name.slice(leafNameStart(name)) || name;

/** The parts of a name; a line may break after each of them. */
export const nameParts = (name: string): string[] => name.split(/(?<=[._–/ ])/);

/** Shorten a name to at most `maxLength` characters: drop leading modules, or else the middle. */
export function shortenName(name: string, maxLength: number): string {
  if (name.length <= maxLength) return name;
  const ends = nameParts(name).map((_, k, parts) => parts.slice(k).join(""));
  const end = ends.slice(1).find((one) => one.length < maxLength);
  if (end !== undefined) return `…${end}`;
  const half = maxLength / 2;
  return `${name.slice(0, Math.floor(half))}…${name.slice(1 - Math.ceil(half))}`;
}
