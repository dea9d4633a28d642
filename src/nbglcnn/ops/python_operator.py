"""The record of a layer that the model's own framework computes: no passes, values are uploaded."""

from __future__ import annotations

from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder
from nbglcnn.graph import PYTHON_OP, Node
from nbglcnn.ops.operator import KnownValues, Operator, Shape
from nbglcnn.ops.receptive_field import full_fields


def _example_output_shapes(facts: KnownValues, node: Node) -> Sequence[Shape]:
    """The output shapes for the example input."""
    return [facts.shape(name) if name else () for name in node.outputs]


def _lower_nothing(_b: Builder, _node: Node) -> None:
    """Do nothing: the outputs are uploaded before the first pass, like inputs (lower.py)."""


PYTHON_OPERATOR = Operator(
    PYTHON_OP, "Computed by PyTorch or ONNX Runtime; the page receives the result.",
    _example_output_shapes, _lower_nothing, accepts_empty=True,
    role="head", receptive_field=full_fields, explanation="nothing",
    formula=None, bounds=None, caption=None, shape_inputs=(),
    gradient="it is computed in Python",
)  # fmt: skip
