"""The Graph: what a model computes, as nodes over named values with shapes; it knows no GPU."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError

Array = npt.NDArray[Any]
Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Array

# How a value depends on the batch: it has a first axis of examples, each computed by itself
# ("apart"), or they are by themselves along other axes, or it computes across them.
BatchDependence = Literal["apart", "elsewhere", "across"]
FORWARD_SECTION = "forward"  # the section of a node that says nothing else
FLOAT16 = 10  # ONNX's number of that element type
PADDING_IDX = "padding_idx"  # of a Gather: its row that has no gradient; no attribute of ONNX's


def batch_size(inputs: Iterable[tuple[int, ...]]) -> int:
    """How many examples a network gets at once: the first axis of its first input that has two."""
    return next((shape[0] for shape in inputs if len(shape) > 1), 1)


def attribute_values(value: Attribute) -> Sequence[object]:
    """An attribute's values: all of a tuple, else the one."""
    return value if isinstance(value, tuple) else (value,)


def _read_only(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(mapping))


@dataclass(frozen=True, slots=True)
class Value:
    """A named tensor. `data` is set for constants (parameters and what was folded from them).

    `depends_on_parameters`: new weights change the numbers of this constant.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    data: Array | None = None
    depends_on_parameters: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the value is known when the Plan is made."""
        return self.data is not None


def fixed(values: Mapping[str, Value], value: str) -> Array | None:
    """A constant's data when no new weights can change its numbers, else None."""
    return None if not value or values[value].depends_on_parameters else values[value].data


@dataclass(frozen=True, slots=True)
class PythonFallback:
    """What the model's own framework computes in the place of passes, and why.

    `operator` is its name for people: a module's class, or the ONNX operator that is `node`, which
    onnx.reference can compute from its inputs.
    """

    operator: str
    reason: str
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One ONNX operator call. Omitted optional inputs are the empty string.

    `module` is the path of the innermost PyTorch module it came from ("" for an ONNX file),
    `module_type` that module's class name, `call` the key of the call it ran in (`block:1`; "" for
    the model's own). `torch_operator` names PyTorch's operator that it was translated from
    (`max.dim`; "" without one). `domain` is "" for the standard operators. `section` is the part of
    the Plan that runs it. Of a node with `python_fallback` the framework computes the outputs, for
    the present input.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=lambda: _read_only({}))
    module: str = ""
    module_type: str = ""
    torch_operator: str = ""
    domain: str = ""
    call: str = ""
    section: str = FORWARD_SECTION
    python_fallback: PythonFallback | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """A name under which users find a value: `encoder.0`, `block:1`, `path[0]`, `x`, `output`.

    `kind` is "input", "output", "layer" (a leaf module's call or a functional operator), "module"
    (a call of a module that has children) or "contributed" (added by a feature). `module_type` is
    the class name of the module, "" for a functional operator; `description` is the module's own
    extra_repr ("32, 64, kernel_size=(4, 4)"). `call` is the call of a module that returned the
    value, as in Node; None where none did. Edits of the key `edited_as` act here too.
    """

    name: str
    value: str
    kind: str
    module_type: str = ""
    description: str = ""
    call: str | None = None
    edited_as: str = ""


