"""Translation of PyTorch's interpolate to ONNX nodes that compute the same pixels.

onnxscript's own translation drops the scale factors of antialiased maps. It keeps them for
align_corners, where PyTorch uses only the lengths. For nearest neighbours, ONNX divides by the
factor while PyTorch multiplies by its inverse, which may round to other pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import UnsupportedOperator

IndexArray = npt.NDArray[np.int64]


def resize_translations() -> Mapping[Any, Callable[..., Any]]:
    """Translations for torch.onnx.export: all modes of interpolate but area and nearest-exact.

    PyTorch decomposes these two into pools and gathers.
    """
    import torch

    aten = torch.ops.aten
    nearest = (aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d)
    linear = (aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d)
    return {
        **{packet.vec: _nearest for packet in nearest},
        **{packet.vec: _linear_or_cubic("linear") for packet in linear},
        aten.upsample_bicubic2d.vec: _linear_or_cubic("cubic"),
        aten._upsample_bilinear2d_aa.vec: _linear_or_cubic(
            "linear", antialias=1, exclude_outside=1
        ),
        aten._upsample_bicubic2d_aa.vec: _linear_or_cubic(
            "cubic", antialias=1, exclude_outside=1, cubic_coeff_a=-0.5
        ),
    }


@dataclass(frozen=True, slots=True)
class _ResizeAxis:
    """Input and output length of a spatial axis, and the scale factor if one was set."""

    input_length: int
    output_length: int
    factor: float | None


def _axes(
    x: Any, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None
) -> list[_ResizeAxis]:
    before = [int(length) for length in x.shape[2:]]
    if output_size is not None:
        return [_ResizeAxis(b, int(a), None) for b, a in zip(before, output_size, strict=True)]
    assert scale_factors is not None
    pairs = zip(before, scale_factors, strict=True)
    return [_ResizeAxis(b, int(b * float(f)), float(f)) for b, f in pairs]


# onnxscript requires annotations in these two forms.
def _nearest(
    x: Any,
    output_size: Optional[Sequence[int]],  # noqa: UP045
    scale_factors: Optional[Sequence[float]],  # noqa: UP045
) -> Any:
    """One Resize if ONNX selects the same pixels as PyTorch, else a Gather for each axis."""
    onnx = _onnxscript_opset()
    axes = _axes(x, output_size, scale_factors)
    chosen = [_nearest_indices(axis) for axis in axes]
    if all(np.array_equal(c, _onnx_nearest_indices(a)) for c, a in zip(chosen, axes, strict=True)):
        return _resize_to_lengths(
            x,
            [axis.output_length for axis in axes],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    for number, (axis, places) in enumerate(zip(axes, chosen, strict=True), 2):
        if axis.input_length != axis.output_length:
            indices = onnx.Constant(value_ints=places.tolist())
            x = onnx.Gather(x, indices, axis=number)
    return x


def _nearest_indices(axis: _ResizeAxis) -> IndexArray:
    """The source index of each output pixel: nearest_idx of PyTorch's UpSample.h."""
    positions = np.arange(axis.output_length)
    if axis.output_length == axis.input_length:
        return positions
    if axis.output_length == 2 * axis.input_length:
        return positions // 2
    step = (
        1 / axis.factor
        if axis.factor
        else np.float32(axis.input_length) / np.float32(axis.output_length)
    )
    found = np.floor(positions.astype(np.float32) * np.float32(step)).astype(np.int64)
    places: IndexArray = np.minimum(found, axis.input_length - 1)
    return places


def _onnx_nearest_indices(axis: _ResizeAxis) -> IndexArray:
    """The source indices that ONNX's Resize uses for these lengths."""
    factor = np.float32(axis.output_length / axis.input_length)
    places: IndexArray = np.floor(np.arange(axis.output_length, dtype=np.float32) / factor).astype(
        np.int64
    )
    return places


def _linear_or_cubic(mode: str, **attributes: Any) -> Callable[..., Any]:
    """Return the translation of a linear or cubic mode."""
    antialias = bool(attributes.get("antialias"))

    def translation(
        x: Any,
        output_size: Optional[Sequence[int]],  # noqa: UP045
        align_corners: bool,
        scale_factors: Optional[Sequence[float]],  # noqa: UP045
    ) -> Any:
        axes = _axes(x, output_size, scale_factors)
        if (
            antialias
            and align_corners
            and any(axis.input_length != axis.output_length for axis in axes)
        ):
            # PyTorch combines half-pixel coordinates with the align_corners factor, which ONNX does
            # not support.
            raise UnsupportedOperator(
                "interpolate with both antialias=True and align_corners=True can't be exported "
                "to ONNX; use align_corners=False"
            )
        coordinates = "align_corners" if align_corners else "half_pixel"
        given = {"mode": mode, "coordinate_transformation_mode": coordinates, **attributes}
        if align_corners or all(axis.factor is None for axis in axes):
            return _resize_to_lengths(x, [axis.output_length for axis in axes], **given)
        copied = mode == "linear" and not antialias
        return _resize_by_factors(x, [_onnx_scale_factor(axis, copied) for axis in axes], **given)

    return translation


def _onnx_scale_factor(axis: _ResizeAxis, is_copied: bool) -> float:
    """The float32 scale factor for which ONNX computes PyTorch's output length.

    `is_copied`: a linear mode copies an axis of unchanged length, whatever the factor.
    """
    assert axis.factor is not None
    if is_copied and axis.input_length == axis.output_length:
        return 1.0
    before, factor = np.float32(axis.input_length), np.float32(axis.factor)
    for _ in range(4):
        found = int(np.floor(before * factor))
        if found == axis.output_length:
            return float(factor)
        factor = np.nextafter(factor, np.float32(np.inf if found < axis.output_length else 0))
    raise UnsupportedOperator(
        f"interpolate by {axis.factor} from {axis.input_length} to {axis.output_length}: give "
        "size= instead"
    )


def _onnxscript_opset() -> Any:
    """The operators of onnxscript; calling one during translation creates a node."""
    from onnxscript import opset18

    return opset18


def _resize_to_lengths(x: Any, lengths: Sequence[int], **attributes: Any) -> Any:
    onnx = _onnxscript_opset()
    kept = [int(length) for length in x.shape[:2]]
    sizes = onnx.Constant(value_ints=[*kept, *lengths])
    return onnx.Resize(x, None, None, sizes, **attributes)


def _resize_by_factors(x: Any, factors: Sequence[float], **attributes: Any) -> Any:
    onnx = _onnxscript_opset()
    scales = onnx.Constant(value_floats=[1.0, 1.0, *factors])
    return onnx.Resize(x, None, scales, None, **attributes)
