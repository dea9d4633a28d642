"""What every key of a Graph should be: by PyTorch's own forward hooks, or by other engines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import NbglcnnError
from nbglcnn.features.edits.bent_graph import behind_of, bent_graph, between_modules
from nbglcnn.features.edits.replay import NONE, Bending
from nbglcnn.graph import Array, Graph, Key, Node
from nbglcnn.load import Joined, Model, Prepared, behind, front, model_of, one_at_a_time
from nbglcnn.load.joined import A, differences, parts
from nbglcnn.load.onnx.onnx_model import OnnxModel
from nbglcnn.load.onnx.runtime import of_file
from nbglcnn.load.passes.evaluate import run_graph, steps_to
from nbglcnn.report import Notes, match, nearest_of

if TYPE_CHECKING:
    from nbglcnn.load.torch.model import TorchModel

EXACT_MACS = 10**10  # some ten seconds
# The engines of each kind of model by package: the first one that is installed is used.
OF_TORCH = {"torch": "PyTorch"}
OF_ONNX = {"onnxruntime": "ONNX Runtime", "onnx": "onnx.reference"}
# A layer as it was loaded may be so many times its float32 error from the model's own.
CLEARED = 100


def reference(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None = None,
    bends: Bending = NONE,
    notes: Notes | None = None,
) -> dict[str, Array]:
    """The true value of every key: by PyTorch's forward hooks, or for ONNX by another engine.

    `names` are the keys that are wanted, where keeping the others can be spared. With `bends` the
    values of the model with these replayed. `notes` receive what a second equal call
    of a torch module computes differently (an ONNX file keeps no state and draws nothing but its
    inputs), and what other engines cannot compute of an ONNX file, which is left out then.

    Raises:
        InputError: a bend cannot be replayed.
    """
    return _of_leaves(_reference, np.float32, model_of(model), graph, arrays, names, bends, notes)


def exact(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str],
    bends: Bending = NONE,
) -> dict[str, Array]:
    """The wanted keys in double precision, as far as the model can be run so in seconds.

    PyTorch runs its own modules; what an ONNX file holds is computed from its Graph by
    onnx.reference, for ONNX Runtime has hardly an operator for doubles.
    """
    return _of_leaves(_exact, np.float64, model_of(model), graph, arrays, names, bends, None)


def layer_alone(
    graph: Graph,
    found: Mapping[str, Array],
    names: Collection[str],
    wide: bool = True,
    bends: Bending = NONE,
) -> dict[str, Array]:
    """The wanted keys in float64, or float32 if not `wide`: each out of what was `found` before it.

    A layer's own error, without what those before it have added; what its own edits make of it is
    replayed. Nothing of layers that onnx.reference cannot compute, or only in minutes (of more than
    EXACT_MACS).
    """
    graph = bent_graph(graph, bends)
    known = {key.value: found[key.name] for key in graph.keys if key.name in found}
    constant = {name for name, value in graph.values.items() if value.data is not None}
    given: dict[str, Array] = {}
    for key in graph.keys:
        if key.name not in names:
            continue
        others = {value: array for value, array in known.items() if value != key.value}
        steps = steps_to(graph, others.keys() | constant, [key.value])
        if sum(_macs(graph, node) for node in steps) > EXACT_MACS:
            continue
        with contextlib.suppress(NbglcnnError, KeyError):  # KeyError: an input wasn't found
            given[key.name] = run_graph(graph, others, [key.value], wide=wide)[key.value]
    return given


def is_faithful(graph: Graph, expected: Mapping[str, Array], bends: Bending, name: str) -> bool:
    """Whether a layer of the Graph gives the reference's value of the reference's own inputs.

    Within CLEARED times the error that float32 has there. True where it can't be computed.
    """
    given = _needed(graph) if graph.source == "torch" else expected.keys()
    own = {key: expected[key] for key in given & expected.keys()}
    results = [layer_alone(graph, own, [name], wide, bends) for wide in (True, False)]
    found = [one[name] for one in results if name in one]
    value = expected[name]
    if not found or any(one.shape != value.shape for one in found):
        return not found
    spread = np.abs(found[0].astype(np.float64) - found[-1])
    finite = spread[np.isfinite(spread)]
    row = match(name, value, nearest_of(value, found))
    allowed = CLEARED * float(finite.mean()) if finite.size else 0.0
    return row.ok or (bool(np.isfinite(row.relative)) and row.max_abs <= allowed)


def cacheable(graph: Graph, known: Mapping[str, Array], names: Collection[str]) -> dict[str, Array]:
    """What of `known` gives the wanted keys, for `from_cache`; nothing if not all do."""
    kept = _needed(graph, names)
    return {name: known[name] for name in kept} if kept <= set(known) else {}


def quick_reference(
    model: Model, graph: Graph, arrays: Sequence[Array], names: Collection[str]
) -> dict[str, Array] | None:
    """`reference` where an engine computes it that is quick with large networks, else None."""
    if graph.source == "torch":
        return reference(model, graph, arrays, names)
    if isinstance(model, Joined):
        return None
    found = _of_leaves(_quick, np.float32, model, graph, arrays, names, NONE, None)
    return found if set(names) <= found.keys() else None


def _reference(
    leaf: TorchModel | OnnxModel,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: Bending,
    notes: Notes | None,
) -> dict[str, Array]:
    bent = bent_graph(graph, bends)
    if isinstance(leaf, OnnxModel):
        return _by_onnx(leaf, bent, arrays, names, bends, notes)
    with one_at_a_time():
        return _by_torch(leaf, bent, arrays, names, bends, notes)


def _exact(
    leaf: TorchModel | OnnxModel,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str],
    bends: Bending,
    notes: Notes | None,
) -> dict[str, Array]:
    bent = bent_graph(graph, bends)
    if isinstance(leaf, OnnxModel):
        return _exact_of_graph(bent, arrays, names)
    with one_at_a_time():
        return _exact_by_torch(leaf, bent, arrays, names, bends)


def _quick(
    leaf: TorchModel | OnnxModel,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: Bending,
    notes: Notes | None,
) -> dict[str, Array]:
    """What ONNX Runtime gives without onnx.reference, which takes seconds a large network."""
    found = _by_runtime(leaf, graph, arrays, names)
    values = {key.value for key in graph.keys if key.name in found}
    wanted = [key for key in graph.keys if names is None or key.name in names]
    return from_cache(graph, found, [key.name for key in wanted if key.value in values])


# Values by key of a module or file: `_reference`, `_exact` or `_quick`.
OfLeaf = Callable[..., dict[str, Array]]
Float = type[np.float32] | type[np.float64]


def _of_leaves(
    of: OfLeaf,
    dtype: Float,
    model: Model,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: Bending,
    notes: Notes | None,
) -> dict[str, Array]:
    """What `of` gives of each module and file, put together for the whole model."""
    if isinstance(model, Joined):
        return _of_sides(of, dtype, model, graph, arrays, names, bends, notes)
    if isinstance(model, Prepared):
        # The picture and the steps behind it by numpy, and what the model makes of the last.
        arrays = [_as(array, dtype) for array in arrays] if dtype is np.float64 else arrays
        made, rest = front(model.preprocess, graph, arrays, bends.apply)
        wanted = None if names is None else set(names) - set(made)
        own = of(model.model, behind(graph), rest, wanted, bends.without(made), notes)
        return _in_order(graph, {**own, **made}, names)
    return of(model, graph, arrays, names, bends, notes)


def _in_order(
    graph: Graph, found: Mapping[str, Array], names: Collection[str] | None
) -> dict[str, Array]:
    own = (key.name for key in graph.keys if names is None or key.name in names)
    return {name: found[name] for name in own if name in found}


def _of_sides(
    of: OfLeaf,
    dtype: Float,
    joined: Joined,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: Bending,
    notes: Notes | None,
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
        inside = bends.within(prefix, {
            A + theirs.name: ours.name
            for theirs, ours in zip(*map(_input_keys, (joined.a.graph, side.graph)), strict=True)
        } if joined.one_input else {})  # fmt: skip
        two = None if notes is None else Notes()
        values = _of_leaves(of, dtype, side.model, side.graph, side.arrays, own, inside, two)
        if notes is not None and two is not None:
            notes.changes.update((prefix + name, change) for name, change in two.changes.items())
            notes.unable.update((prefix + name, reason) for name, reason in two.unable.items())
        found.update((prefix + name, values[name]) for name in own if name in values)
    if wanted & made and wanted - made <= set(found):
        if made.isdisjoint(bends.edits):
            found.update(differences(joined, graph, found, wanted))
        else:
            found = _values(bent_graph(graph, bends), found, wanted, dtype)
    return {k.name: found[k.name] for k in graph.keys if k.name in wanted and k.name in found}


def _input_keys(graph: Graph) -> list[Key]:
    return [key for key in graph.keys if key.kind == "input"]


def engine(model: Any) -> str:
    """What `reference` computes with, for people to read: "PyTorch 2.13"."""
    leaves = model_of(model).leaves
    found = (_installed(OF_ONNX if isinstance(one, OnnxModel) else OF_TORCH) for one in leaves)
    return " and ".join(dict.fromkeys(found))


def _installed(packages: Mapping[str, str]) -> str:
    for package, name in packages.items():
        try:
            return f"{name} {'.'.join(version(package).split('.')[:2])}"
        except PackageNotFoundError:
            continue
    raise AssertionError("onnx is a dependency")


def _by_torch(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: Bending,
    notes: Notes | None,
) -> dict[str, Array]:
    """What forward hooks see, with the Graph's weights; functional operators computed from it.

    `names` are the keys that are wanted, all of them by default.
    """
    twice = notes is not None
    known, second = _seen(model, graph, arrays, names, np.float32, bends, twice=twice)
    found = from_cache(graph, known, names)
    if notes is not None:
        if _is_autocast(graph):
            notes.engine = f"{engine(model)} (in float32, without forward's autocast)"
        if second is None:
            failed = {key.name for key in graph.keys if key.value in graph.outputs}
            notes.changes.update(dict.fromkeys(failed & found.keys(), np.inf))
            return found
        for name, array in from_cache(graph, second, names).items():
            row = match(name, array, found[name])
            if not row.ok:
                notes.changes[name] = row.max_abs
    return found


def _is_autocast(graph: Graph) -> bool:
    """Whether forward computes something in 16 bits by torch.autocast, which is left out."""
    from nbglcnn.load.torch.runs import AUTOCAST

    return AUTOCAST in graph.notes


def _exact_by_torch(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str], bends: Bending
) -> dict[str, Array]:
    """The same in double precision; nothing where the model cannot be run so."""
    try:
        wide = [_as(a, np.float64) for a in arrays]
        known, _ = _seen(model, graph, wide, names, np.float64, bends)
        return _values(graph, known, names, np.float64)
    except Exception:  # the model's own code runs here, on types that it may not expect
        return {}


def _exact_of_graph(
    graph: Graph, arrays: Sequence[Array], names: Collection[str]
) -> dict[str, Array]:
    """A Graph's wanted keys in double precision, out of its inputs alone; nothing where it fails.

    Networks of more than EXACT_MACS are left alone: onnx.reference would take minutes.
    """
    wanted = {key.name: key.value for key in graph.keys if key.name in names}
    given = {name: _as(a, np.float64) for name, a in zip(graph.inputs, arrays, strict=True)}
    if sum(_macs(graph, node) for node in graph.nodes) > EXACT_MACS:
        return {}
    try:
        found = run_graph(graph, given, list(wanted.values()), wide=True)
    except NbglcnnError:  # onnx.reference lacks the operator for these types
        return {}
    return {name: found[value] for name, value in wanted.items()}


def _macs(graph: Graph, node: Node) -> int:
    """MACs of a convolution; what else there is takes numpy no time beside them."""
    if not node.op.startswith("Conv"):
        return 0
    filters = graph.shape(node.inputs[1])
    return prod(graph.shape(node.outputs[0])) * prod(filters) // max(1, filters[0])


def _seen(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    dtype: type[np.floating[Any]],
    bends: Bending,
    *,
    twice: bool = False,
) -> tuple[dict[str, Array], dict[str, Array] | None]:
    """What hooks see of the keys that the wanted ones follow from, and in a second call if `twice`.

    None of a second call that failed, or called other modules than the first.
    """
    import torch

    from nbglcnn.load.torch.edits.hooks import bent_hooks
    from nbglcnn.load.torch.edits.tensor_edits import bent_tensor
    from nbglcnn.load.torch.isolation.copies import detached_copy
    from nbglcnn.load.torch.isolation.float64_reference import doubled
    from nbglcnn.load.torch.record.module_calls import by_key, run_hooked

    twin, _ = detached_copy(model.module)  # the state that the user gave
    state = twin.state_dict(keep_vars=True)
    for name, value in graph.parameters.items():
        # The Graph may have got other weights since (with_parameters).
        data = graph.values[value].data
        assert data is not None
        np.copyto(state[name].detach().numpy(), data)
    unseen = behind_of(graph, between_modules(graph, bends)) if bends else set[str]()
    kept = _needed(graph, names, unseen)
    tensors = [torch.from_numpy(np.array(a)) for a in arrays]
    count, names_in = len(graph.noise), [key.name for key in _input_keys(graph)]
    for at in range(len(tensors) - count, len(tensors)):
        if names_in[at] in bends:
            tensors[at] = bent_tensor(bends, names_in[at], tensors[at])
    with doubled(twin) if dtype is np.float64 else contextlib.nullcontext():
        cut = {node.module for node in graph.nodes if node.python and node.python.node is None}
        with bent_hooks(twin, names_in, bends, cut):
            seen = run_hooked(
                twin, tensors, kept, float32=_is_autocast(graph), twice=twice, cut=cut, noise=count,
                arguments=graph.arguments,
            )  # fmt: skip
    given = _given(graph, arrays)
    known = by_key(graph, arrays, seen.arrays, seen.root) | given
    first = {name: known[name] for name in kept}
    if seen.second is None:
        return first, None
    try:
        known = by_key(graph, arrays, *seen.second) | given
        return first, {name: known[name] for name in kept}
    except (KeyError, StopIteration, RuntimeError):
        return first, None


def _given(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """The values of the input keys, after their edits."""
    keys, inputs = _input_keys(graph), dict(zip(graph.inputs, arrays, strict=True))
    found = run_graph(graph, inputs, [key.value for key in keys])
    return {key.name: found[key.value] for key in keys}


def from_cache(
    graph: Graph, known: Mapping[str, Array], names: Collection[str] | None = None
) -> dict[str, Array]:
    """The wanted keys (all of them by default), those that aren't `known` computed from it."""
    return _values(graph, known, names, np.float32)


