"""A model of which the GPU runs a part: Python computes the layers that cannot, and says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import InputError, NbglcnnError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Graph, Node, with_python
from nbglcnn.load import (
    Joined,
    Known,
    Loaded,
    Model,
    Side,
    model_of,
    parameters_of,
    with_parameters,
)
from nbglcnn.load.draft import DependsOnRefused, Unknown
from nbglcnn.load.onnx.onnx_model import OnnxModel
from nbglcnn.load.onnx.runtime import of_file
from nbglcnn.load.passes.evaluate import evaluate, run_graph
from nbglcnn.lowering.shapes import layer_name, left_to_python, missing
from nbglcnn.reference import cacheable, from_cache, reference

if TYPE_CHECKING:
    from nbglcnn.load.torch.model import TorchModel

# What decides by numbers what is computed is refused, as in PyTorch.
DECIDING = ("If", "Loop", "Scan", "SequenceMap")
# What cannot give more numbers than it reads, a few times over: nothing limits onnx.reference.
SHRINKING = ("Unique", "NonZero", "Compress", "RNN", "LSTM", "GRU")


def load_mixed(
    model: Any, x: Any = None, known: dict[str, Array] | None = None
) -> tuple[Graph, tuple[Array, ...]]:
    """What `load` gives, but of layers that cannot run Python computes the values.

    What these are for `x` is in `known` then.

    Raises:
        UnsupportedModel: Python cannot compute them either, or numbers decide what is computed.
    """
    known = {} if known is None else known
    model = model_of(model)
    graph, arrays = model.load(x, known, _read)
    try:
        known.update(values_in_python(model, graph, arrays, known))
    except NbglcnnError as error:
        node = next(iter(graph.in_python().values()))
        assert node.python is not None
        raise UnsupportedOperator(
            f"{layer_name(node)} ({node.python.operator}): {node.python.reason}. Python cannot "
            f"compute it in its place: {error}"
        ) from error
    return graph, arrays


def _read(leaf: TorchModel | OnnxModel, x: Any, known: Known | None) -> Loaded:
    """A module's or file's Graph, in which Python computes the layers that cannot run."""
    if isinstance(leaf, OnnxModel):
        return _of_onnx(leaf, x)
    return leaf.read(x, known, left_to_python, missing)


def of_first(
    model: Model, graph: Graph, arrays: Sequence[Array], batch: int, *, strict: bool = False
) -> tuple[Model, Graph, tuple[Array, ...]]:
    """The model, its Graph with the weights that it has, and its inputs: of a batch's first."""
    if isinstance(model, Joined):
        sides = [Side(*of_first(side.model, side.graph, side.arrays, batch, strict=strict))
                 for side in model.sides]  # fmt: skip
        model = replace(model, a=sides[0], b=sides[1])
    first = tuple(array[:1] if array.shape[:1] == (batch,) else array for array in arrays)
    own = len(first) - len(graph.noise)
    x = first[:own] if graph.arguments is None else graph.arguments.example(first[:own])
    loaded, found = model.load(x) if strict else load_mixed(model, x)
    # Noise without an axis of the batch stays; where its shape follows from it in another way, not.
    found = tuple(
        old if old.shape == new.shape else new for old, new in zip(first, found, strict=True)
    )
    weights = parameters_of(graph)
    if isinstance(model, Joined):  # whose own inputs may be older ones
        found = first
    return model, with_parameters(loaded, weights), found


def _of_onnx(model: OnnxModel, x: Any) -> Loaded:
    """The same of an ONNX model. What cannot be read is run first, for the shape of what it gives.

    The error of `load` where that doesn't help.
    """
    try:
        graph, arrays = model.read(x)
    except UnsupportedModel:
        known: dict[str, tuple[Array, str]] = {}
        while (more := _unread(model, x, known)) is not None:
            graph, arrays, given = more
            if not given:
                break
            known |= given
        else:
            raise
    return with_python(graph, left_to_python(graph)), arrays


def _unread(
    model: OnnxModel, x: Any, known: Mapping[str, tuple[Array, str]]
) -> tuple[Graph, tuple[Array, ...], dict[str, tuple[Array, str]]] | None:
    """What can be read when some values are `known`, and the values of what then cannot, and why.

    None where these cannot be had. What lies behind them may be read when they are known.
    """
    part = model.partly(x, known)
    wrong = [
        (node, error) for node, error in part.refused if not isinstance(error, DependsOnRefused)
    ]
    if part.refused and not wrong:
        return None
    # What is too large, or decides by numbers, nobody else is asked for.
    if not all(isinstance(error, Unknown) and node.op not in DECIDING for node, error in wrong):
        return None
    names = [name for node, _ in wrong for name in node.outputs if name]
    found = of_file(model.source, part.graph, part.arrays, names) if names else {}
    given: dict[str, tuple[Array, str]] = {}
    for node, error in wrong:
        own = [name for name in node.outputs if name]
        if not all(name in found for name in own):
            found |= _by_itself(part.graph, part.arrays, node)
        if not own or not all(_is_dense(found.get(name)) for name in own):
            return None
        given |= {name: (found[name], str(error)) for name in own}
    return part.graph, part.arrays, given


def _is_dense(array: object) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "fiub"


def _by_itself(graph: Graph, arrays: Sequence[Array], node: Node) -> dict[str, Array]:
    """What onnx.reference makes of a node's inputs, where there is no ONNX Runtime."""
    if node.domain or node.op not in SHRINKING:
        return {}
    known = dict(zip(graph.inputs, arrays, strict=True))
    values = {key.name: key.value for key in graph.keys}
    names = [name for name in node.inputs if name]
    try:
        found = run_graph(graph, known, [values.get(name, name) for name in names])
        return evaluate(node, {name: found[values.get(name, name)] for name in names})
    except (NbglcnnError, KeyError):
        return {}


def keys_in_python(graph: Graph) -> dict[str, str]:
    """The values that Python computes, and the key by which each is read."""
    own = graph.in_python()
    return {key.value: key.name for key in reversed(graph.keys) if key.value in own}


def values_in_python(
    model: Model, graph: Graph, arrays: Sequence[Array], known: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """What the framework makes of the inputs for the layers that it computes, by key.

    `known` is what is known of these inputs already.

    Raises:
        InputError: it gives another shape for them than for the first.
        ModelError: it cannot.
    """
    keys = keys_in_python(graph)
    if not keys:
        return {}
    wanted = list(keys.values())
    cache = cacheable(graph, known, wanted) if known else {}
    found = from_cache(graph, cache, wanted) if cache else reference(model, graph, arrays, wanted)
    nodes = graph.in_python()
    for value, key in keys.items():
        node, shape = nodes[value], graph.shape(value)
        assert node.python is not None
        if found[key].shape != shape:
            raise InputError(
                f"{layer_name(node)} ({node.python.operator}) is computed in Python, and gives "
                f"the shape {found[key].shape} for this input, {shape} for the first: make another "
                "Viewer for this input"
            )
    return {key: np.asarray(array, order="C") for key, array in found.items()}
