"""Padding and cropping of any axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.codegen.strided import StridedView, contiguous_view, per_element_shader, view_index_map
from nbglcnn.codegen.uniform_slots import UniformValue
from nbglcnn.graph import Node
from nbglcnn.ops.elementwise import change_layout
from nbglcnn.ops.movement import combine_checks, constant_input_check, lower_view
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    constant_ints,
    has_input,
    int_list_attr,
    normalize_axes,
    one_of,
    string_attr,
)
from nbglcnn.ops.pad_gradient import pad_rule
from nbglcnn.ops.receptive_field import (
    OperatorField,
    first_input_fields,
    shifted_position,
    source_positions,
    table_window,
)
from nbglcnn.ops.window import SlidingWindow
from nbglcnn.plan.layout import storage_nchw
from nbglcnn.plan.schema import AxisWindow, ExplanationKind, IndexMap

PAD_MODES = ("constant", "edge", "reflect", "wrap")  # in the order of MODE in pad.glsl
PAD_SLOTS = "ivec4 before, first, kept; int folds; float margin"
PAD_SHADER = FragmentShader("pad", shader_source("pad.glsl"), uniform_slots=PAD_SLOTS)
PAD_CHANNELS_SHADER = per_element_shader("pad", uniform_slots=PAD_SLOTS)


@dataclass(frozen=True, slots=True)
class Padding:
    """The padding of one axis: its length and the elements added (cropped, if negative)."""

    length: int
    before: int = 0
    after: int = 0

    @property
    def kept_start(self) -> int:
        """The index of the first kept element."""
        return max(0, -self.before)

    @property
    def kept_length(self) -> int:
        """The number of kept elements."""
        return self.length - self.kept_start - max(0, -self.after)

    @property
    def padded_length(self) -> int:
        """The length after padding."""
        return self.length + self.before + self.after


def _paddings(facts: KnownValues, node: Node) -> list[Padding]:
    """Return one Padding per axis of the input."""
    shape = facts.shape(node.inputs[0])
    result = [Padding(length) for length in shape]
    if node.op == "CenterCropPad":
        wanted = constant_ints(facts, node, 1)
        assert wanted is not None
        axes = normalize_axes(int_list_attr(node, "axes", range(len(shape))), len(shape))
        for axis, length in zip(axes, wanted, strict=True):
            more = length - shape[axis]
            before = more // 2 if more > 0 else -(-more // 2)
            result[axis] = Padding(shape[axis], before, more - before)
        return result
    pads, given = constant_ints(facts, node, 1), constant_ints(facts, node, 3)
    assert pads is not None
    axes = tuple(range(len(shape))) if given is None else normalize_axes(given, len(shape))
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        result[axis] = Padding(shape[axis], before, after)
    return result


def _shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    return [tuple(padding.padded_length for padding in _paddings(facts, node))]


def _problem(facts: KnownValues, node: Node) -> str | None:
    mode = string_attr(node, "mode", "constant")
    if node.op == "Pad" and has_input(node, 2) and math.prod(facts.shape(node.inputs[2])) != 1:
        return f"a constant value of shape {facts.shape(node.inputs[2])}; it must be one number"
    for axis, padding in enumerate(_paddings(facts, node)):
        far = max(padding.before, padding.after)
        if padding.kept_length < 1 or padding.padded_length < 1:
            return f"pads of {padding.before} and {padding.after} remove all of {padding.length}"
        if mode == "reflect" and far >= padding.kept_length < padding.length:
            return (
                f"axis {axis} is cut to {padding.kept_length} and mirrored over {far}; "
                "what is mirrored must be longer than that"
            )
    return None


def _pad_value(b: Builder, node: Node) -> float | Tensor:
    if node.op != "Pad" or not has_input(node, 2):
        return 0.0
    data = b.constant_data(node.inputs[2])
    return b.stored_tensor(node.inputs[2]) if data is None else float(data.reshape(()))


def _crop_view(facts: KnownValues, node: Node) -> StridedView | None:
    """The cropped view of the input; None if any axis is extended."""
    view, paddings = contiguous_view(facts.shape(node.inputs[0])), _paddings(facts, node)
    if any(p.before > 0 or p.after > 0 for p in paddings):
        return None
    for axis, padding in enumerate(paddings):
        view = view.sliced(axis, padding.kept_start, padding.kept_length)
    return view


def _lower(b: Builder, node: Node) -> None:
    paddings, shape, view = _paddings(b, node), b.shape(node.inputs[0]), _crop_view(b, node)
    if view is not None:
        lower_view(b, node, view)
        return
    mode, value = PAD_MODES.index(string_attr(node, "mode", "constant")), _pad_value(b, node)
    if len(shape) <= 4:
        x = b.tensor(node.inputs[0])
        nchw = storage_nchw(shape)
        places = {0: (), 1: (1,), 2: (0, 1), 3: (0, 1, 3)}.get(len(shape), (0, 1, 2, 3))
        along = [Padding(length) for length in nchw]
        for axis, padding in zip(places, paddings, strict=True):
            along[axis] = padding
        b.bind(node.outputs[0], _draw_padded(b, x, along, mode, value))
        return
    # Rank above 4: pad from the last axis on, as many axes per pass as fit into an nchw.
    tensor = b.stored_tensor(node.inputs[0])
    rest = list(paddings)
    done: list[Padding] = []
    while any(p.before or p.after for p in rest):
        taken: list[Padding] = []
        inner = Padding(math.prod(p.padded_length for p in done))
        while rest and len(_merge_paddings([rest[-1], *taken, inner])) < 4:
            taken.insert(0, rest.pop())
        axes = _merge_paddings([*taken, inner])
        axes = [*[Padding(1)] * (3 - len(axes)), *axes]
        axes.insert(0, Padding(math.prod(p.length for p in rest)))
        n, c, h, w = (p.length for p in axes)
        nchw = (n, c, h, w)
        tensor = _draw_padded(b, change_layout(b, tensor, nchw), axes, mode, value)
        done = [*taken, *done]
    b.bind(node.outputs[0], tensor)


def _merge_paddings(paddings: Sequence[Padding]) -> list[Padding]:
    """Merge neighbouring axes without padding; unpadded axes of length 1 disappear."""
    axes: list[Padding] = []
    for padding in paddings:
        is_unpadded = not padding.before and not padding.after
        if is_unpadded and axes and not axes[-1].before and not axes[-1].after:
            axes[-1] = Padding(axes[-1].length * padding.length)
        elif not is_unpadded or padding.length > 1:
            axes.append(padding)
    return axes


def _draw_padded(
    b: Builder, x: Tensor, paddings: Sequence[Padding], mode: int, value: float | Tensor
) -> Tensor:
    """Pad a tensor along the axes of its nchw."""
    n, c, h, w = (p.padded_length for p in paddings)
    output = b.create_scratch_tensor(b.layout((n, c, h, w)), x)
    before = [max(p.before, 0) for p in paddings]
    far = [max(p.before, p.after, 0) for p in paddings]
    # The number of folds for the farthest position; reflected maps of one pixel are clamped.
    fold_count = max(
        -(-f // max(p.kept_length - (mode == 2), 1)) if p.kept_length > 1 or mode == 3 else 1
        for f, p in zip(far, paddings, strict=True)
    )
    channels = bool(paddings[1].before or paddings[1].after)
    margin, computed = (0.0, [value]) if isinstance(value, Tensor) else (value, [])
    numbers: dict[str, UniformValue] = {
        "before": before,
        "first": [p.kept_start for p in paddings],
        "kept": [p.kept_length for p in paddings],
        "folds": fold_count,
        "margin": margin,
    }
    b.draw(
        PAD_CHANNELS_SHADER if channels else PAD_SHADER,
        output,
        [x, *computed],
        uniforms=numbers,
        constants={"MODE": mode, "CHANNELS": int(channels), "COMPUTED": len(computed)},
        fetches=16 if channels else 4,
    )
    return output


def _pad_receptive_field(facts: KnownValues, node: Node, output_index: int) -> OperatorField:
    mode, source = string_attr(node, "mode", "constant"), facts.shape(node.inputs[0])
    links = tuple(
        _axis_window(k, padding, mode) for k, padding in enumerate(_paddings(facts, node))
    )
    return OperatorField(facts.shape(node.outputs[output_index]), source, links)


def _axis_window(axis: int, padding: Padding, mode: str) -> AxisWindow | None:
    if mode == "constant" or (padding.before <= 0 and padding.after <= 0):
        return shifted_position(axis, padding.before)
    repeated = AxisWindow(axis, pad_begin=max(padding.before, 0), padding=mode)  # type: ignore[arg-type]
    if padding.kept_length == padding.length:
        return repeated

    # Padding repeats only the kept positions, never the cropped ones.
    def places() -> list[list[int]]:
        rows = source_positions(padding.kept_length, repeated, padding.padded_length)
        return [[i + padding.kept_start for i in row] for row in rows]

    return table_window(axis, padding.padded_length, padding.length, places)


def _padding_window(facts: KnownValues, node: Node) -> SlidingWindow:
    """The padding as a window without a kernel; empty if padding isn't explained."""
    known = _explanation(facts, node) == "padding"
    spatial = _paddings(facts, node)[2:] if known else []
    begins, ends = tuple(p.before for p in spatial), tuple(p.after for p in spatial)
    return SlidingWindow((), (), (), begins, ends, tuple(p.padded_length for p in spatial))


