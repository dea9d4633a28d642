"""Padding and cropping of any axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import Kernel, shader
from nbglcnn.codegen.slots import Number
from nbglcnn.graph import Node
from nbglcnn.ops.elementwise import reshaped
from nbglcnn.ops.movement import first_problem, needs_constant, place
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    constant_integers,
    has_input,
    integers,
    normal_axes,
    only,
    text,
)
from nbglcnn.ops.pad_gradient import padded
from nbglcnn.ops.reach import Linked, first, listed, shifted, taken
from nbglcnn.ops.strided import View, by_element, moved, whole
from nbglcnn.ops.window import SlidingWindow
from nbglcnn.plan.layout import nchw_of
from nbglcnn.plan.schema import Along, Explains, Move

MODES = ("constant", "edge", "reflect", "wrap")  # their numbers are pad.glsl's MODE
SLOTS = "ivec4 before, first, kept; int folds; float margin"
PAD = Kernel("pad", shader("pad.glsl"), slots=SLOTS)
PAD_CHANNELS = by_element("pad", slots=SLOTS)


@dataclass(frozen=True, slots=True)
class Padding:
    """What happens along one axis: how long it was, and what is added (cut off, if negative)."""

    length: int
    before: int = 0
    after: int = 0

    @property
    def start(self) -> int:
        """The first element that is kept."""
        return max(0, -self.before)

    @property
    def kept(self) -> int:
        """How many elements are kept."""
        return self.length - self.start - max(0, -self.after)

    @property
    def result(self) -> int:
        """The new length."""
        return self.length + self.before + self.after


def _paddings(facts: Facts, node: Node) -> list[Padding]:
    """One entry per axis of the input."""
    shape = facts.shape(node.inputs[0])
    result = [Padding(length) for length in shape]
    if node.op == "CenterCropPad":
        wanted = constant_integers(facts, node, 1)
        assert wanted is not None
        axes = normal_axes(integers(node, "axes", range(len(shape))), len(shape))
        for axis, length in zip(axes, wanted, strict=True):
            more = length - shape[axis]
            before = more // 2 if more > 0 else -(-more // 2)
            result[axis] = Padding(shape[axis], before, more - before)
        return result
    pads, given = constant_integers(facts, node, 1), constant_integers(facts, node, 3)
    assert pads is not None
    axes = tuple(range(len(shape))) if given is None else normal_axes(given, len(shape))
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        result[axis] = Padding(shape[axis], before, after)
    return result


def _shape(facts: Facts, node: Node) -> Sequence[Shape]:
    return [tuple(padding.result for padding in _paddings(facts, node))]


def _problem(facts: Facts, node: Node) -> str | None:
    mode = text(node, "mode", "constant")
    if node.op == "Pad" and has_input(node, 2) and math.prod(facts.shape(node.inputs[2])) != 1:
        return f"a constant value of shape {facts.shape(node.inputs[2])}; it must be one number"
    for axis, padding in enumerate(_paddings(facts, node)):
        far = max(padding.before, padding.after)
        if padding.kept < 1 or padding.result < 1:
            return f"pads of {padding.before} and {padding.after} leave nothing of {padding.length}"
        if mode == "reflect" and far >= padding.kept < padding.length:
            return (
                f"axis {axis} is cut to {padding.kept} and mirrored over {far}; "
                "what is mirrored must be longer than that"
            )
    return None


def _value(b: Builder, node: Node) -> float | Tensor:
    if node.op != "Pad" or not has_input(node, 2):
        return 0.0
    data = b.constant(node.inputs[2])
    return b.stored(node.inputs[2]) if data is None else float(data.reshape(()))


def _cropped(facts: Facts, node: Node) -> View | None:
    """What is left where nothing is added."""
    view, paddings = whole(facts.shape(node.inputs[0])), _paddings(facts, node)
    if any(p.before > 0 or p.after > 0 for p in paddings):
        return None
    for axis, padding in enumerate(paddings):
        view = view.sliced(axis, padding.start, padding.kept)
    return view


def _draw(b: Builder, node: Node) -> None:
    paddings, shape, view = _paddings(b, node), b.shape(node.inputs[0]), _cropped(b, node)
    if view is not None:
        place(b, node, view)
        return
    mode, value = MODES.index(text(node, "mode", "constant")), _value(b, node)
    if len(shape) <= 4:
        x = b.tensor(node.inputs[0])
        nchw = nchw_of(shape)
        places = {0: (), 1: (1,), 2: (0, 1), 3: (0, 1, 3)}.get(len(shape), (0, 1, 2, 3))
        along = [Padding(length) for length in nchw]
        for axis, padding in zip(places, paddings, strict=True):
            along[axis] = padding
        b.bind(node.outputs[0], _padded(b, x, along, mode, value))
        return
    # More axes: from the last on, as many in one pass as an nchw has room for.
    tensor = b.stored(node.inputs[0])
    rest = list(paddings)
    done: list[Padding] = []
    while any(p.before or p.after for p in rest):
        taken: list[Padding] = []
        inner = Padding(math.prod(p.result for p in done))
        while rest and len(_merged([rest[-1], *taken, inner])) < 4:
            taken.insert(0, rest.pop())
        axes = _merged([*taken, inner])
        axes = [*[Padding(1)] * (3 - len(axes)), *axes]
        axes.insert(0, Padding(math.prod(p.length for p in rest)))
        n, c, h, w = (p.length for p in axes)
        nchw = (n, c, h, w)
        tensor = _padded(b, reshaped(b, tensor, nchw), axes, mode, value)
        done = [*taken, *done]
    b.bind(node.outputs[0], tensor)


def _merged(paddings: Sequence[Padding]) -> list[Padding]:
    """Neighbouring axes that stay as they are joined; those of length 1 among them vanish."""
    axes: list[Padding] = []
    for padding in paddings:
        still = not padding.before and not padding.after
        if still and axes and not axes[-1].before and not axes[-1].after:
            axes[-1] = Padding(axes[-1].length * padding.length)
        elif not still or padding.length > 1:
            axes.append(padding)
    return axes


def _padded(
    b: Builder, x: Tensor, paddings: Sequence[Padding], mode: int, value: float | Tensor
) -> Tensor:
    """A tensor padded along the axes of its nchw."""
    n, c, h, w = (p.result for p in paddings)
    output = b.scratch(b.layout((n, c, h, w)), x)
    before = [max(p.before, 0) for p in paddings]
    far = [max(p.before, p.after, 0) for p in paddings]
    # How often the farthest place must be folded back; reflected maps of one pixel are clamped.
    folds = max(
        -(-f // max(p.kept - (mode == 2), 1)) if p.kept > 1 or mode == 3 else 1
        for f, p in zip(far, paddings, strict=True)
    )
    channels = bool(paddings[1].before or paddings[1].after)
    margin, computed = (0.0, [value]) if isinstance(value, Tensor) else (value, [])
    numbers: dict[str, Number] = {
        "before": before,
        "first": [p.start for p in paddings],
        "kept": [p.kept for p in paddings],
        "folds": folds,
        "margin": margin,
    }
    b.draw(
        PAD_CHANNELS if channels else PAD,
        output,
        [x, *computed],
        numbers=numbers,
        constants={"MODE": mode, "CHANNELS": int(channels), "COMPUTED": len(computed)},
        fetches=16 if channels else 4,
    )
    return output


def _linked(facts: Facts, node: Node, position: int) -> Linked:
    mode, source = text(node, "mode", "constant"), facts.shape(node.inputs[0])
    links = tuple(_along(k, padding, mode) for k, padding in enumerate(_paddings(facts, node)))
    return Linked(facts.shape(node.outputs[position]), source, links)


def _along(axis: int, padding: Padding, mode: str) -> Along | None:
    if mode == "constant" or (padding.before <= 0 and padding.after <= 0):
        return shifted(axis, padding.before)
    repeated = Along(axis, begin=max(padding.before, 0), padding=mode)  # type: ignore[arg-type]
    if padding.kept == padding.length:
        return repeated

    # What was cut off doesn't come back where the rest is repeated.
    def places() -> list[list[int]]:
        rows = taken(padding.kept, repeated, padding.result)
        return [[i + padding.start for i in row] for row in rows]

    return listed(axis, padding.result, padding.length, places)


def _window(facts: Facts, node: Node) -> SlidingWindow:
    """A margin as a window has it, with no kernel; none where it isn't explained."""
    known = _explains(facts, node) == "padding"
    spatial = _paddings(facts, node)[2:] if known else []
    begins, ends = tuple(p.before for p in spatial), tuple(p.after for p in spatial)
    return SlidingWindow((), (), (), begins, ends, tuple(p.result for p in spatial))


