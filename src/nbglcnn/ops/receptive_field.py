"""The input positions on which an operator's output position can depend, axis by axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbglcnn.graph import Node
from nbglcnn.plan.schema import AxisWindow

if TYPE_CHECKING:
    from nbglcnn.ops.operator import KnownValues
    from nbglcnn.ops.window import SlidingWindow

Shape = tuple[int, ...]
# A smaller weight is rounding error of 0: coordinates are rarely exact in binary.
NEGLIGIBLE_WEIGHT = 1e-6
MAX_TABLE_LENGTH = 2**16  # longest axis with a table, in Python and in the page
PositionTable = tuple[tuple[int, ...], ...]  # per reader position, the source positions


@dataclass(frozen=True, slots=True)
class OperatorField:
    """The dependence of an output's positions (the reader) on one input's (the source).

    `output_shape` and `input_shape` are the value's shapes, or other shapes with the same elements
    in the same order. `windows` has one entry per axis of `input_shape`: an AxisWindow, whose
    `axis` is an axis of `output_shape`, or None if each output position can depend on every
    position along that input axis.
    """

    output_shape: Shape
    input_shape: Shape
    windows: tuple[AxisWindow | None, ...]


ReceptiveFieldRule = Callable[["KnownValues", Node, int], Sequence[OperatorField | None]]
"""For an output, by its number, and each input: how they are linked (None: no value is read)."""


def same_position(axis: int) -> AxisWindow:
    """The same position along an axis."""
    return AxisWindow(axis)


def shifted_position(axis: int, begin: int, step: int = 1) -> AxisWindow:
    """The position minus `begin`; positions outside the source are dropped."""
    return AxisWindow(axis, pad_begin=begin, stride=step)


def full_field(
    facts: KnownValues, node: Node, output_index: int, name: str
) -> OperatorField | None:
    """Every position of an input."""
    if not name:
        return None
    shape = facts.shape(name)
    return OperatorField(facts.shape(node.outputs[output_index]), shape, (None,) * len(shape))


def full_fields(facts: KnownValues, node: Node, output_index: int) -> list[OperatorField | None]:
    """Each output position can depend on every position of each input."""
    return [full_field(facts, node, output_index, name) for name in node.inputs]


def broadcast_field(shape: Shape, source: Shape) -> OperatorField:
    """Each position depends on the same position of a broadcast source."""
    missing = len(shape) - len(source)
    axes = [
        same_position(k + missing) if n == shape[k + missing] else None
        for k, n in enumerate(source)
    ]
    return OperatorField(shape, source, tuple(axes))


def elementwise_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """Each position depends on the same position of each broadcast input."""
    shape = facts.shape(node.outputs[output_index])
    return [broadcast_field(shape, facts.shape(name)) if name else None for name in node.inputs]


def first_input_fields(
    rule: Callable[[KnownValues, Node, int], OperatorField],
) -> ReceptiveFieldRule:
    """Make a rule from the first input's; all positions count for other inputs, like weights."""

    def reach(facts: KnownValues, node: Node, position: int) -> list[OperatorField | None]:
        others = [full_field(facts, node, position, name) for name in node.inputs[1:]]
        return [rule(facts, node, position), *others]

    return reach


def mixed_axes_fields(axes: Callable[[KnownValues, Node], Sequence[int]]) -> ReceptiveFieldRule:
    """All positions along some axes, which the output may drop; the same along the others."""

    def rule(facts: KnownValues, node: Node, position: int) -> OperatorField:
        source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[position])
        mixed = set(axes(facts, node))
        kept = [k for k in range(len(source)) if k not in mixed]
        # An output without the mixed axes keeps the order of the others.
        at = {k: k if len(shape) == len(source) else i for i, k in enumerate(kept)}
        windows = [same_position(at[k]) if k in at else None for k in range(len(source))]
        return OperatorField(shape, source, tuple(windows))

    return first_input_fields(rule)


def window_fields(
    window: Callable[[KnownValues, Node], SlidingWindow], *, transposed: bool = False
) -> ReceptiveFieldRule:
    """A window that slides along the axes from 2 on, and covers all channels."""

    def rule(facts: KnownValues, node: Node, position: int) -> OperatorField:
        source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[position])
        found = window(facts, node)
        sides = zip(found.kernel, found.strides, found.dilations, found.pads_begin, strict=True)
        windows = [
            AxisWindow(k + 2, kernel, stride, dilation, begin, transposed)
            for k, (kernel, stride, dilation, begin) in enumerate(sides)
        ]
        return OperatorField(shape, source, (same_position(0), None, *windows))

    return first_input_fields(rule)


