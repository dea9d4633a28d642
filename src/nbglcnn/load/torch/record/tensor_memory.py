"""Which node holds a tensor's current values: views share memory, and writes change it.

Tensors over one storage share writes. The first tensor seen on a storage is its base, and the
base's node has all values. A view is recomputed from its parent after a write to the parent. A
write to a view is inserted into the base.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef

from nbglcnn.errors import UnsupportedModel

FxNode = Any  # torch.fx.Node, whose type annotations don't help here
AddCall = Callable[..., FxNode]
IndexArray = np.ndarray[Any, Any]


@dataclass(eq=False, slots=True)
class StorageBase:
    """The first tensor seen on memory; `current_node` has its values after `version` writes."""

    current_node: FxNode
    initial_node: FxNode
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    version: int = 0

    @property
    def is_constant(self) -> bool:
        """Whether it has a constant's values and no write has changed them."""
        meta = self.initial_node.meta
        return self.version == 0 and not meta["varies"] and not meta["parameters"]


@dataclass(eq=False, slots=True)
class TrackedTensor:
    """A tensor: `node` had its values when its base had this version.

    `recompute_view` computes the view from the tensor `parent`. It finds the parent's node among
    the arguments by identity; the other arguments stay nodes. None if the tensor is the base, or a
    view of the base by strides.
    """

    base: StorageBase
    node: FxNode
    version: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    parent: TrackedTensor | None = None
    recompute_view: Callable[[FxNode], FxNode] | None = None


