"""Loading: the only place that knows torch, onnx and the file system. Gives a Graph and its inputs.

Nothing of torch or onnx is imported before a model is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from nbglcnn.errors import InputError, ModelError, NbglcnnError
from nbglcnn.graph import Array, Graph, Node
from nbglcnn.inputs import Spec, as_arrays
from nbglcnn.load.joined import Joined, Side, differences, parts
from nbglcnn.load.names import specs_of
from nbglcnn.load.parameters import fitting, with_parameters
from nbglcnn.load.torch_thread import one_at_a_time

__all__ = [
    "Joined",
    "Side",
    "alone",
    "completed",
    "engine",
    "enough",
    "exact",
    "fitting",
    "load",
    "partly",
    "quick_reference",
    "reference",
    "rewrites",
    "specs_of",
    "with_parameters",
]


def load(
    model: Any, x: Any = None, known: dict[str, Array] | None = None
) -> tuple[Graph, tuple[Array, ...]]:
    """The Graph of a torch module, an ONNX ModelProto, its bytes or its file, and `x` as arrays.

    `x` is an example input (a tuple for several, or a dict by name); only an ONNX model with static
    shapes can do without. `known` receives by key what was computed of `x` on the way: of a torch
    module the values that its modules gave, else nothing.
    """
    if isinstance(model, Joined):
        return model.graph, model.arrays
    with one_at_a_time():
        return _load(model, x, known)


def _load(model: Any, x: Any, known: dict[str, Array] | None) -> tuple[Graph, tuple[Array, ...]]:
    if _is_module(model):
        from nbglcnn.load.torch_module import load_module

        if x is None:
            raise InputError(
                f"{type(model).__name__} needs an example input: its shapes come from there. "
                "Give x, for example numpy.zeros((1, 3, 64, 64), 'float32')"
            )
        arrays = _arrays_of(model, x)
        return load_module(model, arrays, known), arrays
    if isinstance(model, str | os.PathLike | bytes | bytearray | memoryview) or _is_proto(model):
        from nbglcnn.load.onnx_model import load_onnx

        return load_onnx(model, x)
    if hasattr(model, "read"):
        raise ModelError(
            f"{type(model).__name__} is not a model: give the file's path, or its bytes, as "
            "file.read() gives them"
        )
    raise ModelError(
        f"{type(model).__name__} is not a model: give a torch.nn.Module, an onnx.ModelProto or "
        "a path to an .onnx file"
    )


def _arrays_of(model: Any, x: Any) -> tuple[Array, ...]:
    """The example input of a torch module."""
    from nbglcnn.load.torch_check import image_channels, input_names, unwrapped

    specs = None
    if isinstance(x, Mapping):
        specs = tuple(Spec(name) for name in input_names(unwrapped(model), len(x)))
    return as_arrays(x, specs, channels=image_channels(model))


def alone(model: Any, x: Any) -> list[tuple[str, str, Graph | NbglcnnError]]:
    """Of a torch module that cannot be loaded as a whole each module by itself: path, type, Graph.

    An error in place of a Graph says why not; of other models there is nothing.
    """
    if not _is_module(model):
        return []
    from nbglcnn.load.torch_alone import pieces

    with one_at_a_time():
        return pieces(model, _arrays_of(model, x))


def partly(model: Any, x: Any) -> tuple[Graph, list[tuple[Node, str]], list[str]] | None:
    """Of an ONNX model with nodes that cannot be loaded: the Graph of the others, these and why.

    Besides the names of all values in the file's order. Of other models there is nothing.
    """
    if _is_module(model) or isinstance(model, Joined):
        return None
    from nbglcnn.load.onnx_model import load_partly

    with one_at_a_time():
        return load_partly(model, x)


def rewrites(op: str, domain: str = "") -> bool:
    """Whether an operator is put into others, or nothing, while an ONNX model is loaded."""
    from nbglcnn.load.onnx_microsoft import KNOWN, MICROSOFT
    from nbglcnn.load.rewrite import ALWAYS, UPGRADES
    from nbglcnn.load.spell import SPELT

    if domain:
        return domain == MICROSOFT and op in KNOWN
    return op in ("Identity", "If", *ALWAYS, *UPGRADES, *SPELT)


def reference(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str] | None = None
) -> dict[str, Array]:
    """The true value of every key: by PyTorch's forward hooks, or for ONNX by another engine.

    `names` are the keys that are wanted, where keeping the others can be spared.
    """
    from nbglcnn.load.truth import onnx_reference, torch_reference

    if isinstance(model, Joined):
        return _joined_reference(model, graph, arrays, names)
    if _is_module(model):
        with one_at_a_time():
            return torch_reference(model, graph, arrays, names)
    return onnx_reference(model, graph, arrays, names)


def exact(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str]
) -> dict[str, Array]:
    """The wanted keys in double precision, as far as the model can be run so in seconds.

    PyTorch runs its own modules; what an ONNX file holds is computed from its Graph by
    onnx.reference, for ONNX Runtime has hardly an operator for doubles.
    """
    from nbglcnn.load.truth import exact_reference, exactly

    if isinstance(model, Joined):
        return _joined_reference(model, graph, arrays, names, of=exact)
    if not _is_module(model):
        return exactly(graph, arrays, names)
    with one_at_a_time():
        return exact_reference(model, graph, arrays, names)


def enough(graph: Graph, known: Mapping[str, Array], names: Collection[str]) -> dict[str, Array]:
    """What of `known` the wanted keys follow from, for `completed`; nothing where it doesn't do."""
    from nbglcnn.load.truth import needed

    kept = needed(graph, names)
    return {name: known[name] for name in kept} if kept <= set(known) else {}