@dataclass(frozen=True, slots=True)
class LayerPair:
    """A compared pair of layers, and their difference B − A.

    Attributes:
        name: The name of the layer in A.
        a: The key of the value in A.
        b: The key of the value in B.
        difference: The key of the difference.
        row: The row of the comparison's table with its numbers.
    """

    name: str
    a: str
    b: str
    difference: str
    row: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The compared layers of two networks, A and B, in a Graph or Plan.

    A single network has no pairs.

    Attributes:
        titles: The names of A and B.
        pairs: The compared layers.
        only_a: The keys of layers in A without a partner.
        only_b: The keys of layers in B without a partner.
        table: The key of a value of shape (examples, 3 · rows): for each row the mean of |B − A|,
            its maximum, and the mean of |A|.
    """

    titles: tuple[str, str] = ("", "")
    pairs: tuple[LayerPair, ...] = ()
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    table: str = ""


@dataclass(frozen=True, slots=True)
class Carry:
    """State that lives over runs: at a commit the value `target` becomes what `source` is; names.

    No node gives the target. It begins as the constant `initial`; where `parameters` has that
    under a name, the state can be read by it.
    """

    source: str
    target: str
    initial: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A network: run-time nodes in topological order, values by name, and the keys users see.

    `keys` are ordered: inputs, calls in call order with functional operators between them, outputs.
    `folded_nodes` are the nodes that were computed at load time from constants, in order;
    `with_parameters` runs them again. `parameters` maps a state_dict name to its value's name (two
    names for tied weights), `buffers` are those of these names that are not trained. `calls` has
    the call that each call of a module was made in ("" for the model's own), in call order.
    `noise` are inputs in the place of random numbers that the model draws, behind its own, each
    with the constant that it is where none is given.
    """

    name: str
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    keys: tuple[Key, ...]
    parameters: Mapping[str, str]
    buffers: frozenset[str] = frozenset()
    folded_nodes: tuple[Node, ...] = ()
    source: str = "onnx"  # "torch" or "onnx": who is the reference that names and numbers come from
    notes: tuple[str, ...] = ()  # what was changed on the way in, in plain words
    comparison: Comparison | None = None  # of two networks in one
    constant_reads: frozenset[str] = (
        frozenset()
    )  # parameters whose numbers decided what is computed
    carries: tuple[Carry, ...] = ()
    classes: tuple[str, ...] = ()  # what the model itself calls the values of its output
    calls: Mapping[str, str] = field(default_factory=lambda: _read_only({}))
    # How pictures become inputs, by their values' names, where it isn't as usual: see plan.Input.
    picture_fits: Mapping[str, tuple[str, float]] = field(default_factory=lambda: _read_only({}))
    noise: Mapping[str, str] = field(default_factory=lambda: _read_only({}))
    # Keys of the values of modules with several names, by each name that has no key.
    shared_modules: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _read_only({}))
    arguments: Any = None  # load's Arguments, where inputs are nested or constants stand between
    preprocess: tuple[str, ...] = ()  # keys of what is done to the first input before the model
    # How values depend on the batch, by key, as far as the framework was run at two batch sizes.
    batch_dependences: Mapping[str, BatchDependence] = field(default_factory=lambda: _read_only({}))
    on_demand: frozenset[str] = frozenset()  # sections that run when they are asked for

    def shape(self, value: str) -> tuple[int, ...]:
        """The concrete shape of a value."""
        return self.values[value].shape

    def constant(self, value: str) -> Array | None:
        """A value's data when it is known at compile time, else None."""
        return self.values[value].data if value else None

    def static_data(self, value: str) -> Array | None:
        """A constant's data when no new weights can change its numbers, else None."""
        return fixed(self.values, value)

    def float16_keys(self) -> frozenset[str]:
        """Keys of what follows from numbers that the model itself rounds to float16.

        There the last digit of a float32 may decide between two float16, which are 5e-4 apart.
        """
        found: set[str] = set()
        for node in self.nodes:
            rounds = node.op == "Cast" and node.attributes.get("to") == FLOAT16
            if rounds or found.intersection(node.inputs):
                found.update(filter(None, node.outputs))
        return frozenset(key.name for key in self.keys if key.value in found)

    def python_nodes(self) -> dict[str, Node]:
        """The values that the framework computes, each with the node that gives it."""
        return {
            out: node for node in self.nodes if node.python_fallback for out in node.outputs if out
        }

    def python_consumer(self, name: str) -> str:
        """The first value that the framework computes from that of a key; "" for none."""
        reached = {self.key(name).value}
        for node in self.nodes:
            if not reached.isdisjoint(node.inputs):
                if node.python_fallback:
                    return node.module or node.name
                reached.update(filter(None, node.outputs))
        return ""

    def key(self, name: str) -> Key:
        """The key called `name`; KeyError when there is none."""
        for key in self.keys:
            if key.name == name:
                return key
        raise KeyError(name)


def is_inside_call(graph: Graph, node: Node, key: Key) -> bool:
    """Whether a node ran within the call of a module that returned a key's value.

    Of the nodes that read the value those within had it before the call returned: a hook on the
    module changes it for the others alone. All nodes of a model ran within the call that returned
    its outputs, none within an input or an operator between modules.
    """
    call: str | None = node.call
    while call is not None and call != key.call:
        call = graph.calls.get(call)
    return call is not None


def return_order(graph: Graph) -> dict[str | None, tuple[float, ...]]:
    """When each call returned, to sort keys of one value by: an inner call before the outer one.

    What no call returned, an input or an operator's value, was there before; it has None.
    """
    places: dict[str, tuple[int, ...]] = {}
    found: dict[str | None, tuple[float, ...]] = {None: (), "": (math.inf,)}
    for number, (call, around) in enumerate(graph.calls.items()):
        places[call] = (*places.get(around, ()), number)
        found[call] = (*places[call], math.inf)
        found.setdefault(around, (math.inf,))
    return found


def check_observe(observe: Any) -> None:
    """InputError unless it is "all", "outputs" or a collection of names."""
    if isinstance(observe, str):
        fits = observe in ("all", "outputs")
    else:
        fits = isinstance(observe, Collection) and all(isinstance(name, str) for name in observe)
    if not fits:
        raise InputError(f'observe={observe!r}: expected "all", "outputs" or a list of layer names')


PYTHON_OP = (
    "Python"  # what `op` is of a node with `python_fallback`: no file can have one of that name
)


def assign_to_python(graph: Graph, reasons: Mapping[str, str]) -> Graph:
    """The Graph with some nodes, by name, left to Python, each for its reason."""

    def left(node: Node) -> Node:
        if node.name not in reasons:
            return node
        own = PythonFallback(node.op, reasons[node.name], node)
        return replace(node, op=PYTHON_OP, domain="", python_fallback=own)

    return replace(graph, nodes=tuple(map(left, graph.nodes)))


def changed_values(old: Graph, new: Graph) -> set[str]:
    """The names of values with other numbers: see `load.with_parameters`."""
    before = old.values
    return {name for name, value in new.values.items() if before.get(name) is not value}
