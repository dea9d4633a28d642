"""A builder with which gradient rules add ordinary nodes after those of a Graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from nbglcnn.errors import ModelError
from nbglcnn.graph import FORWARD_SECTION, Array, Attribute, Graph, Node, Value, static_data

if TYPE_CHECKING:
    from nbglcnn.ops.operator import KnownValues, Shape

CUSTOM_DOMAIN = "nbglcnn"  # domain of operators that ONNX lacks
FLOAT32 = np.dtype(np.float32)
BOOL = np.dtype(np.bool_)
INT64 = np.dtype(np.int64)


class GradientBuilder:
    """A builder that appends nodes to a Graph and infers the shape of each value immediately.

    The domain of a new node is "nbglcnn" if `is_custom` returns True for its operator, else ONNX's.
    New nodes belong to `section`, and their names start with `prefix`.
    """

    def __init__(
        self,
        graph: Graph,
        infer_shapes: Callable[[KnownValues, Node], Sequence[Shape]],
        is_custom: Callable[[str], bool],
        *,
        section: str = FORWARD_SECTION,
        prefix: str = "gradient",
    ) -> None:
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = dict(graph.values)
        self.gradient_values: set[str] = set()
        self._infer_shapes, self._is_custom = infer_shapes, is_custom
        self._producers = {name: node for node in graph.nodes for name in node.outputs}
        self._section, self._prefix = section, prefix
        self._module: tuple[str, str] = ("", "")
        self._used_names = {node.name for node in graph.nodes} | set(graph.values)
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    # Known facts.

    def shape(self, value: str) -> Shape:
        """The concrete shape of a value."""
        return self.values[value].shape

    def constant_data(self, value: str) -> Array | None:
        """A value's data if it is known at compile time, else None."""
        return self.values[value].data if value else None

    def producer(self, value: str) -> Node | None:
        """The network's node that computes a value; None for an input or a constant."""
        return self._producers.get(value)

    def static_data(self, value: str) -> Array | None:
        """A constant's data if new weights cannot change it, else None."""
        return static_data(self.values, value)

    def needs_gradient(self, value: str) -> bool:
        """Whether the gradient of a value, or of a value that it depends on, is requested.

        A rule may return "" for other inputs, and should if it would otherwise have to add a node.
        """
        return value in self.gradient_values

    # Nodes.

    def add_node(self, op: str, *inputs: str, dtype: np.dtype[np.generic] = FLOAT32,
             **attributes: Attribute) -> str:  # fmt: skip
        """Add a node with one output, and return the output's name."""
        return self.add_multi_output(op, inputs, 1, dtype=dtype, **attributes)[0]

    def add_node_like(
        self, op: str, inputs: Sequence[str], attributes: Mapping[str, Attribute]
    ) -> str:
        """Add a node with one output and with the attributes of another node."""
        return self._add(op, inputs, 1, FLOAT32, attributes)[0]

    def add_multi_output(
        self,
        op: str,
        inputs: Sequence[str],
        output_count: int,
        dtype: np.dtype[np.generic] = FLOAT32,
        **attributes: Attribute,
    ) -> tuple[str, ...]:
        """Add a node with several outputs of one type."""
        return self._add(op, inputs, output_count, dtype, attributes)

    def _add(
        self,
        op: str,
        inputs: Sequence[str],
        output_count: int,
        dtype: np.dtype[np.generic],
        attributes: Mapping[str, Attribute],
    ) -> tuple[str, ...]:
        name = self._unique_name(f"{self._prefix}/{op}")
        names = tuple(name if k == 0 else f"{name}:{k}" for k in range(output_count))
        domain = CUSTOM_DOMAIN if self._is_custom(op) else ""
        node = Node(
            name, op, tuple(inputs), names, MappingProxyType(dict(attributes)),
            domain=domain, section=self._section,
        )  # fmt: skip
        shapes = self._infer_shapes(self, node)
        if len(shapes) < output_count:
            raise ModelError(f"{op} has {len(shapes)} outputs; {output_count} were requested")
        for one, shape in zip(names, shapes, strict=False):
            self.values[one] = Value(one, tuple(int(d) for d in shape), dtype)
        self.nodes.append(node)
        return names

    def _unique_name(self, name: str) -> str:
        number, free = 0, name
        while free in self._used_names:
            number += 1
            free = f"{name}.{number}"
        self._used_names.add(free)
        return free

    def add_constant(self, data: Array) -> str:
        """Add a constant; constants with identical bits are stored once."""
        data = np.asarray(data)
        known = data.dtype.str, data.shape, data.tobytes()
        if known not in self._constants:
            name = self._unique_name(f"{self._prefix}/constant")
            self.values[name] = Value(name, data.shape, data.dtype, data)
            self._constants[known] = name
        return self._constants[known]

    def add_scalar(self, number: float) -> str:
        """Add a float32 scalar constant."""
        return self.add_constant(np.array(number, np.float32))

    def add_int_list(self, *numbers: int) -> str:
        """Add a 1-D integer constant, such as a shape, axes or another setting of an operator."""
        return self.add_constant(np.array(numbers, np.int64))

    def full(self, shape: Shape, number: float) -> str:
        """Add a constant of this shape, filled with one number."""
        return self.add_constant(np.broadcast_to(np.float32(number), shape))

    # Common steps of gradient rules.

    def add(self, a: str, b: str) -> str:
        """A + b, broadcast."""
        return self.add_node("Add", a, b)

    def subtract(self, a: str, b: str) -> str:
        """A − b, broadcast."""
        return self.add_node("Sub", a, b)

    def multiply(self, a: str, b: str) -> str:
        """A · b, broadcast."""
        return self.add_node("Mul", a, b)

    def divide(self, a: str, b: str) -> str:
        """A / b, broadcast."""
        return self.add_node("Div", a, b)

    def scale(self, a: str, factor: float) -> str:
        """A tensor times one number; returns the tensor itself if the number is 1."""
        return a if factor == 1 else self.multiply(a, self.add_scalar(factor))

    def negate(self, a: str) -> str:
        """−a."""
        return self.add_node("Neg", a)

    def reshape(
        self, a: str, shape: Sequence[int], *, dtype: np.dtype[np.generic] = FLOAT32
    ) -> str:
        """Reshape a tensor; returns the tensor itself if it already has the shape."""
        if self.shape(a) == tuple(shape):
            return a
        return self.add_node("Reshape", a, self.add_int_list(*shape), dtype=dtype, allowzero=1)

    def transpose(self, a: str, permutation: Sequence[int]) -> str:
        """Permute axes; returns the tensor itself for the identity permutation."""
        if tuple(permutation) == tuple(range(len(permutation))):
            return a
        return self.add_node("Transpose", a, perm=tuple(permutation))

    def expand(self, a: str, shape: Sequence[int]) -> str:
        """Broadcast a tensor to a shape; returns the tensor itself if it already has the shape."""
        if self.shape(a) == tuple(shape):
            return a
        return self.add_node("Expand", a, self.add_int_list(*shape))

    def sum(self, a: str, axes: Sequence[int], *, keepdims: bool = True) -> str:
        """The sum along some axes; returns the tensor itself if there are none."""
        if not axes:
            return a
        return self.add_node("ReduceSum", a, self.add_int_list(*axes), keepdims=int(keepdims))

    def sum_to_channels(self, a: str) -> str:
        """The sum over all axes except the channel axis: (channels,)."""
        axes = [axis for axis in range(len(self.shape(a))) if axis != 1]
        return self.sum(a, axes, keepdims=False)

    def sum_to(self, a: str, shape: Shape) -> str:
        """Sum over the axes that broadcasting from `shape` repeated: the adjoint of Expand."""
        own = self.shape(a)
        if own == shape:
            return a
        missing = len(own) - len(shape)
        padded = (1,) * missing + shape
        axes = [k for k, (n, m) in enumerate(zip(own, padded, strict=True)) if n != m]
        return self.reshape(self.sum(a, axes), shape)

    def sum_tensors(self, gradients: Sequence[str]) -> str:
        """The sum of tensors with equal shapes."""
        return gradients[0] if len(gradients) == 1 else self.add_node("Sum", *gradients)

    def apply_glsl(self, glsl: str, *tensors: str, **numbers: float) -> str:
        """Apply a function without an operator, element by element with broadcasting.

        `glsl` is the body of `vec4 combine(vec4 a, vec4 b, …)` with up to four tensors. It may call
        select() and reads each of `numbers` as u_<name>.
        """
        return self.add_node(
            "Elementwise",
            *tensors,
            glsl=glsl,
            names=tuple(numbers),
            numbers=tuple(numbers.values()),
        )

    def numel(self, value: str) -> int:
        """The number of elements."""
        return math.prod(self.shape(value))
