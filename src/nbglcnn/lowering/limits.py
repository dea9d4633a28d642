"""The numbers between which a value lies, as far as the network says: for pictures and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nbglcnn.graph import Array, Graph, Key, Node
from nbglcnn.ops import RECORDS
from nbglcnn.ops.operator import number, text
from nbglcnn.plan import schema as p

OPEN: p.Bounds = (None, None)
UNIT: p.Bounds = (0.0, 1.0)  # black and white
BYTES: p.Bounds = (0.0, 255.0)
IMAGES = (1, 3)  # channels of an output or an input that is a picture

# Explanations of operators whose outputs are elements of their first input, or means of some.
WITHIN = frozenset(("same", "moved", "chosen", "max pool", "mean pool", "resampling"))
# Of operators of one constant, written on the right.
AFFINE: Mapping[str, Callable[[float, float], float]] = {
    "Add": lambda x, by: x + by,
    "Sub": lambda x, by: x - by,
    "Mul": lambda x, by: x * by,
    "Div": lambda x, by: x / by,
}
# Ranges of functions that have no end at which they saturate, as an activation has (`bounds`).
QUARTER_TURN = float(np.float32(np.pi / 2))
RANGES: Mapping[str, tuple[float, float]] = {
    "Sin": (-1.0, 1.0),
    "Cos": (-1.0, 1.0),
    "Sign": (-1.0, 1.0),
    "Asin": (-QUARTER_TURN, QUARTER_TURN),
    "Acos": (0.0, 2 * QUARTER_TURN),
    "Atan": (-QUARTER_TURN, QUARTER_TURN),
}
ROUNDED: Mapping[str, Callable[[float], np.floating[Any]]] = {
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Round": np.rint,
}


class Limits:
    """The limits of each value of a Graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._makers = {name: node for node in graph.nodes for name in node.outputs if name}
        self._known: dict[str, p.Bounds] = {
            name: UNIT if name in graph.fits else OPEN for name in graph.inputs
        }
        for node in graph.nodes:  # each behind those that it reads
            found = self._of_node(node)
            self._known.update((name, found) for name in node.outputs if name)

    def of(self, key: Key, nchw: tuple[int, int, int, int]) -> p.Bounds:
        """The limits of a key's value that is shown as `nchw`.

        An output that is a picture has those of the last layer, else black and white as
        `preprocess` has them, else 0 and 1; an input that is one those of its pictures.
        """
        image = len(self._graph.shape(key.value)) == 4 and nchw[1] in IMAGES and nchw[2] > 1
        if key.kind == "input":
            if not image:
                return OPEN
            if key.value in self._graph.fits:  # the picture in front of `preprocess`
                return UNIT
            return BYTES if self._graph.values[key.value].dtype == np.uint8 else OPEN
        found = _closed(self._bounds(key.value))
        if image and key.kind == "output" and found == OPEN:
            return self._preprocessed(key.name) or UNIT
        return found

    def _preprocessed(self, name: str) -> p.Bounds | None:
        """Black and white behind the last step of `preprocess`, the same for all channels."""
        steps = [one for one in self._graph.preprocess if name.startswith(_side(one))]
        if not steps:
            return None
        found = _closed(self._bounds(self._graph.key(steps[-1]).value))
        return None if found == OPEN else found

    def _bounds(self, name: str) -> p.Bounds:
        """The ends of a value, each of them None where the network doesn't say it."""
        if name in self._known:
            return self._known[name]
        data = self._graph.fixed(name)
        return OPEN if data is None else _ends_of(data)

    def _of_node(self, node: Node) -> p.Bounds:
        if node.python is not None:
            return OPEN
        record = RECORDS[node.op]
        low, high = record.bounded(self._graph, node)
        if low is not None and high is not None:
            return low, high
        if node.op in RANGES:
            return RANGES[node.op]
        if node.op == "Div" and self._is_softsign(node):
            return -1.0, 1.0
        if node.op in AFFINE:
            return self._affine(node)
        if node.op in ("Concat", "Max", "Min"):
            return _joined(node.op, [self._bounds(one) for one in node.inputs])
        least, most = self._bounds(node.inputs[0]) if node.inputs else OPEN
        if node.op in ("Relu", "Clip"):
            return _clipped(least, low, high, low), _clipped(most, low, high, high)
        if node.op == "Abs":
            ends = None if least is None or most is None else max(abs(least), abs(most))
            return 0.0, ends
        if node.op == "Neg":
            return _mapped(lambda x: -x, most), _mapped(lambda x: -x, least)
        if node.op in ROUNDED:
            of = ROUNDED[node.op]
            return _mapped(lambda x: float(of(x)), least), _mapped(lambda x: float(of(x)), most)
        kind = record.explained(self._graph, node)
        if kind == "padding" or (kind == "mean pool" and number(node, "count_include_pad", 0)):
            by = self._padding(node) if kind == "padding" else 0.0
            return _mapped(lambda x: min(x, by), least), _mapped(lambda x: max(x, by), most)
        if kind in WITHIN and text(node, "mode", "") != "cubic":
            return least, most
        if kind == "convolution" and self._is_mean(node):
            return least, most
        return OPEN

    def _affine(self, node: Node) -> p.Bounds:
        """Of a value and one number, the same for all elements."""
        first, second = node.inputs
        data = self._graph.fixed(second)
        turned = data is None and node.op in ("Add", "Mul", "Sub")
        if turned:
            first, second = second, first
            data = self._graph.fixed(second)
        if data is None or data.dtype.kind != "f" or not data.size or (data != data.flat[0]).any():
            return OPEN
        by = float(data.flat[0])
        if not np.isfinite(by) or (by == 0 and node.op in ("Mul", "Div")):
            return OPEN
        sign = -1.0 if turned and node.op == "Sub" else 1.0

        def made(x: float) -> float:
            return float(np.float32(sign * AFFINE[node.op](x, by))) + 0.0  # no −0

        least, most = (_mapped(made, end) for end in self._bounds(first))
        return (least, most) if made(1.0) > made(0.0) else (most, least)

    def _is_softsign(self, node: Node) -> bool:
        """Whether a quotient is x / (1 + |x|), as PyTorch exports Softsign."""
        x, below = node.inputs
        added = self._makers.get(below)
        if added is None or added.op != "Add":
            return False
        for size, one in (added.inputs, added.inputs[::-1]):
            made = self._makers.get(size)
            if made is not None and made.op == "Abs" and [*made.inputs] == [x]:
                return self._bounds(one) == (1.0, 1.0)
        return False

    def _padding(self, node: Node) -> float:
        """The number that stands around a padded map."""
        data = self._graph.constant(node.inputs[2]) if len(node.inputs) > 2 else None
        return 0.0 if data is None else float(data.reshape(()))

    def _is_mean(self, node: Node) -> bool:
        """Whether a convolution takes a weighted mean at each place, as a change to grey does."""
        weight = self._graph.fixed(node.inputs[1])
        if weight is None or any(node.inputs[2:]) or any(node.attributes.get("pads", ())):  # type: ignore[arg-type]
            return False
        sums = weight.reshape(len(weight), -1).sum(1)
        valid = text(node, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
        return bool(valid and (weight >= 0).all() and np.abs(sums - 1).max(initial=0) < 1e-6)


def _side(name: str) -> str:
    """What stands before a step's key: "A." or "B." of two networks that are compared."""
    return name[: name.rindex("preprocess.")] if "preprocess." in name else ""


def _closed(bounds: p.Bounds) -> p.Bounds:
    """Both ends of a value, or neither."""
    least, most = bounds
    return bounds if least is not None and most is not None and least < most else OPEN


def _mapped(of: Callable[[float], float], end: float | None) -> float | None:
    return None if end is None else of(end)


def _clipped(
    end: float | None, low: float | None, high: float | None, otherwise: float | None
) -> float | None:
    """An end of a value that is clipped to `low` and `high`; `otherwise` where it has none."""
    if end is None:
        return otherwise
    end = end if low is None else max(end, low)
    return end if high is None else min(end, high)


def _joined(operator: str, bounds: Sequence[p.Bounds]) -> p.Bounds:
    """What the concatenation, the maximum or the minimum of several values lies between."""
    lows, highs = zip(*bounds, strict=True)
    least = [low for low in lows if low is not None]
    most = [high for high in highs if high is not None]
    every_low, every_high = len(least) == len(bounds), len(most) == len(bounds)
    if operator == "Max":
        return max(least, default=None), max(most) if every_high else None
    if operator == "Min":
        return min(least) if every_low else None, min(most, default=None)
    return min(least) if every_low else None, max(most) if every_high else None


def _ends_of(data: Array) -> p.Bounds:
    """The least and the largest number of a constant."""
    if data.dtype.kind not in "fiu" or not data.size or not np.isfinite(data).all():
        return OPEN
    return float(data.min()), float(data.max())
