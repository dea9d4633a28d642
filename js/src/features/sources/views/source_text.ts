// What is said of sources: what the bar calls one, what has gone wrong and what to do then, the line of Python.
import type { Input } from "../../../plan/schema.ts";
import { kindOf } from "../kinds.ts";
import type { Source } from "../records.ts";
import { type Call, OTHER, quoted } from "../source_kind.ts";
import type { SourceStatus } from "../state.ts";

/** The current source's name in the bar. */
export function titleOf(source: Source | null): string {
  if (source === null) return "Array";
  const { title, word } = kindOf(source);
  return title?.(source) ?? word;
}

/** The thing that is wrong; the cause, what still works and what to do. */
export function failureWords(
  source: Source,
  { failure }: SourceStatus,
): readonly [title: string, text: string] {
  const own = failure === null ? undefined : kindOf(source).failures?.[failure];
  return own ?? ["This source cannot be shown", `The input stays as it is; ${OTHER}.`];
}

/** Why an input takes no pictures; "" where it does. */
export function whyNoPictures({ key, shape, fit }: Input): string {
  if (fit !== "") return "";
  return `${key} takes ${shape.join("×")} numbers. A picture can become float32 of n × 1, 3 or 4 × height × width, or uint8.`;
}

/** The line of Python that does the same; "" where only a page can. */
export function pythonOf(source: Source, several: boolean): string {
  const call: Call = (name, ...parts) => {
    const said = [...parts, several && `input=${quoted(source.input)}`].filter(
      (part) => part !== false,
    );
    return `viewer.source = nbglcnn.${name}(${said.join(", ")})`;
  };
  return kindOf(source).python(source, call);
}
