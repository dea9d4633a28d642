"""The log of weight edits, and export of the current weights."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn import load
from nbglcnn.errors import InputError, check_output_path, unknown_name_message
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.arrays import native_array
from nbglcnn.plan.schema import Patch

if TYPE_CHECKING:
    from nbglcnn.widget.network import Network


@dataclass
class WeightEdit:
    """New numbers at an index of one parameter, and the old ones."""

    name: str
    index: Any
    old: Array
    new: Array


class WeightLog:
    """The log of weight edits, in order; the first `applied_count` are applied to the network.

    `send_patches` is called with each change as patches of weight textures, or with () if
    everything must be uploaded again.
    """

    def __init__(self, network: Network, send_patches: Callable[[list[Patch]], None]) -> None:
        self._network = network
        self._send_patches = send_patches
        self._edits: list[WeightEdit] = []
        self.applied_count = 0

    def add(self, name: str, index: Any, values: Any) -> int:
        """Append an edit after the applied ones, dropping undone ones; return the number of edits.

        `set_applied_count` applies it. Raises KeyError or InputError if the edit is invalid.
        """
        edit = make_weight_edit(self._network.graph, name, index, values)
        del self._edits[self.applied_count :]
        self._edits.append(edit)
        return len(self._edits)

    def replace(self, name: str, index: Any, values: Any) -> bool:
        """Replace the numbers of the last edit, as during a drag; return False if impossible.

        That is if the last edit has another index or parameter, or isn't applied.
        """
        if not self._edits or self.applied_count != len(self._edits):
            return False
        last = self._edits[-1]
        if last.name != name or not _is_same_index(last.index, index):
            return False
        edit = make_weight_edit(self._network.graph, name, index, values)
        self._write_numbers(name, index, edit.new)
        last.new = edit.new
        return True

    def discard_unapplied(self) -> None:
        """Drop the edits that aren't applied."""
        del self._edits[self.applied_count :]

    def clear(self) -> None:
        """Clear the log: the network has new weights."""
        self._edits.clear()
        self.applied_count = 0

    def set_applied_count(self, count: int) -> None:
        """Apply exactly the first `count` edits; InputError if there are fewer."""
        if count > len(self._edits):
            raise InputError(f"{count} weight edits were requested; {len(self._edits)} are kept")
        while self.applied_count < count:
            edit = self._edits[self.applied_count]
            self._write_numbers(edit.name, edit.index, edit.new)
            self.applied_count += 1
        while self.applied_count > count:
            edit = self._edits[self.applied_count - 1]
            self._write_numbers(edit.name, edit.index, edit.old)
            self.applied_count -= 1

    def _write_numbers(self, name: str, index: Any, numbers: Array) -> None:
        before = self._network.graph
        found = self._network.patch_parameter(name, index, numbers)
        if self._network.graph is not before:
            self._send_patches(found)


def make_weight_edit(graph: Graph, name: str, index: Any, values: Any) -> WeightEdit:
    """Return an edit that fits the parameter, of finite numbers."""
    if name not in graph.parameters:
        raise KeyError(unknown_name_message(name, list(graph.parameters), "parameter"))
    data = graph.values[graph.parameters[name]].data
    assert data is not None
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    if hasattr(index, "detach"):
        index = index.detach().cpu().numpy()
    what = f"set_weight: {name} has the shape {data.shape}"
    given = native_array(values, "set_weight")
    if given.dtype.kind not in "fiub":
        raise InputError(f"{what}; expected numbers, not {given.dtype} ({values!r:.80})")
    if not np.isfinite(given).all():
        found = given[~np.isfinite(given)].flat[0]
        raise InputError(f"{what}; {found} was given; expected finite numbers")
    with np.errstate(over="ignore"):
        numbers = given.astype(data.dtype)
    if not np.isfinite(numbers).all():
        raise InputError(
            f"{what}; {given.max():g} or {given.min():g} is out of range for {data.dtype}"
        )
    if data.dtype.kind != "f" and not np.array_equal(numbers, given):
        raise InputError(f"{what} and {data.dtype} values; {values!r:.80} was given")
    try:
        old = np.array(data[index])
        new = np.array(np.broadcast_to(numbers, old.shape))
    except (IndexError, TypeError, ValueError) as error:
        raise InputError(f"{what}: {error}; values of shape {given.shape} were given") from None
    return WeightEdit(name, copy.deepcopy(index), old, new)


def _is_same_index(one: Any, other: Any) -> bool:
    """Whether two indices have equal reprs; a false negative only adds an entry to the log."""
    return type(one) is type(other) and repr(one) == repr(other)


def state_dict(model: load.Model, graph: Graph, prefix: str = "") -> dict[str, Any]:
    """Return all parameters and buffers of a Graph: tensors for a torch module, otherwise arrays.

    `prefix` is the prefix of the names in the Graph.
    """
    now = {
        name.removeprefix(prefix): np.array(graph.values[value].data)
        for name, value in graph.parameters.items()
        if name.startswith(prefix)
    }
    return model.state_dict(now)


def to_onnx(model: load.Model, graph: Graph, path: str | os.PathLike[str]) -> Path:
    """Write an ONNX file of a model with the Graph's weights."""
    now: Mapping[str, Array] = {
        name: np.asarray(graph.values[value].data) for name, value in graph.parameters.items()
    }
    return model.write_onnx(graph, now, check_output_path(path))


def unravel_range(shape: tuple[int, ...], first: int, count: int) -> tuple[Array, ...]:
    """Return the index of `count` successive elements in row-major order."""
    size = math.prod(shape)
    if first + count > size:
        raise InputError(f"the values {first} to {first + count - 1} of {size}")
    return np.unravel_index(np.arange(first, first + count), shape)
