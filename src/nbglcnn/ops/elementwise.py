"""Element-by-element functions of several tensors, with NumPy's broadcasting, in one pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.codegen.strided import contiguous_view, copy_elements, gather_strided
from nbglcnn.codegen.uniform_slots import GlslFunction
from nbglcnn.ops.axes import merged_lengths, nchw_flags, pad_rank
from nbglcnn.ops.operator import Shape, numel
from nbglcnn.plan.layout import NCHW, Layout, PixelBlock, storage_nchw

BROADCAST_SHADER = FragmentShader(
    "broadcast", shader_source("broadcast.glsl"), has_pixel_function=False
)
MAX_OPERANDS = 5  # operands of one pass: four have their own Layout, the fifth has the fourth's


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: a graph value by name, or a texture without a name (`tensor`)."""

    shape: Shape
    name: str = ""
    tensor: Tensor | None = None

    def is_constant(self, b: Builder) -> bool:
        """Whether the operand is constant and can be packed in any layout."""
        return self.tensor is None and b.constant_data(self.name) is not None

    def stored_tensor(self, b: Builder) -> Tensor:
        """The operand in its current layout."""
        return self.tensor or b.stored_tensor(self.name)

    def to_nchw(self, b: Builder, nchw: NCHW, block: PixelBlock | None = None) -> Tensor:
        """The operand in this nchw (and block); a pass copies it if needed."""
        if self.tensor is None:
            if self.is_constant(b):
                return b.constant_tensor(self.name, nchw, block)
            return b.tensor(self.name, nchw, block)
        return change_layout(b, self.tensor, nchw, block)


def change_layout(
    b: Builder, tensor: Tensor, nchw: NCHW, block: PixelBlock | None = None
) -> Tensor:
    """Return a tensor with its row-major elements in another nchw (and block); copy if needed."""
    if tensor.layout.nchw == nchw and block in (None, tensor.layout.block):
        return tensor
    copy = b.create_scratch_tensor(b.layout(nchw, block), tensor)
    copy_elements(b, copy, tensor)
    return copy


def operands_of(b: Builder, *values: str) -> list[Operand]:
    """Return values of the graph as operands."""
    return [Operand(b.shape(value), value) for value in values]


def broadcast_shape(*shapes: Shape) -> Shape:
    """Broadcast shapes by NumPy's rule; raises ValueError if they are incompatible."""
    rank = max(map(len, shapes))
    result = []
    for lengths in zip(*(pad_rank(shape, rank) for shape in shapes), strict=True):
        longest = [length for length in set(lengths) if length != 1] or [1]
        if len(longest) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} cannot be broadcast together")
        result.append(longest[0])
    return tuple(result)


def draw_elementwise(
    b: Builder,
    operands: Sequence[Operand],
    function: str | GlslFunction,
    *,
    value: str = "",
    uniforms: Mapping[str, float] = {},
) -> Tensor:
    """Add the pass that computes a function of the broadcast operands.

    `function` is GLSL source with a `vec4 combine()` that takes one vec4 per operand. The result is
    bound to `value` if `value` isn't empty. `uniforms` fill the function's slots. With five
    operands, the last two must have the same shape.
    """
    assert len(operands) <= MAX_OPERANDS
    shape = broadcast_shape(*(operand.shape for operand in operands))
    nchw, operands = _common_nchw(b, shape, operands)
    output = b.create_scratch_tensor(_output_layout(b, nchw, operands))
    layout = output.layout
    block = layout.block if layout.phases == (1, 1) else None
    tensors = []
    for operand in operands[:4]:
        wanted = _operand_nchw(shape, operand, nchw)
        assert wanted is not None
        constant = operand.is_constant(b) and wanted == nchw
        tensors.append(operand.to_nchw(b, wanted, block if constant else None))
    if len(operands) == MAX_OPERANDS:
        assert operands[4].shape == operands[3].shape
        last = operands[4].to_nchw(b, tensors[3].layout.nchw, tensors[3].layout.block)
        plain = b.layout(last.layout.nchw)
        tensors.append(last)
        if last.layout != tensors[3].layout:
            tensors[3:] = [_copy_to_layout(b, tensor, plain) for tensor in tensors[3:]]
    # Define all four modes: an undefined macro in a condition is an error in GLSL ES.
    modes = dict.fromkeys("ABCD", 0)
    for name, tensor in zip("ABCD", tensors, strict=False):
        modes[name] = _read_mode(tensor.layout, layout)
    b.draw(
        BROADCAST_SHADER, output, tensors[:4], tensors[4:],
        constants={"COUNT": len(tensors), **modes},
        uniforms=uniforms, functions=[function],
        fetches=math.prod(layout.block) * len(tensors),
    )  # fmt: skip
    if value:
        b.bind(value, output)
    return output


