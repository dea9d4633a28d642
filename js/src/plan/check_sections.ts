// A Plan's sections and carries, checked: running a section once more must give what it gave.
import type { PlanHeader } from "./schema.ts";
import { writtenIn } from "./sections.ts";

export type Check = (right: boolean, what: string) => void;

export function checkSections(plan: PlanHeader, check: Check): void {
  const { passes, sections } = plan;
  const names = sections.map(({ name }) => name);
  check(
    names.length > 0 && new Set(names).size === names.length,
    `its sections are called ${names.join(", ") || "nothing"}`,
  );
  let end = 0;
  for (const { name, first, count } of sections) {
    check(
      first === end && count >= 0 && end + count <= passes.length,
      `section ${JSON.stringify(name)} has ${count} passes from ${first} on; ` +
        `${end} of ${passes.length} are in sections before it`,
    );
    end += count;
  }
  check(end === passes.length, `pass ${end} is in no section`);
  const filled = filledBySomethingElse(plan);
  const writers = writtenIn(plan);
  const wrong = [...writers.keys()].find((texture) => filled.has(texture));
  check(wrong === undefined, `a pass writes texture ${wrong}, which an input or weight fills`);
  for (const [number, { first, count }] of sections.entries()) {
    const written = new Set<number>();
    for (let k = first; k < first + count; k++) {
      const { inputs = [], output = -1 } = passes[k] ?? {};
      for (const texture of inputs) {
        // Of its own section an earlier pass, or only one section, and that an earlier one.
        const own = [...(writers.get(texture) ?? [])];
        const before = own.length < 2 && Math.max(-1, ...own) < number;
        check(
          written.has(texture) || before,
          `pass ${k} reads texture ${texture} before it is written`,
        );
      }
      written.add(output);
    }
  }
}

export function checkCarries(plan: PlanHeader, check: Check): void {
  const { textures, carries, values, parameters, inputs, weights } = plan;
  const writers = writtenIn(plan);
  const reads = new Set([...values, ...parameters].map(({ read }) => read.step.output));
  const fed = new Set(inputs.flatMap(({ staging, step }) => [staging, step.output]));
  const starts = new Set(weights.map(({ texture }) => texture));
  const targets = new Set<number>();
  for (const [k, { source, target }] of carries.entries()) {
    const [from, to] = [textures[source], textures[target]];
    check(from !== undefined && to !== undefined, `carry ${k} names a texture that is not there`);
    const same = (["width", "height", "layers", "format"] as const).every(
      (one) => from?.[one] === to?.[one],
    );
    check(same, `carry ${k} goes from a texture to one of another size or format`);
    check(writers.has(source), `no pass writes the source of carry ${k}`);
    const alone = !writers.has(target) && !fed.has(target) && !reads.has(target);
    check(alone && !reads.has(source), `something else writes a texture of carry ${k}`);
    check(!targets.has(target), `carry ${k} has the target of another one`);
    check(starts.has(target), `the target of carry ${k} has no contents at first`);
    targets.add(target);
  }
}

function filledBySomethingElse({ weights, inputs }: PlanHeader): Set<number> {
  const given = inputs.flatMap(({ staging, step }) => [staging, step.output]);
  return new Set([...weights.map(({ texture }) => texture), ...given]);
}
