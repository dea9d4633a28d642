"""Which module and which line of the user's own an error, or a recorded call, comes from."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

MAX_LINE_LENGTH = 120  # characters of a line that are shown


def module_path(node: Any) -> str:
    """The path of the innermost module that an fx node belongs to."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def describe_module(node: Any) -> str:
    """The path and type of the innermost module that an fx node belongs to."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "the model"
    path, kind = stack[-1]
    return f"{path or 'the model itself'} ({kind})"


def line_of_error(errors: Iterable[BaseException]) -> str:
    """The deepest line of the user's that one of these went through: " at line 3 of a.py: `…`"."""
    for error in errors:
        frames = traceback.extract_tb(error.__traceback__)
        for frame in reversed(frames):
            if is_user_file(frame.filename):
                return _format_line(frame.filename, frame.lineno or 0, frame.line or "")
    return ""


def line_of_call() -> str:
    """The innermost running line of the user's code, written as `line_of_error` does."""
    for frame in reversed(traceback.extract_stack()):
        if is_user_file(frame.filename):
            return _format_line(frame.filename, frame.lineno or 0, frame.line or "")
    return ""


def line_of_node(node: Any) -> str:
    """The line that an fx node was recorded at, told as `line_of_error` does."""
    lines = user_lines(node)
    return _format_line(*lines[-1]) if lines else ""


def describe_call(node: Any) -> str:
    """Module and line of a node, and PyTorch's operator that forward called there."""
    return f"{describe_module(node)}{line_of_node(node)}: PyTorch's operator {node.meta['called']}"


def user_lines(node: Any) -> list[tuple[str, int, str]]:
    """File, number and text of each line of the user's code in a node's call, the last last."""
    places = node.meta.get("lines", ())
    return [(file, number, linecache.getline(file, number).strip()) for file, number in places]


@cache
def library_folders() -> tuple[Path, Path]:
    """The folders of code that is not the user's: PyTorch's, and what loads a module."""
    import torch

    return Path(torch.__file__).parent, Path(__file__).parents[2]


@cache
def is_user_file(file: str) -> bool:
    """Whether a file is neither PyTorch's nor ours."""
    generated = file.startswith("<") and not file.startswith("<ipython")
    return not generated and not any(
        Path(file).is_relative_to(folder) for folder in library_folders()
    )


def _format_line(file: str, number: int, text: str) -> str:
    name = "a cell" if "ipykernel_" in file or file.startswith("<ipython") else Path(file).name
    text = text.strip()
    if len(text) > MAX_LINE_LENGTH:
        text = text[:MAX_LINE_LENGTH] + "…"
    return f" at line {number} of {name}" + (f": `{text}`" if text else "")
