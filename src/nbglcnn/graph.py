"""The Graph: a model's computation, as nodes over named, shaped values; independent of the GPU."""

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

# How a value depends on the batch: "apart": examples along the first axis, each computed
# independently; "elsewhere": independent examples along other axes; "across": computed across
# examples.
BatchDependence = Literal["apart", "elsewhere", "across"]
FORWARD_SECTION = "forward"  # the default section of a node
ONNX_FLOAT16 = 10  # onnx.TensorProto.FLOAT16
PADDING_IDX = "padding_idx"  # Gather attribute: row without gradient; not part of ONNX


def batch_size(input_shapes: Iterable[tuple[int, ...]]) -> int:
    """The batch size of a network: the first axis of its first input with at least two axes."""
    return next((shape[0] for shape in input_shapes if len(shape) > 1), 1)


def attribute_values(value: Attribute) -> Sequence[object]:
    """An attribute's values as a sequence: a tuple itself, or a tuple of the single value."""
    return value if isinstance(value, tuple) else (value,)


def _read_only(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(mapping))


@dataclass(frozen=True, slots=True)
class Value:
    """A named tensor. `data` is set for constants: parameters, and values folded from constants.

    `depends_on_parameters`: the constant changes when new weights are loaded.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    data: Array | None = None
    depends_on_parameters: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the value is known at compile time."""
        return self.data is not None


def static_data(values: Mapping[str, Value], value: str) -> Array | None:
    """A constant's data if it doesn't depend on parameters, else None."""
    return None if not value or values[value].depends_on_parameters else values[value].data