def _values(
    graph: Graph,
    known: Mapping[str, Array],
    names: Collection[str] | None,
    dtype: type[np.floating[Any]],
) -> dict[str, Array]:
    wanted = [key for key in graph.keys if names is None or key.name in names]
    values = {key.value: known[key.name] for key in graph.keys if key.name in known}
    missing = [key.value for key in wanted if key.name not in known]
    computed = run_graph(graph, values, missing, wide=dtype is np.float64)
    found = {k.name: known.get(k.name, computed.get(k.value)) for k in wanted}
    return {name: _as(array, dtype) for name, array in found.items() if array is not None}


def _needed(
    graph: Graph, names: Collection[str] | None = None, unseen: Container[str] = ()
) -> set[str]:
    """Keys of inputs, outputs and module calls that `from_cache` needs for the wanted ones.

    None that has one of the `unseen` values, which are other ones in the Graph than for hooks.
    """
    wanted = [key.value for key in graph.keys if names is None or key.name in names]
    keys = [key for key in graph.keys if key.value not in unseen]
    seen = {key.value for key in keys if key.kind in ("input", "output") or key.module_type}
    constant = {name for name, value in graph.values.items() if value.data is not None}
    steps = steps_to(graph, seen | constant, wanted)
    read = {*wanted, *(name for node in steps for name in node.inputs)}
    ends = {key.name for key in keys if key.kind in ("input", "output")}
    return ends | {key.name for key in keys if key.module_type and key.value in read}


