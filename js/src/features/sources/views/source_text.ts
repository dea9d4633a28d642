// Texts about sources: names in the bar, failures with advice, lines of Python.
import type { Input } from "../../../plan/schema.ts";
import type { Source } from "../records.ts";
import { CHOOSE_ANOTHER_TEXT, type PythonCall, pythonString } from "../source_kind.ts";
import { getSourceKind } from "../source_kinds.ts";
import type { SourceStatus } from "../state.ts";

/** The current source's name in the bar. */
export function sourceTitle(source: Source | null): string {
  if (source === null) return "Array";
  const { title, label } = getSourceKind(source);
  return title?.(source) ?? label;
}

/** The problem as a title; its cause, what still works and what to do as text. */
export function failureText(
  source: Source,
  { failure }: SourceStatus,
): readonly [title: string, text: string] {
  const own = failure === null ? undefined : getSourceKind(source).failures?.[failure];
  return own ?? ["This source can’t be shown", `The input doesn’t change; ${CHOOSE_ANOTHER_TEXT}.`];
}

/** Why an input accepts no pictures; "" if it does. */
export function noPicturesText({ key, shape, fit }: Input): string {
  if (fit !== "") return "";
  return `${key} takes ${shape.join("×")} values. Pictures need an input of n × 1, 3 or 4 × height × width, float32 or uint8.`;
}

/** The equivalent line of Python; "" if only a page can create the source. */
export function sourceAsPython(source: Source, hasSeveralInputs: boolean): string {
  const call: PythonCall = (name, ...parts) => {
    const said = [...parts, hasSeveralInputs && `input=${pythonString(source.input)}`].filter(
      (part) => part !== false,
    );
    return `viewer.source = nbglcnn.${name}(${said.join(", ")})`;
  };
  return getSourceKind(source).pythonLine(source, call);
}
