// Validates edits against a Plan: their layers, transforms and numbers.

import type { EditPreview } from "./derived_values.ts";
import { type Edit, GLSL, INJECT, MAX_GLSL_PARAMETERS, TRANSFORMS } from "./edits.ts";
import { PlanError } from "./runtime.ts";
import { NOT_EDITABLE, type PlanHeader, type Value } from "./schema.ts";

function ensure(condition: boolean, message: string): void {
  if (!condition) throw new PlanError(message);
}

function checkTransform(edit: Edit, value: Value): void {
  const { transform, parameters, channels, mix, source, parameter_names } = edit;
  const what = `${transform} of ${value.key}`;
  const own = TRANSFORMS.find(({ name }) => name === transform);
  const count =
    transform === GLSL ? parameter_names.length : transform === INJECT ? 0 : own?.parameters.length;
  ensure(count !== undefined, `no transform ${JSON.stringify(transform)}`);
  ensure(
    parameters.length === count && count <= MAX_GLSL_PARAMETERS,
    `${what} takes ${count} parameters, not ${parameters.length}`,
  );
  ensure([...parameters, mix].every(Number.isFinite), `${what} has a number that is not finite`);
  ensure((transform === GLSL) === (source !== ""), `${what} has the text of another transform`);
  const { counts = [] } = own ?? {};
  ensure(
    counts.length === 0 || counts.includes(value.nchw[1]),
    `${what} takes values of ${counts.join(" or ")} channels, not ${value.nchw[1]}`,
  );
  const wrong = channels?.find(
    (one) => !(Number.isInteger(one) && one >= 0 && one < value.nchw[1]),
  );
  ensure(wrong === undefined, `${value.key} has ${value.nchw[1]} channels, not number ${wrong}`);
}

/** Throw PlanError if an edit is invalid for this Plan. */
export function checkEdit(
  plan: Pick<PlanHeader, "values">,
  edit: Edit,
  getArray: (hash: string) => Float32Array,
): void {
  const value = plan.values.find(({ key }) => key === edit.layer);
  if (value === undefined || value.edit_pass === NOT_EDITABLE) {
    throw new PlanError(`${JSON.stringify(edit.layer)} cannot be edited`);
  }
  checkTransform(edit, value);
  if (edit.transform !== INJECT) return;
  const [n, c, h, w] = value.nchw;
  const count = n * (edit.channels?.length ?? c) * h * w;
  const { length } = getArray(edit.array_hash);
  ensure(length === count, `${edit.layer} takes ${count} numbers, not ${length}`);
}

/** Check all edits, and that their names are unique. */
export function checkEdits(
  plan: Pick<PlanHeader, "values">,
  edits: readonly Edit[],
  getArray: (hash: string) => Float32Array,
): void {
  for (const edit of edits) checkEdit(plan, edit, getArray);
  const names = new Set(edits.map(({ name }) => name));
  ensure(names.size === edits.length, "two edits have one name");
}

/** Throw PlanError if this Plan has no value with the key. */
export function checkValueExists({ values }: Pick<PlanHeader, "values">, key: string): void {
  ensure(
    values.some((value) => value.key === key),
    `no value ${JSON.stringify(key)}`,
  );
}

export function checkPreview(
  plan: PlanHeader,
  { layer, channel, image, edits }: EditPreview,
): void {
  checkEdits(
    plan,
    edits.filter(({ transform }) => transform !== INJECT),
    () => new Float32Array(),
  );
  const [n, c] = plan.values.find(({ key }) => key === layer)?.nchw ?? [0, 0];
  const inside = image >= 0 && image < n && channel >= 0 && channel < c;
  const own = edits.every((edit) => edit.layer === layer && edit.transform !== INJECT);
  ensure(inside && own, `no preview of channel ${channel} of ${JSON.stringify(layer)}`);
}
