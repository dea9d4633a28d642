// Reads a header of a Plan a line, and writes what the page says of each: for tests/plan/test_constraints.py.
import { readFileSync } from "node:fs";
import { firstProblem } from "../src/plan/check_plan.ts";
import { parseHeader } from "../src/plan/plan_file.ts";

for (const line of readFileSync(0, "utf8").trimEnd().split("\n")) {
  console.log(JSON.stringify(firstProblem(parseHeader(JSON.parse(line))) ?? null));
}
