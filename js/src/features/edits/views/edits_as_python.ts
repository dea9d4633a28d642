// Python code that reproduces the edits.
import { type Edit, GLSL, INJECT } from "../../../plan/edits.ts";
import { uniqueEditName } from "../../../state/edits.ts";

/** A Python string literal. */
const pythonString = (text: string): string => JSON.stringify(text);

/** A Python number literal: the shortest text that round-trips. */
const pythonNumber = (value: number): string => (Object.is(value, -0) ? "-0.0" : String(value));

function pythonChannels(channels: readonly number[]): string {
  const [first = 0, second = 0] = channels;
  const step = second - first;
  const last = channels.at(-1) ?? 0;
  const regular = channels.length > 3 && channels.every((one, i) => one === first + i * step);
  if (!regular) return `[${channels.join(", ")}]`;
  return step === 1 ? `range(${first}, ${last + 1})` : `range(${first}, ${last + 1}, ${step})`;
}

function pythonTransform({ transform, parameters, source, parameter_names }: Edit): string {
  const numbers =
    transform === GLSL
      ? [
          pythonString(source),
          ...parameter_names.map((name, i) => `${name}=${pythonNumber(parameters[i] ?? 0)}`),
        ]
      : parameters.map(pythonNumber);
  return `transforms.${transform}(${numbers.join(", ")})`;
}

/** Lines that apply the edits to a Viewer without edits. Injected arrays are not included. */
export function editsAsPython(edits: readonly Edit[]): string[] {
  const made: Edit[] = [];
  const lines = edits.map((edit) => {
    const { layer, name, transform, channels, mix, enabled, is_frozen } = edit;
    const like = transform !== INJECT ? transform : is_frozen ? "freeze" : INJECT;
    const own = uniqueEditName(made, like);
    const set = channels === null ? [] : [`channels=${pythonChannels(channels)}`];
    made.push(edit);
    if (is_frozen) return `viewer.freeze(${pythonString(layer)})`;
    if (transform === INJECT) {
      return `# viewer.inject(${pythonString(layer)}, array): these lines don't include the array`;
    }
    const parts = [
      pythonString(layer),
      pythonTransform(edit),
      ...set,
      ...(mix === 1 ? [] : [`mix=${pythonNumber(mix)}`]),
      ...(name === own ? [] : [`name=${pythonString(name)}`]),
      ...(enabled ? [] : ["enabled=False"]),
    ];
    return `viewer.bend(${parts.join(", ")})`;
  });
  return edits.some(({ transform }) => transform !== INJECT)
    ? ["from nbglcnn import transforms", ...lines]
    : lines;
}
