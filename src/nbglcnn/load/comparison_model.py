"""Two networks joined in one Graph, with the difference of each pair of layers as a value."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nbglcnn.errors import InputError, ModelError, suggest_names
from nbglcnn.graph import Array, Comparison, Graph, LayerPair, Node, Value, ValueKey, check_observe
from nbglcnn.inputs.arguments import SHARED_INPUT_PREFIX
from nbglcnn.load.arguments import ForwardArguments, make_plain_arguments
from nbglcnn.load.layer_matching import KeyPairs, match_keys
from nbglcnn.load.model import (
    BaseLoader,
    ComparisonSide,
    LoadResult,
    ValuesByKey,
    copy_arrays,
    return_no_modules,
    return_state_dict,
    skip_gradient_checks,
)
from nbglcnn.load.module_keys import graph_input_specs
from nbglcnn.load.parameters import with_parameters

if TYPE_CHECKING:
    from nbglcnn.load.onnx.onnx_model import OnnxModel
    from nbglcnn.load.torch.model import TorchModel
    from nbglcnn.load.training_mode import TrainingMode

# Prefixes of their keys.
A_PREFIX, B_PREFIX, DIFFERENCE_PREFIX = (SHARED_INPUT_PREFIX, "B.", "difference.")
DIFFERENCE_TABLE = "differences"
ONNX_FLOAT = 1  # onnx.TensorProto.FLOAT


@dataclass(frozen=True)
class ComparisonModel:
    """Two networks to compare.

    With `shared_input` both networks read the input of `a`; with `shared_weights` equal weights are
    stored once, as those of `a`. `observe` selects the layers to compare: "all", "outputs", or
    their names.
    """

    a: ComparisonSide
    b: ComparisonSide
    shared_input: bool
    shared_weights: bool
    observe: str | Sequence[str] = "all"
    titles: tuple[str, str] = ("", "")
    user_model: ClassVar[None] = None

    @property
    def input_arrays(self) -> tuple[Array, ...]:
        """The inputs of the joined Graph: those of A, then those of B."""
        return (
            self.a.input_arrays
            if self.shared_input
            else (*self.a.input_arrays, *self.b.input_arrays)
        )

    @property
    def batch_size(self) -> int:
        """The number of examples in the inputs."""
        return next((array.shape[0] for array in self.a.input_arrays if array.shape), 1)

    @cached_property
    def graph(self) -> Graph:
        """The Graph of both networks and of the differences."""
        return _join_graphs(self)

    @property
    def sides(self) -> tuple[ComparisonSide, ComparisonSide]:
        """Both sides."""
        return self.a, self.b

    @property
    def base_models(self) -> tuple[TorchModel | OnnxModel, ...]:
        """The base models (modules and files) of both sides."""
        return tuple(leaf for side in self.sides for leaf in side.model.base_models)

    def load(
        self,
        x: Any,
        collected_values: ValuesByKey | None = None,
        load_base: BaseLoader | None = None,
    ) -> LoadResult:
        """Return the joined Graph and the inputs of both."""
        return self.graph, self.input_arrays

    def load_partial(self, x: Any) -> None:
        """Return None: both sides are already loaded."""

    load_each_module = return_no_modules
    check_gradients = skip_gradient_checks
    convert_state_dict = return_state_dict
    state_dict = copy_arrays
    state_dict_arrays = copy_arrays

    def initial_weights(self, seed: int) -> dict[str, Any]:
        """Raise InputError: a comparison is not a single model."""
        raise _not_a_model_error("initial")

    def write_onnx(
        self, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
    ) -> Path:
        """Raise InputError: a comparison is not a single model."""
        raise _not_a_model_error("to_onnx")

    def training_mode(self) -> TrainingMode:
        """Raise InputError: a comparison is not a single model."""
        raise _not_a_model_error("train")


def _not_a_model_error(error_subject: str) -> InputError:
    return InputError(
        f"{error_subject}: a comparison is not a model; use a Viewer of one of its two models"
    )


def _join_graphs(comparison: ComparisonModel) -> Graph:
    a, b = comparison.a.graph, comparison.b.graph
    names_a, names_b = _joined_value_names(comparison)
    all_pairs = _match_layers(comparison)
    pairs = _select_pairs(all_pairs, comparison.observe)
    values = {
        names[value.name]: replace(value, name=names[value.name])
        for graph, names in ((b, names_b), (a, names_a))
        for value in graph.values.values()
    }
    differences = _DifferenceBuilder(values, comparison.batch_size)
    records = tuple(
        LayerPair(one.name, A_PREFIX + one.name, B_PREFIX + other.name,
                  DIFFERENCE_PREFIX + one.name,
                  differences.add_row(names_a[one.value_name], names_b[other.value_name]))
        for one, other in pairs
    )  # fmt: skip
    keys = _join_keys(comparison, names_a, names_b)
    keys += (
        ValueKey(pair.difference, differences.difference_names[pair.row], "module")
        for pair in records
    )
    keys.append(ValueKey(DIFFERENCE_TABLE, differences.add_table(), "module"))
    sides = ((a, names_a, A_PREFIX), (b, names_b, B_PREFIX))
    inputs = [names_a[name] for name in a.inputs]
    if not comparison.shared_input:
        inputs += (names_b[name] for name in b.inputs)
    return Graph(
        name=a.name if a.name == b.name else f"{a.name} and {b.name}",
        nodes=(
            *(_rename_node(node, *side[1:]) for side in sides for node in side[0].nodes),
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
        folded_nodes=tuple(_rename_node(node, *side[1:]) for side in sides
                           for node in side[0].folded_nodes),
        framework=a.framework if a.framework == b.framework else "onnx",
        notes=tuple(dict.fromkeys((*a.notes, *b.notes))),
        comparison=_comparison_record(comparison, records, all_pairs),
        constant_reads=frozenset(prefix + name for graph, _, prefix in sides
                                 for name in graph.constant_reads),
        class_names=_common_class_names(a, b),
        batch_dependences=MappingProxyType({
            prefix + name: one
            for graph, _, prefix in sides
            for name, one in graph.batch_dependences.items()
        }),
        call_parents=MappingProxyType({
            prefix + call: prefix + around
            for graph, _, prefix in sides
            for call, around in graph.call_parents.items()
        }),
        noise_defaults=MappingProxyType({
            names[value]: names[constant]
            for graph, names, _ in sides[::-1]
            for value, constant in graph.noise_defaults.items()
        }),
        input_structure=_join_arguments(comparison),
        preprocess_keys=tuple(prefix + name for graph, _, prefix in sides
            for name in graph.preprocess_keys),
        picture_fits=MappingProxyType({
            names[value]: fit for graph, names, _ in sides
            for value, fit in graph.picture_fits.items()
        }),
    )  # fmt: skip


def _join_arguments(comparison: ComparisonModel) -> ForwardArguments | None:
    """The joined Arguments; None if both networks take plain arrays. A shared input is A's."""
    sides = [
        (A_PREFIX, comparison.a.graph),
        *([] if comparison.shared_input else [(B_PREFIX, comparison.b.graph)]),
    ]
    if all(graph.input_structure is None for _, graph in sides):
        return None
    found = [
        (
            prefix,
            graph.input_structure
            or make_plain_arguments([spec.name for spec in graph_input_specs(graph)]),
        )
        for prefix, graph in sides
    ]
    return ForwardArguments(
        (),
        {},
        tuple(prefix + name for prefix, own in found for name in own.input_names),
        tuple(prefix + name for prefix, own in found for name in own.positional_names),
        {prefix + path: text for prefix, own in found for path, text in own.constant_texts.items()},
    )


