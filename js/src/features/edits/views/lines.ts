// The lines of Python that make the same edits.
import { type Edit, GLSL, INJECT } from "../../../plan/edits.ts";
import { freeName } from "../../../state/edits.ts";

/** A text as Python writes it. */
const quoted = (text: string): string => JSON.stringify(text);

/** A number as Python reads it back: the shortest text that is the same number. */
const number = (value: number): string => (Object.is(value, -0) ? "-0.0" : String(value));

function channelsOf(channels: readonly number[]): string {
  const [first = 0, second = 0] = channels;
  const step = second - first;
  const last = channels.at(-1) ?? 0;
  const regular = channels.length > 3 && channels.every((one, i) => one === first + i * step);
  if (!regular) return `[${channels.join(", ")}]`;
  return step === 1 ? `range(${first}, ${last + 1})` : `range(${first}, ${last + 1}, ${step})`;
}

function transformOf({ transform, parameters, source, names }: Edit): string {
  const numbers =
    transform === GLSL
      ? [quoted(source), ...names.map((name, i) => `${name}=${number(parameters[i] ?? 0)}`)]
      : parameters.map(number);
  return `transforms.${transform}(${numbers.join(", ")})`;
}

/** Lines that do the same to a Viewer without edits; those of a layer's own values hold no array. */
export function pythonOf(edits: readonly Edit[]): string[] {
  const made: Edit[] = [];
  const lines = edits.map((edit) => {
    const { layer, name, transform, channels, mix, enabled, frozen } = edit;
    const like = transform !== INJECT ? transform : frozen ? "freeze" : INJECT;
    const own = freeName(made, like);
    const set = channels === null ? [] : [`channels=${channelsOf(channels)}`];
    made.push(edit);
    if (frozen) return `viewer.freeze(${quoted(layer)})`;
    if (transform === INJECT) {
      return `# viewer.inject(${quoted(layer)}, array): the array is not in these lines`;
    }
    const parts = [
      quoted(layer),
      transformOf(edit),
      ...set,
      ...(mix === 1 ? [] : [`mix=${number(mix)}`]),
      ...(name === own ? [] : [`name=${quoted(name)}`]),
      ...(enabled ? [] : ["enabled=False"]),
    ];
    return `viewer.bend(${parts.join(", ")})`;
  });
  return edits.some(({ transform }) => transform !== INJECT)
    ? ["from nbglcnn import transforms", ...lines]
    : lines;
}
