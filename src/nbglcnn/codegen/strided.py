"""The general gather: read elements with one stride per axis, like numpy's strided views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbglcnn.codegen.glsl import (
    MAX_FAST_DIVIDEND,
    MAX_LOOP_ITERATIONS,
    FragmentShader,
    shader_source,
)
from nbglcnn.codegen.uniform_slots import UniformValue
from nbglcnn.plan.layout import NCHW, Layout
from nbglcnn.plan.schema import IndexMap

if TYPE_CHECKING:
    from nbglcnn.codegen.builder import Builder, Tensor

Shape = tuple[int, ...]


def per_element_shader(name: str, uniform_slots: str = "") -> FragmentShader:
    """A shader from a file that defines `float source(ivec4 at)`, one element at (n, c, y, x)."""
    parts = (
        shader_source(f"{part}.glsl") for part in (name, "pixel_from_elements", "pixel_loop_main")
    )
    return FragmentShader(
        name, "".join(parts), has_pixel_function=False, uniform_slots=uniform_slots
    )


STRIDED_GATHER_SHADER = per_element_shader(
    "strided_gather", "int offset, axes, stride, length; ivec4 pairs[7]"
)
AFFINE_SLOTS = "ivec4 first, steps[6]; ivec2 inner"
UNSPLIT_LENGTH = 2**30  # more than any axis has
AFFINE_GATHER_SHADER = per_element_shader("affine_gather", AFFINE_SLOTS)
AFFINE_GATHER_TEXEL_SHADER = FragmentShader(
    "affine_gather_texel", shader_source("affine_gather_texel.glsl"), uniform_slots=AFFINE_SLOTS
)
AFFINE_GATHER_TRANSPOSED_SHADER = FragmentShader(
    "affine_gather_transposed", shader_source("affine_gather_transposed.glsl"),
    has_pixel_function=False, uniform_slots=AFFINE_SLOTS,
)  # fmt: skip
# Per element; a fragment of a per-element shader has up to 16 elements.
MAX_LOOKUPS = MAX_LOOP_ITERATIONS // 16
# What an element of strided_gather.glsl costs: a read, and divisions for each axis.
STRIDED_FETCHES = 16
MAX_AXES = 14  # after merging; strided_gather.glsl has 7 pairs


@dataclass(frozen=True, slots=True)
class StridedView:
    """A view: element o0, o1, … is the source's row-major element offset + Σ o_d · stride_d."""

    sizes: Shape
    strides: Shape
    offset: int = 0

    def simplified(self) -> StridedView:
        """Merge axes: the same elements in the same order over as few axes as possible."""
        axes: list[tuple[int, int]] = []
        for count, stride in zip(self.sizes, self.strides, strict=True):
            if count == 1:
                continue
            if axes and axes[-1][1] == stride * count:
                axes[-1] = (axes[-1][0] * count, stride)
            else:
                axes.append((count, stride))
        axes = axes or [(1, 0)]
        return StridedView(tuple(a[0] for a in axes), tuple(a[1] for a in axes), self.offset)

    def transposed(self, permutation: Sequence[int]) -> StridedView:
        """Permute the axes."""
        sizes, strides = self.sizes, self.strides
        order = tuple(permutation)
        return StridedView(
            tuple(sizes[k] for k in order), tuple(strides[k] for k in order), self.offset
        )

    def sliced(self, axis: int, start: int, count: int, step: int = 1) -> StridedView:
        """Take `count` positions along an axis from `start`, every `step`th (may be negative)."""
        sizes, strides = list(self.sizes), list(self.strides)
        offset = self.offset + start * strides[axis]
        sizes[axis], strides[axis] = count, strides[axis] * step
        return StridedView(tuple(sizes), tuple(strides), offset)

    def split(self, axis: int, sizes: Sequence[int]) -> StridedView:
        """Split one axis into several, whose sizes multiply to its own."""
        assert math.prod(sizes) == self.sizes[axis]
        inner = [self.strides[axis] * math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        return StridedView(
            (*self.sizes[:axis], *sizes, *self.sizes[axis + 1 :]),
            (*self.strides[:axis], *inner, *self.strides[axis + 1 :]),
            self.offset,
        )

    def expanded(self, shape: Sequence[int]) -> StridedView:
        """Broadcast to a shape: repeat axes of length 1, and add missing leading axes."""
        missing = len(shape) - len(self.sizes)
        sizes, strides = (1,) * missing + self.sizes, (0,) * missing + self.strides
        assert all(a in (1, b) for a, b in zip(sizes, shape, strict=True)), (self, shape)
        kept = (0 if a == 1 else s for a, s in zip(sizes, strides, strict=True))
        return StridedView(tuple(shape), tuple(kept), self.offset)


def compose_views(first: StridedView, second: StridedView) -> StridedView | None:
    """Return the view that is `second` of the row-major elements of `first`, if it is one.

    Each axis of the second view has to advance along a single axis of the first one, where it may
    not pass the end; axes that continue on the next one are split.
    """
    axes = [(n, s) for n, s in zip(first.sizes, first.strides, strict=True) if n > 1]
    lengths = [n for n, _ in axes]
    units = [math.prod(lengths[k + 1 :]) for k in range(len(axes))]
    digits = [second.offset // unit % n for unit, n in zip(units, lengths, strict=True)]
    lowest, highest = list(digits), list(digits)
    sizes: list[int] = []
    strides: list[int] = []
    pending = [*zip(second.sizes, second.strides, strict=True)][::-1]
    while pending:
        count, stride = pending.pop()
        if count == 1 or stride == 0:
            sizes.append(count)
            strides.append(0)
            continue
        axis = next((k for k, unit in enumerate(units) if stride % unit == 0), None)
        if axis is None:
            return None
        step = stride // units[axis]
        inside = lengths[axis] // step if step > 0 and lengths[axis] % step == 0 else 0
        if axis and 0 < inside < count and count % inside == 0:
            pending += [(inside, stride), (count // inside, stride * inside)]
            continue
        end = (count - 1) * step
        lowest[axis] += min(end, 0)
        highest[axis] += max(end, 0)
        sizes.append(count)
        strides.append(step * axes[axis][1])
    if any(low < 0 for low in lowest) or any(
        high >= n for high, n in zip(highest, lengths, strict=True)
    ):
        return None
    offset = first.offset + sum(d * s for d, (_, s) in zip(digits, axes, strict=True))
    return StridedView(tuple(sizes), tuple(strides), offset)


def view_index_map(view: StridedView) -> IndexMap:
    """Convert a view to an IndexMap, for the layer table."""
    return IndexMap(view.sizes, view.strides, view.offset)


def contiguous_view(shape: Sequence[int]) -> StridedView:
    """All elements of a tensor of this shape in row-major order."""
    return StridedView(tuple(shape), tuple(math.prod(shape[k + 1 :]) for k in range(len(shape))))


def gather_strided(
    b: Builder,
    tensor: Tensor,
    target: NCHW | Layout,
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int = 0,
) -> Tensor:
    """Return a tensor in nchw or layout `target` with the row-major elements of a strided view.

    Element (o0, o1, …) over `sizes` is `tensor`'s row-major element offset + Σ o_d · stride_d, for
    any nchw of the tensor. At most MAX_AXES axes may remain after merging.
    """
    layout = target if isinstance(target, Layout) else b.layout(target)
    output = b.create_scratch_tensor(layout, tensor)
    draw_view(b, output, tensor, StridedView(tuple(sizes), tuple(strides), offset))
    return output


def draw_view(b: Builder, output: Tensor, tensor: Tensor, view: StridedView) -> None:
    """Add the pass that writes a view of `tensor`'s row-major elements to `output`, in order."""
    view, layout = view.simplified(), output.layout
    assert math.prod(view.sizes) == math.prod(layout.nchw), (view, layout)
    assert len(view.sizes) <= MAX_AXES, view
    steps = affine_steps(tensor.layout.nchw, layout.nchw, view) if b.target.fast_kernels else None
    if steps is None:
        b.draw(
            STRIDED_GATHER_SHADER, output, [tensor], uniforms=strided_uniforms(view),
            constants={"INDEXED": 0}, fetches=16,
        )  # fmt: skip
        return
    shader, fetches = _affine_shader(layout, steps)
    b.draw(
        shader, output, [tensor], fetches=fetches,
        uniforms={"first": steps.first, "steps": steps.by_axis, "inner": steps.inner_lengths},
    )  # fmt: skip


def copy_elements(b: Builder, output: Tensor, source: Tensor) -> None:
    """Add the pass that copies the row-major elements of one tensor to another one."""
    draw_view(b, output, source, contiguous_view((math.prod(source.layout.nchw),)))


def _affine_shader(layout: Layout, steps: AffineSteps) -> tuple[FragmentShader, int]:
    """The shader for affine steps, and its reads per fragment.

    The four lanes of a texel may be four neighbouring channels of the source, or its four layers.
    """
    n, c, h, w, outer_n, outer_c = steps.by_axis
    layers = math.prod(layout.block)

    def is_aligned(*steps: tuple[int, ...]) -> bool:
        return all(step[1] % 4 == 0 for step in steps)

    inner_n, inner_c = steps.inner_lengths
    if inner_c % 4 == 0:
        # With a single channel any step along c is valid, because only the first lane is kept.
        alone = layout.nchw[1] == 1 or c == (0, 1, 0, 0)
        if alone and is_aligned(steps.first, n, h, w, outer_n, outer_c):
            return AFFINE_GATHER_TEXEL_SHADER, layers
        lines = zip((n, h, w), layout.block, strict=True)
        across = next((step for step, pixels in lines if pixels == 4), None)
        others = [c, outer_n, outer_c, *(step for step in (n, h, w) if step is not across)]
        transposed = across == (0, 1, 0, 0) and layout.phases == (1, 1)
        # Four images of a block must lie in one part.
        whole_blocks = across is not n or inner_n % 4 == 0
        if transposed and whole_blocks and is_aligned(steps.first, *others):
            return AFFINE_GATHER_TRANSPOSED_SHADER, 4
    return AFFINE_GATHER_SHADER, 4 * layers


def view_fetches(source: Layout, layout: Layout, view: StridedView) -> int:
    """The reads per element of the pass that draws a view, for the choice of a layout."""
    steps = affine_steps(source.nchw, layout.nchw, view)
    if steps is None:
        return STRIDED_FETCHES
    return 4 * _affine_shader(layout, steps)[1] // math.prod(layout.block)


def strided_uniforms(
    view: StridedView, stride: int = 0, length: int = 0
) -> dict[str, UniformValue]:
    """The uniforms of STRIDED; `stride` and `length` are those of an INDEXED axis."""
    axes = [*zip(view.sizes, view.strides, strict=True)]
    axes += [(0, 0)] * (len(axes) % 2)
    pairs = [(*one, *other) for one, other in zip(axes[::2], axes[1::2], strict=True)]
    numbers = {"offset": view.offset, "axes": len(view.sizes), "stride": stride, "length": length}
    return {**numbers, "pairs": pairs}


@dataclass(frozen=True, slots=True)
class AffineSteps:
    """Source coordinates (n, c, h, w) as sums of multiples of an output's coordinates.

    The output's n and c may each be split into an outer and an inner part.

    Attributes:
        first: The source coordinates of the first element.
        by_axis: Their increments along the output's inner n, inner c, h, w, outer n and outer c.
        inner_lengths: The lengths of inner n and inner c.
    """

    first: tuple[int, ...]
    by_axis: tuple[tuple[int, ...], ...]
    inner_lengths: tuple[int, int]


def affine_steps(source_nchw: NCHW, nchw: NCHW, view: StridedView) -> AffineSteps | None:
    """Return the steps of a view, or None if an axis of either nchw needs more strides."""
    # Each axis of this view stays inside one axis of the source.
    split = compose_views(contiguous_view(source_nchw), view)
    axes = _nchw_axes(nchw, split) if split is not None else None
    if axes is None:
        return None
    units = [math.prod(source_nchw[k + 1 :]) for k in range(4)]
    first = tuple(
        view.offset // unit % length for unit, length in zip(units, source_nchw, strict=True)
    )
    by_axis = []
    for count, stride in axes:
        step = [0, 0, 0, 0]
        if count > 1 and stride:
            # The outermost axis whose unit divides the stride, as compose_views chooses.
            axis = next(k for k in range(4) if source_nchw[k] > 1 and stride % units[k] == 0)
            step[axis] = stride // units[axis]
        by_axis.append(tuple(step))
    outer = axes[4:]
    inner_n, inner_c = (
        axes[k][0] if count > 1 else UNSPLIT_LENGTH for k, (count, _) in enumerate(outer)
    )
    return AffineSteps(first, tuple(by_axis), (inner_n, inner_c))


def _nchw_axes(nchw: NCHW, view: StridedView) -> list[tuple[int, int]] | None:
    """The length and the stride of inner n, inner c, h, w, outer n and outer c over the view.

    None if an axis needs more strides than that.
    """
    axes = [(n, stride) for n, stride in zip(view.sizes, view.strides, strict=True) if n > 1]
    found = [(1, 0)] * 6
    for axis, count in reversed([*enumerate(nchw)]):
        if count == 1:
            continue
        length, stride = axes.pop()
        if axis < 2 and length < count <= MAX_FAST_DIVIDEND and count % length == 0:
            found[axis] = length, stride
            axis, count = axis + 4, count // length
            length, stride = axes.pop()
        if length % count:
            return None
        found[axis] = count, stride
        if length > count:
            axes.append((length // count, stride * count))
    return found
