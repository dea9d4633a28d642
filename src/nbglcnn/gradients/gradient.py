"""`nbglcnn.gradient`: how much the elements of a layer depend on inputs, layers and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nbglcnn.errors import InputError, unknown_name_message
from nbglcnn.gradients.vjp import add_vjp
from nbglcnn.gradients.weight_recomputation import unfold_constants
from nbglcnn.graph import Array, Graph, Key
from nbglcnn.load import model_of
from nbglcnn.lowering.lower import lower
from nbglcnn.lowering.shape_inference import infer_shapes
from nbglcnn.runtime.session import Session


def gradient(
    model: Any,
    x: Any = None,
    of: str = "output",
    index: Any = None,
    wrt: str | Sequence[str] = ("input",),
    *,
    preprocess: Any = None,
) -> dict[str, Array]:
    """The gradient of a sum of elements with respect to inputs, layers and parameters.

    It runs on local OpenGL, in eval mode: a classifier's saliency is
    `gradient(model, x, index=(0, label))["input"]`.

    Args:
        model: a torch module or an ONNX model, as in `compile`.
        x: an example input, as in `compile`.
        of: the value whose elements are summed: an output or a layer. "output" and "input" also
            stand for the only one of a network that calls it otherwise.
        index: which of its elements, as numpy indexes it: (0, 3) is score 3 of the first example.
            By default all.
        wrt: names of inputs, layers and parameters (`input`, `encoder.0`, `encoder.0.weight`).
        preprocess: what is done to a picture before the model, as in `compile`. The gradient is
            that of the model's own input then, too.

    Returns:
        For each name of `wrt` a float32 array of that value's shape; zeros where the sum doesn't
        depend on it.

    Raises:
        KeyError: there is no value of such a name.
        InputError: `index` doesn't fit, or a value is of integers.
        UnsupportedOperator: naming the layer, where an operator on the way has no gradient.
        UnsupportedModel: naming the line, where the model's own code changes gradients, by
            detach(), torch.no_grad, an autograd.Function or a backward hook.
    """
    names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
    model = model_of(model, preprocess)
    graph, arrays = model.load(x)
    values = {name: _value_name(graph, name) for name in names}
    target = _value_name(graph, of)
    constants = {v for v in values.values() if graph.values[v].is_constant}
    graph = infer_shapes(unfold_constants(graph, constants))
    for name in (of, *names):
        value = graph.values[target if name == of else values[name]]
        if value.dtype.kind != "f":
            raise InputError(f"{name} is of {value.dtype.name}; only real numbers have gradients")
    model.check_gradients(x, graph, set(values.values()))
    chosen = np.zeros(graph.shape(target), np.float32)
    try:
        places: Any = ... if index is None else index
        np.add.at(chosen, places, 1)  # an element may be named twice
    except (IndexError, TypeError, ValueError) as error:
        shape = graph.shape(target)
        raise InputError(f"index={index!r} does not fit {of}, of shape {shape}: {error}") from error
    whole, found = add_vjp(graph, target, set(values.values()), chosen)
    if found:
        keys = [key for key in whole.keys if key.kind in ("input", "contributed")]
        keys += [Key(f"gradient {v}", one, "output") for v, one in found.items()]
        whole = replace(
            whole, keys=tuple(keys), outputs=tuple(found.values()), parameters={},
            carries=(), classes=(), calls={}, preprocess=(),
        )  # fmt: skip
        with Session(lower(whole, observe="outputs")) as session:
            results = session.run(*arrays)
    return {
        name: results[f"gradient {value}"]
        if value in found
        else np.zeros(graph.shape(value), np.float32)
        for name, value in values.items()
    }


def _value_name(graph: Graph, name: str) -> str:
    """The value of an input, output, layer or parameter; KeyError where there is none."""
    keys: dict[str, str] = {}
    for key in graph.keys:
        keys.setdefault(key.name, key.value)
    if name in keys:
        return keys[name]
    if name in graph.parameters:
        return graph.parameters[name]
    # An ONNX file calls them otherwise; of one there is no doubt.
    own = [key for key in graph.keys if key.value not in graph.noise]
    of_kind = [key.value for key in own if key.kind == name]
    if name in ("input", "output") and len(of_kind) == 1:
        return of_kind[0]
    raise KeyError(
        unknown_name_message(name, [*keys, *graph.parameters], shared=graph.shared_modules)
    )
