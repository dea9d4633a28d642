"""Two networks as one Graph, with the difference of every pair of layers as a value of its own."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nbglcnn.errors import InputError, ModelError, nearest
from nbglcnn.graph import Array, Comparison, Graph, Key, Node, Pair, Value, checked_observe
from nbglcnn.inputs.arguments import BOTH
from nbglcnn.load.arguments import Arguments, plain_arguments
from nbglcnn.load.matching import Pairs, matched
from nbglcnn.load.model import (
    Known,
    Loaded,
    Read,
    Side,
    copied_numbers,
    no_gradient_checks,
    no_modules,
    same_state_dict,
)
from nbglcnn.load.names import specs_of
from nbglcnn.load.parameters import with_parameters

if TYPE_CHECKING:
    from nbglcnn.load.onnx.onnx_model import OnnxModel
    from nbglcnn.load.torch.model import TorchModel
    from nbglcnn.load.training import TrainingMode

A, B, DIFFERENCE = BOTH, "B.", "difference."  # before the keys of each
TABLE = "differences"
FLOAT = 1  # onnx.TensorProto.FLOAT


@dataclass(frozen=True)
class Joined:
    """Two networks to compare.

    With `one_input` both read the input of `a`, with `one_model` the weights of `a` where equal.
    `observe` says which layers are compared: "all", "outputs", or their names.
    """

    a: Side
    b: Side
    one_input: bool
    one_model: bool
    observe: str | Sequence[str] = "all"
    titles: tuple[str, str] = ("", "")
    source: ClassVar[None] = None

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The inputs of the joined Graph: those of A, then those of B."""
        return self.a.arrays if self.one_input else (*self.a.arrays, *self.b.arrays)

    @property
    def batch(self) -> int:
        """How many examples the inputs have."""
        return next((array.shape[0] for array in self.a.arrays if array.shape), 1)

    @cached_property
    def graph(self) -> Graph:
        """The Graph of both networks and of the differences."""
        return _join(self)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both."""
        return self.a, self.b

    @property
    def leaves(self) -> tuple[TorchModel | OnnxModel, ...]:
        """The modules and files of both."""
        return tuple(leaf for side in self.sides for leaf in side.model.leaves)

    def load(self, x: Any, known: Known | None = None, read: Read | None = None) -> Loaded:
        """The joined Graph and the inputs of both."""
        return self.graph, self.arrays

    def partly(self, x: Any) -> None:
        """None: each side is loaded already."""

    modules_alone = no_modules
    check_gradients = no_gradient_checks
    as_loaded = same_state_dict
    state_dict = copied_numbers
    all_arrays = copied_numbers

    def initial(self, seed: int) -> dict[str, Any]:
        """InputError: there are two."""
        raise _no_model("initial")

    def write_onnx(
        self, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
    ) -> Path:
        """InputError: there are two."""
        raise _no_model("to_onnx")

    def training_mode(self) -> TrainingMode:
        """InputError: there are two."""
        raise _no_model("train")


def _no_model(what: str) -> InputError:
    return InputError(f"{what}: a comparison is no model; give it to a Viewer of one of the two")


def _join(joined: Joined) -> Graph:
    a, b = joined.a.graph, joined.b.graph
    names_a, names_b = _names(joined)
    all_pairs = _all_pairs(joined)
    pairs = _chosen(all_pairs, joined.observe)
    values = {
        names[value.name]: replace(value, name=names[value.name])
        for graph, names in ((b, names_b), (a, names_a))
        for value in graph.values.values()
    }
    differences = _Differences(values, joined.batch)
    records = tuple(
        Pair(one.name, A + one.name, B + other.name, DIFFERENCE + one.name,
             differences.row(names_a[one.value], names_b[other.value]))
        for one, other in pairs
    )  # fmt: skip
    keys = _keys(joined, names_a, names_b)
    keys += (Key(pair.difference, differences.of_row[pair.row], "module") for pair in records)
    keys.append(Key(TABLE, differences.table(), "module"))
    sides = ((a, names_a, A), (b, names_b, B))
    inputs = [names_a[name] for name in a.inputs]
    if not joined.one_input:
        inputs += (names_b[name] for name in b.inputs)
    return Graph(
        name=a.name if a.name == b.name else f"{a.name} and {b.name}",
        nodes=(
            *(_renamed(node, *side[1:]) for side in sides for node in side[0].nodes),
            *differences.nodes,
        ),
        values=MappingProxyType(values),
        inputs=tuple(inputs),
        outputs=tuple(names[v] for graph, names, _ in sides for v in graph.outputs),
        keys=tuple(keys),
        parameters=MappingProxyType({
            prefix + name: names[value]
            for graph, names, prefix in sides
            for name, value in graph.parameters.items()
        }),
        buffers=frozenset(prefix + name for graph, _, prefix in sides for name in graph.buffers),
        folded=tuple(_renamed(node, *side[1:]) for side in sides for node in side[0].folded),
        source=a.source if a.source == b.source else "onnx",
        notes=tuple(dict.fromkeys((*a.notes, *b.notes))),
        comparison=_record(joined, records, all_pairs),
        settings=frozenset(prefix + name for graph, _, prefix in sides for name in graph.settings),
        classes=_classes(a, b),
        dependences=MappingProxyType({
            prefix + name: one
            for graph, _, prefix in sides
            for name, one in graph.dependences.items()
        }),
        calls=MappingProxyType({
            prefix + call: prefix + around
            for graph, _, prefix in sides
            for call, around in graph.calls.items()
        }),
        noise=MappingProxyType({
            names[value]: names[constant]
            for graph, names, _ in sides[::-1]
            for value, constant in graph.noise.items()
        }),
        arguments=_arguments(joined),
        preprocess=tuple(prefix + name for graph, _, prefix in sides for name in graph.preprocess),
        fits=MappingProxyType({
            names[value]: fit for graph, names, _ in sides for value, fit in graph.fits.items()
        }),
    )  # fmt: skip


def _arguments(joined: Joined) -> Arguments | None:
    """How both are called, where not by arrays alone; with one input as A is."""
    sides = [(A, joined.a.graph), *([] if joined.one_input else [(B, joined.b.graph)])]
    if all(graph.arguments is None for _, graph in sides):
        return None
    found = [
        (prefix, graph.arguments or plain_arguments([spec.name for spec in specs_of(graph)]))
        for prefix, graph in sides
    ]
    return Arguments(
        (),
        {},
        tuple(prefix + name for prefix, own in found for name in own.names),
        tuple(prefix + name for prefix, own in found for name in own.parameters),
        {prefix + path: text for prefix, own in found for path, text in own.constants.items()},
    )


def parts(joined: Joined, graph: Graph, arrays: Sequence[Array]) -> list[tuple[str, Side]]:
    """What is before the keys of each side, and the side with the Graph's weights and inputs."""
    count = len(joined.a.arrays)
    given = (arrays[:count], arrays[:count] if joined.one_input else arrays[count:])
    found = []
    for prefix, side, own in zip((A, B), (joined.a, joined.b), given, strict=True):
        weights = {
            n: graph.values[graph.parameters[prefix + n]].data for n in side.graph.parameters
        }
        now = with_parameters(side.graph, weights)
        found.append((prefix, Side(side.model, now, tuple(own))))
    return found