@dataclass(eq=False)
class TensorMemory:
    """The memory of all tensors of a run.

    `add_call` adds an operator node to the graph, `add_constant` a constant's node.
    """

    add_call: AddCall
    add_constant: Callable[[torch.Tensor], FxNode]
    _tensors: dict[int, tuple[weakref.ref[torch.Tensor], TrackedTensor]] = field(
        default_factory=dict
    )
    _bases: dict[int, tuple[Any, list[StorageBase]]] = field(default_factory=dict)  # by storage

    def is_known(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor object is tracked."""
        return self.find(tensor) is not None

    def find(self, tensor: torch.Tensor) -> TrackedTensor | None:
        """The record of this tensor object, if it still has the recorded memory layout."""
        found = self._tensors.get(id(tensor))
        if found is None or found[0]() is not tensor:
            return None
        one = found[1]
        if tensor.layout is not torch.strided:
            return one
        same = (one.shape, one.strides, one.offset) == _memory_layout(tensor)
        # `tensor.data = other` assigns other memory.
        return one if same and one.base in self._storage_bases(tensor) else None

    def add(self, tensor: torch.Tensor, node: fx.Node) -> None:
        """Track a tensor that shares memory with no known tensor."""
        base = StorageBase(node, node, *_memory_layout(tensor), tensor.dtype)
        self._storage_bases(tensor).append(base)
        self._track(tensor, TrackedTensor(base, node, 0, *_memory_layout(tensor)))

    def current_node(self, tensor: torch.Tensor) -> FxNode | None:
        """The node with the tensor's current values; None if its memory is unknown."""
        one = self.find(tensor)
        if one is not None:
            return self._current_node(one)
        if tensor.layout is not torch.strided:
            return None
        return self._find_by_address(tensor)

    def base_node(self, tensor: torch.Tensor) -> FxNode | None:
        """The node that had the initial values of the tensor's base."""
        one = self.find(tensor)
        return None if one is None else one.base.initial_node

    def add_result(
        self,
        tensor: torch.Tensor,
        node: FxNode,
        arguments: Sequence[torch.Tensor],
        output_index: int | None = None,
    ) -> None:
        """Track an operator's result: a view of one of its arguments, or new values.

        `output_index` is its index among several results of the operator.
        """
        parent = None
        if tensor.layout is torch.strided and (bases := self._storage_bases(tensor)):
            for one in arguments:
                found = self.find(one)
                if found is not None and found.base in bases:
                    parent = found
                    break
        if parent is None:
            self.add(tensor, node)
            return
        source, function = parent.node, node.target if output_index is None else node.args[0].target

        def view(new: fx.Node) -> FxNode:
            made = node if output_index is None else node.args[0]
            args, kwargs = fx.map_arg((made.args, made.kwargs), lambda n: new if n is source else n)
            again = self.add_call(function, args, kwargs, like=made.meta["val"])
            if output_index is not None:
                again = self.add_call(node.target, (again, output_index), {}, like=tensor_value)
            return again

        tensor_value = node.meta["val"]
        base = parent.base
        self._track(
            tensor, TrackedTensor(base, node, base.version, *_memory_layout(tensor), parent, view)
        )

    def record_write(self, tensor: torch.Tensor, node: fx.Node) -> None:
        """Record that a tensor's values are now those of `node`."""
        one = self.find(tensor)
        if one is None:
            self.current_node(tensor)
            one = self.find(tensor)
        if one is None:
            self.add(tensor, node)
            return
        if 0 in one.shape:
            return
        base = one.base
        whole = (one.shape, one.strides, one.offset) == (base.shape, base.strides, base.offset)
        base.current_node = node if whole else self._write_view(base, one, node)
        base.version += 1
        one.node, one.version = node, base.version
        for other in self._storage_bases(tensor):
            if other is not base:
                self._copy_shared(base, other)

    def note_alias(self, tensor: torch.Tensor) -> None:
        """Update the base to the alias's node, so that later partial writes go into it."""
        one = self.find(tensor)
        if one is None or one.version != one.base.version:
            return
        base = one.base
        if (one.shape, one.strides, one.offset) == (base.shape, base.strides, base.offset):
            base.current_node = one.node

    def note_reshape(self, tensor: torch.Tensor, previous: TrackedTensor) -> None:
        """Record that a tensor has another shape over the same memory."""
        base = previous.base
        node = self._read_view(base, tensor)
        self._track(tensor, TrackedTensor(base, node, base.version, *_memory_layout(tensor)))

    def _track(self, tensor: torch.Tensor, tracked: TrackedTensor) -> None:
        key = id(tensor)
        self._tensors[key] = weakref.ref(tensor), tracked

    def _storage_bases(self, tensor: torch.Tensor) -> list[StorageBase]:
        if tensor.layout is not torch.strided:
            return []
        ref: Any = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        found = self._bases.get(ref.cdata)
        if found is None:
            found = self._bases[ref.cdata] = ref, []
        return found[1]

    def _current_node(self, tracked: TrackedTensor) -> FxNode:
        base = tracked.base
        if tracked.version == base.version:
            return tracked.node
        if tracked.recompute_view is not None and tracked.parent is not None:
            tracked.node = tracked.recompute_view(self._current_node(tracked.parent))
        elif (tracked.shape, tracked.strides, tracked.offset) == (
            base.shape,
            base.strides,
            base.offset,
        ):
            tracked.node = base.current_node
        else:
            tracked.node = self._gather_view(base, tracked.shape, tracked.strides, tracked.offset)
        tracked.version = base.version
        return tracked.node

    def _find_by_address(self, tensor: torch.Tensor) -> FxNode | None:
        """Find a tensor that no operator returned, such as `x.data`, by its memory address."""
        shape, strides, offset = _memory_layout(tensor)
        for base in self._storage_bases(tensor):
            begin, end = _storage_range(base.shape, base.strides, base.offset)
            first, last = _storage_range(shape, strides, offset)
            if last <= begin or end <= first:
                continue
            # Skip a constant base that covers the tensor only in part: the tensor is a larger
            # constant, seen later.
            if base.is_constant and (first < begin or last > end):
                continue
            node = self._read_view(base, tensor)
            self._track(tensor, TrackedTensor(base, node, base.version, shape, strides, offset))
            return node
        return None

    def _read_view(self, base: StorageBase, tensor: torch.Tensor) -> FxNode:
        shape, strides, offset = _memory_layout(tensor)
        if tensor.dtype is not base.dtype:
            raise UnsupportedModel(
                f"forward reads values of type {base.dtype} as {tensor.dtype} (a view with "
                "another type); convert them with .to()"
            )
        if (shape, strides, offset) == (base.shape, base.strides, base.offset):
            return base.current_node
        return self._gather_view(base, shape, strides, offset)

    def _gather_view(
        self, base: StorageBase, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> FxNode:
        """Read a view of the base by a gather from its flattened values."""
        node = self._gather(base, _view_indices(base, shape, strides, offset).reshape(-1))
        return self._reshape(node, shape, base.dtype)

    def _write_view(self, base: StorageBase, view: TrackedTensor, node: fx.Node) -> FxNode:
        """The base's values, with those of `node` inserted at the view."""
        box = _view_as_slices(base, view)
        if box is None:
            return self._write_by_index(base, view, node)
        order, sizes, starts, steps = box
        aten = torch.ops.aten
        if order != sorted(order):
            shape = tuple(view.shape[k] for k in order)
            node = self.add_call(
                aten.permute.default, (node, order), {}, like=_empty(shape, base.dtype)
            )
        node = self._reshape(node, sizes, base.dtype)
        dims = [d for d, n in enumerate(base.shape) if sizes[d] != n]

        def put(into: FxNode, shape: tuple[int, ...], rest: list[int]) -> FxNode:
            if not rest:
                return node
            d, *others = rest
            end = starts[d] + (sizes[d] - 1) * steps[d] + 1
            source = node
            if others:
                inner = tuple(sizes[d] if k == d else n for k, n in enumerate(shape))
                part = self.add_call(
                    aten.slice.Tensor, (into, d, starts[d], end, steps[d]), {},
                    like=_empty(inner, base.dtype),
                )  # fmt: skip
                source = put(part, inner, others)
            return self.add_call(
                aten.slice_scatter.default, (into, source, d, starts[d], end, steps[d]), {},
                like=_empty(shape, base.dtype),
            )  # fmt: skip

        return put(base.current_node, base.shape, dims)

    def _copy_shared(self, base: StorageBase, other: StorageBase) -> None:
        """Copy the elements that two bases share: parameters may overlap in memory."""
        own, its = (_storage_indices(one).reshape(-1) for one in (base, other))
        _, here, there = np.intersect1d(own, its, return_indices=True)
        if not here.size:
            return
        other.current_node = self._put(other, there, self._gather(base, here))
        other.version += 1

    def _write_by_index(self, base: StorageBase, view: TrackedTensor, node: FxNode) -> FxNode:
        places = _view_indices(base, view.shape, view.strides, view.offset).reshape(-1)
        return self._put(base, places, self._reshape(node, (places.size,), base.dtype))

    def _gather(self, base: StorageBase, indices: IndexArray) -> FxNode:
        """The base's elements at these row-major indices."""
        flat = self._reshape(base.current_node, (prod(base.shape),), base.dtype)
        index = self.add_constant(torch.from_numpy(indices))
        like = _empty((indices.size,), base.dtype)
        return self.add_call(torch.ops.aten.index_select.default, (flat, 0, index), {}, like=like)

    def _put(self, base: StorageBase, indices: IndexArray, source: FxNode) -> FxNode:
        """The base, with the elements of `source` at these indices."""
        count = (prod(base.shape),)
        flat = self._reshape(base.current_node, count, base.dtype)
        index = self.add_constant(torch.from_numpy(indices))
        made = self.add_call(
            torch.ops.aten.index_put.default, (flat, [index], source), {},
            like=_empty(count, base.dtype),
        )  # fmt: skip
        return self._reshape(made, base.shape, base.dtype)

    def _reshape(self, node: FxNode, shape: Sequence[int], dtype: torch.dtype) -> FxNode:
        if tuple(node.meta["val"].shape) == tuple(shape):
            return node
        return self.add_call(
            torch.ops.aten.reshape.default, (node, list(shape)), {}, like=_empty(shape, dtype)
        )


def _memory_layout(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    if tensor.layout is not torch.strided:
        return tuple(tensor.shape), (), 0
    return tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())


def _empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _storage_range(shape: Sequence[int], strides: Sequence[int], offset: int) -> tuple[int, int]:
    """The first storage index, and the index after the last."""
    if 0 in shape:
        return offset, offset
    return offset, offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def _storage_indices(base: StorageBase) -> IndexArray:
    """The storage index of each element."""
    found = np.full(base.shape, base.offset, np.int64)
    for axis, (length, stride) in enumerate(zip(base.shape, base.strides, strict=True)):
        along = [1] * len(base.shape)
        along[axis] = length
        found += (np.arange(length) * stride).reshape(along)
    return found


def _view_indices(
    base: StorageBase, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> IndexArray:
    """The indices of a view's elements in the base, in row-major order."""
    begin, end = _storage_range(base.shape, base.strides, base.offset)
    first, last = _storage_range(shape, strides, offset)
    if first < begin or last > end:
        raise UnsupportedModel(
            f"forward uses a tensor of shape {list(shape)} that shares memory with one of shape "
            f"{list(base.shape)} in a way that nbglcnn can't reproduce; clone it"
        )
    order = np.full(end - begin, -1, np.int64)
    own = np.lib.stride_tricks.as_strided(order, base.shape, tuple(8 * s for s in base.strides))
    own[...] = np.arange(prod(base.shape)).reshape(base.shape)
    return np.lib.stride_tricks.as_strided(
        order[offset - base.offset :], shape, tuple(8 * s for s in strides)
    ).copy()


def _view_as_slices(
    base: StorageBase, view: TrackedTensor
) -> tuple[list[int], tuple[int, ...], list[int], list[int]] | None:
    """A view as a box in its base: the axis order, and sizes, starts and steps by axis.

    None if the view is not a box, because axes are merged, repeated or crossed.
    """
    axes = sorted(
        (d for d in range(len(base.shape)) if base.shape[d] > 1),
        key=lambda d: -base.strides[d],
    )
    rest = view.offset - base.offset
    starts, steps, sizes = [0] * len(base.shape), [1] * len(base.shape), [1] * len(base.shape)
    own = {k for k in range(len(view.shape)) if view.shape[k] > 1}
    order: dict[int, int] = {}
    for d in axes:
        stride = base.strides[d]
        if stride == 0 or rest < 0:
            return None
        starts[d], rest = divmod(rest, stride)
        # View strides below this limit move along this axis alone.
        reach = stride * base.shape[d]
        found = [
            k for k in own if stride <= view.strides[k] < reach and view.strides[k] % stride == 0
        ]
        if len(found) > 1:
            return None
        if found:
            k = found[0]
            own.discard(k)
            order[d] = k
            sizes[d], steps[d] = view.shape[k], view.strides[k] // stride
            if starts[d] + (sizes[d] - 1) * steps[d] >= base.shape[d]:
                return None
    if own or rest:
        return None
    singles = [k for k in range(len(view.shape)) if view.shape[k] == 1]
    return [*singles, *(order[d] for d in sorted(order))], tuple(sizes), starts, steps
