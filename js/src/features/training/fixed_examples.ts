// Fixed examples whose predictions are shown while a network trains.
import type { PlanHeader } from "../../plan/schema.ts";
import { type ColumnRows, makeBatch } from "./batches.ts";
import type { TrainingConfig } from "./records.ts";
import type { FixedExampleData } from "./state.ts";

const MAX_EXAMPLES = 6;

export interface FixedExamples {
  /** The examples in the form that views use. */
  readonly examples: FixedExampleData;
  /** Their inputs for the Plan section "evaluate". */
  readonly inputs: ReadonlyMap<string, Float32Array>;
  /** Number of output elements that belong to the examples. */
  readonly outputLength: number;
}

/**
 * Select examples from the held-out set, or from the training set if there is none. Null if the model's loss is its own
 * output.
 */
export function selectFixedExamples(
  plan: PlanHeader,
  config: TrainingConfig,
  trainRows: readonly ColumnRows[],
  heldOutRows: readonly ColumnRows[],
): FixedExamples | null {
  const isHeldOut = heldOutRows.length > 0;
  const own = isHeldOut ? heldOutRows : trainRows;
  const first = own[0];
  const output = plan.values.find(({ key }) => key === config.prediction_key);
  const target = own.find(({ column }) => column.key === "target");
  if (first === undefined || output === undefined || output.shape.length === 0) return null;
  const all = isHeldOut ? config.held_out_count : config.example_count;
  const wanted = Math.min(MAX_EXAMPLES, config.batch_size, all, output.shape[0] ?? 1);
  const chosen =
    config.has_accuracy && target?.rowSize === 1
      ? distinctClassExamples(target, all, wanted)
      : undefined;
  const examples = chosen ?? Array.from({ length: wanted }, (_, k) => k);
  const { inputs } = makeBatch(own, examples, config.batch_size, config.held_out_inputs);
  const each = output.shape.slice(1).reduce((product, size) => product * size, 1);
  return {
    examples: {
      isHeldOut,
      count: examples.length,
      inputs: gatherRows(first, examples),
      inputShape: first.column.shape,
      targets: target === undefined ? new Float32Array() : gatherRows(target, examples),
      targetShape: target?.column.shape ?? [],
      outputShape: output.shape.slice(1),
    },
    inputs,
    outputLength: each * examples.length,
  };
}

/** The first example of each class, then the first of the remaining ones. */
function distinctClassExamples(
  { data }: ColumnRows,
  exampleCount: number,
  wantedCount: number,
): number[] {
  const found: number[] = [];
  const seen = new Set<number>();
  for (let k = 0; k < exampleCount && found.length < wantedCount; k++) {
    const label = data[k] ?? 0;
    if (!seen.has(label)) found.push(k);
    seen.add(label);
  }
  for (let k = 0; k < exampleCount && found.length < wantedCount; k++)
    if (!found.includes(k)) found.push(k);
  return found.sort((a, b) => a - b);
}

function gatherRows(
  { data, rowSize, column }: ColumnRows,
  examples: readonly number[],
): Float32Array {
  const found = new Float32Array(rowSize * examples.length);
  for (const [k, example] of examples.entries()) {
    for (let at = 0; at < rowSize; at++)
      found[k * rowSize + at] = (data[example * rowSize + at] ?? 0) * column.scale;
  }
  return found;
}
