"""Detection of `assert x.min() >= 0` in forward: the Graph is valid for inputs that satisfy it.

The argument validation of torch.distributions counts as an assert, too.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

from nbglcnn.load.torch.isolation.source_lines import library_folders

VALIDATING_FILES = ("constraints.py", "distribution.py")  # of torch.distributions


def is_in_assert() -> bool:
    """Whether the tensor whose truth value is read is the condition of a running assert."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_library_file(frame.f_code.co_filename):
        if _is_validating_file(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return frame is not None and _is_assert_instruction(frame.f_code, frame.f_lasti)


@cache
def _is_library_file(file: str) -> bool:
    return any(Path(file).is_relative_to(folder) for folder in library_folders())


@cache
def _is_validating_file(file: str) -> bool:
    folder, name = os.path.split(file)
    return os.path.basename(folder) == "distributions" and name in VALIDATING_FILES


@cache
def _is_assert_instruction(code: CodeType, instruction: int) -> bool:
    line, last, column, end = list(code.co_positions())[instruction // 2]
    if line is None or last is None or column is None or end is None:
        return False
    at = (line, column), (last, end)
    return any(
        isinstance(node, ast.Assert)
        and (at[0] == (node.lineno, node.col_offset) or _contains_span(node.test, at))
        for node in ast.walk(_parse_file(code.co_filename))
    )


@cache
def _parse_file(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


SourceSpan = tuple[tuple[int, int], tuple[int, int]]


def _span(node: ast.AST) -> SourceSpan | None:
    if not isinstance(node, ast.expr) or node.end_lineno is None or node.end_col_offset is None:
        return None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _contains_span(node: ast.AST, inner_span: SourceSpan) -> bool:
    span = _span(node)
    return span is not None and span[0] <= inner_span[0] and inner_span[1] <= span[1]