def differences(
    joined: Joined, graph: Graph, found: Mapping[str, Array], wanted: Container[str]
) -> dict[str, Array]:
    """What the joined Graph makes of the values of both sides: differences, and the table."""
    assert graph.comparison is not None
    made: dict[str, Array] = {}
    rows: dict[int, list[Array]] = {}
    batch = joined.batch
    for pair in graph.comparison.pairs:
        if TABLE not in wanted and pair.difference not in wanted:
            continue
        a, b = (_as_float(found[key]) for key in (pair.a, pair.b))
        made[pair.difference] = b - a
        each = (batch, -1) if a.shape[:1] == (batch,) else (1, -1)
        size, own = (np.abs(array).reshape(each) for array in (b - a, a))
        sizes = (size.mean(1, np.float64), size.max(1), own.mean(1, np.float64))
        rows[pair.row] = [np.broadcast_to(one, batch) for one in sizes]
    if TABLE in wanted:
        numbers = [number for k in sorted(rows) for number in rows[k]]
        made[TABLE] = np.stack(numbers, axis=1).astype(b.dtype)
    return made


def _as_float(array: Array) -> Array:
    """In single precision, or in double where it is that already."""
    return np.asarray(array, np.float64 if array.dtype == np.float64 else np.float32)


def _classes(a: Graph, b: Graph) -> tuple[str, ...]:
    """The class names of both: where each has others, none would be right for the difference."""
    if a.classes and b.classes and a.classes != b.classes:
        return ()
    return a.classes or b.classes


