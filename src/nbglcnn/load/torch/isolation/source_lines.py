"""The module and the line of user code that an error, or a recorded call, comes from."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

MAX_LINE_LENGTH = 120  # characters of a line to show


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
    """The innermost user line in these errors' tracebacks: " at line 3 of a.py: `…`", or ""."""
    for error in errors:
        frames = traceback.extract_tb(error.__traceback__)
        for frame in reversed(frames):
            if is_user_file(frame.filename):
                return _format_line(frame.filename, frame.lineno or 0, frame.line or "")
    return ""


def line_of_call() -> str:
    """The innermost running line of user code, formatted as in `line_of_error`."""
    for frame in reversed(traceback.extract_stack()):
        if is_user_file(frame.filename):
            return _format_line(frame.filename, frame.lineno or 0, frame.line or "")
    return ""


def line_of_node(node: Any) -> str:
    """The user line at which an fx node was recorded, formatted as in `line_of_error`."""
    lines = user_lines(node)
    return _format_line(*lines[-1]) if lines else ""


def describe_call(node: Any) -> str:
    """The module and line of a node, and the PyTorch operator that forward called there."""
    return f"{describe_module(node)}{line_of_node(node)}: PyTorch's operator {node.meta['called']}"


def user_lines(node: Any) -> list[tuple[str, int, str]]:
    """The file, number and text of each user line in a node's call stack, innermost last."""
    places = node.meta.get("lines", ())
    return [(file, number, linecache.getline(file, number).strip()) for file, number in places]


@cache
def library_folders() -> tuple[Path, Path]:
    """The folders of library code: PyTorch's, and nbglcnn's `load`."""
    import torch

    return Path(torch.__file__).parent, Path(__file__).parents[2]


@cache
def is_user_file(file: str) -> bool:
    """Whether a file is user code: not in a library folder, and not generated."""
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