def split_sides(
    comparison: ComparisonModel, graph: Graph, arrays: Sequence[Array]
) -> list[tuple[str, ComparisonSide]]:
    """Return each side's key prefix, and the side with the joined Graph's weights and inputs."""
    count = len(comparison.a.input_arrays)
    given = (arrays[:count], arrays[:count] if comparison.shared_input else arrays[count:])
    found = []
    for prefix, side, own in zip(
        (A_PREFIX, B_PREFIX), (comparison.a, comparison.b), given, strict=True
    ):
        weights = {
            n: graph.values[graph.parameters[prefix + n]].data for n in side.graph.parameters
        }
        now = with_parameters(side.graph, weights)
        found.append((prefix, ComparisonSide(side.model, now, tuple(own))))
    return found


def compute_differences(
    comparison: ComparisonModel,
    graph: Graph,
    side_values: Mapping[str, Array],
    wanted_keys: Container[str],
) -> dict[str, Array]:
    """Compute the joined Graph's differences and table from the values of both sides."""
    assert graph.comparison is not None
    made: dict[str, Array] = {}
    rows: dict[int, list[Array]] = {}
    batch = comparison.batch_size
    for pair in graph.comparison.pairs:
        if DIFFERENCE_TABLE not in wanted_keys and pair.difference not in wanted_keys:
            continue
        a, b = (_to_float_array(side_values[key]) for key in (pair.a, pair.b))
        made[pair.difference] = b - a
        each = (batch, -1) if a.shape[:1] == (batch,) else (1, -1)
        size, own = (np.abs(array).reshape(each) for array in (b - a, a))
        sizes = (size.mean(1, np.float64), size.max(1), own.mean(1, np.float64))
        rows[pair.row] = [np.broadcast_to(one, batch) for one in sizes]
    if DIFFERENCE_TABLE in wanted_keys:
        numbers = [number for k in sorted(rows) for number in rows[k]]
        made[DIFFERENCE_TABLE] = np.stack(numbers, axis=1).astype(b.dtype)
    return made


