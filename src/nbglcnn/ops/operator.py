"""The record of one operator: everything that nbglcnn knows about it, in one place."""

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
    """The facts about values during shape inference; implemented by Graph and Builder."""

    def shape(self, value: str) -> Shape:
        """The concrete shape of a value."""

    def constant_data(self, value: str) -> Array | None:
        """The data of a value if it is currently known, else None."""

    def static_data(self, value: str) -> Array | None:
        """A constant's data if new weights cannot change it, else None.

        Use it for decisions that depend on the numbers themselves.
        """


AttributeCheck = Callable[[Attribute], bool]
# Maps a node and the gradients of its outputs ("" if there is none) to the gradients of its inputs
# ("" for an input without a gradient, or whose gradient isn't requested).
GradientRule = Callable[["GradientBuilder", Node, Sequence[str]], Sequence[str]]


def any_value(_: Attribute) -> bool:
    """An attribute that is supported with any value."""
    return True


def one_of(*values: Attribute) -> AttributeCheck:
    """An attribute that is supported only with these values."""

    def allowed(value: Attribute) -> bool:
        return value in values

    allowed.__doc__ = " or ".join(repr(v) for v in values)
    return allowed


def positive_int(value: Attribute) -> bool:
    """Whether an attribute is an integer of at least 1."""
    return isinstance(value, int) and value >= 1


NO_FUNCTION = GlslFunction("")


def no_problem(_facts: KnownValues, _node: Node) -> str | None:
    """The check of operators whose attribute checks are sufficient."""
    return None


def no_macs(_facts: KnownValues, _node: Node) -> int:
    """The MAC count of operators whose MACs are negligible."""
    return 0


@dataclass(frozen=True, slots=True)
class Operator:
    """An ONNX operator.

    `shapes` returns the outputs' shapes. `lower` adds the passes. `attributes` are the supported
    attributes; any other is rejected. `check` returns the reason why a node cannot run, or None.
    `macs` counts MACs. `glsl_function` is the GLSL `vec4 activate(vec4 v)` of a unary operator, and
    `uniforms` fills its slots, so that it can also run after a convolution in the same pass.
    `accepts_empty`: the operator can process inputs without elements. `window` returns how the
    operator slides over its first input, for explanations. `index_map`, for an operator that moves
    elements, maps each element of an output to an element of the first input (None if unknown).
    `reduction_view`, for a reduction, is its first input as one map per channel of all reduced
    elements. `doc` is one sentence for users.

    Every record must set the following fields, so that no other file lists operators. `role` is its
    role among neighbouring layers. `receptive_field` determines the input positions on which an
    output position can depend. `explanation` is the kind of explanation, or a function of the node.
    `formula` is the function of one number that a "pointwise" or "slope" explanation computes and
    shows, or the function of the operands a, b, c, … of an "elementwise" explanation (None: the
    kind is sufficient). `bounds` are the values at which it saturates (None: none). `caption` is
    the name in captions (None: the operator's name). `shape_inputs` are the inputs that are shapes,
    axes or other settings rather than numbers to compute with. `gradient` is the gradient rule, or
    a text that explains why there is no gradient.
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
        """The values at which a node saturates; None for an unbounded end."""
        found = self.bounds(facts, node) if callable(self.bounds) else self.bounds
        return found or (None, None)


def zero_gradient(_builder: GradientBuilder, node: Node, _dy: Sequence[str]) -> Sequence[str]:
    """The gradient of piecewise constant operators: 0, as in PyTorch."""
    return [""] * len(node.inputs)


def attribute_formula(formula: str, **defaults: float) -> Callable[[KnownValues, Node], str]:
    """Make a rule that formats a formula, with a node's numeric attributes for their {names}."""

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
    """The integers of an input that must be a known constant; None if omitted or unknown."""
    if position >= len(node.inputs) or not node.inputs[position]:
        return None
    data = facts.constant_data(node.inputs[position])
    return None if data is None else tuple(int(v) for v in data.reshape(-1))


def has_input(node: Node, position: int) -> bool:
    """Whether an optional input is present."""
    return position < len(node.inputs) and bool(node.inputs[position])


def same_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    """Shape rule: the shape of the first input."""
    return [facts.shape(node.inputs[0])]


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Normalize axes: negative axes count from the end."""
    return tuple(axis + rank if axis < 0 else axis for axis in axes)


def axis_of(facts: KnownValues, node: Node, default: int) -> int:
    """The attribute `axis`, normalized to a non-negative axis of the first input."""
    (axis,) = normalize_axes((int_attr(node, "axis", default),), len(facts.shape(node.inputs[0])))
    return axis


def numel(shape: Shape) -> int:
    """The number of elements."""
    return math.prod(shape)
