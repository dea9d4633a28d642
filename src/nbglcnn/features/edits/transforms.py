"""The transforms of bends: what each is called, its parameters, and its formula in numpy.

ops/shaders/bend.glsl computes them on the device, formulas.py in numpy, and tests hold the two
together. The set is that of Terence Broad's network bending (Broad, Leymarie and Grierson 2021,
arXiv:2005.12420; his code is github.com/terrybroad/network-bending); add, clamp, noise, blur,
sharpen, what one does to pictures (contrast, saturation, salt and pepper, edges, pixelate, occlude)
and one's own GLSL were added. Where ours differ from his OpenCV operators:

- rotate and scale turn around the middle of the pixels, ((width - 1) / 2, (height - 1) / 2), where
  his turn around (rows / 2, columns / 2): half a turn is both flips here, to the bit.
- translate's x is a share of the width and y one of the height; his are the other way around, which
  is the same for square maps.
- ablate gives zeros where he multiplies by zero, so that no NaN or infinity stays.
- Parameters aren't bound to his ranges.

As his, rotate, scale and translate read between pixels bilinearly and zeros outside of the map
(cv::warpAffine); erode and dilate take an ellipse of a radius and leave out what lies outside of
the map (cv::erode with MORPH_ELLIPSE). blur, sharpen and edges repeat the map's border.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nbglcnn.features.edits import formulas
from nbglcnn.graph import Array

Formula = Callable[..., Array]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of a transform: what it may be, and from where to where a slider goes.

    `least` and `most` are limits that are checked; None for none. `above` says that `least` itself
    is too little.
    """

    name: str
    default: float
    low: float
    high: float
    step: float
    least: float | None = None
    most: float | None = None
    above: bool = False
    integer: bool = False
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A transform: its name, its parameters in order, its formula for (n, c, h, w), in words too.

    `stages` are the passes that it takes on a device. `whole`: an element depends on its place or
    on other channels, so the formula takes all channels, whichever are bent. `counts` are the
    numbers of channels that a value may have; none for any.
    """

    name: str
    formula: Formula | None
    says: str
    parameters: tuple[Parameter, ...] = ()
    stages: int = 1
    whole: bool = False
    counts: tuple[int, ...] = ()


DEGREES = Parameter("degrees", 45, -180, 180, 1, unit="°")
SIGMA = Parameter("sigma", 1, 0.1, 5, 0.1, least=0, most=16, above=True, unit="px")
RADIUS = Parameter("radius", 1, 0, 8, 1, least=0, most=32, integer=True, unit="px")
SEED = Parameter("seed", 0, 0, 99, 1, least=0, most=2**24 - 1, integer=True)

KINDS = {
    kind.name: kind
    for kind in (
        Kind("ablate", lambda x: np.zeros_like(x), "0"),
        Kind("invert", lambda x: 1 - x, "1 − x"),
        Kind(
            "multiply",
            lambda x, factor: x * np.float32(factor),
            "x · factor",
            (Parameter("factor", 2, -4, 4, 0.05),),
        ),
        Kind(
            "add",
            lambda x, number: x + np.float32(number),
            "x + number",
            (Parameter("number", 1, -4, 4, 0.05),),
        ),
        Kind(
            "clamp",
            formulas.clamp,
            "low where x < low, high where x > high, else x",
            (Parameter("low", 0, -4, 4, 0.05), Parameter("high", 1, -4, 4, 0.05)),
        ),
        Kind(
            "threshold",
            lambda x, level: (x > np.float32(level)).astype(np.float32),
            "1 where x > level, else 0",
            (Parameter("level", 0.5, -2, 2, 0.01),),
        ),
        Kind(
            "contrast",
            # As the CSS filter of that name: https://www.w3.org/TR/filter-effects-1/#contrastEquivalent
            lambda x, factor: 0.5 + np.float32(factor) * (x - 0.5),
            "0.5 + factor · (x − 0.5)",
            (Parameter("factor", 1.5, 0, 4, 0.05),),
        ),
        Kind(
            "saturation",
            formulas.saturation,
            "grey + factor · (x − grey) of a colour picture",
            (Parameter("factor", 1.5, 0, 4, 0.05),),
            whole=True,
            counts=(3, 4),
        ),
        Kind(
            "noise",
            formulas.noise,
            "x + std · a nearly normal random number of each element",
            (Parameter("std", 0.5, 0, 4, 0.05, least=0), SEED),
            whole=True,
        ),
        Kind(
            "salt_and_pepper",
            formulas.salt_and_pepper,
            "0 or 1 at a random share of the pixels, the same ones in all channels",
            (Parameter("share", 0.1, 0, 1, 0.01, least=0, most=1), SEED),
            whole=True,
        ),
        Kind("blur", formulas.blur, "a Gaussian of deviation sigma over x", (SIGMA,), stages=2),
        Kind(
            "sharpen",
            formulas.sharpen,
            "x + amount · (x − blur(x))",
            (Parameter("amount", 1, 0, 4, 0.05), SIGMA),
            stages=2,
        ),
        Kind("edges", formulas.edges, "how steep x is: Sobel’s two derivatives as one length"),
        Kind(
            "pixelate",
            formulas.pixelate,
            "the mean of each block of size × size pixels",
            (Parameter("size", 4, 1, 32, 1, least=1, most=256, integer=True, unit="px"),),
            stages=2,
        ),
        Kind("erode", formulas.erode, "the least in an ellipse of this radius", (RADIUS,)),
        Kind("dilate", formulas.dilate, "the greatest in an ellipse of this radius", (RADIUS,)),
        Kind(
            "translate",
            formulas.translate,
            "moved right by x widths and down by y heights",
            (Parameter("x", 0.25, -1, 1, 0.01), Parameter("y", 0, -1, 1, 0.01)),
        ),
        Kind(
            "scale",
            formulas.scale,
            "factor times as large, around the middle",
            (Parameter("factor", 1.5, 0.1, 4, 0.05, least=0, above=True),),
        ),
        Kind("rotate", formulas.rotate, "turned counter-clockwise around the middle", (DEGREES,)),
        Kind("flip_h", lambda x: x[:, :, :, ::-1], "left and right exchanged"),
        Kind("flip_v", lambda x: x[:, :, ::-1], "top and bottom exchanged"),
        Kind(
            "occlude",
            formulas.occlude,
            "value in a square of size × size pixels around x widths and y heights",
            (
                Parameter("x", 0.5, 0, 1, 0.01),
                Parameter("y", 0.5, 0, 1, 0.01),
                Parameter("size", 8, 1, 64, 1, least=1, most=2**14, integer=True, unit="px"),
                Parameter("value", 0, -4, 4, 0.05),
            ),
        ),
    )
}  # fmt: skip

GLSL = "glsl"  # of a text of one's own
INJECT = "inject"  # of an array in the place of the values
# What bend.glsl calls them, by number; the first and the third are the runtimes' own.
NUMBERS = {name: number for number, name in enumerate(("none", INJECT, "difference", *KINDS, GLSL))}
MOST_PARAMETERS = 8  # of a text of one's own