def _to_float_array(array: Array) -> Array:
    """Convert to float32; float64 stays float64."""
    return np.asarray(array, np.float64 if array.dtype == np.float64 else np.float32)


def _common_class_names(a: Graph, b: Graph) -> tuple[str, ...]:
    """The class names of both networks; empty if they differ, as neither fits the difference."""
    if a.class_names and b.class_names and a.class_names != b.class_names:
        return ()
    return a.class_names or b.class_names


def _joined_value_names(comparison: ComparisonModel) -> tuple[dict[str, str], dict[str, str]]:
    """Map value names of both networks to joined names; shared values get A's names."""
    a, b = comparison.a.graph, comparison.b.graph
    names_a = {name: A_PREFIX + name for name in a.values}
    names_b = {name: B_PREFIX + name for name in b.values}
    if comparison.shared_weights:
        names_b.update((n, names_a[n]) for n in b.values if _same_constant(a, b, n))
    if comparison.shared_input:
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


def _rename_node(node: Node, new_names: Mapping[str, str], prefix: str) -> Node:
    return replace(
        node,
        name=prefix + node.name,
        inputs=tuple(new_names[name] for name in node.inputs),
        outputs=tuple(new_names[name] for name in node.outputs),
        module=prefix + node.module if node.module else "",
        module_call=prefix + node.module_call,
    )


def _join_keys(
    comparison: ComparisonModel, names_a: Mapping[str, str], names_b: Mapping[str, str]
) -> list[ValueKey]:
    """The keys of both networks, inputs first; a shared input is A's."""
    sides = ((comparison.a.graph, names_a, A_PREFIX), (comparison.b.graph, names_b, B_PREFIX))
    keys = [
        replace(
            key,
            name=prefix + key.name,
            value_name=names[key.value_name],
            module_call=None if key.module_call is None else prefix + key.module_call,
        )
        for graph, names, prefix in sides
        for key in graph.keys
        if not (prefix == B_PREFIX and comparison.shared_input and key.kind == "input")
    ]
    return sorted(keys, key=lambda key: key.kind != "input")


def _match_layers(comparison: ComparisonModel) -> KeyPairs:
    """Match the layers of both networks; also inputs, if they are not shared."""
    pairs = match_keys(comparison.a.graph, comparison.b.graph)
    if comparison.shared_input:
        pairs = [(one, other) for one, other in pairs if one.kind != "input"]
    if all(one.kind == "input" for one, _ in pairs):
        raise _no_pairs_error(comparison)
    return pairs


def _select_pairs(pairs: KeyPairs, observe: str | Sequence[str]) -> KeyPairs:
    """Select the pairs to observe."""
    check_observe(observe)
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
            raise KeyError(
                f"observe: {name!r} is not a layer of both models{suggest_names(name, known)}"
            )
    return [(one, other) for one, other in pairs if one.name in observe]


