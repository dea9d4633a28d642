"""A function of several tensors, element by element, with NumPy's broadcasting, in one pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbglcnn.layout import Block, Frame, Layout, frame_of
from nbglcnn.lowering.builder import REFRAME, Builder, Tensor
from nbglcnn.lowering.glsl import Kernel, shader
from nbglcnn.lowering.slots import Part
from nbglcnn.ops.axes import frame_flags, merged, padded
from nbglcnn.ops.operator import Shape, size
from nbglcnn.ops.strided import gather, whole

BROADCAST = Kernel("broadcast", shader("broadcast.glsl"), pixel=False)
MOST = 5  # operands of one pass: four have a Layout of their own, the fifth lies as the fourth does


@dataclass(frozen=True, slots=True)
class Operand:
    """One of the tensors: a value of the graph by name, or a texture without one (`tensor`)."""

    shape: Shape
    name: str = ""
    tensor: Tensor | None = None

    def constant(self, b: Builder) -> bool:
        """Whether it can be packed to lie in any way."""
        return self.tensor is None and b.constant(self.name) is not None

    def stored(self, b: Builder) -> Tensor:
        """The operand as it lies now."""
        return self.tensor or b.stored(self.name)

    def lying(self, b: Builder, frame: Frame, block: Block | None = None) -> Tensor:
        """The operand in this frame (and block); a pass copies it there where needed."""
        if self.tensor is None:
            if self.constant(b):
                return b.constant_tensor(self.name, frame, block)
            return b.tensor(self.name, frame, block)
        return reframed(b, self.tensor, frame, block)


def reframed(b: Builder, tensor: Tensor, frame: Frame, block: Block | None = None) -> Tensor:
    """A tensor's row-major elements in another frame (and block); itself where it lies so."""
    if tensor.layout.frame == frame and block in (None, tensor.layout.block):
        return tensor
    copy = b.scratch(b.layout(frame, block), tensor)
    b.draw(REFRAME, copy, [tensor], fetches=16)
    return copy


def named(b: Builder, *values: str) -> list[Operand]:
    """Values of the graph as operands."""
    return [Operand(b.shape(value), value) for value in values]


def broadcast_shape(*shapes: Shape) -> Shape:
    """NumPy's rule; ValueError where the shapes don't go together."""
    rank = max(map(len, shapes))
    result = []
    for lengths in zip(*(padded(shape, rank) for shape in shapes), strict=True):
        longest = [length for length in set(lengths) if length != 1] or [1]
        if len(longest) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} cannot be broadcast together")
        result.append(longest[0])
    return tuple(result)


def combine(
    b: Builder,
    operands: Sequence[Operand],
    function: str | Part,
    *,
    value: str = "",
    numbers: Mapping[str, float] = {},
) -> Tensor:
    """Add the pass that computes a function of the broadcast operands.

    `function` is GLSL text with a vec4 combine() of as many vec4. The result is bound to `value`
    when that is given. `numbers` fill the function's slots. Of five operands the last two must have
    the same shape.
    """
    assert len(operands) <= MOST
    shape = broadcast_shape(*(operand.shape for operand in operands))
    frame, operands = _frame(b, shape, operands)
    output = b.scratch(_layout(b, frame, operands))
    layout = output.layout
    block = layout.block if layout.phases == (1, 1) else None
    tensors = []
    for operand in operands[:4]:
        wanted = _repeated(shape, operand, frame)
        assert wanted is not None
        constant = operand.constant(b) and wanted == frame
        tensors.append(operand.lying(b, wanted, block if constant else None))
    if len(operands) == MOST:
        assert operands[4].shape == operands[3].shape
        last = operands[4].lying(b, tensors[3].layout.frame, tensors[3].layout.block)
        plain = b.layout(last.layout.frame)
        tensors.append(last)
        if last.layout != tensors[3].layout:
            tensors[3:] = [_copied(b, tensor, plain) for tensor in tensors[3:]]
    # All four are defined: GLSL ES knows no undefined macro in a condition.
    modes = dict.fromkeys("ABCD", 0)
    for name, tensor in zip("ABCD", tensors, strict=False):
        modes[name] = _mode(tensor.layout, layout)
    b.draw(
        BROADCAST, output, tensors[:4], [tensor.texture for tensor in tensors[4:]],
        constants={"COUNT": len(tensors), **modes},
        numbers=numbers, parts=[function],
        fetches=math.prod(layout.block) * len(tensors),
    )  # fmt: skip
    if value:
        b.bind(value, output)
    return output


def _copied(b: Builder, tensor: Tensor, layout: Layout) -> Tensor:
    if tensor.layout == layout:
        return tensor
    copy = b.scratch(layout, tensor)
    b.draw(REFRAME, copy, [tensor], fetches=16)
    return copy


def _repeated(shape: Shape, operand: Operand, frame: Frame) -> Frame | None:
    """The operand's frame when the result lies in `frame`; None when it doesn't fit there."""
    own = padded(operand.shape, len(shape))
    flags = frame_flags(shape, [a == b for a, b in zip(own, shape, strict=True)], frame)
    if flags is None:
        return None
    n, c, h, w = (d if flag else 1 for d, flag in zip(frame, flags, strict=True))
    return n, c, h, w


def _frame(
    b: Builder, shape: Shape, operands: Sequence[Operand]
) -> tuple[Frame, Sequence[Operand]]:
    """The frame that needs the fewest elements copied; operands that fit none are expanded."""
    running = [operand for operand in operands if not operand.constant(b)]
    frames = [
        operand.stored(b).layout.frame for operand in running if size(operand.shape) == size(shape)
    ]
    frames.append(frame_of(shape))
    full = [
        tuple(a == d for a, d in zip(padded(o.shape, len(shape)), shape, strict=True))
        for o in operands
    ]
    joined = merged(shape, list(zip(*full, strict=True)) if shape else [])
    if len(joined) <= 4:
        frames.append(frame_of(joined))
    best: tuple[int, Frame] | None = None
    for frame in dict.fromkeys(frames):
        wanted = [_repeated(shape, operand, frame) for operand in operands]
        if None in wanted:
            continue
        copied = sum(
            size(operand.shape)
            for operand, own in zip(operands, wanted, strict=True)
            if not operand.constant(b) and operand.stored(b).layout.frame != own
        )
        if best is None or copied < best[0]:
            best = copied, frame
    if best is not None:
        return best[1], operands
    frame = frame_of(shape)
    expanded = []
    for operand in operands:
        if _repeated(shape, operand, frame) is None:
            view = whole(operand.shape).expanded(shape)
            tensor = gather(b, operand.stored(b), frame, view.sizes, view.strides)
            operand = Operand(shape, tensor=tensor)
        expanded.append(operand)
    return frame, expanded


def _layout(b: Builder, frame: Frame, operands: Sequence[Operand]) -> Layout:
    """The layout of the first operand that lies in the result's frame: its own texels are read."""
    for operand in operands:
        if not operand.constant(b) and operand.stored(b).layout.frame == frame:
            return operand.stored(b).layout
    return b.layout(frame)


def _mode(layout: Layout, output: Layout) -> int:
    """How broadcast.glsl reads an operand."""
    if layout == output:
        return 1
    n, c, h, w = layout.frame
    plain = layout.block == (1, 1, 1) and not layout.side
    if (n, c, h, w) == (1, output.frame[1], 1, 1) and plain:
        return 3
    return 2 if h == w == 1 and (n == 1 or output.block[0] == 1) else 0