def _names(joined: Joined) -> tuple[dict[str, str], dict[str, str]]:
    """What the values of both are called in one Graph; those that they share have A's names."""
    a, b = joined.a.graph, joined.b.graph
    names_a = {name: A + name for name in a.values}
    names_b = {name: B + name for name in b.values}
    if joined.one_model:
        names_b.update((n, names_a[n]) for n in b.values if _same_constant(a, b, n))
    if joined.one_input:
        shared = zip(b.inputs, a.inputs, strict=True)
        names_b.update((theirs, names_a[ours]) for theirs, ours in shared)
    return {**names_a, "": ""}, {**names_b, "": ""}


def _same_constant(a: Graph, b: Graph, name: str) -> bool:
    theirs, ours = b.values[name].data, a.values[name].data if name in a.values else None
    if theirs is None or ours is None:
        return False
    return theirs is ours or (
        theirs.dtype == ours.dtype
        and np.array_equal(theirs, ours, equal_nan=theirs.dtype.kind == "f")
    )


def _renamed(node: Node, names: Mapping[str, str], prefix: str) -> Node:
    return replace(
        node,
        name=prefix + node.name,
        inputs=tuple(names[name] for name in node.inputs),
        outputs=tuple(names[name] for name in node.outputs),
        module=prefix + node.module if node.module else "",
        call=prefix + node.call,
    )


def _keys(joined: Joined, names_a: Mapping[str, str], names_b: Mapping[str, str]) -> list[Key]:
    """The keys of both, inputs in front; an input that both read is A's."""
    sides = ((joined.a.graph, names_a, A), (joined.b.graph, names_b, B))
    keys = [
        replace(
            key,
            name=prefix + key.name,
            value=names[key.value],
            call=None if key.call is None else prefix + key.call,
        )
        for graph, names, prefix in sides
        for key in graph.keys
        if not (prefix == B and joined.one_input and key.kind == "input")
    ]
    return sorted(keys, key=lambda key: key.kind != "input")


def _all_pairs(joined: Joined) -> Pairs:
    """All layers that belong together, and inputs where each has its own."""
    pairs = matched(joined.a.graph, joined.b.graph)
    if joined.one_input:
        pairs = [(one, other) for one, other in pairs if one.kind != "input"]
    if all(one.kind == "input" for one, _ in pairs):
        raise _nothing_common(joined)
    return pairs


def _chosen(pairs: Pairs, observe: str | Sequence[str]) -> Pairs:
    """Of the pairs those that are asked for."""
    checked_observe(observe)
    if observe == "all":
        return pairs
    if observe == "outputs":
        outputs = [(one, other) for one, other in pairs if one.kind == "output"]
        if not outputs:
            raise ModelError("the outputs of A and B have different shapes: observe layers by name")
        return outputs
    if not observe:
        raise ValueError("observe=[]: name at least one layer to compare")
    known = [one.name for one, _ in pairs]
    for name in observe:
        if name not in known:
            raise KeyError(f"observe: {name!r} is no layer of both{nearest(name, known)}")
    return [(one, other) for one, other in pairs if one.name in observe]


