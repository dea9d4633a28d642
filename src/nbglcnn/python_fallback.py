"""Partial GPU support of a model: Python computes the layers that the GPU cannot run."""

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
    parameters_of,
    with_parameters,
    wrap_model,
)
from nbglcnn.load.draft import DependsOnUnsupportedError, UnknownOutputError
from nbglcnn.load.onnx.onnx_model import OnnxModel
from nbglcnn.load.onnx.onnx_runtime import run_onnx_file
from nbglcnn.load.passes.evaluate import evaluate, run_graph
from nbglcnn.lowering.shape_inference import layer_name, python_fallback_nodes, unsupported_message
from nbglcnn.reference import cacheable_values, compute_from_cache, compute_reference

if TYPE_CHECKING:
    from nbglcnn.load.torch.model import TorchModel

# Operators that decide by values what is computed are refused, as in PyTorch models.
CONTROL_FLOW = ("If", "Loop", "Scan", "SequenceMap")
# Operators whose outputs have at most a few times as many elements as their inputs: onnx.reference
# has no limit of its own.
BOUNDED_OUTPUT_OPERATORS = ("Unique", "NonZero", "Compress", "RNN", "LSTM", "GRU")


def load_with_fallback(
    model: Any, x: Any = None, collected_values: dict[str, Array] | None = None
) -> tuple[Graph, tuple[Array, ...]]:
    """Load a model like `load`, but let Python compute the layers that cannot run on the GPU.

    The values of these layers for `x` are added to `collected_values`.

    Raises:
        UnsupportedModel: If Python cannot compute them either, or if values decide what is
            computed.
    """
    collected_values = {} if collected_values is None else collected_values
    model = wrap_model(model)
    graph, arrays = model.load(x, collected_values, _load_base_model)
    try:
        collected_values.update(compute_python_values(model, graph, arrays, collected_values))
    except NbglcnnError as error:
        node = next(iter(graph.nodes_by_python_value().values()))
        assert node.python_fallback is not None
        raise UnsupportedOperator(
            f"{layer_name(node)} ({node.python_fallback.operator}): "
            f"{node.python_fallback.reason}. Python cannot compute it instead: {error}"
        ) from error
    return graph, arrays


def _load_base_model(
    base_model: TorchModel | OnnxModel, x: Any, collected_values: ValuesByKey | None
) -> LoadResult:
    """Load a module or file as a Graph in which Python computes the layers that cannot run."""
    if isinstance(base_model, OnnxModel):
        return _read_onnx(base_model, x)
    return base_model.load_base(x, collected_values, python_fallback_nodes, unsupported_message)


def load_single_example(
    model: Model, graph: Graph, arrays: Sequence[Array], batch: int, *, strict: bool = False
) -> tuple[Model, Graph, tuple[Array, ...]]:
    """Return the model, the Graph with its current weights, and the inputs, for one example."""
    if isinstance(model, ComparisonModel):
        sides = [ComparisonSide(*load_single_example(side.model, side.graph, side.input_arrays,
            batch,
                                                       strict=strict))
                 for side in model.sides]  # fmt: skip
        model = replace(model, a=sides[0], b=sides[1])
    first = tuple(array[:1] if array.shape[:1] == (batch,) else array for array in arrays)
    own = len(first) - len(graph.noise_defaults)
    x = first[:own] if graph.input_structure is None else graph.input_structure.example(first[:own])
    loaded, found = model.load(x) if strict else load_with_fallback(model, x)
    # Noise whose shape doesn't depend on the batch is kept; other noise is replaced.
    found = tuple(
        old if old.shape == new.shape else new for old, new in zip(first, found, strict=True)
    )
    weights = parameters_of(graph)
    if isinstance(model, ComparisonModel):  # its sides' own inputs may be outdated
        found = first
    return model, with_parameters(loaded, weights), found


def _read_onnx(model: OnnxModel, x: Any) -> LoadResult:
    """Load an ONNX model likewise; first run unreadable nodes, to learn their outputs' shapes.

    If that doesn't help, the error of `load` is raised.
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
    model: OnnxModel, x: Any, known_values: Mapping[str, tuple[Array, str]]
) -> tuple[Graph, tuple[Array, ...], dict[str, tuple[Array, str]]] | None:
    """Load the part that is readable with these `known_values` values, and compute what then isn't.

    Return the Graph, its inputs, and (value, reason) by the names of computed outputs. Return None
    if an output cannot be computed. Nodes behind these outputs may become readable once they are
    known.
    """
    part = model.load_partial(x, known_values)
    unsupported = [
        (node, error)
        for node, error in part.unsupported_nodes
        if not isinstance(error, DependsOnUnsupportedError)
    ]
    if part.unsupported_nodes and not unsupported:
        return None
    # Nodes with too large outputs, or that decide by values what is computed, are not run
    # elsewhere.
    if not all(
        isinstance(error, UnknownOutputError) and node.op not in CONTROL_FLOW
        for node, error in unsupported
    ):
        return None
    names = [name for node, _ in unsupported for name in node.outputs if name]
    found = run_onnx_file(model.user_model, part.graph, part.input_arrays, names) if names else {}
    given: dict[str, tuple[Array, str]] = {}
    for node, error in unsupported:
        own = [name for name in node.outputs if name]
        if not all(name in found for name in own):
            found |= _run_node(part.graph, part.input_arrays, node)
        if not own or not all(_is_numeric_array(found.get(name)) for name in own):
            return None
        given |= {name: (found[name], str(error)) for name in own}
    return part.graph, part.input_arrays, given


def _is_numeric_array(array: object) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "fiub"


def _run_node(graph: Graph, arrays: Sequence[Array], node: Node) -> dict[str, Array]:
    """Compute a node with onnx.reference, if ONNX Runtime doesn't give its outputs."""
    if node.domain or node.op not in BOUNDED_OUTPUT_OPERATORS:
        return {}
    known = dict(zip(graph.inputs, arrays, strict=True))
    values = {key.name: key.value_name for key in graph.keys}
    names = [name for name in node.inputs if name]
    try:
        found = run_graph(graph, known, [values.get(name, name) for name in names])
        return evaluate(node, {name: found[values.get(name, name)] for name in names})
    except (NbglcnnError, KeyError):
        return {}


def python_value_keys(graph: Graph) -> dict[str, str]:
    """The values that Python computes, each with the key under which it is read."""
    own = graph.nodes_by_python_value()
    return {key.value_name: key.name for key in reversed(graph.keys) if key.value_name in own}


def compute_python_values(
    model: Model,
    graph: Graph,
    arrays: Sequence[Array],
    known_values: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Compute the values of the layers in Python with the model's framework, by key.

    `known_values` are values that are already known for these inputs.

    Raises:
        InputError: If a value has another shape than for the first input.
        ModelError: If the framework cannot compute a value.
    """
    keys = python_value_keys(graph)
    if not keys:
        return {}
    wanted = list(keys.values())
    cache = cacheable_values(graph, known_values, wanted) if known_values else {}
    found = (
        compute_from_cache(graph, cache, wanted)
        if cache
        else compute_reference(model, graph, arrays, wanted)
    )
    nodes = graph.nodes_by_python_value()
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
