"""New weights for a Graph: replaces parameters and recomputes the constants folded from them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nbglcnn.errors import InputError, suggest_names, unknown_name_message
from nbglcnn.graph import Array, Graph, Node
from nbglcnn.inputs.arguments import special_tensor_kind
from nbglcnn.inputs.arrays import native_array
from nbglcnn.load.passes.evaluate import evaluate

CONSTANT_READ_MESSAGE = (
    "the computation depends on its values (an `if`, a loop or a size in forward, or a NumPy "
    "array that shares its memory); for other values, load the model again"
)


def parameters_of(graph: Graph) -> dict[str, Array]:
    """All parameters and buffers of a Graph, by name."""
    found = {}
    for name, value in graph.parameters.items():
        data = graph.values[value].data
        assert data is not None
        found[name] = data
    return found


def with_parameters(graph: Graph, state_dict: Mapping[str, Any]) -> Graph:
    """Return the Graph with other weights; names and shapes must match `graph.parameters`."""
    state_dict = match_state_dict_names(state_dict, graph.parameters)
    given = {n: v for n, v in state_dict.items() if not _is_ignored_entry(n)}
    problems = []
    if missing := [n for n in graph.parameters if n not in given]:
        problems.append("missing: " + _format_names(missing))
    unexpected = [
        n + suggest_names(n, missing or list(graph.parameters))
        for n in given
        if n not in graph.parameters
    ]
    if unexpected:
        problems.append("unexpected: " + _format_names(unexpected))
    replaced: dict[str, tuple[str, Array]] = {}
    for name, value in graph.parameters.items():
        if name not in given:
            continue
        old = graph.values[value].data
        assert old is not None
        array = _as_array(name, given[name], old)
        if array.shape != old.shape:
            problems.append(f"{name}: shape {array.shape} was given; expected {old.shape}")
        elif value in replaced and not np.array_equal(replaced[value][1], array, equal_nan=True):
            problems.append(
                f"{name} and {replaced[value][0]} share their values; different values were given"
            )
        elif name in graph.constant_reads and not np.array_equal(old, array):
            problems.append(f"{name}: {CONSTANT_READ_MESSAGE}")
        else:
            replaced[value] = name, array
    if problems:
        raise InputError(
            f"these are not the weights of {graph.name} ("
            f"{len(graph.parameters)} parameters):\n  " + "\n  ".join(problems)
        )
    changed = {v: array.copy() for v, (_, array) in replaced.items() if _differs(graph, v, array)}
    return _with_constants(graph, changed)


def replace_elements(graph: Graph, name: str, index: Any, numbers: Any) -> Graph:
    """Return the Graph with elements of one parameter replaced, at a numpy `index`.

    Raises:
        KeyError: If the parameter doesn't exist.
        InputError: If the index or the values don't fit, or the parameter cannot change.
    """
    if name not in graph.parameters:
        raise KeyError(unknown_name_message(name, list(graph.parameters)))
    value = graph.parameters[name]
    old = graph.values[value].data
    assert old is not None
    array = old.copy()
    try:
        array[index] = numbers
    except (IndexError, TypeError, ValueError) as error:
        raise InputError(f"{name} has the shape {old.shape}: {error}") from error
    if array[index].tobytes() == old[index].tobytes():
        return graph
    if name in graph.constant_reads:
        raise InputError(f"{name}: {CONSTANT_READ_MESSAGE}")
    return _with_constants(graph, {value: array})


def _with_constants(graph: Graph, arrays: Mapping[str, Array]) -> Graph:
    """Replace constants and recompute the values folded from them; other Values are reused.

    Unchanged values are the same objects, so that changes are found by identity.
    """
    values = dict(graph.values)
    for name, array in arrays.items():
        values[name] = replace(values[name], data=array)
    constants = {n: v.data for n, v in values.items() if v.data is not None}
    changed = set(arrays)
    for node in graph.folded_nodes:
        if not changed.isdisjoint(node.inputs):
            changed.update(filter(None, node.outputs))
    # Intermediate results between folded nodes may not be stored; these are recomputed.
    needed: list[Node] = []
    wanted = changed - arrays.keys()
    for node in reversed(graph.folded_nodes):
        if not wanted.isdisjoint(node.outputs):
            needed.append(node)
            wanted |= {name for name in node.inputs if name and name not in constants}
    for node in reversed(needed):
        for name, array in evaluate(node, constants).items():
            constants[name] = array
            if name in changed and name in values and _differs(graph, name, array):
                values[name] = replace(values[name], data=array)
    return replace(graph, values=MappingProxyType(values))


def _differs(graph: Graph, value: str, array: Array) -> bool:
    """Whether a value's data and `array` differ in any bit; -0 and 0 differ."""
    old = graph.values[value].data
    if old is None or old.shape != array.shape or old.dtype != array.dtype:
        return True
    words = f"u{old.itemsize}"
    return bool((np.ravel(old).view(words) != np.ravel(array).view(words)).any())


