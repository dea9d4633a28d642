// Current values of parameters and gradients, updated while a view displays them.
import { useEffect, useState } from "preact/hooks";
import { useViews } from "../../../views/context.ts";

interface WatchedTensors {
  readonly requestKey: string;
  readonly arrays: ReadonlyMap<string, Float32Array>;
}

/** The arrays by their keys; empty until they arrive, or if no training runs in this page. */
export function useWatchedTensors(keys: readonly string[]): ReadonlyMap<string, Float32Array> {
  const actions = useViews().state.trainingActions.value;
  const [given, setGiven] = useState<WatchedTensors | null>(null);
  const requestKey = keys.join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the same keys are no others
  useEffect(() => {
    if (actions === null || keys.length === 0) return;
    return actions.watch(keys, (arrays) =>
      setGiven({
        requestKey,
        arrays: new Map(keys.map((key, k) => [key, arrays[k] ?? new Float32Array()])),
      }),
    );
  }, [actions, requestKey]);
  return given?.requestKey === requestKey ? given.arrays : NO_TENSORS;
}

const NO_TENSORS: ReadonlyMap<string, Float32Array> = new Map();
