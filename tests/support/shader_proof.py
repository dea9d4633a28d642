"""Proves from the Plan that shader passes computed a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from nbglcnn.plan.schema import Plan

# Inputs of which an operator uses only the shape or type: (operator, position).
SHAPE_ONLY_INPUTS = {("Shape", 0), ("Size", 0), ("CastLike", 1)}
# Inputs that an output doesn't depend on: (operator, output) → positions. Statistics of the input
# don't depend on scale and bias, and a training batch doesn't depend on the running statistics.
UNUSED_INPUTS_BY_OUTPUT = {
    ("LayerNormalization", 1): {1, 2},
    ("LayerNormalization", 2): {1, 2},
    ("BatchNormalization in training", 0): {3, 4},
    ("BatchNormalization in training", 1): {1, 2, 4},
    ("BatchNormalization in training", 2): {1, 2, 3},
}


def input_dependencies(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]
) -> dict[str, set[str]]:
    """For each output of the model, the run-time inputs that its values depend on."""
    known: dict[str, set[str]] = {name: {name} for name in inputs}
    for node in model.graph.node:
        training = any(a.name == "training_mode" and a.i for a in node.attribute)
        kind = node.op_type + (" in training" if training else "")
        for number, name in enumerate(node.output):
            found: set[str] = set()
            # The mask of a Dropout in inference doesn't depend on its input.
            if node.op_type != "Dropout" or not number:
                for position, source in enumerate(node.input):
                    if (node.op_type, position) in SHAPE_ONLY_INPUTS:
                        continue
                    if position not in UNUSED_INPUTS_BY_OUTPUT.get((kind, number), ()):
                        found |= known.get(source, set())
            known[name] = found
    return {output.name: known.get(output.name, set()) for output in model.graph.output}


def trace_passes(plan: Plan, key: str) -> tuple[int, set[str]]:
    """Count the passes that lead to an output, and collect the Plan inputs they start from."""
    [value] = [v for v in plan.values if v.key == key and v.kind == "output"]
    wanted, count = {value.texture}, 0
    # Textures are reused: the relevant pass is the last one that writes a texture before it is
    # read.
    for step in reversed(plan.header.passes):
        if step.output in wanted:
            wanted.discard(step.output)
            wanted.update(step.inputs)
            count += 1
    return count, {i.key for i in plan.header.inputs if i.pack_pass.output in wanted}


def explain_missing_passes(
    model: onnx.ModelProto,
    plan: Plan,
    inputs: Mapping[str, np.ndarray],
    expected: Sequence[np.ndarray],
) -> str | None:
    """Explain why passes can't have computed the model's outputs; None if they have.

    `inputs` are the run's inputs, without bound ones. An empty result, or one of empty inputs,
    needs no pass; neither does a result that is an input with another name or shape.
    """
    names = list(dict.fromkeys(output.name for output in model.graph.output))
    keys = dict(zip(names, plan.header.outputs, strict=True))
    needed = input_dependencies(model, inputs)
    for output, array in zip(model.graph.output, expected, strict=True):
        wanted = {name for name in needed[output.name] if inputs[name].size}
        if not array.size or not wanted:
            continue
        count, found = trace_passes(plan, keys[output.name])
        if wanted - found:
            return f"{output.name} depends on {sorted(wanted - found)}, which no pass reads"
        if count == 0 and not _is_reshaped_copy(array, [inputs[name] for name in wanted]):
            return f"{output.name} is no renaming, and no pass draws it"
    return None


def _is_reshaped_copy(array: np.ndarray, sources: Sequence[np.ndarray]) -> bool:
    return any(np.array_equal(array.ravel(), source.ravel()) for source in sources)
