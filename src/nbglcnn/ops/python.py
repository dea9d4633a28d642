"""What has no passes: a layer that the model's own framework computes, whose value is uploaded."""

from __future__ import annotations

from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder
from nbglcnn.graph import OWN, Node
from nbglcnn.ops.operator import Facts, Operator, Shape
from nbglcnn.ops.reach import everything


def _declared(facts: Facts, node: Node) -> Sequence[Shape]:
    """What it gave for the example input."""
    return [facts.shape(name) if name else () for name in node.outputs]


def _draw_nothing(_b: Builder, _node: Node) -> None:
    """Its outputs are there before anything is drawn, as the network's inputs are (lower.py)."""


RECORD = Operator(
    OWN, "Computed by PyTorch or ONNX Runtime, and sent as it is.",
    _declared, _draw_nothing, empty=True,
    role="head", reach=everything, explains="nothing",
    formula=None, bounds=None, short=None, shape_inputs=(),
    gradient="it is computed in Python",
)  # fmt: skip
