"""Reference values of every key of a Graph: from PyTorch's forward hooks or other engines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import NbglcnnError
from nbglcnn.features.edits.bent_graph import bent_graph, edited_values, keys_without_hook
from nbglcnn.features.edits.replay import EMPTY_REPLAY, EditReplay
from nbglcnn.graph import Array, Graph, Node, ValueKey
from nbglcnn.load import (
    ComparisonModel,
    Model,
    PreprocessedModel,
    load_lock,
    run_preprocess,
    strip_preprocess,
    wrap_model,
)
from nbglcnn.load.comparison_model import A_PREFIX, compute_differences, split_sides
from nbglcnn.load.onnx.onnx_model import OnnxModel
from nbglcnn.load.onnx.onnx_runtime import run_onnx_file
from nbglcnn.load.passes.evaluate import nodes_to_compute, run_graph
from nbglcnn.report import ReferenceNotes, match_layer, nearest_elements

if TYPE_CHECKING:
    from nbglcnn.load.torch.model import TorchModel

MAX_FLOAT64_MACS = 10**10  # about ten seconds
# The engines for each kind of model, by package: the first installed one is used.
TORCH_ENGINES = {"torch": "PyTorch"}
ONNX_ENGINES = {"onnxruntime": "ONNX Runtime", "onnx": "onnx.reference"}
# The distance of a loaded layer from the model's own may be this many times its float32 error.
MAX_ERROR_FACTOR = 100


def compute_reference(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None = None,
    bends: EditReplay = EMPTY_REPLAY,
    notes: ReferenceNotes | None = None,
) -> dict[str, Array]:
    """Compute the reference of every key: by PyTorch's forward hooks, or for ONNX by an engine.

    `names` are the required keys (default: all); others are not kept where possible. `bends` are
    replayed in the model. `notes` receives the keys for which a second, equal call of a torch
    module returns other values (an ONNX file has no state, and no random numbers but its inputs),
    and the keys of an ONNX file that no other engine can compute, which are left out.

    Raises:
        InputError: If a bend cannot be replayed.
    """
    return _compute_wrapped_model(
        _base_reference, np.float32, wrap_model(model), graph, arrays, names, bends, notes
    )


def compute_float64(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str],
    bends: EditReplay = EMPTY_REPLAY,
) -> dict[str, Array]:
    """Compute the required keys in float64, as far as the model can run that way within seconds.

    PyTorch runs its own modules. An ONNX file is computed from its Graph by onnx.reference, because
    ONNX Runtime supports hardly any operator in float64.
    """
    return _compute_wrapped_model(
        _base_float64, np.float64, wrap_model(model), graph, arrays, names, bends, None
    )


def recompute_layers(
    graph: Graph,
    computed_values: Mapping[str, Array],
    names: Collection[str],
    float64: bool = True,
    bends: EditReplay = EMPTY_REPLAY,
) -> dict[str, Array]:
    """Recompute each of these keys from the `computed_values` values before it.

    The results are in float64, or in float32 if not `float64`. They show a layer's own error,
    without the errors of the layers before it; the layer's own edits are replayed. Layers that
    onnx.reference cannot compute, or only in minutes (more than MAX_FLOAT64_MACS), are left out.
    """
    graph = bent_graph(graph, bends)
    known = {
        key.value_name: computed_values[key.name]
        for key in graph.keys
        if key.name in computed_values
    }
    constant = {name for name, value in graph.values.items() if value.data is not None}
    given: dict[str, Array] = {}
    for key in graph.keys:
        if key.name not in names:
            continue
        others = {value: array for value, array in known.items() if value != key.value_name}
        steps = nodes_to_compute(graph, others.keys() | constant, [key.value_name])
        if sum(_macs(graph, node) for node in steps) > MAX_FLOAT64_MACS:
            continue
        with contextlib.suppress(NbglcnnError, KeyError):  # KeyError: an input is missing
            given[key.name] = run_graph(graph, others, [key.value_name], float64=float64)[
                key.value_name
            ]
    return given


def is_faithful(graph: Graph, expected: Mapping[str, Array], bends: EditReplay, name: str) -> bool:
    """Whether a layer of the Graph returns the reference's value for the reference's own inputs.

    The tolerance is MAX_ERROR_FACTOR times the layer's mean float32 error. True if the layer can't
    be computed.
    """
    given = _required_keys(graph) if graph.framework == "torch" else expected.keys()
    own = {key: expected[key] for key in given & expected.keys()}
    results = [recompute_layers(graph, own, [name], wide, bends) for wide in (True, False)]
    found = [one[name] for one in results if name in one]
    value = expected[name]
    if not found or any(one.shape != value.shape for one in found):
        return not found
    spread = np.abs(found[0].astype(np.float64) - found[-1])
    finite = spread[np.isfinite(spread)]
    row = match_layer(name, value, nearest_elements(value, found))
    allowed = MAX_ERROR_FACTOR * float(finite.mean()) if finite.size else 0.0
    return row.ok or (bool(np.isfinite(row.relative)) and row.max_abs <= allowed)


def cacheable_values(
    graph: Graph, known_values: Mapping[str, Array], names: Collection[str]
) -> dict[str, Array]:
    """The `known_values` from which `compute_from_cache` computes these keys; or empty."""
    kept = _required_keys(graph, names)
    return {name: known_values[name] for name in kept} if kept <= set(known_values) else {}


def fast_reference_values(
    model: Model, graph: Graph, arrays: Sequence[Array], names: Collection[str]
) -> dict[str, Array] | None:
    """Run `compute_reference` if an engine is fast for large networks; otherwise return None."""
    if graph.framework == "torch":
        return compute_reference(model, graph, arrays, names)
    if isinstance(model, ComparisonModel):
        return None
    found = _compute_wrapped_model(
        _base_fast_reference, np.float32, model, graph, arrays, names, EMPTY_REPLAY, None
    )
    return found if set(names) <= found.keys() else None


def _base_reference(
    base_model: TorchModel | OnnxModel,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: EditReplay,
    notes: ReferenceNotes | None,
) -> dict[str, Array]:
    bent = bent_graph(graph, bends)
    if isinstance(base_model, OnnxModel):
        return _run_onnx(base_model, bent, arrays, names, bends, notes)
    with load_lock():
        return _run_torch(base_model, bent, arrays, names, bends, notes)


def _base_float64(
    base_model: TorchModel | OnnxModel,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str],
    bends: EditReplay,
    notes: ReferenceNotes | None,
) -> dict[str, Array]:
    bent = bent_graph(graph, bends)
    if isinstance(base_model, OnnxModel):
        return _run_graph_float64(bent, arrays, names)
    with load_lock():
        return _run_torch_float64(base_model, bent, arrays, names, bends)


def _base_fast_reference(
    base_model: TorchModel | OnnxModel,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: EditReplay,
    notes: ReferenceNotes | None,
) -> dict[str, Array]:
    """Compute with ONNX Runtime alone: onnx.reference takes seconds for a large network."""
    found = _run_onnxruntime(base_model, graph, arrays, names)
    values = {key.value_name for key in graph.keys if key.name in found}
    wanted = [key for key in graph.keys if names is None or key.name in names]
    return compute_from_cache(
        graph, found, [key.name for key in wanted if key.value_name in values]
    )


# Computes values by key for one module or file: `_base_reference`, `_base_float64` or
# `_base_fast_reference`.
ComputeBase = Callable[..., dict[str, Array]]
Float = type[np.float32] | type[np.float64]


def _compute_wrapped_model(
    compute: ComputeBase,
    dtype: Float,
    model: Model,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: EditReplay,
    notes: ReferenceNotes | None,
) -> dict[str, Array]:
    """Apply `compute` to each module and file, and combine the results for the whole model."""
    if isinstance(model, ComparisonModel):
        return _compute_sides(compute, dtype, model, graph, arrays, names, bends, notes)
    if isinstance(model, PreprocessedModel):
        # numpy computes the steps after the picture, and the model runs on the last step's result.
        arrays = [_cast_floats(array, dtype) for array in arrays] if dtype is np.float64 else arrays
        made, rest = run_preprocess(model.preprocess, graph, arrays, bends.apply)
        wanted = None if names is None else set(names) - set(made)
        own = compute(
            model.model, strip_preprocess(graph), rest, wanted, bends.without(made), notes
        )
        return _order_by_key(graph, {**own, **made}, names)
    return compute(model, graph, arrays, names, bends, notes)


def _order_by_key(
    graph: Graph, values: Mapping[str, Array], names: Collection[str] | None
) -> dict[str, Array]:
    own = (key.name for key in graph.keys if names is None or key.name in names)
    return {name: values[name] for name in own if name in values}


def _compute_sides(
    compute: ComputeBase,
    dtype: Float,
    comparison_model: ComparisonModel,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: EditReplay,
    notes: ReferenceNotes | None,
) -> dict[str, Array]:
    """Compute both sides, each by its own framework, and the differences of all pairs."""
    assert graph.comparison is not None
    wanted = {key.name for key in graph.keys if names is None or key.name in names}
    made = {pair.difference for pair in graph.comparison.pairs} | {graph.comparison.table}
    for pair in graph.comparison.pairs:
        if graph.comparison.table in wanted or pair.difference in wanted:
            wanted |= {pair.a, pair.b}
    found: dict[str, Array] = {}
    for prefix, side in split_sides(comparison_model, graph, arrays):
        own = {name.removeprefix(prefix) for name in wanted - made if name.startswith(prefix)}
        inside = bends.for_prefix(prefix, {
            A_PREFIX + theirs.name: ours.name
            for theirs, ours in zip(*map(_input_keys, (comparison_model.a.graph, side.graph)),
                strict=True)
        } if comparison_model.shared_input else {})  # fmt: skip
        two = None if notes is None else ReferenceNotes()
        values = _compute_wrapped_model(
            compute, dtype, side.model, side.graph, side.input_arrays, own, inside, two
        )
        if notes is not None and two is not None:
            notes.repeat_errors.update(
                (prefix + name, change) for name, change in two.repeat_errors.items()
            )
            notes.uncomputable.update(
                (prefix + name, reason) for name, reason in two.uncomputable.items()
            )
        found.update((prefix + name, values[name]) for name in own if name in values)
    if wanted & made and wanted - made <= set(found):
        if made.isdisjoint(bends.edits):
            found.update(compute_differences(comparison_model, graph, found, wanted))
        else:
            found = _complete_values(bent_graph(graph, bends), found, wanted, dtype)
    return {k.name: found[k.name] for k in graph.keys if k.name in wanted and k.name in found}


def _input_keys(graph: Graph) -> list[ValueKey]:
    return [key for key in graph.keys if key.kind == "input"]


def engine_name(model: Any) -> str:
    """The display name of the engine that `compute_reference` uses: "PyTorch 2.13"."""
    leaves = wrap_model(model).base_models
    found = (
        _engine_version(ONNX_ENGINES if isinstance(one, OnnxModel) else TORCH_ENGINES)
        for one in leaves
    )
    return " and ".join(dict.fromkeys(found))


def _engine_version(packages: Mapping[str, str]) -> str:
    for package, name in packages.items():
        try:
            return f"{name} {'.'.join(version(package).split('.')[:2])}"
        except PackageNotFoundError:
            continue
    raise AssertionError("onnx is a dependency")


def _run_torch(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: EditReplay,
    notes: ReferenceNotes | None,
) -> dict[str, Array]:
    """Run the module with the Graph's weights, and compute functional operators from hooked values.

    `names` are the required keys. Default: all.
    """
    twice = notes is not None
    known, second = _run_hooked_model(model, graph, arrays, names, np.float32, bends, twice=twice)
    found = compute_from_cache(graph, known, names)
    if notes is not None:
        if _is_autocast(graph):
            notes.engine = f"{engine_name(model)} (in float32, without forward's autocast)"
        if second is None:
            failed = {key.name for key in graph.keys if key.value_name in graph.outputs}
            notes.repeat_errors.update(dict.fromkeys(failed & found.keys(), np.inf))
            return found
        for name, array in compute_from_cache(graph, second, names).items():
            row = match_layer(name, array, found[name])
            if not row.ok:
                notes.repeat_errors[name] = row.max_abs
    return found


def _is_autocast(graph: Graph) -> bool:
    """Whether forward uses torch.autocast for 16-bit operators; the reference runs without it."""
    from nbglcnn.load.torch.model_runs import AUTOCAST_NOTE

    return AUTOCAST_NOTE in graph.notes


def _run_torch_float64(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str], bends: EditReplay
) -> dict[str, Array]:
    """Run the module in float64; return an empty dict if it cannot run that way."""
    try:
        wide = [_cast_floats(a, np.float64) for a in arrays]
        known, _ = _run_hooked_model(model, graph, wide, names, np.float64, bends)
        return _complete_values(graph, known, names, np.float64)
    except Exception:  # the model's own code may fail on unexpected types
        return {}


def _run_graph_float64(
    graph: Graph, arrays: Sequence[Array], names: Collection[str]
) -> dict[str, Array]:
    """Compute keys of a Graph in float64 from its inputs alone; empty if that fails.

    Networks of more than MAX_FLOAT64_MACS are skipped: onnx.reference would take minutes.
    """
    wanted = {key.name: key.value_name for key in graph.keys if key.name in names}
    given = {
        name: _cast_floats(a, np.float64) for name, a in zip(graph.inputs, arrays, strict=True)
    }
    if sum(_macs(graph, node) for node in graph.nodes) > MAX_FLOAT64_MACS:
        return {}
    try:
        found = run_graph(graph, given, list(wanted.values()), float64=True)
    except NbglcnnError:  # onnx.reference has no operator for these types
        return {}
    return {name: found[value] for name, value in wanted.items()}


def _macs(graph: Graph, node: Node) -> int:
    """The MACs of a convolution; 0 for other nodes, whose time in numpy is negligible."""
    if not node.op.startswith("Conv"):
        return 0
    filters = graph.shape(node.inputs[1])
    return prod(graph.shape(node.outputs[0])) * prod(filters) // max(1, filters[0])


def _run_hooked_model(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    dtype: type[np.floating[Any]],
    bends: EditReplay,
    *,
    twice: bool = False,
) -> tuple[dict[str, Array], dict[str, Array] | None]:
    """Return the hooked values from which the required keys follow; with `twice`, two calls.

    The second result is None if the second call failed, or called other modules than the first.
    """
    import torch

    from nbglcnn.load.torch.edits.hooks import bend_hooks
    from nbglcnn.load.torch.edits.tensor_edits import bend_tensor
    from nbglcnn.load.torch.isolation.copies import detached_copy
    from nbglcnn.load.torch.isolation.float64_reference import float64_mode
    from nbglcnn.load.torch.record.module_calls import run_hooked, values_by_key

    module_copy, _ = detached_copy(model.module)  # with the state that the user provided
    state = module_copy.state_dict(keep_vars=True)
    for name, value in graph.parameters.items():
        # The Graph's weights may have been replaced since (with_parameters).
        data = graph.values[value].data
        assert data is not None
        np.copyto(state[name].detach().numpy(), data)
    unhooked_values = edited_values(graph, keys_without_hook(graph, bends)) if bends else set[str]()
    kept = _required_keys(graph, names, unhooked_values)
    tensors = [torch.from_numpy(np.array(a)) for a in arrays]
    count, names_in = len(graph.noise_defaults), [key.name for key in _input_keys(graph)]
    for at in range(len(tensors) - count, len(tensors)):
        if names_in[at] in bends:
            tensors[at] = bend_tensor(bends, names_in[at], tensors[at])
    with float64_mode(module_copy) if dtype is np.float64 else contextlib.nullcontext():
        cut = {
            node.module
            for node in graph.nodes
            if node.python_fallback and node.python_fallback.node is None
        }
        with bend_hooks(module_copy, names_in, bends, cut):
            seen = run_hooked(
                module_copy, tensors, kept, float32=_is_autocast(graph), twice=twice,
                python_modules=cut, noise_count=count, arguments=graph.input_structure,
            )  # fmt: skip
    given = _input_values(graph, arrays)
    known = values_by_key(graph, arrays, seen.captured_arrays, seen.root) | given
    first = {name: known[name] for name in kept}
    if seen.second_run is None:
        return first, None
    try:
        known = values_by_key(graph, arrays, *seen.second_run) | given
        return first, {name: known[name] for name in kept}
    except (KeyError, StopIteration, RuntimeError):
        return first, None


def _input_values(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """Return the values of the input keys, after their edits."""
    keys, inputs = _input_keys(graph), dict(zip(graph.inputs, arrays, strict=True))
    found = run_graph(graph, inputs, [key.value_name for key in keys])
    return {key.name: found[key.value_name] for key in keys}


def compute_from_cache(
    graph: Graph, known_values: Mapping[str, Array], names: Collection[str] | None = None
) -> dict[str, Array]:
    """Return the required keys (default: all); compute those that aren't `known_values` from it."""
    return _complete_values(graph, known_values, names, np.float32)


