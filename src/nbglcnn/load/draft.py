"""A graph while it is imported: importers fill a GraphDraft; `fold.simplify` computes constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbglcnn.errors import ModelError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Node, Value
from nbglcnn.load.bounds import quote_name

OPSET = 21  # the one that operators are lowered from: GroupNormalization is whole, Attention is not
SEED = 0  # of numbers in the place of what a model draws
FLOAT32 = np.dtype(np.float32)
HALF = np.dtype(np.float16)
CAST_TO_FLOAT32 = {np.dtype(np.float64), HALF}  # at run time these are float32


class DependsOnUnsupported(UnsupportedOperator):
    """A node reads what cannot run, so that nothing can be said of it."""


class UnknownOutput(UnsupportedOperator):
    """What a node gives cannot be told before it runs; another engine may know."""


@dataclass(slots=True)
class GraphDraft:
    """Nodes in topological order over named values, constants by name, and what is known of shapes.

    `opsets` are the nodes' operator sets (empty: all OPSET), `guards` what must hold for a node
    to be there: conditions and what they must be (empty: nothing, for all). `parameters` names the
    values that `with_parameters` may replace, `buffers` those of these that are not trained.
    `keep_alive` are values that must not vanish though no node reads them, `preserved_aliases` names that
    are kept apart from the value that they are other names of: who reads it by them is told from
    who reads it. `shapes` are trusted over inference, `declared_types` only without it.
    `constant_reads` are the names of parameters whose numbers decided which nodes there are.
    `unsupported_nodes` are nodes that cannot be loaded and why, `unavailable_values` what they
    would give; None where the first shall be an error. `classes` are the model's own names for the
    values of its output. `current_module` is the module of the node that is being folded;
    `describe_source` says of a node, by its first output, where it stands in the user's code and
    which operator it is there. `python_outputs` are outputs of nodes that Python computes, and why.
    Random numbers that nodes give under one of the names in `noise_candidates` are inputs: folding
    finds what they are where none are given, `noise`.
    """

    name: str
    source: str
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
    classes: tuple[str, ...] = ()
    current_module: str = ""
    describe_source: Callable[[str], str] | None = None
    python_outputs: Mapping[str, tuple[Array, str]] = field(default_factory=dict)
    noise_candidates: frozenset[str] = frozenset()
    noise: dict[str, Array] = field(default_factory=dict)
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))

    def mark_unsupported(self, node: Node, error: UnsupportedModel) -> None:
        """Note that a node cannot be loaded, or raise the error where that is an error."""
        if self.unsupported_nodes is None:
            raise error
        self.unsupported_nodes.append((node, error))
        self.unavailable_values.update(filter(None, node.outputs))


@dataclass(slots=True)
class TensorSequence:
    """A tensor cut along an axis: a sequence, of which only pieces by a fixed index are used."""

    source: str
    bounds: list[tuple[int, int]]
    axis: int
    keepdims: bool


@dataclass(slots=True)
class FoldState:
    """A GraphDraft after folding: run-time nodes, each with its index there, and known values.

    `derived_constants` are the constants whose numbers come from a parameter's numbers;
    `fold_budget` bounds `folded_bytes`.
    """

    draft: GraphDraft
    nodes: list[tuple[int, Node]] = field(default_factory=list)
    folded_nodes: list[Node] = field(default_factory=list)
    folded_bytes: int = 0
    fold_budget: int = 0
    constants: dict[str, Array] = field(default_factory=dict)
    derived_constants: set[str] = field(default_factory=set)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    sequences: dict[str, TensorSequence] = field(default_factory=dict)

    def resolve(self, name: str) -> str:
        """The value that `name` is another name of."""
        return self.aliases.get(name, name)

    def is_known(self, name: str) -> bool:
        """Whether anything has produced the value yet."""
        return name in self.constants or name in self.shapes or name in self.sequences

    def shape(self, name: str) -> tuple[int, ...]:
        """The concrete shape of a value."""
        data = self.constants.get(name)
        return self.shapes[name] if data is None else data.shape

    def dtype(self, name: str) -> np.dtype[Any]:
        """The type of a value's numbers."""
        data = self.constants.get(name)
        return self.dtypes[name] if data is None else data.dtype

    def add_constant(self, name: str, data: Any) -> str:
        """Add a constant under a free name like `name`."""
        number, free = 0, name
        while self.is_known(free):
            number += 1
            free = f"{name}.{number}"
        self.constants[free] = np.asarray(data)
        return free

    def value(self, name: str) -> Value:
        """The Value record of a resolved name."""
        data = self.constants.get(name)
        if data is not None:
            return Value(name, data.shape, data.dtype, data, name in self.derived_constants)
        return Value(name, self.shapes[name], self.dtypes[name])


def free_name(name: str, taken: set[str]) -> str:
    """The name, with a number behind it where it is taken; it is taken from then on."""
    number, free = 0, name
    while free in taken:
        number += 1
        free = f"{name}.{number}"
    taken.add(free)
    return free


def describe_node(node: Node) -> str:
    """A node as messages name it: its operator and the module or node name."""
    name = node.name or (node.outputs[0] if node.outputs else "")
    where = f"in module {quote_name(node.module)}" if node.module else f"node {quote_name(name)}"
    op = node.op if node.python_fallback is None else node.python_fallback.operator
    return f"{op[:80]} ({where})"


def int_attr(node: Node, name: str, default: int) -> int:
    """An attribute that must be an integer."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int):
        raise ModelError(f"{describe_node(node)}: attribute {name} is a {type(value).__name__}")
    return value


def float_list_attr(node: Node, name: str) -> tuple[float, ...] | None:
    """An attribute that must be numbers, or None when it is not there."""
    value = node.attributes.get(name)
    if value is None:
        return None
    if not isinstance(value, tuple) or not all(isinstance(v, int | float) for v in value):
        raise ModelError(f"{describe_node(node)}: attribute {name} is not a list of numbers")
    return tuple(v for v in value if not isinstance(v, str))