def _explanation(facts: KnownValues, node: Node) -> ExplanationKind:
    """Explain padding of lines and maps, but not of examples, channels or volumes."""
    paddings = _paddings(facts, node)
    outer, spatial = paddings[:2], paddings[2:]
    kept = not any(p.before or p.after for p in outer)
    grows = all(p.before >= 0 and p.after >= 0 for p in spatial)
    if kept and grows and len(spatial) in (1, 2):
        return "padding"
    return _crop_explanation(facts, node)


def _crop_explanation(facts: KnownValues, node: Node) -> ExplanationKind:
    return "nothing" if _crop_view(facts, node) is None else "moved"


def _crop_index_map(facts: KnownValues, node: Node, _output_index: int) -> IndexMap | None:
    view = _crop_view(facts, node)
    return None if view is None else view_index_map(view)


def _padding_sizes(facts: KnownValues, node: Node) -> list[tuple[int, int, int]]:
    return [(one.length, one.before, one.after) for one in _paddings(facts, node)]


_pad_problem = combine_checks(
    constant_input_check(1, "pads"),
    constant_input_check(3, "axes"),
    _problem,
)
_center_crop_pad_problem = combine_checks(constant_input_check(1, "shape"), _problem)

OPERATORS = [
    Operator("Pad", "Adds a margin to axes: a constant, the edge, mirrored or wrapped around.",
             _shape, _lower, {"mode": one_of(*PAD_MODES)}, _pad_problem, window=_padding_window,
             index_map=_crop_index_map,
             role="head", receptive_field=first_input_fields(_pad_receptive_field),
             explanation=_explanation,
             formula=None, bounds=None, caption=None, shape_inputs=(1, 3),
             gradient=pad_rule(_padding_sizes)),
    Operator("CenterCropPad", "Crops or pads axes to given lengths, centred.",
             _shape, _lower, {"axes": any_value}, _center_crop_pad_problem,
             index_map=_crop_index_map,
             role="head",
             receptive_field=first_input_fields(_pad_receptive_field),
             explanation=_crop_explanation,
             formula=None, bounds=None, caption=None,
             shape_inputs=(1,), gradient=pad_rule(_padding_sizes)),
]  # fmt: skip
