"""Transforms for `viewer.bend`: what is done to the feature maps of a layer's channels.

After Terence Broad's network bending (https://arxiv.org/abs/2005.12420). Each function gives a
`Transform`; x is the value of an element, maps are (height, width), and what a transform reads
outside of a map is said here. All parameters are finite numbers; InputError else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.features.edits import records, transforms

__all__ = [
    "Transform",
    "ablate",
    "add",
    "blur",
    "clamp",
    "contrast",
    "dilate",
    "edges",
    "erode",
    "flip_h",
    "flip_v",
    "glsl",
    "invert",
    "multiply",
    "noise",
    "occlude",
    "pixelate",
    "rotate",
    "salt_and_pepper",
    "saturation",
    "scale",
    "sharpen",
    "threshold",
    "translate",
]


@dataclass(frozen=True)
class Transform:
    """A transform and its parameters; `source` is the text of one's own."""

    name: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    source: str = ""

    def __repr__(self) -> str:
        first = [repr(self.source)] if self.source else []
        rest = [f"{name}={value:g}" for name, value in self.parameters.items()]
        return f"transforms.{self.name}({', '.join(first + rest)})"


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}{suggest_names(name, __all__)}"
    )


def check_not_function(transform: Any) -> None:
    """InputError for one of the functions here in the place of what it gives."""
    name = getattr(transform, "__name__", "")
    if name in __all__ and globals()[name] is transform:
        raise InputError(f"bend: {name} was given without its arguments; call it, {name}(…)")


def _make_transform(name: str, *numbers: float) -> Transform:
    own = transforms.TRANSFORM_KINDS[name].parameters
    pairs = zip(own, numbers, strict=True)
    values = {
        one.name: records.validate_number(f"{name}: {one.name}", number, one)
        for one, number in pairs
    }
    return Transform(name, MappingProxyType(values))


def ablate() -> Transform:
    """0 everywhere."""
    return _make_transform("ablate")


def invert() -> Transform:
    """1 - x."""
    return _make_transform("invert")


def multiply(factor: float) -> Transform:
    """X * factor: of a picture its brightness, as Pillow's `ImageEnhance.Brightness`."""
    return _make_transform("multiply", factor)


def add(number: float) -> Transform:
    """X + number."""
    return _make_transform("add", number)


def clamp(low: float = 0.0, high: float = 1.0) -> Transform:
    """Low where x < low, high where x > high, else x."""
    return _make_transform("clamp", low, high)


def threshold(level: float = 0.5) -> Transform:
    """1 where x > level, else 0."""
    return _make_transform("threshold", level)


def contrast(factor: float = 1.5) -> Transform:
    """0.5 + factor * (x - 0.5): the contrast of a picture whose values go from 0 to 1.

    That of the CSS filter, around 0.5; Pillow's `ImageEnhance.Contrast` is around the picture's own
    mean. Nothing is cut off at 0 and 1: `clamp()` behind it does.
    """
    return _make_transform("contrast", factor)


def saturation(factor: float = 1.5) -> Transform:
    """Grey + factor * (x - grey), grey = 0.299 red + 0.587 green + 0.114 blue: 0 takes all colour.

    As Pillow's `ImageEnhance.Color`. For values of 3 channels, or 4, whose last one (alpha) stays;
    InputError for others, when they are bent. Where only some channels are bent, grey is still of
    all three.
    """
    return _make_transform("saturation", factor)


def noise(std: float = 0.5, seed: int = 0) -> Transform:
    """X + std * a random number of mean 0 and deviation 1, the same for the same seed everywhere.

    The numbers are nearly normal: sums of twelve uniform ones (Irwin-Hall), within ±6.
    """
    return _make_transform("noise", std, seed)


def salt_and_pepper(share: float = 0.1, seed: int = 0) -> Transform:
    """0 (pepper) or 1 (salt), with a probability of share / 2 each, at random pixels; else x.

    The same pixels in all channels of an example, and for the same seed the same everywhere.
    `share` goes from 0 to 1.
    """
    return _make_transform("salt_and_pepper", share, seed)


def blur(sigma: float = 1.0) -> Transform:
    """A Gaussian filter of deviation sigma (0 to 16 pixels), cut off at 4 sigma.

    The map's border is repeated outside: `scipy.ndimage.gaussian_filter(…, mode="nearest")`.
    """
    return _make_transform("blur", sigma)


def sharpen(amount: float = 1.0, sigma: float = 1.0) -> Transform:
    """X + amount * (x - blur(x)): unsharp masking."""
    return _make_transform("sharpen", amount, sigma)


def edges() -> Transform:
    """How steep x is: the length of Sobel's two derivatives, / 4, so that a step of 1 gives 1.

    The map's border is repeated outside: `numpy.hypot` of `scipy.ndimage.sobel(…, mode="nearest")`
    along both axes, / 4.
    """
    return _make_transform("edges")


def pixelate(size: int = 4) -> Transform:
    """The mean of each block of size * size pixels (1 to 256), counted from the left top on.

    Blocks that the right or the bottom border cuts have the mean of the pixels that they have.
    """
    return _make_transform("pixelate", size)


def erode(radius: int = 1) -> Transform:
    """The least value in an ellipse (OpenCV's MORPH_ELLIPSE of 2 radius + 1 pixels a side).

    What lies outside of the map is left out.
    """
    return _make_transform("erode", radius)


def dilate(radius: int = 1) -> Transform:
    """The greatest value in the same ellipse."""
    return _make_transform("dilate", radius)


def translate(x: float = 0.0, y: float = 0.0) -> Transform:
    """Moved to the right by x times the width and down by y times the height.

    Read bilinearly, zeros outside of the map; as scale and rotate.
    """
    return _make_transform("translate", x, y)


def scale(factor: float) -> Transform:
    """Made factor times as large, around the middle of the map; factor > 0."""
    return _make_transform("scale", factor)


def rotate(degrees: float) -> Transform:
    """Turned counter-clockwise around the middle of the map; quarter turns are exact."""
    return _make_transform("rotate", degrees)


def flip_h() -> Transform:
    """Left and right exchanged."""
    return _make_transform("flip_h")


def flip_v() -> Transform:
    """Top and bottom exchanged."""
    return _make_transform("flip_v")


def occlude(x: float = 0.5, y: float = 0.5, size: int = 8, value: float = 0.0) -> Transform:
    """A square patch of one value, `size` pixels a side, around x widths and y heights.

    x and y are shares of the map from its left top, (0.5, 0.5) in the middle; the patch begins at
    column floor(x * width - size / 2 + 0.5), and rows alike. What lies outside is cut off.
    """
    return _make_transform("occlude", x, y, size, value)


def glsl(source: str, **parameters: float) -> Transform:
    """One's own formula in GLSL ES 3.00: statements that set `y`, of an element `x`.

    `glsl("y = sin(x * p0)", p0=1.0)`. There are also, as integers, `example`, `channel`, `row`,
    `column` and `examples`, `channels`, `height`, `width`; and up to eight parameters by the names
    that they are given here. It runs on a graphics device alone: `apply_bends` and `verify` refuse
    it. The text is compiled where it is used; an error there names its line.

    Raises:
        InputError: the text is empty or without `y`, has directives or braces that don't match, or
            a parameter is no number or has no name that GLSL allows.
    """
    text = records.validate_glsl(source, list(parameters))
    values = {
        name: records.validate_number(f"glsl: {name}", number)
        for name, number in parameters.items()
    }
    return Transform(transforms.GLSL, MappingProxyType(values), text)
