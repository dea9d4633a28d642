"""A model of which the GPU runs a part: Python computes the layers that cannot, and says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import InputError, NbglcnnError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Graph, Node, assign_to_python
from nbglcnn.load import (
    ComparisonModel,
    ComparisonSide,
    LoadResult,
    Model,
    ValuesByKey,
    model_of,
    parameters_of,
    with_parameters,
)
from nbglcnn.load.draft import DependsOnUnsupported, UnknownOutput
from nbglcnn.load.onnx.onnx_model import OnnxModel
from nbglcnn.load.onnx.onnx_runtime import run_onnx_file
from nbglcnn.load.passes.evaluate import evaluate, run_graph
from nbglcnn.lowering.shape_inference import layer_name, python_fallback_nodes, unsupported_message
from nbglcnn.reference import cacheable_values, compute_reference, from_cache

if TYPE_CHECKING:
    from nbglcnn.load.torch.model import TorchModel

# What decides by numbers what is computed is refused, as in PyTorch.
CONTROL_FLOW = ("If", "Loop", "Scan", "SequenceMap")
# What cannot give more numbers than it reads, a few times over: nothing limits onnx.reference.
BOUNDED_OPERATORS = ("Unique", "NonZero", "Compress", "RNN", "LSTM", "GRU")


def load_with_fallback(
    model: Any, x: Any = None, known: dict[str, Array] | None = None
) -> tuple[Graph, tuple[Array, ...]]:
    """What `load` gives, but of layers that cannot run Python computes the values.

    What these are for `x` is in `known` then.

    Raises:
        UnsupportedModel: Python cannot compute them either, or numbers decide what is computed.
    """
    known = {} if known is None else known
    model = model_of(model)
    graph, arrays = model.load(x, known, _read_base)
    try:
        known.update(compute_python_values(model, graph, arrays, known))
    except NbglcnnError as error:
        node = next(iter(graph.python_nodes().values()))
        assert node.python_fallback is not None
        raise UnsupportedOperator(
            f"{layer_name(node)} ({node.python_fallback.operator}): "
            f"{node.python_fallback.reason}. Python cannot compute it instead: {error}"
        ) from error
    return graph, arrays


def _read_base(leaf: TorchModel | OnnxModel, x: Any, known: ValuesByKey | None) -> LoadResult:
    """A module's or file's Graph, in which Python computes the layers that cannot run."""
    if isinstance(leaf, OnnxModel):
        return _read_onnx(leaf, x)
    return leaf.load_base(x, known, python_fallback_nodes, unsupported_message)


def reduce_to_one_example(
    model: Model, graph: Graph, arrays: Sequence[Array], batch: int, *, strict: bool = False
) -> tuple[Model, Graph, tuple[Array, ...]]:
    """The model, its Graph with the weights that it has, and its inputs: of a batch's first."""
    if isinstance(model, ComparisonModel):
        sides = [ComparisonSide(*reduce_to_one_example(side.model, side.graph, side.arrays, batch,
                                                       strict=strict))
                 for side in model.sides]  # fmt: skip
        model = replace(model, a=sides[0], b=sides[1])
    first = tuple(array[:1] if array.shape[:1] == (batch,) else array for array in arrays)
    own = len(first) - len(graph.noise)
    x = first[:own] if graph.arguments is None else graph.arguments.example(first[:own])
    loaded, found = model.load(x) if strict else load_with_fallback(model, x)
    # Noise without an axis of the batch stays; where its shape follows from it in another way, not.
    found = tuple(
        old if old.shape == new.shape else new for old, new in zip(first, found, strict=True)
    )
    weights = parameters_of(graph)
    if isinstance(model, ComparisonModel):  # whose own inputs may be older ones
        found = first
    return model, with_parameters(loaded, weights), found


def _read_onnx(model: OnnxModel, x: Any) -> LoadResult:
    """The same of an ONNX model. What cannot be read is run first, for the shape of what it gives.

    The error of `load` where that doesn't help.
    """
    try:
        graph, arrays = model.load_base(x)
    except UnsupportedModel:
        known: dict[str, tuple[Array, str]] = {}
        while (more := _read_known_part(model, x, known)) is not None:
            graph, arrays, given = more
            if not given:
                break
            known |= given
        else:
            raise
    return assign_to_python(graph, python_fallback_nodes(graph)), arrays


def _read_known_part(
    model: OnnxModel, x: Any, known: Mapping[str, tuple[Array, str]]
) -> tuple[Graph, tuple[Array, ...], dict[str, tuple[Array, str]]] | None:
    """What can be read when some values are `known`, and the values of what then cannot, and why.

    None where these cannot be had. What lies behind them may be read when they are known.
    """
    part = model.load_partial(x, known)
    wrong = [
        (node, error)
        for node, error in part.unsupported_nodes
        if not isinstance(error, DependsOnUnsupported)
    ]
    if part.unsupported_nodes and not wrong:
        return None
    # What is too large, or decides by numbers, nobody else is asked for.
    if not all(
        isinstance(error, UnknownOutput) and node.op not in CONTROL_FLOW for node, error in wrong
    ):
        return None
    names = [name for node, _ in wrong for name in node.outputs if name]
    found = run_onnx_file(model.source, part.graph, part.arrays, names) if names else {}
    given: dict[str, tuple[Array, str]] = {}
    for node, error in wrong:
        own = [name for name in node.outputs if name]
        if not all(name in found for name in own):
            found |= _run_node(part.graph, part.arrays, node)
        if not own or not all(_is_numeric_array(found.get(name)) for name in own):
            return None
        given |= {name: (found[name], str(error)) for name in own}
    return part.graph, part.arrays, given


def _is_numeric_array(array: object) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "fiub"


def _run_node(graph: Graph, arrays: Sequence[Array], node: Node) -> dict[str, Array]:
    """What onnx.reference makes of a node's inputs, where there is no ONNX Runtime."""
    if node.domain or node.op not in BOUNDED_OPERATORS:
        return {}
    known = dict(zip(graph.inputs, arrays, strict=True))
    values = {key.name: key.value for key in graph.keys}
    names = [name for name in node.inputs if name]
    try:
        found = run_graph(graph, known, [values.get(name, name) for name in names])
        return evaluate(node, {name: found[values.get(name, name)] for name in names})
    except (NbglcnnError, KeyError):
        return {}


def python_value_keys(graph: Graph) -> dict[str, str]:
    """The values that Python computes, and the key by which each is read."""
    own = graph.python_nodes()
    return {key.value: key.name for key in reversed(graph.keys) if key.value in own}


def compute_python_values(
    model: Model, graph: Graph, arrays: Sequence[Array], known: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """What the framework makes of the inputs for the layers that it computes, by key.

    `known` is what is known of these inputs already.

    Raises:
        InputError: it gives another shape for them than for the first.
        ModelError: it cannot.
    """
    keys = python_value_keys(graph)
    if not keys:
        return {}
    wanted = list(keys.values())
    cache = cacheable_values(graph, known, wanted) if known else {}
    found = (
        from_cache(graph, cache, wanted)
        if cache
        else compute_reference(model, graph, arrays, wanted)
    )
    nodes = graph.python_nodes()
    for value, key in keys.items():
        node, shape = nodes[value], graph.shape(value)
        assert node.python_fallback is not None
        if found[key].shape != shape:
            raise InputError(
                f"{layer_name(node)} ({node.python_fallback.operator}) runs in Python and "
                f"returned the shape {found[key].shape}; the first input gave {shape}. Create "
                "another Viewer for this input"
            )
    return {key: np.asarray(array, order="C") for key, array in found.items()}
