// The interface that a runner needs of edits, and its implementation without edits: runtime.js runs networks without
// the code of edits.

import { splitKey } from "../plan/derived_values.ts";
import type { Pass, PlanHeader, Value } from "../plan/schema.ts";
import type { Sections } from "../plan/sections.ts";
import type { PlanObjects } from "./plan_objects.ts";
import type { SessionEdits } from "./session_edits.ts";

export type RunEdits = Pick<
  SessionEdits,
  | "hasEdits"
  | "finalPasses"
  | "baseValue"
  | "changeCount"
  | "dispose"
  | "findValue"
  | "applyNext"
  | "markUneditedRun"
  | "detachResources"
  | "passes"
  | "restore"
  | "values"
  | "uneditedPasses"
>;

/** The edits of an unedited network. */
export class NoEdits implements RunEdits {
  readonly hasEdits = false;
  readonly finalPasses: readonly Pass[] = [];
  readonly changeCount = 0;
  readonly values: ReadonlyMap<string, Value>;
  private readonly sections: Sections;

  constructor(plan: PlanHeader, sections: Sections) {
    this.sections = sections;
    this.values = new Map(plan.values.map((value) => [value.key, value]));
  }

  findValue(key: string): Value | undefined {
    const [what, own] = splitKey(key);
    return what === "difference" || what === "preview" ? undefined : this.values.get(own);
  }

  baseValue(value: Value): Value {
    return value;
  }

  passes(sections: readonly number[]): readonly Pass[] {
    return this.sections.passes(sections);
  }

  uneditedPasses(): readonly Pass[] {
    return [];
  }

  async restore(_: PlanObjects): Promise<void> {}
  applyNext(): void {}
  markUneditedRun(): void {}
  detachResources(): void {}
  dispose(): void {}
}

export type SessionEditsClass = new (
  ...args: ConstructorParameters<typeof SessionEdits>
) => SessionEdits;
