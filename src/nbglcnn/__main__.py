"""The command line: `python -m nbglcnn compile model.onnx -o model.plan`, and `check`."""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from nbglcnn import __version__
from nbglcnn.api import check, compile
from nbglcnn.errors import NbglcnnError
from nbglcnn.load.onnx.model import GIVE_X, zeros_like_inputs
from nbglcnn.plan import Precision


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit status: 0, or 1 when the model cannot be run."""
    for stream in (sys.stdout, sys.stderr):  # a terminal may lack the × of shapes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    given = _parser().parse_args(arguments)
    try:
        x = zeros_like_inputs(given.model, given.shape) if given.shape else None
        if given.command == "check":
            report = check(given.model, x)
            print(report)
            return 0 if report.ok else 1
        observe = given.observe if given.observe in ("all", "outputs") else given.observe.split(",")
        plan = compile(given.model, x, observe=observe, precision=given.precision)
        output = given.output or Path(given.model).with_suffix(".plan")
        try:
            plan.save(output)
        except OSError as error:
            print(f"nbglcnn: cannot write {output}: {error.strerror or error}", file=sys.stderr)
            return 1
        print(f"{output}: {plan!r}, {Path(output).stat().st_size:,} bytes")
    except OSError as error:
        print(f"nbglcnn: {error}", file=sys.stderr)  # with what it is about, which args[0] lacks
        return 1
    except (NbglcnnError, KeyError) as error:
        words = str(error.args[0] if error.args else error)
        words = words.replace(GIVE_X, "Give it with --shape, as in --shape 1x3x224x224")
        print(f"nbglcnn: {words}", file=sys.stderr)
        return 1
    return 0


def _shape(text: str) -> tuple[int, ...]:
    """The sizes of "1x3x224x224"; of "scalar" none."""
    if text == "scalar":
        return ()
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(
            f'{text!r} is no shape: write sizes like 1x3x224x224, or "scalar" for a single number'
        )
    return tuple(int(part) for part in text.split("x"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nbglcnn", description="Networks for WebGL 2.")
    parser.add_argument("--version", action="version", version=f"nbglcnn {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("model", help="an .onnx file")
    common.add_argument(
        "--shape",
        type=_shape,
        action="append",
        default=[],
        metavar="1x3x224x224",
        help="the shape of an input, where the file leaves it open; once for each input, "
        'in their order ("scalar" for a single number)',
    )
    make = commands.add_parser("compile", parents=[common], help="write a Plan that any page runs")
    make.add_argument("-o", "--output", metavar="FILE", help="default: the model's name with .plan")
    make.add_argument(
        "--observe",
        default="outputs",
        metavar="all",
        help="what can be read: outputs (default, fastest), all, or names with commas",
    )
    make.add_argument(
        "--precision",
        choices=get_args(Precision),
        default="float32",
        help="what values and weights are stored in: float32 (default), or float16, half the size",
    )
    commands.add_parser("check", parents=[common], help="say of each layer whether it can run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
