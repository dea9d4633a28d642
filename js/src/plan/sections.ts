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
  readonly defaultSections: readonly number[];
  private readonly plan: SectionTables;
  private readonly sectionsByTexture: ReadonlyMap<number, ReadonlySet<number>>;
  private readonly dependencies: readonly ReadonlySet<number>[];

  constructor(plan: SectionTables) {
    this.plan = plan;
    const passIndices = [...plan.sections.keys()];
    this.defaultSections = passIndices.filter((number) => !plan.sections[number]?.on_demand);
    this.sectionsByTexture = sectionsByTexture(plan);
    this.dependencies = passIndices.map((number) => this.sectionDependencies(number));
  }

  /** The numbers for a section's name; without a name, the default sections. */
  select(name: string | undefined): readonly number[] {
    if (name === undefined) return this.defaultSections;
    const { sections } = this.plan;
    const number = sections.findIndex((section) => section.name === name);
    if (number >= 0) return [number];
    const names = formatList(sections.map((section) => section.name));
    throw new PlanError(`no section ${JSON.stringify(name)}; this Plan has ${names}`);
  }

  /** These sections and all their dependencies, in run order. */
  requiredSections(sectionIndices: readonly number[]): number[] {
    const found = new Set(sectionIndices);
    for (let number = this.dependencies.length - 1; number >= 0; number--) {
      if (found.has(number)) for (const one of this.dependencies[number] ?? []) found.add(one);
    }
    return [...found].sort((a, b) => a - b);
  }

  /** The section that computes a texture; the first one if no pass writes it. */
  sectionOf(texture: number): number {
    return Math.max(0, ...(this.sectionsByTexture.get(texture) ?? []));
  }

  /** Whether running these sections and their dependencies computes a texture. */
  computesTexture(texture: number, sectionIndices: readonly number[]): boolean {
    const run = this.requiredSections(sectionIndices);
    return run.includes(this.sectionOf(texture)) || !this.sectionsByTexture.has(texture);
  }

  passes(sectionIndices: readonly number[]): Pass[] {
    return this.passIndices(sectionIndices).flatMap((number) => this.plan.passes[number] ?? []);
  }

  /** The numbers of these sections' passes in the Plan. */
  passIndices(sectionIndices: readonly number[]): number[] {
    return sectionIndices.flatMap((number) => {
      const { first = 0, count = 0 } = this.plan.sections[number] ?? {};
      return Array.from({ length: count }, (_, k) => first + k);
    });
  }

  namesOf(sectionIndices: readonly number[]): string[] {
    return sectionIndices.map((number) => this.plan.sections[number]?.name ?? "");
  }

  /** The earlier sections that a section reads from. */
  private sectionDependencies(sectionIndex: number): Set<number> {
    const found = new Set<number>();
    for (const texture of this.passes([sectionIndex]).flatMap(({ inputs }) => inputs)) {
      const writers = this.sectionsByTexture.get(texture);
      if (writers === undefined || writers.has(sectionIndex)) continue;
      for (const writer of writers) found.add(writer);
    }
    return found;
  }
}