def _complete_values(
    graph: Graph,
    known_values: Mapping[str, Array],
    names: Collection[str] | None,
    dtype: type[np.floating[Any]],
) -> dict[str, Array]:
    wanted = [key for key in graph.keys if names is None or key.name in names]
    values = {
        key.value_name: known_values[key.name] for key in graph.keys if key.name in known_values
    }
    missing = [key.value_name for key in wanted if key.name not in known_values]
    computed = run_graph(graph, values, missing, float64=dtype is np.float64)
    found = {k.name: known_values.get(k.name, computed.get(k.value_name)) for k in wanted}
    return {name: _cast_floats(array, dtype) for name, array in found.items() if array is not None}


def _required_keys(
    graph: Graph, names: Collection[str] | None = None, unhooked_values: Container[str] = ()
) -> set[str]:
    """The keys of inputs, outputs and module calls that `compute_from_cache` needs.

    Keys of `unhooked_values` values are excluded: they have other values in the Graph than in
    hooks.
    """
    wanted = [key.value_name for key in graph.keys if names is None or key.name in names]
    keys = [key for key in graph.keys if key.value_name not in unhooked_values]
    seen = {key.value_name for key in keys if key.kind in ("input", "output") or key.module_type}
    constant = {name for name, value in graph.values.items() if value.data is not None}
    steps = nodes_to_compute(graph, seen | constant, wanted)
    read = {*wanted, *(name for node in steps for name in node.inputs)}
    ends = {key.name for key in keys if key.kind in ("input", "output")}
    return ends | {key.name for key in keys if key.module_type and key.value_name in read}


