"""Options that several commands have."""

from __future__ import annotations

import argparse
import re
from typing import Any

PREPROCESS_NAMES = ("size", "resize", "fit", "mean", "std", "range", "channels", "layout")
PRECISIONS = ("float32", "float16")


def add_model(parser: argparse.ArgumentParser) -> None:
    """MODEL and the shapes of its inputs."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="an .onnx file; or net.py:NAME, a torch.nn.Module in a Python file or a function "
        "there that makes one",
    )
    parser.add_argument(
        "--shape",
        type=parse_shape,
        action="append",
        default=[],
        metavar="1x3x224x224",
        help="the shape of an input, where the model leaves it open; once for each input, "
        'in their order ("scalar" for a single number)',
    )


def add_preprocess(parser: argparse.ArgumentParser) -> None:
    """What becomes of a picture before the model."""
    parser.add_argument(
        "--preprocess",
        type=parse_preprocess,
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="how pictures become what the model takes, as layers in front of it: any of size=224, "
        "resize=256, fit=crop|letterbox|stretch, mean=0.485,0.456,0.406, std=0.229,0.224,0.225, "
        "range=0,255, channels=BGR|grey, layout=NHWC; pictures may be of any size then",
    )


def add_images(parser: argparse.ArgumentParser, *, count: str | None = None) -> None:
    """The input's files: positional ones, so many as `count` says, or else behind --input."""
    words = (
        "pictures, a batch of them; or .npy, an array as the model takes it (several are put "
        "together along the first axis); or .npz, with an array for each input by its name"
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
        help="resize pictures to the size that the model, or --shape, says",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Numbers for other programs."""
    parser.add_argument(
        "--json", action="store_true", help="print JSON (NaN and infinities are null there)"
    )


def add_precision(parser: argparse.ArgumentParser) -> None:
    """What values and weights are stored in."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="what values and weights are stored in: float32 (default), or float16, half the size",
    )


def parse_shape(text: str) -> tuple[int, ...]:
    """The sizes of "1x3x224x224"; of "scalar" none."""
    if text == "scalar":
        return ()
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(
            f'{text!r} is no shape: write sizes like 1x3x224x224, or "scalar" for a single number'
        )
    return tuple(int(part) for part in text.split("x"))


def parse_preprocess(text: str) -> tuple[str, Any]:
    """A name of Preprocess and its value: ("mean", (0.485, 0.456, 0.406))."""
    name, equals, value = text.partition("=")
    if name not in PREPROCESS_NAMES or not equals:
        raise argparse.ArgumentTypeError(
            f"{text!r}: write NAME=VALUE, with one of the names {', '.join(PREPROCESS_NAMES)}"
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
            f"{text!r}: numbers are needed, as in size=224x320 or mean=0.485,0.456,0.406"
        ) from None
    return name, numbers


def parse_count(text: str) -> int:
    """A count."""
    if not re.fullmatch(r"[1-9]\d{0,6}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no count from 1 on")
    return int(text)
