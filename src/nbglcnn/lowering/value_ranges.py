"""The known range of each value, for scaling pictures and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nbglcnn.graph import Array, Graph, Node, ValueKey
from nbglcnn.ops import OPERATOR_RECORDS
from nbglcnn.ops.operator import float_attr, string_attr
from nbglcnn.plan import schema as p

UNBOUNDED: p.Bounds = (None, None)
UNIT_RANGE: p.Bounds = (0.0, 1.0)  # black and white
BYTE_RANGE: p.Bounds = (0.0, 255.0)
IMAGE_CHANNELS = (1, 3)  # channel counts of an image output or input

# Explanation kinds of operators whose outputs are elements of their first input or means of them.
RANGE_PRESERVING_KINDS = frozenset(
    ("same", "moved", "chosen", "max pool", "mean pool", "resampling")
)
# Operators that are affine if one operand is constant; `by` is the constant.
AFFINE_OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "Add": lambda x, by: x + by,
    "Sub": lambda x, by: x - by,
    "Mul": lambda x, by: x * by,
    "Div": lambda x, by: x / by,
}
# Ranges of functions without a saturation bound (`bounds`), unlike activations.
HALF_PI = float(np.float32(np.pi / 2))
FUNCTION_RANGES: Mapping[str, tuple[float, float]] = {
    "Sin": (-1.0, 1.0),
    "Cos": (-1.0, 1.0),
    "Sign": (-1.0, 1.0),
    "Asin": (-HALF_PI, HALF_PI),
    "Acos": (0.0, 2 * HALF_PI),
    "Atan": (-HALF_PI, HALF_PI),
}
ROUNDING_OPERATORS: Mapping[str, Callable[[float], np.floating[Any]]] = {
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Round": np.rint,
}


class ValueRanges:
    """The lower and upper bound of each value of a Graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._producers = {name: node for node in graph.nodes for name in node.outputs if name}
        self._bounds_of_value: dict[str, p.Bounds] = {
            name: UNIT_RANGE if name in graph.picture_fits else UNBOUNDED for name in graph.inputs
        }
        for node in graph.nodes:  # in topological order
            found = self._node_bounds(node)
            self._bounds_of_value.update((name, found) for name in node.outputs if name)

    def range_of(self, key: ValueKey, nchw: tuple[int, int, int, int]) -> p.Bounds:
        """The bounds of a key's value, displayed in the shape `nchw`.

        An image output uses its own bounds if the network determines them, else black and white of
        the preprocessed input, else 0 and 1. An image input uses the range of its source pictures.
        """
        image = (
            len(self._graph.shape(key.value_name)) == 4
            and nchw[1] in IMAGE_CHANNELS
            and nchw[2] > 1
        )
        if key.kind == "input":
            if not image:
                return UNBOUNDED
            if key.value_name in self._graph.picture_fits:  # the picture before `preprocess`
                return UNIT_RANGE
            return BYTE_RANGE if self._graph.values[key.value_name].dtype == np.uint8 else UNBOUNDED
        found = _finite_or_unbounded(self._value_bounds(key.value_name))
        if image and key.kind == "output" and found == UNBOUNDED:
            return self._preprocess_range(key.name) or UNIT_RANGE
        return found

    def _preprocess_range(self, name: str) -> p.Bounds | None:
        """Black and white after the last `preprocess` step, the same for all channels."""
        steps = [
            one for one in self._graph.preprocess_keys if name.startswith(_comparison_prefix(one))
        ]
        if not steps:
            return None
        found = _finite_or_unbounded(self._value_bounds(self._graph.key(steps[-1]).value_name))
        return None if found == UNBOUNDED else found

    def _value_bounds(self, name: str) -> p.Bounds:
        """The bounds of a value; a bound is None if the network doesn't determine it."""
        if name in self._bounds_of_value:
            return self._bounds_of_value[name]
        data = self._graph.static_data(name)
        return UNBOUNDED if data is None else _data_bounds(data)

    def _node_bounds(self, node: Node) -> p.Bounds:
        if node.python_fallback is not None:
            return UNBOUNDED
        record = OPERATOR_RECORDS[node.op]
        low, high = record.output_bounds(self._graph, node)
        if low is not None and high is not None:
            return low, high
        if node.op in FUNCTION_RANGES:
            return FUNCTION_RANGES[node.op]
        if node.op == "Div" and self._is_softsign(node):
            return -1.0, 1.0
        if node.op in AFFINE_OPERATORS:
            return self._affine_bounds(node)
        if node.op in ("Concat", "Max", "Min"):
            return _join_bounds(node.op, [self._value_bounds(one) for one in node.inputs])
        least, most = self._value_bounds(node.inputs[0]) if node.inputs else UNBOUNDED
        if node.op in ("Relu", "Clip"):
            return _clip_bound(least, low, high, low), _clip_bound(most, low, high, high)
        if node.op == "Abs":
            ends = None if least is None or most is None else max(abs(least), abs(most))
            return 0.0, ends
        if node.op == "Neg":
            return _map_bound(lambda x: -x, most), _map_bound(lambda x: -x, least)
        if node.op in ROUNDING_OPERATORS:
            of = ROUNDING_OPERATORS[node.op]
            return _map_bound(lambda x: float(of(x)), least), _map_bound(
                lambda x: float(of(x)), most
            )
        kind = record.explanation_kind(self._graph, node)
        if kind == "padding" or (kind == "mean pool" and float_attr(node, "count_include_pad", 0)):
            by = self._padding_value(node) if kind == "padding" else 0.0
            return _map_bound(lambda x: min(x, by), least), _map_bound(lambda x: max(x, by), most)
        if kind in RANGE_PRESERVING_KINDS and string_attr(node, "mode", "") != "cubic":
            return least, most
        if kind == "convolution" and self._is_weighted_mean(node):
            return least, most
        return UNBOUNDED

    def _affine_bounds(self, node: Node) -> p.Bounds:
        """The bounds after arithmetic with one number that is the same for all elements."""
        first, second = node.inputs
        data = self._graph.static_data(second)
        is_swapped = data is None and node.op in ("Add", "Mul", "Sub")
        if is_swapped:
            first, second = second, first
            data = self._graph.static_data(second)
        if data is None or data.dtype.kind != "f" or not data.size or (data != data.flat[0]).any():
            return UNBOUNDED
        by = float(data.flat[0])
        if not np.isfinite(by) or (by == 0 and node.op in ("Mul", "Div")):
            return UNBOUNDED
        sign = -1.0 if is_swapped and node.op == "Sub" else 1.0

        def made(x: float) -> float:
            return float(np.float32(sign * AFFINE_OPERATORS[node.op](x, by))) + 0.0  # avoids −0

        least, most = (_map_bound(made, end) for end in self._value_bounds(first))
        return (least, most) if made(1.0) > made(0.0) else (most, least)

    def _is_softsign(self, node: Node) -> bool:
        """Whether a quotient is x / (1 + |x|), the form in which PyTorch exports Softsign."""
        x, below = node.inputs
        added = self._producers.get(below)
        if added is None or added.op != "Add":
            return False
        for size, one in (added.inputs, added.inputs[::-1]):
            made = self._producers.get(size)
            if made is not None and made.op == "Abs" and [*made.inputs] == [x]:
                return self._value_bounds(one) == (1.0, 1.0)
        return False

    def _padding_value(self, node: Node) -> float:
        """The number with which a map is padded."""
        data = self._graph.constant_data(node.inputs[2]) if len(node.inputs) > 2 else None
        return 0.0 if data is None else float(data.reshape(()))

    def _is_weighted_mean(self, node: Node) -> bool:
        """Whether a convolution is a weighted mean at each position, like a conversion to grey."""
        weight = self._graph.static_data(node.inputs[1])
        if weight is None or any(node.inputs[2:]) or any(node.attributes.get("pads", ())):  # type: ignore[arg-type]
            return False
        sums = weight.reshape(len(weight), -1).sum(1)
        valid = string_attr(node, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
        return bool(valid and (weight >= 0).all() and np.abs(sums - 1).max(initial=0) < 1e-6)


def _comparison_prefix(name: str) -> str:
    """The prefix of a step's key: "A." or "B." if two networks are compared, else empty."""
    return name[: name.rindex("preprocess.")] if "preprocess." in name else ""


def _finite_or_unbounded(bounds: p.Bounds) -> p.Bounds:
    """Return the bounds if both are known and low < high, else `UNBOUNDED`."""
    least, most = bounds
    return bounds if least is not None and most is not None and least < most else UNBOUNDED


def _map_bound(function: Callable[[float], float], bound: float | None) -> float | None:
    return None if bound is None else function(bound)


def _clip_bound(
    bound: float | None, low: float | None, high: float | None, default: float | None
) -> float | None:
    """One bound after clipping to `low` and `high`; `default` if the bound is unknown."""
    if bound is None:
        return default
    bound = bound if low is None else max(bound, low)
    return bound if high is None else min(bound, high)


def _join_bounds(operator: str, bounds: Sequence[p.Bounds]) -> p.Bounds:
    """The bounds of the concatenation, maximum or minimum of several values."""
    lows, highs = zip(*bounds, strict=True)
    least = [low for low in lows if low is not None]
    most = [high for high in highs if high is not None]
    every_low, every_high = len(least) == len(bounds), len(most) == len(bounds)
    if operator == "Max":
        return max(least, default=None), max(most) if every_high else None
    if operator == "Min":
        return min(least) if every_low else None, min(most, default=None)
    return min(least) if every_low else None, max(most) if every_high else None


def _data_bounds(data: Array) -> p.Bounds:
    """The minimum and maximum of a constant."""
    if data.dtype.kind not in "fiu" or not data.size or not np.isfinite(data).all():
        return UNBOUNDED
    return float(data.min()), float(data.max())
