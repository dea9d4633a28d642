"""The mutable graph during import: importers fill it, `fold.fold_draft` folds constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbglcnn.errors import ModelError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Node, Value
from nbglcnn.load.size_limits import quote_name

OPSET = 21  # the lowering's: it has all of GroupNormalization, and no Attention
NOISE_SEED = 0  # of the numbers that replace a model's random numbers
FLOAT32 = np.dtype(np.float32)
HALF = np.dtype(np.float16)
DTYPES_CAST_TO_FLOAT32 = {np.dtype(np.float64), HALF}  # computed in float32 at run time


class DependsOnUnsupportedError(UnsupportedOperator):
    """A node depends on an unsupported value, so that it cannot be checked."""


class UnknownOutputError(UnsupportedOperator):
    """A node's output is unknown before it runs; another engine may support it."""


@dataclass(slots=True)
class GraphDraft:
    """Nodes in topological order over named values, with constants and known shapes by name.

    `opsets` are the nodes' operator sets (empty: OPSET for all). `guards` are the conditions under
    which a node exists, as pairs of a value and its required truth (empty: no conditions).
    `parameters` names the values that `with_parameters` may replace, `buffers` the names among them
    that are not trained. `keep_alive` are values that must be kept even if no node reads them.
    `preserved_aliases` are aliases that are kept as separate values, because their consumers must
    be distinguished from the consumers of the original. `shapes` take precedence over inference;
    `declared_types` are used only if inference finds nothing. `constant_reads` are the names of
    parameters whose values determined the nodes. `unsupported_nodes` are nodes that cannot be
    loaded, with their errors, and `unavailable_values` their outputs; if None, the first such node
    raises its error. `class_names` are the model's own class names of its outputs. `current_module`
    is the module of the node being folded. `describe_source` returns the position of a node in the
    user's code and its operator there, by the node's first output. `python_outputs` are outputs of
    nodes that Python computes, with reasons. Random outputs named in `noise_candidates` become
    inputs; folding stores their default values in `noise_defaults`.
    """

    name: str
    framework: str
    nodes: list[Node] = field(default_factory=list)
    opsets: list[int] = field(default_factory=list)
    guards: list[tuple[tuple[str, bool], ...]] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    buffers: set[str] = field(default_factory=set)
    keep_alive: list[str] = field(default_factory=list)
    preserved_aliases: set[str] = field(default_factory=set)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    declared_types: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    constant_reads: frozenset[str] = frozenset()
    unsupported_nodes: list[tuple[Node, UnsupportedModel]] | None = None
    unavailable_values: set[str] = field(default_factory=set)
    class_names: tuple[str, ...] = ()
    current_module: str = ""
    describe_source: Callable[[str], str] | None = None
    python_outputs: Mapping[str, tuple[Array, str]] = field(default_factory=dict)
    noise_candidates: frozenset[str] = frozenset()
    noise_defaults: dict[str, Array] = field(default_factory=dict)
    generator: np.random.Generator = field(
        default_factory=lambda: np.random.default_rng(NOISE_SEED)
    )

    def mark_unsupported(self, node: Node, error: UnsupportedModel) -> None:
        """Record a node that can't be loaded, or raise its error if the draft doesn't allow any."""
        if self.unsupported_nodes is None:
            raise error
        self.unsupported_nodes.append((node, error))
        self.unavailable_values.update(filter(None, node.outputs))


@dataclass(slots=True)
class TensorSequence:
    """Tensor split along an axis: a sequence, of which only elements at fixed indices are read."""

    source: str
    bounds: list[tuple[int, int]]
    axis: int
    keepdims: bool


@dataclass(slots=True)
class FoldState:
    """The state of folding a GraphDraft: run-time nodes with their indices, and known values.

    `derived_constants` are the constants that depend on a parameter's values; `fold_budget_bytes`
    limits `folded_bytes`.
    """

    draft: GraphDraft
    nodes: list[tuple[int, Node]] = field(default_factory=list)
    folded_nodes: list[Node] = field(default_factory=list)
    folded_bytes: int = 0
    fold_budget_bytes: int = 0
    constants: dict[str, Array] = field(default_factory=dict)
    derived_constants: set[str] = field(default_factory=set)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    sequences: dict[str, TensorSequence] = field(default_factory=dict)

    def resolve(self, name: str) -> str:
        """Resolve an alias to the name of its value."""
        return self.aliases.get(name, name)

    def is_known(self, name: str) -> bool:
        """Whether the value already exists."""
        return name in self.constants or name in self.shapes or name in self.sequences

    def shape(self, name: str) -> tuple[int, ...]:
        """The concrete shape of a value."""
        data = self.constants.get(name)
        return self.shapes[name] if data is None else data.shape

    def dtype(self, name: str) -> np.dtype[Any]:
        """The dtype of a value."""
        data = self.constants.get(name)
        return self.dtypes[name] if data is None else data.dtype

    def add_constant(self, name: str, data: Any) -> str:
        """Add a constant under `name`, with a number appended if the name is used."""
        number, free = 0, name
        while self.is_known(free):
            number += 1
            free = f"{name}.{number}"
        self.constants[free] = np.asarray(data)
        return free

    def make_value(self, name: str) -> Value:
        """The Value record of a resolved name."""
        data = self.constants.get(name)
        if data is not None:
            return Value(name, data.shape, data.dtype, data, name in self.derived_constants)
        return Value(name, self.shapes[name], self.dtypes[name])


def free_name(name: str, taken_names: set[str]) -> str:
    """Return an unused name, with a number appended if needed, and add it to `taken_names`."""
    number, free = 0, name
    while free in taken_names:
        number += 1
        free = f"{name}.{number}"
    taken_names.add(free)
    return free


def describe_node(node: Node) -> str:
    """Describe a node for messages: its operator, and its module or node name."""
    name = node.name or (node.outputs[0] if node.outputs else "")
    where = f"in module {quote_name(node.module)}" if node.module else f"node {quote_name(name)}"
    op = node.op if node.python_fallback is None else node.python_fallback.operator
    return f"{op[:80]} ({where})"


def int_attr(node: Node, name: str, default: int) -> int:
    """An integer attribute; ModelError for another type."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int):
        raise ModelError(f"{describe_node(node)}: attribute {name} is a {type(value).__name__}")
    return value


def float_list_attr(node: Node, name: str) -> tuple[float, ...] | None:
    """An attribute that is a list of numbers, or None if it is missing."""
    value = node.attributes.get(name)
    if value is None:
        return None
    if not isinstance(value, tuple) or not all(isinstance(v, int | float) for v in value):
        raise ModelError(f"{describe_node(node)}: attribute {name} is not a list of numbers")
    return tuple(v for v in value if not isinstance(v, str))
