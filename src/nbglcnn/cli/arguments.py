"""Options that several commands share."""

from __future__ import annotations

import argparse
import re
from typing import Any

PREPROCESS_PARAMETERS = ("size", "resize", "fit", "mean", "std", "range", "channels", "layout")
PRECISIONS = ("float32", "float16")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add MODEL and the shapes of its inputs."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="an .onnx file; or net.py:NAME, a torch.nn.Module in a Python file, or a function "
        "that returns one",
    )
    parser.add_argument(
        "--shape",
        type=parse_shape,
        action="append",
        default=[],
        metavar="1x3x224x224",
        help="the shape of an input that the model leaves open; repeat it for each input, in "
        'order ("scalar" for a single number)',
    )


def add_preprocess(parser: argparse.ArgumentParser) -> None:
    """Add the steps from a picture to the model's input."""
    parser.add_argument(
        "--preprocess",
        type=parse_preprocess,
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="how to convert pictures to the model's input, as layers before the model: any of "
        "size=224, resize=256, fit=crop|letterbox|stretch, mean=0.485,0.456,0.406, "
        "std=0.229,0.224,0.225, range=0,255, channels=BGR|grey, layout=NHWC; pictures may "
        "then have any size",
    )


def add_images(parser: argparse.ArgumentParser, *, count: str | None = None) -> None:
    """Add the input files: `count` positional ones, or the option --input if `count` is None."""
    words = (
        "pictures, as a batch; or .npy, an array with the model's input shape (several are "
        "concatenated along the first axis); or .npz, with an array for each input name"
    )
    if count is None:
        parser.add_argument(
            "--input", dest="images", nargs="+", default=[], metavar="IMAGE", help=words
        )
    else:
        parser.add_argument("images", nargs=count, metavar="IMAGE", help=words)
    parser.add_argument(
        "--resize",
        action="store_true",
        help="resize pictures to the size of the model's input, or of --shape",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option for machine-readable output."""
    parser.add_argument(
        "--json", action="store_true", help="print JSON (NaN and infinities become null)"
    )


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Add the number format of values and weights."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="number format of values and weights: float32 (default), or float16 (half the memory)",
    )


def parse_shape(text: str) -> tuple[int, ...]:
    """Parse "1x3x224x224" into sizes; "scalar" into ()."""
    if text == "scalar":
        return ()
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a shape: write sizes like 1x3x224x224, or "scalar" for a single '
            "number"
        )
    return tuple(int(part) for part in text.split("x"))


def parse_preprocess(text: str) -> tuple[str, Any]:
    """Parse an argument of Preprocess and its value, such as ("mean", (0.485, 0.456, 0.406))."""
    name, equals, value = text.partition("=")
    if name not in PREPROCESS_PARAMETERS or not equals:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected NAME=VALUE, where NAME is one of "
            f"{', '.join(PREPROCESS_PARAMETERS)}"
        )
    if name in ("fit", "channels", "layout"):
        return name, value
    try:
        if name in ("size", "resize"):
            sides = tuple(int(side) for side in value.split("x"))
            return name, sides if len(sides) > 1 else sides[0]
        numbers = tuple(float(number) for number in value.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected numbers, as in size=224x320 or mean=0.485,0.456,0.406"
        ) from None
    return name, numbers


def parse_count(text: str) -> int:
    """Parse a positive integer."""
    if not re.fullmatch(r"[1-9]\d{0,6}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected an integer ≥ 1")
    return int(text)