def _nothing_common(joined: Joined) -> ModelError | InputError:
    shapes = [[array.shape for array in side.arrays] for side in (joined.a, joined.b)]
    if shapes[0] != shapes[1]:
        given = " and ".join(", ".join(map(str, some)) for some in shapes)
        return InputError(
            f"inputs of the shapes {given} leave nothing to compare: give both the same shape"
        )
    outputs = " and ".join(
        ", ".join(str(side.graph.shape(v)) for v in side.graph.outputs)
        for side in (joined.a, joined.b)
    )
    return ModelError(
        f"{joined.a.graph.name} and {joined.b.graph.name} have nothing to compare: no layer of one "
        f"has the shape of a layer of the other (their outputs are {outputs})"
    )


def _record(joined: Joined, pairs: tuple[Pair, ...], all_pairs: Pairs) -> Comparison:
    """What is compared, and which layers have no partner."""
    paired = {name for a, b in all_pairs for name in (A + a.name, B + b.name)}
    alone = [
        tuple(
            prefix + key.name
            for key in side.graph.keys
            if key.kind in ("layer", "output") and prefix + key.name not in paired
        )
        for side, prefix in ((joined.a, A), (joined.b, B))
    ]
    return Comparison(joined.titles, pairs, alone[0], alone[1], TABLE)


@dataclass
class _Differences:
    """Nodes that compute B − A, and from it the table: a row for each two values."""

    values: dict[str, Value]  # of the Graph; constants are added
    batch: int
    nodes: list[Node] = field(default_factory=list)
    of_row: list[str] = field(default_factory=list)
    _rows: dict[tuple[str, str], int] = field(default_factory=dict)
    _numbers: list[str] = field(default_factory=list)  # values of one number for each example

    def row(self, a: str, b: str) -> int:
        """The row of this difference."""
        if (known := self._rows.get((a, b))) is not None:
            return known
        shape = self.values[a].shape
        left, right = self._as_float(a), self._as_float(b)
        difference = self._node("Sub", right, left)
        size = self._node("Abs", difference)
        self._numbers += (
            self._reduced("ReduceMean", size, shape),
            self._reduced("ReduceMax", size, shape),
            self._reduced("ReduceMean", self._node("Abs", left), shape),
        )
        self.of_row.append(difference)
        self._rows[a, b] = len(self.of_row) - 1
        return self._rows[a, b]

    def table(self) -> str:
        """The value with all rows one after another: (examples, 3 · rows)."""
        return self._node("Concat", *self._numbers, axis=1)

    def _as_float(self, name: str) -> str:
        return name if self.values[name].dtype.kind == "f" else self._node("Cast", name, to=FLOAT)

    def _reduced(self, op: str, name: str, shape: tuple[int, ...]) -> str:
        """A number for each example: the same one where a value has no axis of the batch."""
        if shape and shape[0] == self.batch:
            flat = self._node("Reshape", name, self._integers(self.batch, -1))
            return self._node(op, flat, self._integers(1), keepdims=1)
        flat = self._node("Reshape", name, self._integers(1, -1))
        number = self._node(op, flat, self._integers(1), keepdims=1)
        return self._node("Expand", number, self._integers(self.batch, 1))

    def _node(self, op: str, *inputs: str, **attributes: int) -> str:
        name = f"{DIFFERENCE}{op} {len(self.nodes)}"
        node = Node(name, op, inputs, (name,), MappingProxyType(attributes))
        self.nodes.append(node)
        return name

    def _integers(self, *numbers: int) -> str:
        name = f"{DIFFERENCE}{numbers}"
        data = np.array(numbers, np.int64)
        self.values[name] = Value(name, data.shape, data.dtype, data)
        return name