def _copy_to_layout(b: Builder, tensor: Tensor, layout: Layout) -> Tensor:
    if tensor.layout == layout:
        return tensor
    copy = b.create_scratch_tensor(layout, tensor)
    copy_elements(b, copy, tensor)
    return copy


def _operand_nchw(shape: Shape, operand: Operand, nchw: NCHW) -> NCHW | None:
    """The operand's nchw for a result stored in `nchw`; None if the operand doesn't fit."""
    own = pad_rank(operand.shape, len(shape))
    flags = nchw_flags(shape, [a == b for a, b in zip(own, shape, strict=True)], nchw)
    if flags is None:
        return None
    n, c, h, w = (d if flag else 1 for d, flag in zip(nchw, flags, strict=True))
    return n, c, h, w


def _common_nchw(
    b: Builder, shape: Shape, operands: Sequence[Operand]
) -> tuple[NCHW, Sequence[Operand]]:
    """Return the nchw with the fewest copied elements; operands that fit no nchw are expanded."""
    running = [operand for operand in operands if not operand.is_constant(b)]
    candidates = [
        operand.stored_tensor(b).layout.nchw
        for operand in running
        if numel(operand.shape) == numel(shape)
    ]
    candidates.append(storage_nchw(shape))
    full = [
        tuple(a == d for a, d in zip(pad_rank(o.shape, len(shape)), shape, strict=True))
        for o in operands
    ]
    joined = merged_lengths(shape, list(zip(*full, strict=True)) if shape else [])
    if len(joined) <= 4:
        candidates.append(storage_nchw(joined))
    best: tuple[int, NCHW] | None = None
    for nchw in dict.fromkeys(candidates):
        wanted = [_operand_nchw(shape, operand, nchw) for operand in operands]
        if None in wanted:
            continue
        copied = sum(
            numel(operand.shape)
            for operand, own in zip(operands, wanted, strict=True)
            if not operand.is_constant(b) and operand.stored_tensor(b).layout.nchw != own
        )
        if best is None or copied < best[0]:
            best = copied, nchw
    if best is not None:
        return best[1], operands
    nchw = storage_nchw(shape)
    expanded = []
    for operand in operands:
        if _operand_nchw(shape, operand, nchw) is None:
            view = contiguous_view(operand.shape).expanded(shape)
            tensor = gather_strided(b, operand.stored_tensor(b), nchw, view.sizes, view.strides)
            operand = Operand(shape, tensor=tensor)
        expanded.append(operand)
    return nchw, expanded


def _output_layout(b: Builder, nchw: NCHW, operands: Sequence[Operand]) -> Layout:
    """The first operand's layout that has the result's nchw, to read its texels directly."""
    for operand in operands:
        if not operand.is_constant(b) and operand.stored_tensor(b).layout.nchw == nchw:
            return operand.stored_tensor(b).layout
    return b.layout(nchw)


def _read_mode(layout: Layout, output: Layout) -> int:
    """The mode in which broadcast.glsl reads an operand."""
    if layout == output:
        return 1
    n, c, h, w = layout.nchw
    plain = layout.block == (1, 1, 1) and not layout.max_side
    if (n, c, h, w) == (1, output.nchw[1], 1, 1) and plain:
        return 3
    return 2 if h == w == 1 and (n == 1 or output.block[0] == 1) else 0
