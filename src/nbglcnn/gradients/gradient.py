"""`nbglcnn.gradient`: gradients of a layer's elements, by inputs, layers and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nbglcnn.errors import InputError, unknown_name_message
from nbglcnn.gradients.vjp import add_vjp
from nbglcnn.gradients.weight_recomputation import unfold_constants
from nbglcnn.graph import Array, Graph, ValueKey
from nbglcnn.load import wrap_model
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
    """Compute the gradient of a sum of elements with respect to inputs, layers and parameters.

    It runs on local OpenGL, in eval mode.

    Args:
        model: A torch module or an ONNX model, as for `compile`.
        x: An example input, as for `compile`.
        of: The value whose elements are summed: an output or a layer. `"output"` (default) and
            `"input"` also select the only output or input of a network that has another name for
            it.
        index: The elements of `of` to sum, indexed as in numpy: `(0, 3)` is score 3 of the first
            example. Default: all.
        wrt: Names of inputs, layers and parameters (`input`, `encoder.0`, `encoder.0.weight`).
            Default: the input.
        preprocess: The steps from a picture to the model's input, as for `compile`. The gradient is
            with respect to the model's own input.

    Returns:
        A dict with a float32 array for each name of `wrt`, in the shape of the value. It is zero if
        the sum doesn't depend on the value.

    Raises:
        KeyError: If a value doesn't exist.
        InputError: If `index` doesn't fit, or a value has integers.
        UnsupportedOperator: If an operator on the path has no gradient. The message names the
            layer.
        UnsupportedModel: If the model's own code changes a gradient, by `detach()`,
            `torch.no_grad`, an `autograd.Function` or a backward hook. The message names the line.

    Source: reverse-mode differentiation; gradients equal `torch.autograd`'s up to float32 rounding.

    Example:
        >>> saliency = nbglcnn.gradient(model, x, index=(0, label))["input"]
    """
    names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
    model = wrap_model(model, preprocess)
    graph, arrays = model.load(x)
    values = {name: _value_name(graph, name) for name in names}
    target = _value_name(graph, of)
    constants = {v for v in values.values() if graph.values[v].is_constant}
    graph = infer_shapes(unfold_constants(graph, constants))
    for name in (of, *names):
        value = graph.values[target if name == of else values[name]]
        if value.dtype.kind != "f":
            raise InputError(f"{name} is {value.dtype.name}; only real values have gradients")
    model.check_gradients(x, graph, set(values.values()))
    chosen = np.zeros(graph.shape(target), np.float32)
    try:
        places: Any = ... if index is None else index
        np.add.at(chosen, places, 1)  # an index may repeat an element
    except (IndexError, TypeError, ValueError) as error:
        shape = graph.shape(target)
        raise InputError(f"index={index!r} does not fit {of}, of shape {shape}: {error}") from error
    whole, found = add_vjp(graph, target, set(values.values()), chosen)
    if found:
        keys = [key for key in whole.keys if key.kind in ("input", "contributed")]
        keys += [ValueKey(f"gradient {v}", one, "output") for v, one in found.items()]
        whole = replace(
            whole, keys=tuple(keys), outputs=tuple(found.values()), parameters={},
            carries=(), class_names=(), call_parents={}, preprocess_keys=(),
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
    """The value of an input, output, layer or parameter; KeyError if it doesn't exist."""
    keys: dict[str, str] = {}
    for key in graph.keys:
        keys.setdefault(key.name, key.value_name)
    if name in keys:
        return keys[name]
    if name in graph.parameters:
        return graph.parameters[name]
    # An ONNX file may use another name; a single input or output is unambiguous.
    own = [key for key in graph.keys if key.value_name not in graph.noise_defaults]
    of_kind = [key.value_name for key in own if key.kind == name]
    if name in ("input", "output") and len(of_kind) == 1:
        return of_kind[0]
    raise KeyError(
        unknown_name_message(name, [*keys, *graph.parameters], shared=graph.shared_modules)
    )
