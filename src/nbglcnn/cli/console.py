"""What the command line says: results, refusals, JSON, and how far it is."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# What messages say to somebody who writes Python, and what it is on a command line.
SHAPE_HINT = "Give it with --shape, as in --shape 1x3x224x224"
OPTION_TEXTS = {
    "Give an example input x to fix it": SHAPE_HINT,
    "observe: no layer": "no layer",
}


class CommandError(Exception):
    """What was asked for cannot be; the words say why, and what to do."""


def error_text(error: Exception) -> str:
    """The words of an error, for somebody at a command line."""
    words = str(error.args[0] if error.args else error)
    for python, option in OPTION_TEXTS.items():
        words = words.replace(python, option)
    return words


def print_note(words: str) -> None:
    """Say something beside the result."""
    print(f"nbglcnn: {words}", file=sys.stderr)


def print_json(data: Any) -> None:
    """Print data as JSON, which has no NaN and no infinity: these are null."""
    print(json.dumps(_json_safe(data), indent=2, allow_nan=False))


def _json_safe(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _json_safe(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_json_safe(item) for item in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


@contextmanager
def write_errors(file: str | Path) -> Iterator[None]:
    """Says of a file that cannot be written which it is, and why."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror or error}") from None


@contextmanager
def show_progress(what: str) -> Iterator[None]:
    """Shows a terminal what is being done, as its steps begin; the first export takes seconds."""
    from tqdm import tqdm

    from nbglcnn.load.progress import progress_listener

    line = "{desc} [{elapsed}]"
    with tqdm(desc=what, bar_format=line, leave=False, delay=0.5, disable=None) as bar:

        def tell(step: str) -> None:
            bar.set_description_str(f"{what}: {step}")

        with progress_listener(tell):
            yield