def _by_onnx(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: Bending,
    notes: Notes | None,
) -> dict[str, Array]:
    """The wanted keys (all of them by default), by ONNX Runtime from the file itself.

    What that doesn't give is computed by onnx.reference.
    """
    known = _by_runtime(model, graph, arrays, names, bends)
    if notes is None:
        return from_cache(graph, known, names)
    if known.keys() <= {key.name for key in _input_keys(graph)}:
        notes.engine = _installed({"onnx": OF_ONNX["onnx"]})
    found = dict(known)
    for key in graph.keys:
        if names is None or key.name in names:
            try:
                found.update(from_cache(graph, found, [key.name]))
            except NbglcnnError as error:
                notes.unable[key.name] = str(error)
    return _in_order(graph, found, names)


def _by_runtime(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: Bending = NONE,
) -> dict[str, Array]:
    """Inputs, and what ONNX Runtime gives for wanted keys of the file, with the Graph's weights."""
    keys = [key for key in graph.keys if names is None or key.name in names]
    known = _given(graph, arrays)
    given = of_file(model.source, graph, arrays, [key.name for key in keys], bends)
    for key in keys:
        if key.name in given and given[key.name].shape == graph.shape(key.value):
            known.setdefault(key.name, given[key.name])
    return known


def _as(array: Array, dtype: type[np.floating[Any]]) -> Array:
    """The array, in this precision where its numbers aren't integers."""
    return array.astype(dtype, copy=False) if array.dtype.kind == "f" else array
