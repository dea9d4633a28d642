"""Loading: the only place that knows torch, onnx and the file system. Gives a Graph and its inputs.

Nothing of torch or onnx is imported before a model is given.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import InputError, ModelError, NbglcnnError, UnsupportedModel
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.arguments import Spec, as_arrays
from nbglcnn.load.arguments import Arguments, arguments_of, check_names
from nbglcnn.load.joined import Joined, Side
from nbglcnn.load.names import arrays_for
from nbglcnn.load.parameters import parameters_of, unwrapped_names, with_numbers, with_parameters
from nbglcnn.load.prepared import Pictured, Prepared, bare, behind, front, pictured, prepared
from nbglcnn.load.torch.isolation.process_state import one_at_a_time

if TYPE_CHECKING:
    from nbglcnn.load.onnx.model import Given, Part
    from nbglcnn.load.torch.module import Missing, Problems
    from nbglcnn.load.torch.weights.parameter_snapshots import Copied, Tensors

__all__ = [
    "Joined",
    "Prepared",
    "Side",
    "alone",
    "arrays_for",
    "arrays_of",
    "as_loaded",
    "bare",
    "behind",
    "check_gradients",
    "copied",
    "front",
    "initial",
    "is_module",
    "load",
    "one_at_a_time",
    "parameters_of",
    "partly",
    "prepared",
    "rewrites",
    "rewritten_shape_inputs",
    "tensors_in",
    "tensors_of",
    "unwrapped_names",
    "with_numbers",
    "with_parameters",
    "with_picture",
    "write_onnx",
]


def load(
    model: Any,
    x: Any = None,
    known: dict[str, Array] | None = None,
    problems: Problems | None = None,
    missing: Missing | None = None,
) -> tuple[Graph, tuple[Array, ...]]:
    """The Graph of a torch module, an ONNX ModelProto, its bytes or its file, and all its inputs.

    `x` is an example input (a tuple for several, or a dict by name); only an ONNX model with static
    shapes can do without. Behind its arrays come those that stand for what forward draws. `known`
    receives by key what was computed of `x` on the way: of a torch module the values that its
    modules gave, else nothing. `problems` says of the nodes of a torch module's Graph why they
    cannot run: they, or the modules that hold what cannot be exported, are left to Python then.
    `missing` says so of an operator by its name.
    """
    if isinstance(model, Joined):
        return model.graph, model.arrays
    if isinstance(model, Prepared):
        given = with_picture(model, x)
        graph, arrays = load(model.model, given.arrays, known, problems, missing)
        return given.whole(graph, known), (given.inputs[0], *arrays[1:])
    with one_at_a_time():
        return _load(model, x, known, problems, missing)


def with_picture(model: Prepared, x: Any) -> Pictured:
    """The inputs that a model and its Preprocess get of `x`: pictures, or zeros of its size."""
    own = model.model
    if is_module(own):
        from nbglcnn.load.torch.isolation.copies import (
            image_channels,
            input_names,
            parameters_by_name,
            unwrapped,
        )
        from nbglcnn.load.torch.record.random_draws import parted

        whole, called = unwrapped(own), type(own).__name__
        x, noise = parted(whole, x)
        by_position, _, defaults = parameters_by_name(whole)
        found = None if x is None else arguments_of(x, by_position, defaults)
        if found is not None:
            arguments, x = found
            specs = [Spec(name) for name in arguments.names]
            given = pictured(model.preprocess, x, specs, image_channels(own), called, noise.given)
            return replace(given, arguments=arguments)
        count = len(x) if isinstance(x, tuple | Mapping) else 1
        specs = [Spec(name) for name in input_names(whole, count)]
        return pictured(model.preprocess, x, specs, image_channels(own), called, noise.given)
    from nbglcnn.load.onnx.model import input_specs

    specs = input_specs(checked_model(own))
    if not specs:
        raise InputError("preprocess: the model has no inputs")
    drawn: Mapping[str, Any] | tuple[Any, ...] = ()
    if isinstance(x, Mapping):
        names = {spec.name for spec in specs}
        drawn = {name: one for name, one in x.items() if name not in names}
        x = {name: one for name, one in x.items() if name in names}
    elif isinstance(x, tuple):
        x, drawn = x[: len(specs)], x[len(specs) :]
    return pictured(model.preprocess, x, specs, None, "the model", drawn)


def _load(
    model: Any,
    x: Any,
    known: dict[str, Array] | None,
    problems: Problems | None,
    missing: Missing | None,
) -> tuple[Graph, tuple[Array, ...]]:
    if is_module(model):
        from nbglcnn.load.torch.isolation.copies import unwrapped
        from nbglcnn.load.torch.isolation.process_state import uncollected
        from nbglcnn.load.torch.module import load_module
        from nbglcnn.load.torch.record.random_draws import parted

        if x is None:
            raise InputError(
                f"{type(model).__name__} needs an example input: its shapes come from there. "
                "Give x, for example numpy.zeros((1, 3, 64, 64), 'float32')"
            )
        own, noise = parted(unwrapped(model), x)
        arguments, arrays = _arguments_of(model, own)
        with uncollected():
            return load_module(model, arrays, known, problems, missing, noise, arguments)
    from nbglcnn.load.onnx.model import load_onnx

    return load_onnx(checked_model(model), x)


def as_loaded(model: Any, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
    """The numbers that a state_dict gives a model, which may have code of its own to load it."""
    model = bare(model)
    if not is_module(model):
        return state_dict
    from nbglcnn.load.torch.weights.state_dict import as_loaded

    return as_loaded(model, state_dict)


def checked_model(model: Any) -> Any:
    """What may be an ONNX model; ModelError for anything else."""
    if isinstance(model, str | os.PathLike | bytes | bytearray | memoryview) or _is_proto(model):
        return model
    if hasattr(model, "read"):
        raise ModelError(
            f"{type(model).__name__} is not a model: give the file's path, or its bytes, as "
            "file.read() gives them"
        )
    if isinstance(model, type):
        name = model.__name__
        raise ModelError(f"{name} is a class, not a model: give an instance of it, {name}(…)")
    if isinstance(model, Mapping):
        raise ModelError(
            f"{type(model).__name__} is not a model: it holds weights. Build the module that they "
            "are of, module.load_state_dict(weights), and give the module"
        )
    raise ModelError(
        f"{type(model).__name__} is not a model: give a torch.nn.Module, an onnx.ModelProto or "
        "a path to an .onnx file"
    )


def _arguments_of(model: Any, x: Any) -> tuple[Arguments | None, tuple[Array, ...]]:
    """How a torch module is called with its example input, where not by arrays alone, and these."""
    from nbglcnn.load.torch.isolation.copies import (
        image_channels,
        input_names,
        parameters_by_name,
        unwrapped,
    )

    by_position, every, defaults = parameters_by_name(unwrapped(model))
    specs = None
    if (found := arguments_of(x, by_position, defaults)) is not None:
        arguments, own = found
        if every is not None:
            check_names(arguments.by_name, every)
        specs = tuple(Spec(name) for name in arguments.names)
        return arguments, as_arrays(own, specs, channels=image_channels(model))
    if isinstance(x, Mapping):
        specs = tuple(Spec(name) for name in input_names(unwrapped(model), len(x)))
    return None, as_arrays(x, specs, channels=image_channels(model))


def alone(model: Any, x: Any) -> list[tuple[str, str, Graph | NbglcnnError]]:
    """Of a torch module that cannot be loaded as a whole each module by itself: path, type, Graph.

    An error in place of a Graph says why not; of other models there is nothing.
    """
    if isinstance(model, Prepared) and is_module(model.model):
        return alone(model.model, with_picture(model, x).arrays)
    if not is_module(model):
        return []
    from nbglcnn.load.torch.isolation.copies import unwrapped
    from nbglcnn.load.torch.per_module import pieces
    from nbglcnn.load.torch.record.random_draws import parted

    with one_at_a_time():
        try:
            own, _ = parted(unwrapped(model), x)
        except UnsupportedModel:  # it hides its modules
            return []
        arguments, arrays = _arguments_of(model, own)
        return pieces(model, arrays, arguments)


def check_gradients(model: Any, x: Any, graph: Graph, wrt: Collection[str]) -> None:
    """Raise UnsupportedModel where a torch module's own code changes a gradient.

    Args:
        model: what `graph` was loaded from; nothing is checked of an ONNX model or a Joined.
        x: the example input that it was loaded with.
        graph: the loaded network.
        wrt: names of the Graph's values whose gradients are asked for.
    """
    own = bare(model)
    if not is_module(own):
        return
    from nbglcnn.load.torch.checks.gradient_overrides import refuse_overrides
    from nbglcnn.load.torch.isolation.copies import unwrapped
    from nbglcnn.load.torch.record.random_draws import parted

    given = with_picture(model, x).arrays if isinstance(model, Prepared) else x
    arguments, arrays = _arguments_of(own, parted(unwrapped(own), given)[0])
    inputs = [value for value in graph.inputs if value not in graph.noise]
    parameters = {name for name, value in graph.parameters.items() if value in wrt}
    known = {*inputs, *graph.parameters.values()}
    at = [position for position, value in enumerate(inputs) if value in wrt]
    if isinstance(model, Prepared) or not known.issuperset(wrt):  # a layer: what it follows from
        parameters, at = set(graph.parameters), [*range(len(arrays))]
    refuse_overrides(own, arrays, parameters, inputs=at, arguments=arguments)


def partly(model: Any, x: Any, given: Given = MappingProxyType({})) -> Part | None:
    """Of an ONNX model with nodes that cannot be loaded: the Graph of the others, these and why.

    Nodes whose outputs are `given`, each with the reason, are left to Python. Of other models there
    is nothing.
    """
    if isinstance(model, Prepared) and not is_module(model.model):
        return partly(model.model, with_picture(model, x).arrays, given)
    if is_module(bare(model)) or isinstance(model, Joined):
        return None
    from nbglcnn.load.onnx.model import load_partly

    with one_at_a_time():
        return load_partly(model, x, given)


def rewrites(op: str, domain: str = "") -> bool:
    """Whether an operator is put into others, or nothing, while an ONNX model is loaded."""
    from nbglcnn.load.onnx.microsoft import KNOWN, MICROSOFT
    from nbglcnn.load.passes.decompose import DECOMPOSITIONS
    from nbglcnn.load.passes.rewrite import ALWAYS, SHAPE_INPUTS, UPGRADES

    if domain:
        return domain == MICROSOFT and op in KNOWN
    return op in ("Identity", "If", *ALWAYS, *UPGRADES, *DECOMPOSITIONS, *SHAPE_INPUTS)


def rewritten_shape_inputs(op: str) -> tuple[int, ...]:
    """Which inputs are shapes, of an operator that has no record because loading rewrites it."""
    from nbglcnn.load.passes.rewrite import SHAPE_INPUTS

    return SHAPE_INPUTS.get(op, ())


def tensors_of(model: Any, numbers: Mapping[str, Array]) -> dict[str, Any]:
    """The state_dict of a torch module with these numbers in it."""
    from nbglcnn.load.torch.weights.state_dict import tensors_of

    return tensors_of(model, numbers)


def tensors_in(model: Any, graph: Graph) -> Tensors:
    """The tensors of a torch module that a Graph has as its parameters; InputError without them."""
    from nbglcnn.load.torch.weights.parameter_snapshots import Tensors

    shapes = {name: graph.shape(value) for name, value in graph.parameters.items()}
    return Tensors(model, shapes, graph.name)


def copied(tensors: Mapping[str, Any]) -> Copied:
    """Tensors as they are now, to be asked for later."""
    from nbglcnn.load.torch.weights.parameter_snapshots import Copied

    return Copied(tensors)


def arrays_of(model: Any, numbers: Mapping[str, Array]) -> dict[str, Array]:
    """All numbers of a model with these in their places: of a torch module its whole state_dict."""
    model = bare(model)
    if not is_module(model):
        return dict(numbers)
    from nbglcnn.load.torch.weights.state_dict import arrays_of

    return arrays_of(model, numbers)


def initial(model: Any, seed: int) -> dict[str, Any]:
    """A torch module's weights by name, drawn anew by the `reset_parameters` of its modules.

    The model and the process's random numbers stay as they are. InputError for a module that
    doesn't draw its own, and for ONNX files, which don't say how theirs were drawn.
    """
    model = bare(model)
    if not is_module(model):
        raise InputError(
            'weights="random": an ONNX model doesn\'t say how its weights are drawn; give the '
            'torch.nn.Module that it was made from, or take weights="given"'
        )
    from nbglcnn.load.torch.weights.initialization import initial

    return initial(model, seed)


def write_onnx(
    model: Any, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
) -> Path:
    """Write an ONNX file of a model with these weights; `graph` is what it was loaded as.

    An ONNX model's own file is written again; PyTorch's exporter makes one of a torch module, for
    inputs of the Graph's shapes.
    """
    if not is_module(model):
        from nbglcnn.load.onnx.write import write_onnx

        return write_onnx(model, weights, path)
    from nbglcnn.load.torch.onnx_export import to_onnx

    alone = behind(graph)
    inputs = [alone.values[name] for name in alone.inputs if name not in alone.noise]
    shapes = [(value.shape, value.dtype) for value in inputs]
    with one_at_a_time():
        outputs = len(alone.outputs)
        return to_onnx(model, weights, shapes, outputs, Path(path), graph.arguments)


def is_module(model: Any) -> bool:
    """Whether it is a torch.nn.Module, told without importing torch."""
    names = {(c.__module__, c.__name__) for c in type(model).__mro__}
    return ("torch.nn.modules.module", "Module") in names


def _is_proto(model: Any) -> bool:
    """Whether it is an onnx.ModelProto, told without importing onnx."""
    return getattr(getattr(model, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto"
