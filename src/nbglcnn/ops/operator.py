"""The record of one operator: everything nbglcnn knows about it, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Protocol

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.uniform_slots import GlslFunction
from nbglcnn.graph import Array, Attribute, Node
from nbglcnn.ops.receptive_field import ReceptiveFieldRule
from nbglcnn.plan.schema import Bounds, ExplanationKind, IndexMap, Role

if TYPE_CHECKING:
    from nbglcnn.ops.gradient_builder import GradientBuilder
    from nbglcnn.ops.window import SlidingWindow

Shape = tuple[int, ...]


class KnownValues(Protocol):
    """What is known of values while shapes are inferred: by a Graph or a Builder."""

    def shape(self, value: str) -> Shape:
        """The concrete shape of a value."""

    def constant(self, value: str) -> Array | None:
        """The data of a value that is known now, else None."""

    def static_data(self, value: str) -> Array | None:
        """A constant's data when no new weights can change its numbers, else None.

        A decision that depends on the numbers themselves needs these.
        """


AttributeCheck = Callable[[Attribute], bool]
# Of a node and the gradients with respect to its outputs ("" where there is none) those with
# respect to its inputs ("" for an input that has none, or whose gradient nobody wants).
GradientRule = Callable[["GradientBuilder", Node, Sequence[str]], Sequence[str]]


def any_value(_: Attribute) -> bool:
    """An attribute that is supported whatever its value."""
    return True


def one_of(*values: Attribute) -> AttributeCheck:
    """An attribute that is supported with these values alone."""

    def allowed(value: Attribute) -> bool:
        return value in values

    allowed.__doc__ = " or ".join(repr(v) for v in values)
    return allowed


def positive_int(value: Attribute) -> bool:
    """A number of at least 1."""
    return isinstance(value, int) and value >= 1


NO_FUNCTION = GlslFunction("")


def no_problem(_facts: KnownValues, _node: Node) -> str | None:
    """The check of operators whose attributes say it all."""
    return None


def no_macs(_facts: KnownValues, _node: Node) -> int:
    """Operators without MACs worth counting."""
    return 0


@dataclass(frozen=True, slots=True)
class Operator:
    """An ONNX operator.

    `shapes` gives the outputs' shapes; `lower` draws it; `attributes` are the supported ones (any
    other is refused); `check` says why a node cannot run, or None; `macs` counts MACs;
    `glsl_function` is the GLSL `vec4 activate(vec4 v)` of a unary operator and `uniforms` fills its
    slots, so that it can also run behind a convolution; `accepts_empty`: it makes something of
    inputs without elements; `window` says how it slides over its first input, for explaining it;
    `index_map`, of one that moves elements, which of its first input's each of an output is (None
    where that isn't known); `reduction_view`, of a reduction, its first input as one map of all
    that is joined for each channel; `doc` is one sentence for people.

    What every record says, so that no other file lists operators: `role` among its neighbours;
    `receptive_field`, which places of its inputs a place of an output can depend on; `explanation`,
    the kind of its explanation (of a node, where that depends on one); `formula`, the function of
    one number that a "pointwise" or "slope" explanation computes and shows, or that of the operands
    a, b, c, … of an "elementwise" one (None: its kind says it all); `bounds`, the ends at which it
    saturates (None: at none); `caption`, what captions call it (None: its name); `shape_inputs`,
    the inputs that are shapes, axes or other settings, no numbers that it computes with;
    `gradient`, its rule, or in words why it has none.
    """

    name: str
    doc: str
    shapes: Callable[[KnownValues, Node], Sequence[Shape]]
    lower: Callable[[Builder, Node], None]
    attributes: Mapping[str, AttributeCheck] = field(default_factory=dict)
    check: Callable[[KnownValues, Node], str | None] = no_problem
    macs: Callable[[KnownValues, Node], int] = no_macs
    glsl_function: GlslFunction = NO_FUNCTION
    uniforms: Callable[[KnownValues, Node], Mapping[str, float]] | None = None
    accepts_empty: bool = False
    window: Callable[[KnownValues, Node], SlidingWindow] | None = None
    index_map: Callable[[KnownValues, Node, int], IndexMap | None] | None = None
    reduction_view: Callable[[KnownValues, Node], tuple[Shape, IndexMap] | None] | None = None
    _: KW_ONLY
    role: Role
    receptive_field: ReceptiveFieldRule
    explanation: ExplanationKind | Callable[[KnownValues, Node], ExplanationKind]
    formula: Callable[[KnownValues, Node], str] | None
    bounds: Bounds | Callable[[KnownValues, Node], Bounds] | None
    caption: str | None
    shape_inputs: tuple[int, ...]
    gradient: GradientRule | str

    def explanation_kind(self, facts: KnownValues, node: Node) -> ExplanationKind:
        """The kind of a node's explanation."""
        return self.explanation(facts, node) if callable(self.explanation) else self.explanation

    def output_bounds(self, facts: KnownValues, node: Node) -> Bounds:
        """The ends at which a node saturates; None for an open one."""
        found = self.bounds(facts, node) if callable(self.bounds) else self.bounds
        return found or (None, None)


def zero_gradient(_rules: GradientBuilder, node: Node, _dy: Sequence[str]) -> Sequence[str]:
    """The gradient of operators that are flat wherever they have a slope: 0, as in PyTorch."""
    return [""] * len(node.inputs)


def attribute_formula(formula: str, **defaults: float) -> Callable[[KnownValues, Node], str]:
    """A formula with the numbers of a node's attributes for {their names}."""

    def of(_facts: KnownValues, node: Node) -> str:
        return formula.format(**{k: repr(float_attr(node, k, v)) for k, v in defaults.items()})

    return of


# Attributes with ONNX's defaults.


def int_attr(node: Node, name: str, default: int) -> int:
    """An integer attribute."""
    value = node.attributes.get(name, default)
    assert isinstance(value, int), (node.name, name)
    return value


def float_attr(node: Node, name: str, default: float) -> float:
    """A float attribute."""
    value = node.attributes.get(name, default)
    assert isinstance(value, (int, float)), (node.name, name)
    return float(value)


def string_attr(node: Node, name: str, default: str) -> str:
    """A string attribute."""
    value = node.attributes.get(name, default)
    assert isinstance(value, str), (node.name, name)
    return value


def int_list_attr(node: Node, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """An attribute of several integers."""
    value = node.attributes.get(name, tuple(default))
    assert isinstance(value, tuple), (node.name, name)
    return tuple(int(v) for v in value)


def constant_ints(facts: KnownValues, node: Node, position: int) -> tuple[int, ...] | None:
    """An input of integers that must be known now; None when omitted or not known."""
    if position >= len(node.inputs) or not node.inputs[position]:
        return None
    data = facts.constant(node.inputs[position])
    return None if data is None else tuple(int(v) for v in data.reshape(-1))


def has_input(node: Node, position: int) -> bool:
    """Whether an optional input is given."""
    return position < len(node.inputs) and bool(node.inputs[position])


def same_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    """Shape rule: as the first input."""
    return [facts.shape(node.inputs[0])]


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, negative ones from the end."""
    return tuple(axis + rank if axis < 0 else axis for axis in axes)


def axis_of(facts: KnownValues, node: Node, default: int) -> int:
    """The attribute `axis` of an operator, as an axis of its first input counted from the front."""
    (axis,) = normalize_axes((int_attr(node, "axis", default),), len(facts.shape(node.inputs[0])))
    return axis


def numel(shape: Shape) -> int:
    """Number of elements."""
    return math.prod(shape)