def permuted_fields(permutation: Callable[[KnownValues, Node], Shape]) -> ReceptiveFieldRule:
    """The same positions along permuted axes."""

    def rule(facts: KnownValues, node: Node, position: int) -> OperatorField:
        order = permutation(facts, node)
        windows = tuple(same_position(order.index(k)) for k in range(len(order)))
        return OperatorField(
            facts.shape(node.outputs[position]), facts.shape(node.inputs[0]), windows
        )

    return first_input_fields(rule)


def _reshaped_field(facts: KnownValues, node: Node, output_index: int) -> OperatorField:
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[output_index])
    atoms = common_axes(source, shape)
    return OperatorField(atoms, atoms, tuple(same_position(k) for k in range(len(atoms))))


reshaped_fields = first_input_fields(_reshaped_field)
"""The same elements in the same order, over other axes."""


def common_axes(a: Shape, b: Shape) -> Shape:
    """The coarsest common factorization of two shapes into axes; each shape merges them.

    Axes that overlap crosswise, like 4×6 and 6×4, become one axis.
    """
    if 0 in a or 0 in b:
        return (0,)
    left, right = [n for n in a if n > 1], [n for n in b if n > 1]
    atoms: list[int] = []
    while left or right:
        first, second = left[0], right[0]
        if first == second:
            atoms.append(first)
            left, right = left[1:], right[1:]
        elif first % second == 0:
            atoms.append(second)
            left, right = [first // second, *left[1:]], right[1:]
        elif second % first == 0:
            atoms.append(first)
            left, right = left[1:], [second // first, *right[1:]]
        elif len(left) > 1 and first < second:
            left = [first * left[1], *left[2:]]
        else:
            right = [second * right[1], *right[2:]]
    return tuple(atoms)


def _reflect_index(index: int, size: int) -> int:
    around = 2 * (size - 1)
    return min(index % around, -index % around) if around else 0


# The source index that each padding mode reads.
PADDING_INDEX_RULES: Mapping[str, Callable[[int, int], int]] = {
    "zeros": lambda at, _: at,
    "reflect": _reflect_index,
    "edge": lambda at, size: min(max(at, 0), size - 1),
    "wrap": lambda at, size: at % size,
}


def source_positions(size: int, axis_window: AxisWindow, length: int) -> PositionTable:
    """For each of a reader's `length` positions, the positions in a source of this size."""
    if axis_window.table:
        return axis_window.table
    reach = [t * axis_window.dilation - axis_window.pad_begin for t in range(axis_window.kernel)]
    if axis_window.transposed:
        found: list[list[int]] = [[] for _ in range(length)]
        for i in range(size):
            for t in reach:
                if 0 <= i * axis_window.stride + t < length:
                    found[i * axis_window.stride + t].append(i)
        return tuple(tuple(sorted(set(places))) for places in found)
    repeat = PADDING_INDEX_RULES[axis_window.padding]
    return tuple(
        tuple(
            sorted(
                {i for t in reach if 0 <= (i := repeat(o * axis_window.stride + t, size)) < size}
            )
        )
        for o in range(length)
    )


def table_window(
    axis: int, length: int, size: int, positions: Callable[[], Iterable[Iterable[int]]]
) -> AxisWindow | None:
    """An axis with arbitrary source positions per reader position; a window if one fits.

    Returns None, every position, if the axis is too long for a table.
    """
    if max(length, size) > MAX_TABLE_LENGTH:
        return None
    table = tuple(tuple(sorted(set(row))) for row in positions())
    for transposed in (False, True):
        rows = _invert_table(table, size) if transposed else table
        fitted = _fit_window(axis, rows, transposed)
        if fitted is not None and source_positions(size, fitted, len(table)) == table:
            return fitted
    return AxisWindow(axis, table=table)


def _invert_table(table: PositionTable, size: int) -> PositionTable:
    rows: list[list[int]] = [[] for _ in range(size)]
    for reader, places in enumerate(table):
        for place in places:
            rows[place].append(reader)
    return tuple(map(tuple, rows))


def _fit_window(axis: int, rows: PositionTable, transposed: bool) -> AxisWindow | None:
    """Fit a window to the neighbouring pair of rows with the most reads."""
    pairs = [k for k in range(len(rows) - 1) if rows[k] and rows[k + 1]]
    if not pairs:
        return None
    k = max(pairs, key=lambda k: len(rows[k]) + len(rows[k + 1]))
    row = rows[k]
    stride = rows[k + 1][0] - row[0]
    dilation = row[1] - row[0] if len(row) > 1 else 1
    return AxisWindow(axis, len(row), stride, dilation, k * stride - row[0], transposed)