def strip_compile_prefix(name: str) -> str:
    """A parameter's name without the prefix of torch.compile."""
    return name.replace("_orig_mod.", "")


def match_state_dict_names(state_dict: Any, names: Collection[str]) -> dict[str, Any]:
    """Rename a state_dict's entries to `names`; drop torch.compile and DataParallel prefixes.

    Raises:
        InputError: If it is not a state_dict, or contains the matching one; the message says what
            to pass.
    """
    _check_state_dict(state_dict)
    if not names or all(name in state_dict for name in names):
        return dict(state_dict)
    own = {strip_compile_prefix(name): name for name in names}
    given = {strip_compile_prefix(name): value for name, value in state_dict.items()}
    prefix = _find_common_prefix(given, own) or ""
    if prefix.replace("module.", ""):
        prefix = ""
    found = {name.removeprefix(prefix): value for name, value in given.items()}
    if len(found) == len(state_dict) and all(name in found for name in own):
        return {own.get(name, name): value for name, value in found.items()}
    _refuse_nested_state_dict(state_dict, names)
    return dict(state_dict)


def _check_state_dict(state_dict: Any) -> None:
    """Raise InputError if it is not a state_dict; the message says what to pass."""
    if hasattr(state_dict, "state_dict"):
        raise InputError(
            f"load_state_dict: {type(state_dict).__name__} is a module, not its weights; "
            "give module.state_dict()"
        )
    if isinstance(state_dict, str | os.PathLike):
        raise InputError(
            f"load_state_dict: {str(state_dict)!r} is a path; give its contents: "
            "torch.load(path, map_location='cpu', weights_only=True)"
        )
    if not isinstance(state_dict, Mapping) or not all(isinstance(n, str) for n in state_dict):
        raise InputError(
            f"load_state_dict: {type(state_dict).__name__} is not a state_dict, a dict from the "
            "names of parameters to arrays or tensors"
        )


def _refuse_nested_state_dict(state_dict: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise InputError if another dict contains the state_dict; the message says what to pass."""
    found = []
    for path, inner in [("", state_dict), *((f"[{n!r}]", v) for n, v in state_dict.items())]:
        if hasattr(inner, "state_dict"):
            path, inner = f"{path}.state_dict()", inner.state_dict()
        prefix = _find_common_prefix(inner, names) if isinstance(inner, Mapping) else None
        if prefix and strip_compile_prefix(prefix).replace("module.", ""):
            found.append(
                f"{{name.removeprefix({prefix!r}): value for name, value in "
                f"checkpoint{path}.items()}}"
            )
        elif prefix is not None:
            found.append(f"checkpoint{path}")
    if found:
        raise InputError(
            "load_state_dict: the weights are nested deeper in this checkpoint, or have other "
            "names; give " + " or ".join(found)
        )


def _find_common_prefix(state_dict: Mapping[Any, Any], names: Collection[str]) -> str | None:
    """The prefix of these names in `state_dict`, such as "module."; None if a name is missing."""
    first = next(iter(names))
    for name in state_dict:
        if isinstance(name, str) and (name == first or name.endswith(f".{first}")):
            prefix = name.removesuffix(first)
            if all(prefix + other in state_dict for other in names):
                return prefix
    return None


def _is_ignored_entry(name: str) -> bool:
    """Whether a state_dict entry is not used by an eval-mode forward."""
    return name.rpartition(".")[2] in ("num_batches_tracked", "_extra_state")


def _as_array(name: str, value: Any, old: Array) -> Array:
    if hasattr(value, "detach"):
        if (found := special_tensor_kind(value)) is not None:
            kind, dense = found
            raise InputError(
                f"{name}: a {kind} tensor was given; expected a dense real tensor. Convert it "
                f"with {dense}"
            )
        if value.device.type == "meta":
            raise InputError(
                f"{name}: a tensor on the meta device has no values; give one on the CPU"
            )
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    array = native_array(value, name)
    if array.dtype.kind not in "fiub" or (array.dtype.kind == "f") != (old.dtype.kind == "f"):
        raise InputError(f"{name}: dtype {array.dtype} was given; expected {old.dtype}")
    return np.asarray(array, old.dtype, order="C")


def _format_names(names: list[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more
