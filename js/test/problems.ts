// Reads a header of a Plan a line, and writes what the page says of each: for tests/plan/test_constraints.py.
import { readFileSync } from "node:fs";
import { problemOf } from "../src/plan/checks.ts";
import { parseHeader } from "../src/plan/format.ts";

for (const line of readFileSync(0, "utf8").trimEnd().split("\n")) {
  console.log(JSON.stringify(problemOf(parseHeader(JSON.parse(line))) ?? null));
}
