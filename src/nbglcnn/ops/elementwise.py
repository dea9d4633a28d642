"""A function of several tensors, element by element, with NumPy's broadcasting, in one pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbglcnn.codegen.builder import RESHAPE, Builder, Tensor
from nbglcnn.codegen.glsl import Kernel, shader
from nbglcnn.codegen.slots import Part
from nbglcnn.ops.axes import merged, nchw_flags, padded
from nbglcnn.ops.operator import Shape, size
from nbglcnn.ops.strided import gather, whole
from nbglcnn.plan.layout import NCHW, Block, Layout, nchw_of

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

    def lying(self, b: Builder, nchw: NCHW, block: Block | None = None) -> Tensor:
        """The operand in this nchw (and block); a pass copies it there where needed."""
        if self.tensor is None:
            if self.constant(b):
                return b.constant_tensor(self.name, nchw, block)
            return b.tensor(self.name, nchw, block)
        return reshaped(b, self.tensor, nchw, block)


def reshaped(b: Builder, tensor: Tensor, nchw: NCHW, block: Block | None = None) -> Tensor:
    """A tensor's row-major elements in another nchw (and block); itself where it lies so."""
    if tensor.layout.nchw == nchw and block in (None, tensor.layout.block):
        return tensor
    copy = b.scratch(b.layout(nchw, block), tensor)
    b.draw(RESHAPE, copy, [tensor], fetches=16)
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
    nchw, operands = _common_nchw(b, shape, operands)
    output = b.scratch(_layout(b, nchw, operands))
    layout = output.layout
    block = layout.block if layout.phases == (1, 1) else None
    tensors = []
    for operand in operands[:4]:
        wanted = _repeated(shape, operand, nchw)
        assert wanted is not None
        constant = operand.constant(b) and wanted == nchw
        tensors.append(operand.lying(b, wanted, block if constant else None))
    if len(operands) == MOST:
        assert operands[4].shape == operands[3].shape
        last = operands[4].lying(b, tensors[3].layout.nchw, tensors[3].layout.block)
        plain = b.layout(last.layout.nchw)
        tensors.append(last)
        if last.layout != tensors[3].layout:
            tensors[3:] = [_copied(b, tensor, plain) for tensor in tensors[3:]]
    # All four are defined: GLSL ES knows no undefined macro in a condition.
    modes = dict.fromkeys("ABCD", 0)
    for name, tensor in zip("ABCD", tensors, strict=False):
        modes[name] = _mode(tensor.layout, layout)
    b.draw(
        BROADCAST, output, tensors[:4], tensors[4:],
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
    b.draw(RESHAPE, copy, [tensor], fetches=16)
    return copy


def _repeated(shape: Shape, operand: Operand, nchw: NCHW) -> NCHW | None:
    """The operand's nchw when the result lies in `nchw`; None when it doesn't fit there."""
    own = padded(operand.shape, len(shape))
    flags = nchw_flags(shape, [a == b for a, b in zip(own, shape, strict=True)], nchw)
    if flags is None:
        return None
    n, c, h, w = (d if flag else 1 for d, flag in zip(nchw, flags, strict=True))
    return n, c, h, w


def _common_nchw(
    b: Builder, shape: Shape, operands: Sequence[Operand]
) -> tuple[NCHW, Sequence[Operand]]:
    """The nchw that needs the fewest elements copied; operands that fit none are expanded."""
    running = [operand for operand in operands if not operand.constant(b)]
    candidates = [
        operand.stored(b).layout.nchw for operand in running if size(operand.shape) == size(shape)
    ]
    candidates.append(nchw_of(shape))
    full = [
        tuple(a == d for a, d in zip(padded(o.shape, len(shape)), shape, strict=True))
        for o in operands
    ]
    joined = merged(shape, list(zip(*full, strict=True)) if shape else [])
    if len(joined) <= 4:
        candidates.append(nchw_of(joined))
    best: tuple[int, NCHW] | None = None
    for nchw in dict.fromkeys(candidates):
        wanted = [_repeated(shape, operand, nchw) for operand in operands]
        if None in wanted:
            continue
        copied = sum(
            size(operand.shape)
            for operand, own in zip(operands, wanted, strict=True)
            if not operand.constant(b) and operand.stored(b).layout.nchw != own
        )
        if best is None or copied < best[0]:
            best = copied, nchw
    if best is not None:
        return best[1], operands
    nchw = nchw_of(shape)
    expanded = []
    for operand in operands:
        if _repeated(shape, operand, nchw) is None:
            view = whole(operand.shape).expanded(shape)
            tensor = gather(b, operand.stored(b), nchw, view.sizes, view.strides)
            operand = Operand(shape, tensor=tensor)
        expanded.append(operand)
    return nchw, expanded


def _layout(b: Builder, nchw: NCHW, operands: Sequence[Operand]) -> Layout:
    """The layout of the first operand that lies in the result's nchw: its own texels are read."""
    for operand in operands:
        if not operand.constant(b) and operand.stored(b).layout.nchw == nchw:
            return operand.stored(b).layout
    return b.layout(nchw)


def _mode(layout: Layout, output: Layout) -> int:
    """How broadcast.glsl reads an operand."""
    if layout == output:
        return 1
    n, c, h, w = layout.nchw
    plain = layout.block == (1, 1, 1) and not layout.side
    if (n, c, h, w) == (1, output.nchw[1], 1, 1) and plain:
        return 3
    return 2 if h == w == 1 and (n == 1 or output.block[0] == 1) else 0
