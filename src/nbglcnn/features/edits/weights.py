"""Edits of a network's weights, one behind the other; and the weights of now, to take along."""

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
    """Other numbers at an index of one parameter, and those that were there."""

    name: str
    index: Any
    old: Array
    new: Array


class WeightLog:
    """The weights' edits in order, of which the first `applied_count` are in the network.

    `show` is given what each change is in weight textures; () where all is to be shown anew.
    """

    def __init__(self, network: Network, show: Callable[[list[Patch]], None]) -> None:
        self._network = network
        self._send_patches = show
        self._edits: list[WeightEdit] = []
        self.applied_count = 0

    def add(self, name: str, index: Any, values: Any) -> int:
        """Put an edit behind those that are made, and forget what was undone; how many there are.

        It is made by `seek`. KeyError or InputError where it can't be.
        """
        edit = make_weight_edit(self._network.graph, name, index, values)
        del self._edits[self.applied_count :]
        self._edits.append(edit)
        return len(self._edits)

    def replace(self, name: str, index: Any, values: Any) -> bool:
        """Make the last edit one of these numbers, as while somebody drags; False if it can't be.

        That is where it was made elsewhere, or isn't the last one any more.
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
        """Forget the edits that aren't made."""
        del self._edits[self.applied_count :]

    def clear(self) -> None:
        """Forget all: the network has got other weights."""
        self._edits.clear()
        self.applied_count = 0

    def seek(self, count: int) -> None:
        """Make the first `count` edits, and no others; InputError where there are fewer."""
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
    """An edit that the parameter can take, of finite numbers."""
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
    """Whether two indices are the same in words: a wrong False makes one more entry."""
    return type(one) is type(other) and repr(one) == repr(other)


def state_dict(model: load.Model, graph: Graph, prefix: str = "") -> dict[str, Any]:
    """Every parameter and buffer of a Graph: tensors under a module's own names, or arrays.

    `prefix` is before the names of the Graph.
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


def flat_index(shape: tuple[int, ...], first: int, count: int) -> tuple[Array, ...]:
    """The index of so many numbers one behind the other in row-major order."""
    size = math.prod(shape)
    if first + count > size:
        raise InputError(f"the values {first} to {first + count - 1} of {size}")
    return np.unravel_index(np.arange(first, first + count), shape)
