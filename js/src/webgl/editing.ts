// What a runner asks of its edits, and what it has without any: runtime.js runs networks without the code of edits.

import { splitKey } from "../plan/derived_values.ts";
import type { Pass, PlanHeader, Value } from "../plan/schema.ts";
import type { Sections } from "../plan/sections.ts";
import type { Edits } from "./edits.ts";
import type { PlanObjects } from "./objects.ts";

export type Editing = Pick<
  Edits,
  | "any"
  | "aside"
  | "base"
  | "changes"
  | "dispose"
  | "find"
  | "flush"
  | "hasKept"
  | "lose"
  | "passes"
  | "restore"
  | "values"
  | "without"
>;

/** A network that nobody edits. */
export class Unedited implements Editing {
  readonly any = false;
  readonly aside: readonly Pass[] = [];
  readonly changes = 0;
  readonly values: ReadonlyMap<string, Value>;
  private readonly sections: Sections;

  constructor(plan: PlanHeader, sections: Sections) {
    this.sections = sections;
    this.values = new Map(plan.values.map((value) => [value.key, value]));
  }

  find(key: string): Value | undefined {
    const [what, own] = splitKey(key);
    return what === "difference" || what === "preview" ? undefined : this.values.get(own);
  }

  base(value: Value): Value {
    return value;
  }

  passes(sections: readonly number[]): readonly Pass[] {
    return this.sections.passes(sections);
  }

  without(): readonly Pass[] {
    return [];
  }

  async restore(_: PlanObjects): Promise<void> {}
  flush(): void {}
  hasKept(): void {}
  lose(): void {}
  dispose(): void {}
}

export type MakeEdits = new (...given: ConstructorParameters<typeof Edits>) => Edits;