def completed(graph: Graph, known: Mapping[str, Array], names: Collection[str]) -> dict[str, Array]:
    """The wanted keys out of what `enough` kept."""
    from nbglcnn.load.truth import completed

    return completed(graph, known, names)


def quick_reference(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str]
) -> dict[str, Array] | None:
    """`reference` where an engine computes it that is quick with large networks, else None."""
    from nbglcnn.load.truth import runtime_reference

    if graph.source == "torch":
        return reference(model, graph, arrays, names)
    if isinstance(model, Joined):
        return None
    return runtime_reference(model, graph, arrays, names)


def _joined_reference(
    joined: Joined,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    of: Callable[..., dict[str, Array]] = reference,
) -> dict[str, Array]:
    """The values of both sides, each by its own framework, and the differences of all pairs."""
    assert graph.comparison is not None
    wanted = {key.name for key in graph.keys if names is None or key.name in names}
    made = {pair.difference for pair in graph.comparison.pairs} | {graph.comparison.table}
    for pair in graph.comparison.pairs:
        if graph.comparison.table in wanted or pair.difference in wanted:
            wanted |= {pair.a, pair.b}
    found: dict[str, Array] = {}
    for prefix, side in parts(joined, graph, arrays):
        own = {name.removeprefix(prefix) for name in wanted - made if name.startswith(prefix)}
        values = of(side.model, side.graph, side.arrays, own)
        found.update((prefix + name, values[name]) for name in own if name in values)
    if wanted & made and wanted - made <= set(found):
        found.update(differences(joined, graph, found, wanted))
    return {k.name: found[k.name] for k in graph.keys if k.name in wanted and k.name in found}


def engine(model: Any) -> str:
    """What `reference` computes with, for people to read: "PyTorch 2.13"."""
    if isinstance(model, Joined):
        return " and ".join(dict.fromkeys(engine(side.model) for side in (model.a, model.b)))
    packages = {"torch": "PyTorch"}
    if not _is_module(model):
        packages = {"onnxruntime": "ONNX Runtime", "onnx": "onnx.reference"}
    for package, name in packages.items():
        try:
            return f"{name} {'.'.join(version(package).split('.')[:2])}"
        except PackageNotFoundError:
            continue
    raise AssertionError("onnx is a dependency")


def _is_module(model: Any) -> bool:
    """Whether it is a torch.nn.Module, told without importing torch."""
    names = {(c.__module__, c.__name__) for c in type(model).__mro__}
    return ("torch.nn.modules.module", "Module") in names


def _is_proto(model: Any) -> bool:
    """Whether it is an onnx.ModelProto, told without importing onnx."""
    return getattr(getattr(model, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto"
