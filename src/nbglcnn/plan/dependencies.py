"""Checks of a Plan that need loops: pass order, views, layer dependencies and index maps.

`js/src/plan/dependencies.ts` has the same checks with the same messages. They run after all
constraints of `constraints.py` hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

from nbglcnn.plan.constraints import join_text, quote
from nbglcnn.plan.sections import sections_by_texture

if TYPE_CHECKING:
    from nbglcnn.plan.schema import Header, IndexMap


def broken_dependency(header: Header) -> str | None:
    """The message of the first check that fails; None if all pass."""
    checks: Sequence[Callable[[Header], str | None]] = (
        _check_order,
        _check_views,
        _check_dependencies,
        _check_index_maps,
    )
    return next(filter(None, (check(header) for check in checks)), None)


def _check_order(header: Header) -> str | None:
    """Check that no pass reads a texture before it is written: a second run would differ."""
    writers = sections_by_texture(header)
    for number, section in enumerate(header.sections):
        written: set[int] = set()
        for k in range(section.first, section.first + section.count):
            step = header.passes[k]
            for texture in step.inputs:
                # Valid: written earlier in this section, or by exactly one section, an earlier one.
                own = writers.get(texture, ())
                if own and texture not in written and (len(own) > 1 or max(own) >= number):
                    return f"pass {k} reads texture {texture} before it is written"
            written.add(step.output)
    return None


def _check_views(header: Header) -> str | None:
    """Check that the source of each view exists, is another value, and shares its texture."""
    values = header.values
    for number, value in enumerate(values):
        seen, source = {number}, value.view_of
        while source != -1:
            if not 0 <= source < len(values) or source in seen:
                return f"value {quote(value.key)} is a view of value {source}"
            if values[source].texture != value.texture:
                return (
                    f"value {quote(value.key)} is a view of another texture: value {source} is "
                    f"texture {values[source].texture}, not {value.texture}"
                )
            seen.add(source)
            source = values[source].view_of
    return None


def _check_dependencies(header: Header) -> str | None:
    """Check that each reader is reached before it reads, with matching numbers of positions."""
    for layer in header.layers:
        name = f"layer {quote(layer.name)}"
        found = {0: prod(layer.output_shape[axis] for axis in layer.position_axes)}
        for reader, source, index in layer.dependencies:
            reach = header.field_maps[index]
            if source <= 0 or prod(reach.output_sizes) != found.get(reader):
                return f"{name} reads {source} for {reader}, by field map {index}"
            own = prod(reach.input_sizes)
            if found.setdefault(source, own) != own:
                return (
                    f"{name} reads several sizes of {source}: {found[source]} and {own} positions"
                )
    return None


def _check_index_maps(header: Header) -> str | None:
    """Check that index maps only lead to elements that exist."""
    sizes = {one.key: prod(one.shape) for one in (*header.values, *header.parameters)}
    for layer in header.layers:
        # A value that the Plan doesn't keep cannot be displayed, so its size doesn't matter.
        mapped_operands = [
            (one.index_maps, one.shape, sizes.get(one.key)) for one in layer.operands
        ]
        mapped_operands.append(
            (layer.index_maps, layer.output_shape, prod(layer.raw_shape or layer.output_shape))
        )
        for index_maps, shape, size in mapped_operands:
            count = prod(shape)
            if count == 0:
                continue  # no elements to map
            what = f"layer {quote(layer.name)} moves elements of {join_text(shape, '×')}"
            for index_map in index_maps:
                low, high = _source_range(index_map, count)
                if low < 0 or high < 0:
                    return f"{what} that are not there"
                count = high + 1
            if len(index_maps) > 0 and size is not None and count > size:
                return f"{what} from outside of a value: element {count - 1} of {size}"
    return None


def _source_range(index_map: IndexMap, count: int) -> tuple[int, int]:
    """The first and last source of the first `count` elements; (-1, -1) if the map is invalid."""
    lengths = len(index_map.strides) == len(index_map.sizes) and -1 <= index_map.axis < len(
        index_map.sizes
    )
    if not lengths or min(index_map.sizes, default=1) < 1 or prod(index_map.sizes) < count:
        return -1, -1
    if len(index_map.table) != (index_map.sizes[index_map.axis] if index_map.axis >= 0 else 0):
        return -1, -1
    low = high = index_map.offset
    for axis, (size, stride) in enumerate(zip(index_map.sizes, index_map.strides, strict=True)):
        ends = index_map.table if axis == index_map.axis else (0, (size - 1) * stride)
        low, high = low + min(ends), high + max(ends)
    return low, high