@dataclass(frozen=True, slots=True)
class PythonFallback:
    """A computation that the model's own framework runs in place of passes, and the reason.

    `operator` is its display name: a module's class, or an ONNX operator. In that case `node` is
    its node, which onnx.reference can compute from its inputs.
    """

    operator: str
    reason: str
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One ONNX operator call. Omitted optional inputs are the empty string.

    `module` is the path of the innermost PyTorch module that the node came from ("" for an ONNX
    file), `module_type` that module's class name, `module_call` the key of the module call it ran
    in (`block:1`; "" for the model's own). `torch_operator` is the PyTorch operator that it was
    translated from (`max.dim`; "" if none). `domain` is "" for the standard operators. `section` is
    the part of the Plan that runs it. If `python_fallback` is set, the framework computes the
    outputs for the current input.
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
    module_call: str = ""
    section: str = FORWARD_SECTION
    python_fallback: PythonFallback | None = None


@dataclass(frozen=True, slots=True)
class ValueKey:
    """A name under which users find a value: `encoder.0`, `block:1`, `path[0]`, `x`, `output`.

    `kind` is "input", "output", "layer" (a leaf module's call or a functional operator), "module"
    (a call of a module that has children) or "contributed" (added by a feature). `module_type` is
    the class name of the module, "" for a functional operator; `description` is the module's own
    extra_repr ("32, 64, kernel_size=(4, 4)"). `module_call` is the module call that returned the
    value, as in Node; None if no call did. Edits of the key `shares_edits_of` also apply here.
    """

    name: str
    value_name: str
    kind: str
    module_type: str = ""
    description: str = ""
    module_call: str | None = None
    shares_edits_of: str = ""


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
    """State that persists across runs: a commit copies the value `source` to the value `target`.

    No node computes `target`. Its initial value is the constant `initial`; if `parameters` has a
    name for that constant, the state can be read under the name.
    """

    source: str
    target: str
    initial: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A network: run-time nodes in topological order, values by name, and the user-visible keys.

    `keys` are ordered: inputs, calls in call order with functional operators between them, outputs.
    `folded_nodes` are the nodes that were computed at load time from constants, in order;
    `with_parameters` runs them again. `parameters` maps a state_dict name to its value's name (two
    names for tied weights); `buffers` are the names among them that are not trained. `call_parents`
    maps each module call to its parent call ("" for the model's own), in call order.
    `noise_defaults` maps inputs that replace the model's random numbers to their default constants;
    these inputs come after the model's own.
    """

    name: str
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    keys: tuple[ValueKey, ...]
    parameters: Mapping[str, str]
    buffers: frozenset[str] = frozenset()
    folded_nodes: tuple[Node, ...] = ()
    framework: str = "onnx"  # "torch" or "onnx": the framework that names and values come from
    notes: tuple[str, ...] = ()  # changes made while loading, for the user
    comparison: Comparison | None = None  # set if the Graph joins two networks
    # Parameters whose values determined the graph's structure.
    constant_reads: frozenset[str] = frozenset()
    carries: tuple[Carry, ...] = ()
    class_names: tuple[str, ...] = ()  # the model's own class names of its outputs
    call_parents: Mapping[str, str] = field(default_factory=lambda: _read_only({}))
    # How pictures become inputs, by the input's value name, if it isn't the default: see
    # plan.Input.
    picture_fits: Mapping[str, tuple[str, float]] = field(default_factory=lambda: _read_only({}))
    noise_defaults: Mapping[str, str] = field(default_factory=lambda: _read_only({}))
    # For modules with several names: the keys of their values, by each name that has no key.
    shared_modules: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _read_only({}))
    # load's ForwardArguments, if inputs are nested or mixed with constants.
    input_structure: Any = None
    preprocess_keys: tuple[str, ...] = ()  # keys of the steps before the model's first input
    # How values depend on the batch, by key; known if the framework was run at two batch sizes.
    batch_dependences: Mapping[str, BatchDependence] = field(default_factory=lambda: _read_only({}))
    on_demand_sections: frozenset[str] = frozenset()  # sections that run only on demand

    def shape(self, value: str) -> tuple[int, ...]:
        """The concrete shape of a value."""
        return self.values[value].shape

    def constant_data(self, value: str) -> Array | None:
        """A value's data if it is known at compile time, else None."""
        return self.values[value].data if value else None

    def static_data(self, value: str) -> Array | None:
        """A constant's data if it doesn't depend on parameters, else None."""
        return static_data(self.values, value)

    def float16_keys(self) -> frozenset[str]:
        """Keys whose values depend on numbers that the model itself rounds to float16.

        The last bit of a float32 can decide between two float16 values there, which differ by 5e-4.
        """
        found: set[str] = set()
        for node in self.nodes:
            rounds = node.op == "Cast" and node.attributes.get("to") == ONNX_FLOAT16
            if rounds or found.intersection(node.inputs):
                found.update(filter(None, node.outputs))
        return frozenset(key.name for key in self.keys if key.value_name in found)

    def nodes_by_python_value(self) -> dict[str, Node]:
        """The values that the framework computes, each with its node."""
        return {
            out: node for node in self.nodes if node.python_fallback for out in node.outputs if out
        }

    def python_consumer(self, name: str) -> str:
        """The first layer the framework computes that depends on a key's value; "" if none."""
        reached = {self.key(name).value_name}
        for node in self.nodes:
            if not reached.isdisjoint(node.inputs):
                if node.python_fallback:
                    return node.module or node.name
                reached.update(filter(None, node.outputs))
        return ""

    def key(self, name: str) -> ValueKey:
        """The key with this name; KeyError if it doesn't exist."""
        for key in self.keys:
            if key.name == name:
                return key
        raise KeyError(name)


def is_inside_call(graph: Graph, node: Node, key: ValueKey) -> bool:
    """Whether a node ran inside the module call that returned a key's value.

    Nodes inside the call read the value before the call returned, so a hook on the module affects
    only the nodes outside. All nodes of a model ran inside the call that returned its outputs; no
    node ran inside an input, or inside an operator between modules.
    """
    call: str | None = node.module_call
    while call is not None and call != key.module_call:
        call = graph.call_parents.get(call)
    return call is not None


def call_return_order(graph: Graph) -> dict[str | None, tuple[float, ...]]:
    """Sort keys for calls by the time they returned: an inner call comes before the outer one.

    The key None is for values that no call returned (an input or an operator's value); it sorts
    first.
    """
    places: dict[str, tuple[int, ...]] = {}
    found: dict[str | None, tuple[float, ...]] = {None: (), "": (math.inf,)}
    for number, (call, around) in enumerate(graph.call_parents.items()):
        places[call] = (*places.get(around, ()), number)
        found[call] = (*places[call], math.inf)
        found.setdefault(around, (math.inf,))
    return found


def check_observe(observe: Any) -> None:
    """Raise InputError unless `observe` is "all", "outputs" or a collection of names."""
    if isinstance(observe, str):
        fits = observe in ("all", "outputs")
    else:
        fits = isinstance(observe, Collection) and all(isinstance(name, str) for name in observe)
    if not fits:
        raise InputError(f'observe={observe!r}: expected "all", "outputs" or a list of layer names')


PYTHON_OP = "Python"  # `op` of a node with `python_fallback`; no operator in a file has this name


def assign_to_python(graph: Graph, reasons: Mapping[str, str]) -> Graph:
    """Return Graph with these nodes assigned to Python; `reasons` maps node names to reasons."""

    def left(node: Node) -> Node:
        if node.name not in reasons:
            return node
        own = PythonFallback(node.op, reasons[node.name], node)
        return replace(node, op=PYTHON_OP, domain="", python_fallback=own)

    return replace(graph, nodes=tuple(map(left, graph.nodes)))


def changed_value_names(old: Graph, new: Graph) -> set[str]:
    """The names of values whose data changed: see `load.with_parameters`."""
    before = old.values
    return {name for name, value in new.values.items() if before.get(name) is not value}