def _run_onnx(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: EditReplay,
    notes: ReferenceNotes | None,
) -> dict[str, Array]:
    """Compute the required keys (default: all) from the file itself, by ONNX Runtime.

    onnx.reference computes the keys that ONNX Runtime doesn't return.
    """
    known = _run_onnxruntime(model, graph, arrays, names, bends)
    if notes is None:
        return compute_from_cache(graph, known, names)
    if known.keys() <= {key.name for key in _input_keys(graph)}:
        notes.engine = _engine_version({"onnx": ONNX_ENGINES["onnx"]})
    found = dict(known)
    for key in graph.keys:
        if names is None or key.name in names:
            try:
                found.update(compute_from_cache(graph, found, [key.name]))
            except NbglcnnError as error:
                notes.uncomputable[key.name] = str(error)
    return _order_by_key(graph, found, names)


def _run_onnxruntime(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    bends: EditReplay = EMPTY_REPLAY,
) -> dict[str, Array]:
    """Return the inputs, and the keys that ONNX Runtime computes with the Graph's weights."""
    keys = [key for key in graph.keys if names is None or key.name in names]
    known = _input_values(graph, arrays)
    given = run_onnx_file(model.user_model, graph, arrays, [key.name for key in keys], bends)
    for key in keys:
        if key.name in given and given[key.name].shape == graph.shape(key.value_name):
            known.setdefault(key.name, given[key.name])
    return known


def _cast_floats(array: Array, dtype: type[np.floating[Any]]) -> Array:
    """Convert an array of floats to this precision; return other arrays unchanged."""
    return array.astype(dtype, copy=False) if array.dtype.kind == "f" else array
