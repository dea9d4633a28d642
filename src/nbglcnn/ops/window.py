"""Sliding windows: kernel, stride, dilation and padding of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbglcnn.codegen.uniform_slots import UniformValue
from nbglcnn.graph import Node
from nbglcnn.ops.operator import KnownValues, Shape, int_attr, int_list_attr, string_attr

# For shaders with a window: rows and columns, then the slots of volume_rows.glsl.
WINDOW_SLOTS = "ivec2 kernel, stride, dilation, padding; ivec4 deep; int slices, height, rows"


def pad_to_3d(values: Shape, fill: int) -> Shape:
    """Values for depth, rows and columns; missing leading axes get `fill`."""
    return (*[fill] * (3 - len(values)), *values)


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A sliding window with one entry per spatial axis.

    `pads_begin` and `pads_end` are the padding, `output_shape` is the number of positions.
    """

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads_begin: Shape
    pads_end: Shape
    output_shape: Shape

    def as_2d(self) -> SlidingWindow:
        """The window over (height, width): height 1 for 1-D windows, no depth for 3-D windows."""

        def two(values: Shape, filling: int) -> Shape:
            return (filling, *values)[-2:]

        return SlidingWindow(
            two(self.kernel, 1),
            two(self.strides, 1),
            two(self.dilations, 1),
            two(self.pads_begin, 0),
            two(self.pads_end, 0),
            two(self.output_shape, 1),
        )

    @property
    def is_3d(self) -> bool:
        """Whether the window slides over volumes (depth, height, width)."""
        return len(self.kernel) == 3

    def uniforms(self, spatial: Shape) -> dict[str, UniformValue]:
        """The uniforms of WINDOW_SLOTS for an input of this size."""
        plane = self.as_2d()
        deep, slices, height, rows = (0, 0, 0, 0), 0, 0, 0
        if self.is_3d:
            deep = (self.kernel[0], self.strides[0], self.dilations[0], self.pads_begin[0])
            slices, height, rows = spatial[0], spatial[1], self.output_shape[1]
        return {
            **{"kernel": plane.kernel, "stride": plane.strides},
            **{"dilation": plane.dilations, "padding": plane.pads_begin},
            **{"deep": deep, "slices": slices, "height": height, "rows": rows},
        }


def _dilated_sizes(kernel: Shape, dilations: Shape) -> Shape:
    return tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))


def _split_padding(totals: Sequence[int], mode: str) -> tuple[Shape, Shape]:
    """Halve the padding; the extra pixel goes to the end for SAME_UPPER, else to the start."""
    less, more = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    return (less, more) if mode == "SAME_UPPER" else (more, less)


