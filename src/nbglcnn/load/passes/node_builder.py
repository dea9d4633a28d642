"""A builder for the nodes that replace another node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nbglcnn.graph import Attribute, Node
from nbglcnn.load.draft import FoldState


@dataclass(slots=True)
class NodeBuilder:
    """Collects the nodes that replace a node, in order; calling the builder adds one."""

    node: Node
    state: FoldState
    nodes: list[Node] = field(default_factory=list)

    def __call__(self, op: str, *inputs: str, to: str = "", **attributes: Attribute) -> str:
        """Add an operator; return the name of its output (`to`, if set)."""
        name = to or f"{self.node.outputs[0]}.{op.lower()}{len(self.nodes)}"
        step = replace(self.node, op=op, inputs=inputs, outputs=(name,), attributes=attributes)
        self.nodes.append(step)
        return name

    def constant(self, data: Any, dtype: Any = np.int64) -> str:
        """Add a constant; return its name."""
        name = f"{self.node.outputs[0]}.constant{len(self.nodes)}"
        return self.state.add_constant(name, np.array(data, dtype))

    def reshape(self, value: str, shape: Sequence[int], output_name: str = "") -> str:
        """Reshape a value; return the name of the result."""
        return self("Reshape", value, self.constant(shape), to=output_name)

    def cast(self, value: str, onnx_type: int, output_name: str = "") -> str:
        """Cast a value to the ONNX element type `onnx_type`; return the name of the result."""
        name = output_name or f"{self.node.outputs[0]}.cast{len(self.nodes)}"
        attributes: dict[str, Attribute] = {"to": onnx_type}
        step = replace(
            self.node, op="Cast", inputs=(value,), outputs=(name,), attributes=attributes
        )
        self.nodes.append(step)
        return name