def _explains(facts: Facts, node: Node) -> Explains:
    """Margins of lines and maps are explained; of examples, channels and volumes they are not."""
    paddings = _paddings(facts, node)
    outer, spatial = paddings[:2], paddings[2:]
    kept = not any(p.before or p.after for p in outer)
    grows = all(p.before >= 0 and p.after >= 0 for p in spatial)
    if kept and grows and len(spatial) in (1, 2):
        return "padding"
    return _crops(facts, node)


def _crops(facts: Facts, node: Node) -> Explains:
    return "nothing" if _cropped(facts, node) is None else "moved"


def _move(facts: Facts, node: Node, _position: int) -> Move | None:
    view = _cropped(facts, node)
    return None if view is None else moved(view)


def _lengths(facts: Facts, node: Node) -> list[tuple[int, int, int]]:
    return [(one.length, one.before, one.after) for one in _paddings(facts, node)]


_pad_problem = first_problem(
    needs_constant(1, "pads"),
    needs_constant(3, "axes"),
    _problem,
)
_center_problem = first_problem(needs_constant(1, "shape"), _problem)

OPERATORS = [
    Operator("Pad", "Adds a margin to axes: a constant, the edge, mirrored or wrapped around.",
             _shape, _draw, {"mode": only(*MODES)}, _pad_problem, window=_window,
             move=_move,
             role="head", reach=first(_linked), explains=_explains, formula=None, bounds=None,
             short=None, shape_inputs=(1, 3),
             gradient=padded(_lengths)),
    Operator("CenterCropPad", "Cuts or pads axes to given lengths, the middle in the middle.",
             _shape, _draw, {"axes": anything}, _center_problem, move=_move, role="head",
             reach=first(_linked), explains=_crops, formula=None, bounds=None, short=None,
             shape_inputs=(1,), gradient=padded(_lengths)),
]  # fmt: skip
