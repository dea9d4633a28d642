"""Which module and which line of the user's own an error, or a call that was traced, comes from."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = "model"  # the user's module inside the wrapper that is exported
LONGEST = 120  # characters of a line that are shown


def path_of(node: Any) -> str:
    """The path of the innermost module that an fx node belongs to."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]).removeprefix(ROOT).removeprefix(".") if stack else ""


def module_of(node: Any) -> str:
    """The path and type of the innermost module that an fx node belongs to."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "the model"
    path, kind = path_of(node), stack[-1][1]
    name = kind.rpartition(".")[2] if isinstance(kind, str) else getattr(kind, "__name__", "")
    return f"{path or 'the model itself'} ({name})"


def line_of_error(errors: Iterable[BaseException]) -> str:
    """The deepest line of the user's that one of these went through: " at line 3 of a.py: `…`"."""
    for error in errors:
        frames = traceback.extract_tb(error.__traceback__)
        for frame in reversed(frames):
            if _is_users(frame.filename):
                return _shown(frame.filename, frame.lineno or 0, frame.line or "")
    return ""


def line_of_call() -> str:
    """The innermost running line of the user's code, written as `line_of_error` does."""
    for frame in reversed(traceback.extract_stack()):
        if _is_users(frame.filename):
            return _shown(frame.filename, frame.lineno or 0, frame.line or "")
    return ""


def line_of_node(node: Any) -> str:
    """The line that an fx node was traced from, told as `line_of_error` does."""
    lines = users_lines(node.meta.get("stack_trace") or "")
    return _shown(*lines[-1]) if lines else ""


def users_lines(stack: str) -> list[tuple[str, int, str]]:
    """File, number and text of each line of the user's that a trace went through, the last last."""
    frames = re.findall(r'^ *File "([^"]+)", line (\d+), in .*\n(?: {4}(.*))?', stack, re.MULTILINE)
    return [(file, int(number), text) for file, number, text in frames if _is_users(file)]


@cache
def _is_users(file: str) -> bool:
    import torch

    libraries = (Path(torch.__file__).parent, Path(__file__).parents[1])
    generated = file.startswith("<") and not file.startswith("<ipython")
    return not generated and not any(Path(file).is_relative_to(folder) for folder in libraries)


def _shown(file: str, number: int, text: str) -> str:
    name = "a cell" if "ipykernel_" in file or file.startswith("<ipython") else Path(file).name
    text = text.strip()
    if len(text) > LONGEST:
        text = text[:LONGEST] + "…"
    return f" at line {number} of {name}" + (f": `{text}`" if text else "")
