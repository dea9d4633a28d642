"""Shape inference by the operators' own rules, and detection of nodes that cannot run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.graph import Graph, Node, Value, attribute_values
from nbglcnn.ops import CUSTOM_OPERATORS, OPERATOR_RECORDS, OPERATORS
from nbglcnn.ops.gradient_builder import CUSTOM_DOMAIN

MAX_ELEMENTS = 2**28  # elements of one value: 1 GiB of float32
MAX_REASON_LENGTH = 500  # characters of a reason, whose shapes and attributes may be very long


def unsupported_message(name: str) -> str | None:
    """The error message for an operator without a record; None if the operator has a record."""
    if name in OPERATORS:
        return None
    count = len(OPERATORS)
    return f"the operator {name} is not among the {count} that nbglcnn supports (docs/operators.md)"


def unsupported_reason(graph: Graph, node: Node) -> str | None:
    """Return the reason why a node cannot run, as text to follow its name, or None if it can."""
    if node.python_fallback is not None:
        return None
    known = {"": OPERATORS, "ai.onnx": OPERATORS, CUSTOM_DOMAIN: CUSTOM_OPERATORS}
    operator = known.get(node.domain, {}).get(node.op)
    if operator is None:
        name = f"{node.domain}.{node.op}" if node.domain else node.op
        if _is_random(node):
            return (
                f"{name} samples random numbers; sample them outside the model and pass them as "
                "an input"
            )
        return unsupported_message(name)
    for name, value in node.attributes.items():
        allowed = operator.attributes.get(name)
        if allowed is None:
            return f"{node.op}'s attribute {name}={value!r} is not supported"
        if any(isinstance(v, float) and not math.isfinite(v) for v in attribute_values(value)):
            return f"{node.op}'s attribute {name}={value!r} is not a finite number"
        if not allowed(value):
            found = f"{node.op}'s attribute {name}={value!r}"
            return f"{found} is not supported; supported: {allowed.__doc__}"
    try:
        problem = operator.check(graph, node)
    except (AssertionError, IndexError, ValueError, ZeroDivisionError, KeyError, TypeError):
        return f"{node.op} has inputs or attributes that don't fit together"
    return f"{node.op}: {problem}" if problem else None


def _is_random(node: Node) -> bool:
    return node.op.startswith(("Random", "Bernoulli", "Multinomial"))


def python_fallback_nodes(graph: Graph) -> dict[str, str]:
    """The nodes that cannot run and the reason for each, without the nodes that sample randomly."""
    _, problems = infer_known_shapes(graph)
    drawn = {node.name for node in graph.nodes if _is_random(node)}
    return {name: reason for name, reason in problems.items() if name not in drawn}


def layer_name(node: Node) -> str:
    """The name under which users know the layer that a node belongs to."""
    return node.module or node.name or (node.outputs[0] if node.outputs else node.op)


def infer_shapes(graph: Graph) -> Graph:
    """Return the graph with inferred shapes, because some exporters declare wrong shapes.

    Raises UnsupportedOperator at the first node that cannot run.
    """
    known, problems = infer_known_shapes(graph)
    for node in graph.nodes:
        if node.name in problems:
            kind = f" ({node.module_type})" if node.module_type else ""
            raise UnsupportedOperator(f"{layer_name(node)}{kind}: {problems[node.name]}")
    return known


def infer_known_shapes(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """Return the graph with inferred shapes where possible, and why each other node cannot run.

    The output shapes of a node that cannot run are taken from its declaration.
    """
    values: dict[str, Value] = dict(graph.values)
    known = replace(graph, values=values)
    problems: dict[str, str] = {}
    for node in graph.nodes:
        problem = unsupported_reason(known, node)
        shapes: Sequence[tuple[int, ...]] = ()
        if problem is None:
            shapes = OPERATOR_RECORDS[node.op].shapes(known, node)
            if not OPERATOR_RECORDS[node.op].accepts_empty and _has_empty_input(
                known, node, shapes
            ):
                problem = f"{node.op}: an input without elements"
            if any(d < 0 for shape in shapes for d in shape) or any(
                math.prod(shape) > MAX_ELEMENTS for shape in shapes
            ):
                problem = f"{node.op}: its output would have the shape {shapes[0]}"
        if problem is not None:
            problems[node.name] = (
                problem if len(problem) <= MAX_REASON_LENGTH else problem[:MAX_REASON_LENGTH] + "…"
            )
            continue
        for name, shape in zip(node.outputs, shapes, strict=False):
            if name:
                declared = values.get(name)
                dtype = declared.dtype if declared else np.dtype(np.float32)
                values[name] = Value(name, tuple(int(d) for d in shape), dtype)
    return known, problems


def _has_empty_input(graph: Graph, node: Node, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether a node computes a non-empty output from a run-time input without elements."""
    values = (graph.values[name] for name in node.inputs if name)
    empty = any(0 in value.shape and not value.is_constant for value in values)
    return empty and any(math.prod(shape) for shape in shapes)