def sliding_window(facts: KnownValues, node: Node, kernel: Shape) -> SlidingWindow:
    """The window of a convolution or pool, with auto_pad and ceil_mode as in ONNX and PyTorch."""
    spatial = facts.shape(node.inputs[0])[2:]
    rank = len(spatial)
    strides = int_list_attr(node, "strides", (1,) * rank)
    dilations = int_list_attr(node, "dilations", (1,) * rank)
    pads = int_list_attr(node, "pads", (0,) * 2 * rank)
    begins, ends = pads[:rank], pads[rank:]
    spans = _dilated_sizes(kernel, dilations)
    mode = string_attr(node, "auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        output = tuple(-(-n // s) for n, s in zip(spatial, strides, strict=True))
        totals = [
            max(0, (o - 1) * s + k - n)
            for o, s, k, n in zip(output, strides, spans, spatial, strict=True)
        ]
        begins, ends = _split_padding(totals, mode)
        return SlidingWindow(kernel, strides, dilations, begins, ends, output)
    if mode == "VALID":
        begins = ends = (0,) * rank
    ceil = int_attr(node, "ceil_mode", 0)
    counts = []
    for n, k, s, b, e in zip(spatial, spans, strides, begins, ends, strict=True):
        room = n + b + e - k
        count = (-(-room // s) if ceil else room // s) + 1
        # Drop a last window that would start in the padding after the map (PyTorch, ONNX 19).
        if ceil and (count - 1) * s >= n + b:
            count -= 1
        counts.append(count)
    return SlidingWindow(kernel, strides, dilations, begins, ends, tuple(counts))


def transposed_window(facts: KnownValues, node: Node, kernel: Shape) -> SlidingWindow:
    """The window of a transposed convolution; `output_shape` is the size of its result."""
    spatial = facts.shape(node.inputs[0])[2:]
    rank = len(spatial)
    strides = int_list_attr(node, "strides", (1,) * rank)
    dilations = int_list_attr(node, "dilations", (1,) * rank)
    extra = int_list_attr(node, "output_padding", (0,) * rank)
    pads = int_list_attr(node, "pads", (0,) * 2 * rank)
    spans = _dilated_sizes(kernel, dilations)
    full = [s * (n - 1) + x + k for s, n, x, k in zip(strides, spatial, extra, spans, strict=True)]
    mode = string_attr(node, "auto_pad", "NOTSET")
    output = int_list_attr(node, "output_shape", ())[-rank:]
    if not output and mode in ("SAME_UPPER", "SAME_LOWER"):
        output = tuple(n * s for n, s in zip(spatial, strides, strict=True))
    if output:
        totals = [f - o for f, o in zip(full, output, strict=True)]
        begins, ends = _split_padding(totals, mode)
        return SlidingWindow(kernel, strides, dilations, begins, ends, output)
    begins, ends = (pads[:rank], pads[rank:]) if mode != "VALID" else ((0,) * rank, (0,) * rank)
    sizes = tuple(f - b - e for f, b, e in zip(full, begins, ends, strict=True))
    return SlidingWindow(kernel, strides, dilations, begins, ends, sizes)


def window_problem(facts: KnownValues, node: Node, kernel: Shape) -> str | None:
    """Why a window is invalid, or None."""
    rank = len(facts.shape(node.inputs[0])) - 2
    if rank not in (1, 2, 3):
        return f"{rank}-D windows; 1-D, 2-D and 3-D are supported"
    for name, least in (("strides", 1), ("dilations", 1), ("kernel_shape", 1)):
        values = int_list_attr(node, name, (1,) * rank)
        if len(values) != rank or min(values) < least:
            return f"{name}={values}; expected {rank} numbers ≥ {least}"
    if len(kernel) != rank:
        return f"a kernel of {len(kernel)} axes over {rank} spatial axes"
    if len(int_list_attr(node, "pads", (0,) * 2 * rank)) != 2 * rank:
        return f"pads={int_list_attr(node, 'pads', ())}; expected {2 * rank} numbers"
    return None


def auto_pad_problem(facts: KnownValues, node: Node, kernel: Shape) -> str | None:
    """Why auto_pad fails for a kernel smaller than its stride, or None.

    The windows of such a kernel omit pixels. TensorFlow starts at the first pixel. ONNX Runtime
    crops some pixels before it, by rules that ONNX doesn't define: none if one pixel is omitted,
    and none for a convolution if two are.
    """
    mode = string_attr(node, "auto_pad", "NOTSET")
    if not mode.startswith("SAME"):
        return None
    spatial, rank = facts.shape(node.inputs[0])[2:], len(facts.shape(node.inputs[0])) - 2
    strides, dilations = (int_list_attr(node, n, (1,) * rank) for n in ("strides", "dilations"))
    for n, s, d, k in zip(spatial, strides, dilations, kernel, strict=True):
        out = n - (-(-n // s) - 1) * s - d * (k - 1) - 1
        if out > (2 if node.op == "Conv" else 1):
            return (
                f"auto_pad={mode} with a kernel of {k} and a stride of {s} over {n} pixels omits "
                f"{out} of them, and engines differ in which: give pads instead"
            )
    return None
