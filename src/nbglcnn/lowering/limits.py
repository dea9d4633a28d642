"""The numbers between which a value lies, as far as the network says: for pictures and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

import numpy as np

from nbglcnn import plan as p
from nbglcnn.graph import Graph, Key, Node
from nbglcnn.ops import RECORDS
from nbglcnn.ops.operator import number, text

OPEN: p.Bounds = (None, None)
UNIT: p.Bounds = (0.0, 1.0)  # black and white
BYTES: p.Bounds = (0.0, 255.0)
IMAGES = (1, 3)  # channels of an output or an input that is a picture
MOST_STEPS = 64  # operators that are looked through

# Explanations of operators whose outputs are elements of their first input, or means of some.
WITHIN = frozenset(("same", "moved", "chosen", "max pool", "mean pool", "resampling"))
# Of operators of one constant, written on the right.
AFFINE: Mapping[str, Callable[[float, float], float]] = {
    "Add": lambda x, by: x + by,
    "Sub": lambda x, by: x - by,
    "Mul": lambda x, by: x * by,
    "Div": lambda x, by: x / by,
}


class Limits:
    """The limits of each value of a Graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._producers = {name: node for node in graph.nodes for name in node.outputs if name}

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
        found = self._bounds(key.value)
        if image and key.kind == "output" and found == OPEN:
            return self._preprocessed(key.name) or UNIT
        return found

    def _preprocessed(self, name: str) -> p.Bounds | None:
        """Black and white behind the last step of `preprocess`, the same for all channels."""
        steps = [one for one in self._graph.preprocess if name.startswith(_side(one))]
        if not steps:
            return None
        found = self._bounds(self._graph.key(steps[-1]).value)
        return None if found == OPEN else found

    def _bounds(self, name: str, steps: int = MOST_STEPS) -> p.Bounds:
        """Both ends of a value, or neither."""
        if name in self._graph.inputs:
            return UNIT if name in self._graph.fits else OPEN
        node = self._producers.get(name)
        if node is None or node.python is not None or steps == 0:
            return OPEN
        record = RECORDS[node.op]
        low, high = record.bounded(self._graph, node)
        if low is not None and high is not None:
            return low, high
        source = self._bounds(node.inputs[0], steps - 1) if node.inputs and node.inputs[0] else OPEN
        if node.op in AFFINE:
            return self._affine(node, steps)
        if node.op == "Concat":
            return self._joined([self._bounds(one, steps - 1) for one in node.inputs])
        least, most = source
        if least is None or most is None:
            return OPEN
        if node.op in ("Relu", "Clip"):
            least, most = (min(max(end, _or(low, -inf)), _or(high, inf)) for end in (least, most))
            return (least, most) if least < most else OPEN
        if node.op == "Neg":
            return -most, -least
        kind = record.explained(self._graph, node)
        if kind == "padding" or (kind == "mean pool" and number(node, "count_include_pad", 0)):
            by = self._padding(node) if kind == "padding" else 0.0
            return min(least, by), max(most, by)
        if kind in WITHIN and text(node, "mode", "") != "cubic":
            return source
        if kind == "convolution" and self._is_mean(node):
            return source
        return OPEN

    def _affine(self, node: Node, steps: int) -> p.Bounds:
        """Of a value and one number, the same for all elements."""
        first, second = node.inputs
        data = self._graph.constant(second)
        turned = data is None and node.op in ("Add", "Mul", "Sub")
        if turned:
            first, second = second, first
            data = self._graph.constant(second)
        if data is None or data.dtype.kind != "f" or not data.size or (data != data.flat[0]).any():
            return OPEN
        source, by = self._bounds(first, steps - 1), float(data.flat[0])
        if source == OPEN or not np.isfinite(by) or (by == 0 and node.op in ("Mul", "Div")):
            return OPEN
        of = AFFINE[node.op]
        sign = -1.0 if turned and node.op == "Sub" else 1.0
        made = (sign * of(end, by) for end in source if end is not None)
        ends = sorted(float(np.float32(end)) + 0.0 for end in made)  # no −0
        return ends[0], ends[1]

    def _padding(self, node: Node) -> float:
        """The number that stands around a padded map."""
        data = self._graph.constant(node.inputs[2]) if len(node.inputs) > 2 else None
        return 0.0 if data is None else float(data.reshape(()))

    def _joined(self, all_bounds: Sequence[p.Bounds]) -> p.Bounds:
        """What several values lie between."""
        ends = [end for bounds in all_bounds for end in bounds if end is not None]
        return (min(ends), max(ends)) if len(ends) == 2 * len(all_bounds) else OPEN

    def _is_mean(self, node: Node) -> bool:
        """Whether a convolution takes a weighted mean at each place, as a change to grey does."""
        weight = self._graph.constant(node.inputs[1])
        if weight is None or any(node.inputs[2:]) or any(node.attributes.get("pads", ())):  # type: ignore[arg-type]
            return False
        sums = weight.reshape(len(weight), -1).sum(1)
        valid = text(node, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
        return bool(valid and (weight >= 0).all() and np.abs(sums - 1).max(initial=0) < 1e-6)


def _side(name: str) -> str:
    """What stands before a step's key: "A." or "B." of two networks that are compared."""
    return name[: name.rindex("preprocess.")] if "preprocess." in name else ""


def _or(end: float | None, otherwise: float) -> float:
    return otherwise if end is None else end
