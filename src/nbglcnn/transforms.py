"""Transforms of feature maps for `viewer.bend` and `session.bend`.

Each function returns a `Transform`. In the descriptions, x is the value of an element and maps have
the shape (height, width). A transform that reads elements outside the map says which values it uses
there. All parameters are finite numbers.

Source: network bending, Broad, Leymarie and Grierson 2021, https://arxiv.org/abs/2005.12420.
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
    """A transform with its parameters, as the functions of `nbglcnn.transforms` return it.

    Args:
        name: The name of the transform, such as `"blur"`.
        parameters: Its numbers by name. Default: none.
        source: The GLSL code of a `glsl` transform; `""` for all others.
    """

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
    """Raise InputError for one of the functions of this module in place of its result."""
    name = getattr(transform, "__name__", "")
    if name in __all__ and globals()[name] is transform:
        raise InputError(f"bend: {name} needs its arguments; call it, {name}(…)")


def _make_transform(name: str, *numbers: float) -> Transform:
    own = transforms.TRANSFORM_KINDS[name].parameters
    pairs = zip(own, numbers, strict=True)
    values = {
        one.name: records.validate_number(f"{name}: {one.name}", number, one)
        for one, number in pairs
    }
    return Transform(name, MappingProxyType(values))


def ablate() -> Transform:
    """Set all elements to 0, including NaN and infinities.

    Returns:
        The transform.
    """
    return _make_transform("ablate")


def invert() -> Transform:
    """Replace x by 1 − x.

    Returns:
        The transform.
    """
    return _make_transform("invert")


def multiply(factor: float) -> Transform:
    """Multiply by a factor: on a picture, the brightness.

    Args:
        factor: The number that x is multiplied by.

    Returns:
        The transform.

    Raises:
        InputError: If `factor` is not a finite number.

    Source: `PIL.ImageEnhance.Brightness` for pictures.
    """
    return _make_transform("multiply", factor)


def add(number: float) -> Transform:
    """Add a number to x.

    Args:
        number: The number that is added.

    Returns:
        The transform.

    Raises:
        InputError: If `number` is not a finite number.
    """
    return _make_transform("add", number)


def clamp(low: float = 0.0, high: float = 1.0) -> Transform:
    """Limit x to the range from `low` to `high`.

    Args:
        low: The result for x < low. Default: 0.
        high: The result for x > high. Default: 1.

    Returns:
        The transform.

    Raises:
        InputError: If a parameter is not a finite number.
    """
    return _make_transform("clamp", low, high)


def threshold(level: float = 0.5) -> Transform:
    """Replace x by 1 if x > level, otherwise by 0.

    Args:
        level: The threshold. Default: 0.5.

    Returns:
        The transform.

    Raises:
        InputError: If `level` is not a finite number.
    """
    return _make_transform("threshold", level)


def contrast(factor: float = 1.5) -> Transform:
    """Replace x by 0.5 + factor · (x − 0.5): the contrast of a picture from 0 to 1.

    The result is not clipped to 0 and 1; add `clamp()` for that. Pillow's `ImageEnhance.Contrast`
    differs: it uses the mean of the picture in place of 0.5.

    Args:
        factor: The contrast; 1 changes nothing. Default: 1.5.

    Returns:
        The transform.

    Raises:
        InputError: If `factor` is not a finite number.

    Source: https://www.w3.org/TR/filter-effects-1/#contrastEquivalent.
    """
    return _make_transform("contrast", factor)


def saturation(factor: float = 1.5) -> Transform:
    """Replace x by grey + factor · (x − grey): the saturation of a colour picture.

    Here grey = 0.299 red + 0.587 green + 0.114 blue. It uses all three channels, even if only some
    of them are bent. Values must have 3 or 4 channels; the fourth (alpha) doesn't change. `bend`
    raises an InputError for others.

    Args:
        factor: The saturation; 0 removes all colour, 1 changes nothing. Default: 1.5.

    Returns:
        The transform.

    Raises:
        InputError: If `factor` is not a finite number.

    Source: `PIL.ImageEnhance.Color`.
    """
    return _make_transform("saturation", factor)


def noise(std: float = 0.5, seed: int = 0) -> Transform:
    """Add random numbers of mean 0 and standard deviation `std`.

    The numbers are approximately normal: sums of twelve uniform numbers (Irwin–Hall), within ±6
    std. They are equal for the same seed on every device.

    Args:
        std: The standard deviation, at least 0. Default: 0.5.
        seed: An integer from 0 to 2²⁴ − 1 that selects the random numbers. Default: 0.

    Returns:
        The transform.

    Raises:
        InputError: If `std` or `seed` is out of range.
    """
    return _make_transform("noise", std, seed)


def salt_and_pepper(share: float = 0.1, seed: int = 0) -> Transform:
    """Replace random pixels by 0 (pepper) or 1 (salt), with a probability of share / 2 each.

    The pixels are the same in all channels of an example, and for the same seed on every device.

    Args:
        share: The share of the pixels that are replaced, from 0 to 1. Default: 0.1.
        seed: An integer from 0 to 2²⁴ − 1 that selects the pixels. Default: 0.

    Returns:
        The transform.

    Raises:
        InputError: If `share` or `seed` is out of range.
    """
    return _make_transform("salt_and_pepper", share, seed)


def blur(sigma: float = 1.0) -> Transform:
    """Apply a Gaussian filter, truncated at 4 sigma.

    Outside the map, the border is repeated.

    Args:
        sigma: The standard deviation in pixels, greater than 0, at most 16. Default: 1.

    Returns:
        The transform.

    Raises:
        InputError: If `sigma` is out of range.

    Source: `scipy.ndimage.gaussian_filter(…, mode="nearest")`.
    """
    return _make_transform("blur", sigma)


def sharpen(amount: float = 1.0, sigma: float = 1.0) -> Transform:
    """Replace x by x + amount · (x − blur(x)): unsharp masking.

    Args:
        amount: The factor of the difference. Default: 1.
        sigma: The standard deviation of the blur in pixels, greater than 0, at most 16. Default: 1.

    Returns:
        The transform.

    Raises:
        InputError: If `sigma` is out of range or `amount` is not a finite number.
    """
    return _make_transform("sharpen", amount, sigma)


def edges() -> Transform:
    """Compute the magnitude of the Sobel gradient, divided by 4, so that a step of 1 gives 1.

    Outside the map, the border is repeated.

    Returns:
        The transform.

    Source: `numpy.hypot` of `scipy.ndimage.sobel(…, mode="nearest")` along both axes.
    """
    return _make_transform("edges")


def pixelate(size: int = 4) -> Transform:
    """Replace each block of size × size pixels by its mean.

    Blocks are counted from the top left. Incomplete blocks at the right and the bottom use the
    pixels that they have.

    Args:
        size: The side of a block in pixels, an integer from 1 to 256. Default: 4.

    Returns:
        The transform.

    Raises:
        InputError: If `size` is out of range.
    """
    return _make_transform("pixelate", size)


def erode(radius: int = 1) -> Transform:
    """Compute the minimum in an ellipse around each pixel.

    Pixels outside the map are ignored.

    Args:
        radius: The ellipse has 2 · radius + 1 pixels per side; an integer from 0 to 32. Default: 1.

    Returns:
        The transform.

    Raises:
        InputError: If `radius` is out of range.

    Source: OpenCV's `erode` with `MORPH_ELLIPSE`.
    """
    return _make_transform("erode", radius)


def dilate(radius: int = 1) -> Transform:
    """Compute the maximum in an ellipse around each pixel.

    Pixels outside the map are ignored.

    Args:
        radius: The ellipse has 2 · radius + 1 pixels per side; an integer from 0 to 32. Default: 1.

    Returns:
        The transform.

    Raises:
        InputError: If `radius` is out of range.

    Source: OpenCV's `dilate` with `MORPH_ELLIPSE`.
    """
    return _make_transform("dilate", radius)


def translate(x: float = 0.0, y: float = 0.0) -> Transform:
    """Move the map right and down, with bilinear interpolation.

    Outside the map, x is 0.

    Args:
        x: The distance to the right, in widths of the map. Default: 0.
        y: The distance down, in heights of the map. Default: 0.

    Returns:
        The transform.

    Raises:
        InputError: If a parameter is not a finite number.
    """
    return _make_transform("translate", x, y)


def scale(factor: float) -> Transform:
    """Enlarge the map around its centre, with bilinear interpolation.

    Outside the map, x is 0. The shape of the map doesn't change.

    Args:
        factor: The factor, greater than 0; less than 1 shrinks.

    Returns:
        The transform.

    Raises:
        InputError: If `factor` is not greater than 0.
    """
    return _make_transform("scale", factor)


def rotate(degrees: float) -> Transform:
    """Rotate the map counter-clockwise around its centre, with bilinear interpolation.

    Outside the map, x is 0. Quarter turns are exact.

    Args:
        degrees: The angle in degrees.

    Returns:
        The transform.

    Raises:
        InputError: If `degrees` is not a finite number.
    """
    return _make_transform("rotate", degrees)


def flip_h() -> Transform:
    """Flip the map horizontally: exchange left and right.

    Returns:
        The transform.
    """
    return _make_transform("flip_h")


def flip_v() -> Transform:
    """Flip the map vertically: exchange top and bottom.

    Returns:
        The transform.
    """
    return _make_transform("flip_v")


def occlude(x: float = 0.5, y: float = 0.5, size: int = 8, value: float = 0.0) -> Transform:
    """Cover the map with a square patch of one value.

    The patch begins at column floor(x · width − size / 2 + 0.5), and at the corresponding row. Its
    part outside the map is clipped.

    Args:
        x: The centre of the patch, in widths of the map from the left. Default: 0.5.
        y: The centre of the patch, in heights of the map from the top. Default: 0.5.
        size: The side of the patch in pixels, an integer from 1 to 16384. Default: 8.
        value: The value of the patch. Default: 0.

    Returns:
        The transform.

    Raises:
        InputError: If a parameter is not a finite number, or `size` is out of range.
    """
    return _make_transform("occlude", x, y, size, value)


def glsl(source: str, **parameters: float) -> Transform:
    """Apply your own GLSL ES 3.00 statements, which set `y` for an element `x`.

    The code can read the integers `example`, `channel`, `row`, `column`, `examples`, `channels`,
    `height` and `width`, and its parameters by name. It runs on a graphics device only:
    `apply_bends` and `verify` reject it. It is compiled when a bend uses it; a compiler error names
    the line.

    Args:
        source: The statements, in ASCII, without directives.
        **parameters: Up to eight numbers by name.

    Returns:
        The transform.

    Raises:
        InputError: If the code is empty, doesn't set `y`, contains directives or unmatched braces,
            or if a parameter is not a finite number or its name is not valid in GLSL.

    Example:
        >>> viewer.bend("1", nbglcnn.transforms.glsl("y = sin(x * p0);", p0=2.0))
    """
    text = records.validate_glsl(source, list(parameters))
    values = {
        name: records.validate_number(f"glsl: {name}", number)
        for name, number in parameters.items()
    }
    return Transform(transforms.GLSL, MappingProxyType(values), text)
