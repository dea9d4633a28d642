// A Plan's sections: their passes, the textures they write, and their dependencies.

import { formatList } from "./error_text.ts";
import { PlanError } from "./runtime.ts";
import type { Pass, PlanHeader } from "./schema.ts";

type SectionTables = Pick<PlanHeader, "passes" | "sections">;

/** For each texture that passes write, the numbers of the sections with those passes. */
export function sectionsByTexture({ passes, sections }: SectionTables): Map<number, Set<number>> {
  const found = new Map<number, Set<number>>();
  for (const [number, { first, count }] of sections.entries()) {
    for (const { output } of passes.slice(first, first + count)) {
      found.set(output, (found.get(output) ?? new Set()).add(number));
    }
  }
  return found;
}

/** The names of the sections with a layer's passes; empty if there is only one section. */
export function layerSectionNames({ passes, sections }: SectionTables, layer: number): string[] {
  if (sections.length < 2) return [];
  const own = ({ first, count }: { readonly first: number; readonly count: number }) =>
    passes.slice(first, first + count).some((pass) => pass.layer === layer);
  return sections.filter(own).map(({ name }) => name);
}

export class Sections {
  /** The numbers of the sections that run by default. */
  readonly defaults: readonly number[];
  private readonly plan: SectionTables;
  private readonly writers: ReadonlyMap<number, ReadonlySet<number>>;
  private readonly dependencies: readonly ReadonlySet<number>[];

  constructor(plan: SectionTables) {
    this.plan = plan;
    const passNumbers = [...plan.sections.keys()];
    this.defaults = passNumbers.filter((number) => !plan.sections[number]?.on_demand);
    this.writers = sectionsByTexture(plan);
    this.dependencies = passNumbers.map((number) => this.sectionDependencies(number));
  }

  /** The numbers for a section's name; without a name, the default sections. */
  select(name: string | undefined): readonly number[] {
    if (name === undefined) return this.defaults;
    const { sections } = this.plan;
    const number = sections.findIndex((section) => section.name === name);
    if (number >= 0) return [number];
    const names = formatList(sections.map((section) => section.name));
    throw new PlanError(`no section ${JSON.stringify(name)}; this Plan has ${names}`);
  }

  /** These sections and all their dependencies, in run order. */
  requiredSections(numbers: readonly number[]): number[] {
    const found = new Set(numbers);
    for (let number = this.dependencies.length - 1; number >= 0; number--) {
      if (found.has(number)) for (const one of this.dependencies[number] ?? []) found.add(one);
    }
    return [...found].sort((a, b) => a - b);
  }

  /** The section that computes a texture; the first one if no pass writes it. */
  sectionOf(texture: number): number {
    return Math.max(0, ...(this.writers.get(texture) ?? []));
  }

  /** Whether running these sections and their dependencies computes a texture. */
  computes(texture: number, numbers: readonly number[]): boolean {
    const run = this.requiredSections(numbers);
    return run.includes(this.sectionOf(texture)) || !this.writers.has(texture);
  }

  passes(numbers: readonly number[]): Pass[] {
    return this.passNumbers(numbers).flatMap((number) => this.plan.passes[number] ?? []);
  }

  /** The numbers of these sections' passes in the Plan. */
  passNumbers(numbers: readonly number[]): number[] {
    return numbers.flatMap((number) => {
      const { first = 0, count = 0 } = this.plan.sections[number] ?? {};
      return Array.from({ length: count }, (_, k) => first + k);
    });
  }

  namesOf(numbers: readonly number[]): string[] {
    return numbers.map((number) => this.plan.sections[number]?.name ?? "");
  }

  /** The earlier sections that a section reads from. */
  private sectionDependencies(number: number): Set<number> {
    const found = new Set<number>();
    for (const texture of this.passes([number]).flatMap(({ inputs }) => inputs)) {
      const writers = this.writers.get(texture);
      if (writers === undefined || writers.has(number)) continue;
      for (const writer of writers) found.add(writer);
    }
    return found;
  }
}