def _no_pairs_error(comparison: ComparisonModel) -> ModelError | InputError:
    shapes = [[array.shape for array in side.input_arrays] for side in (comparison.a, comparison.b)]
    if shapes[0] != shapes[1]:
        given = " and ".join(", ".join(map(str, some)) for some in shapes)
        return InputError(
            f"inputs of the shapes {given} can't be compared: give both the same shape"
        )
    outputs = " and ".join(
        ", ".join(str(side.graph.shape(v)) for v in side.graph.outputs)
        for side in (comparison.a, comparison.b)
    )
    return ModelError(
        f"{comparison.a.graph.name} and {comparison.b.graph.name} can't be compared: no layer of "
        f"one has the shape of a layer of the other (their outputs are {outputs})"
    )


def _comparison_record(
    comparison: ComparisonModel, pairs: tuple[LayerPair, ...], all_pairs: KeyPairs
) -> Comparison:
    """The record of the compared pairs and of the unmatched layers."""
    paired = {name for a, b in all_pairs for name in (A_PREFIX + a.name, B_PREFIX + b.name)}
    alone = [
        tuple(
            prefix + key.name
            for key in side.graph.keys
            if key.kind in ("layer", "output") and prefix + key.name not in paired
        )
        for side, prefix in ((comparison.a, A_PREFIX), (comparison.b, B_PREFIX))
    ]
    return Comparison(comparison.titles, pairs, alone[0], alone[1], DIFFERENCE_TABLE)


@dataclass
class _DifferenceBuilder:
    """Builds the nodes of B − A and of the table, which has a row for each pair of values."""

    values: dict[str, Value]  # the joined Graph's values; constants are added
    batch_size: int
    nodes: list[Node] = field(default_factory=list)
    difference_names: list[str] = field(default_factory=list)
    _row_by_pair: dict[tuple[str, str], int] = field(default_factory=dict)
    _reduction_names: list[str] = field(default_factory=list)  # values with one number per example

    def add_row(self, a: str, b: str) -> int:
        """Add the difference of two values, if it is new, and return its row."""
        if (known := self._row_by_pair.get((a, b))) is not None:
            return known
        shape = self.values[a].shape
        left, right = self._cast_to_float(a), self._cast_to_float(b)
        difference = self._add_node("Sub", right, left)
        size = self._add_node("Abs", difference)
        self._reduction_names += (
            self._reduce_examples("ReduceMean", size, shape),
            self._reduce_examples("ReduceMax", size, shape),
            self._reduce_examples("ReduceMean", self._add_node("Abs", left), shape),
        )
        self.difference_names.append(difference)
        self._row_by_pair[a, b] = len(self.difference_names) - 1
        return self._row_by_pair[a, b]

    def add_table(self) -> str:
        """Add the table of all rows side by side, shape (examples, 3 · rows); return its name."""
        return self._add_node("Concat", *self._reduction_names, axis=1)

    def _cast_to_float(self, name: str) -> str:
        return (
            name
            if self.values[name].dtype.kind == "f"
            else self._add_node("Cast", name, to=ONNX_FLOAT)
        )

    def _reduce_examples(self, op: str, name: str, shape: tuple[int, ...]) -> str:
        """Reduce to one number per example; without a batch axis, the same number for all."""
        if shape and shape[0] == self.batch_size:
            flat = self._add_node("Reshape", name, self._add_integers(self.batch_size, -1))
            return self._add_node(op, flat, self._add_integers(1), keepdims=1)
        flat = self._add_node("Reshape", name, self._add_integers(1, -1))
        number = self._add_node(op, flat, self._add_integers(1), keepdims=1)
        return self._add_node("Expand", number, self._add_integers(self.batch_size, 1))

    def _add_node(self, op: str, *inputs: str, **attributes: int) -> str:
        name = f"{DIFFERENCE_PREFIX}{op} {len(self.nodes)}"
        node = Node(name, op, inputs, (name,), MappingProxyType(attributes))
        self.nodes.append(node)
        return name

    def _add_integers(self, *numbers: int) -> str:
        name = f"{DIFFERENCE_PREFIX}{numbers}"
        data = np.array(numbers, np.int64)
        self.values[name] = Value(name, data.shape, data.dtype, data)
        return name
