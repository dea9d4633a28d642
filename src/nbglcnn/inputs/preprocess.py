"""Preprocess: the steps from a picture to a model's input, as a record and as NumPy functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from nbglcnn.errors import InputError, unknown_name_message
from nbglcnn.graph import Array

Fit = Literal["crop", "letterbox", "stretch"]
Channels = Literal["RGB", "BGR", "grey"]
Layout = Literal["NCHW", "NHWC"]

KEY_PREFIX = "preprocess"  # prefix of the keys of its steps
# The weights of Pillow's "L" (ITU-R 601-2), without its rounding to 8 bits.
LUMA_WEIGHTS = tuple(np.float32(part / 65536) for part in (19595, 38470, 7471))


@dataclass(frozen=True)
class PreprocessStep:
    """One step of a `Preprocess`.

    Attributes:
        key: The key of its layer: "preprocess.normalize".
        title: Its common name.
        description: Its settings as text.
        apply: The step as a function of a numpy array.
    """

    key: str
    title: str
    description: str
    apply: Callable[[Array], Array]


@dataclass(frozen=True)
class Preprocess:
    """The steps from a picture to a model's input, as layers before the model.

    With a Preprocess the network's input is the picture: float32, shape (n, 3 or 1, h, w), from 0
    to 1. The steps are the layers `preprocess.range`, `preprocess.channels`, `preprocess.normalize`
    and `preprocess.layout`, in this order; steps that change nothing are left out. Pillow images
    are resampled to the input's size.

    Wherever `preprocess` is an argument, a torchvision transform (`weights.transforms()`, a
    Compose) or a timm config (`model.pretrained_cfg`) is accepted, too.

    Args:
        size: The height and width of the input in pixels, or one number for both. Default: those of
            the ONNX file, or of the example input.
        resize: The length in pixels to which the shorter side is resized before the centre of
            `size` is cropped, or `(h, w)`, as in torchvision's Resize(256) and CenterCrop(224). At
            least `size`. Default: none.
        fit: How a picture of another aspect ratio is fitted: `"crop"` (default) crops the centre,
            `"letterbox"` adds black bars, `"stretch"` distorts.
        mean: The numbers to subtract: one for all channels, or one per channel, on the scale of
            `range` and in the order of `channels`. Default: none.
        std: The numbers to divide by after that: one, or one per channel. Default: none.
        range: The values of black and white before `mean` and `std`: (0, 1) (default), (-1, 1) or
            (0, 255).
        channels: The channels of the model: `"RGB"` (default), `"BGR"`, or `"grey"`, computed from
            RGB with Pillow's weights and repeated for a model of three channels. A model of one
            channel with `"RGB"` takes grey pictures.
        layout: `"NCHW"` (default), or `"NHWC"` for a model whose input is (n, h, w, channels).

    Raises:
        InputError: If an argument is not valid.

    Source: Pillow's bilinear, antialiased resampling (`Image.resize`), and torchvision's Normalize.

    Example:
        >>> preprocess = nbglcnn.Preprocess(size=224, resize=256, mean=0.5, std=0.25)
    """

    size: int | tuple[int, int] | None = None
    resize: int | tuple[int, int] | None = None
    fit: Fit = "crop"
    mean: float | Sequence[float] | None = None
    std: float | Sequence[float] | None = None
    range: tuple[float, float] = (0.0, 1.0)
    channels: Channels = "RGB"
    layout: Layout = "NCHW"

    def __post_init__(self) -> None:
        for name, known in (("fit", Fit), ("channels", Channels), ("layout", Layout)):
            if getattr(self, name) not in get_args(known):
                words = unknown_name_message(str(getattr(self, name)), get_args(known))
                raise InputError(f"Preprocess: {name}: {words}")
        for name in ("size", "resize"):
            object.__setattr__(self, name, _validate_size(name, getattr(self, name)))
        for name in ("mean", "std"):
            object.__setattr__(self, name, _validate_numbers(name, getattr(self, name)))
        low_high = _validate_numbers("range", self.range)
        if low_high is None or len(low_high) != 2 or not low_high[0] < low_high[1]:
            raise InputError(
                f"Preprocess: range is {self.range!r}: give the values of black and white, (0, "
                "1) or (0, 255)"
            )
        object.__setattr__(self, "range", low_high)
        if self.std is not None and 0 in self.std:  # type: ignore[operator]
            raise InputError(f"Preprocess: std is {self.std!r}: expected values other than 0")
        if self.resize is not None and self.fit == "letterbox":
            raise InputError(
                'Preprocess: resize needs fit="crop" or "stretch"; a letterbox shows the whole '
                "picture"
            )
        if self.size is not None and self.resize is not None:
            self.share(self.size)  # type: ignore[arg-type]

    def share(self, size: tuple[int, int]) -> float:
        """Return the share of each side of the picture that is kept.

        Args:
            size: The size of the input, (height, width) in pixels.

        Returns:
            The share, from 0 to 1.

        Raises:
            InputError: If `resize` is smaller than `size`, or has another aspect ratio.
        """
        if self.resize is None:
            return 1.0
        if isinstance(self.resize, int):
            share = min(size) / self.resize
        else:
            share = size[0] / self.resize[0]
            if abs(share - size[1] / self.resize[1]) * min(self.resize) > 1:
                raise InputError(
                    f"Preprocess: size {size} and resize {self.resize} have different aspect "
                    "ratios: give resize as one number, the shorter side"
                )
        if share > 1:
            raise InputError(
                f"Preprocess: resize is {self.resize}, smaller than size {size}, so the crop "
                "doesn't fit"
            )
        return share

    def steps(self, channels: int) -> tuple[PreprocessStep, ...]:
        """Return the steps for a model, in order.

        Args:
            channels: The number of channels of the model's input.

        Returns:
            The steps that change something.

        Raises:
            InputError: If `mean` or `std` has another number of channels.
        """
        found = []
        low, high = self.range
        if (low, high) != (0, 1):
            words = f"scale={_format_number(high - low)}, offset={_format_number(low)}"

            def ranged(x: Array) -> Array:
                span, offset = (
                    np.array(one, np.float32).astype(x.dtype) for one in (high - low, low)
                )
                scaled: Array = x * span
                return scaled + offset if low else scaled

            found.append(PreprocessStep(f"{KEY_PREFIX}.range", "Range", words, ranged))
        if self.channels == "BGR":
            found.append(PreprocessStep(f"{KEY_PREFIX}.channels", "BGR", "", _reverse_channels))
        elif self.channels == "grey":
            found.append(
                PreprocessStep(
                    f"{KEY_PREFIX}.channels", "Grey", f"channels={channels}", _to_grey(channels)
                )
            )
        mean, std = self.channel_array("mean", channels), self.channel_array("std", channels)
        if mean is not None or std is not None:
            parts = (("mean", self.mean), ("std", self.std))
            words = ", ".join(f"{name}={_format_numbers(v)}" for name, v in parts if v is not None)

            def normalized(x: Array) -> Array:
                centred = x if mean is None else x - mean.astype(x.dtype)
                return centred if std is None else centred / std.astype(x.dtype)

            found.append(PreprocessStep(f"{KEY_PREFIX}.normalize", "Normalize", words, normalized))
        if self.layout == "NHWC":
            found.append(PreprocessStep(f"{KEY_PREFIX}.layout", "NHWC", "", _to_nhwc))
        return tuple(found)

    def channel_array(self, name: Literal["mean", "std"], channels: int) -> Array | None:
        """Return `mean` or `std` as an array that broadcasts over pictures.

        Args:
            name: `"mean"` or `"std"`.
            channels: The number of channels of the model's input.

        Returns:
            An array of shape (1, channels, 1, 1) or (1, 1, 1, 1), float32; None if it is not set.

        Raises:
            InputError: If it has another number of channels.
        """
        given = getattr(self, name)
        if given is None:
            return None
        if len(given) not in (1, channels):
            raise InputError(
                f"Preprocess: {name} has {len(given)} values; the model takes {channels} "
                f"channel{'s' if channels > 1 else ''}. Give one number, or one per channel"
            )
        return np.array(given, np.float32).reshape(1, -1, 1, 1)


def _reverse_channels(x: Array) -> Array:
    return np.ascontiguousarray(x[:, ::-1])


def _to_nhwc(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def _to_grey(channels: int) -> Callable[[Array], Array]:
    def grey(x: Array) -> Array:
        luma = np.array(LUMA_WEIGHTS, x.dtype).reshape(1, 3, 1, 1)
        return np.repeat((x * luma).sum(1, keepdims=True, dtype=x.dtype), channels, 1)

    return grey


def _validate_size(name: str, value: Any) -> Any:
    """Validate a size: (height, width), or for `resize` also one number, the shorter side."""
    if value is None:
        return None
    try:
        sides = tuple(value) if not isinstance(value, int | np.integer) else (int(value),)
        whole = tuple(int(side) for side in sides)
        fits = whole == sides and len(whole) in (1, 2) and min(whole) > 0
    except (TypeError, ValueError):
        fits = False
    if not fits or isinstance(value, bool):
        raise InputError(f"Preprocess: {name} is {value!r}: give pixels, 224 or (height, width)")
    if len(whole) == 2:
        return whole
    return (whole[0], whole[0]) if name == "size" else whole[0]


def _validate_numbers(name: str, value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    try:
        if hasattr(value, "tolist"):  # a NumPy array or torch tensor
            value = value.tolist()
        numbers = tuple(map(float, value if hasattr(value, "__iter__") else (value,)))
        fits = all(map(math.isfinite, numbers)) and len(numbers) > 0
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise InputError(
            f"Preprocess: {name} is {value!r}: give a finite number, or one per channel"
        )
    return numbers


def _format_number(number: float) -> str:
    """Format a number with the fewest digits that identify the float32."""
    return str(np.float32(number)).removesuffix(".0")


def _format_numbers(numbers: Any) -> str:
    """Format "(0.485, 0.456, 0.406)", or a single number."""
    words = ", ".join(map(_format_number, numbers))
    return words if len(numbers) == 1 else f"({words})"
