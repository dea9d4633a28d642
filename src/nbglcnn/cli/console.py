"""The output of the command line: results, errors, JSON and progress."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Phrases for Python users in messages, and their replacements on the command line.
SHAPE_HINT = "Give it with --shape, as in --shape 1x3x224x224"
OPTION_TEXTS = {
    "Give an example input x to fix it": SHAPE_HINT,
    "observe: no layer": "no layer",
}


class CommandError(Exception):
    """A command that cannot be carried out; the message gives the reason and the remedy."""


def error_text(error: Exception) -> str:
    """Return the message of an error, worded for the command line."""
    words = str(error.args[0] if error.args else error)
    for python, option in OPTION_TEXTS.items():
        words = words.replace(python, option)
    return words


def print_note(words: str) -> None:
    """Print a note to stderr."""
    print(f"nbglcnn: {words}", file=sys.stderr)


def print_json(data: Any) -> None:
    """Print data as JSON; NaN and infinities become null."""
    print(json.dumps(_json_safe(data), indent=2, allow_nan=False))


def _json_safe(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _json_safe(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_json_safe(item) for item in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


@contextmanager
def write_errors(file: str | Path) -> Iterator[None]:
    """Turn an OSError while writing a file into a CommandError with its name and the reason."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror or error}") from None


@contextmanager
def show_progress(what: str) -> Iterator[None]:
    """Show each step in a terminal when it starts; the first export takes seconds."""
    from tqdm import tqdm

    from nbglcnn.load.progress import progress_listener

    line = "{desc} [{elapsed}]"
    with tqdm(desc=what, bar_format=line, leave=False, delay=0.5, disable=None) as bar:

        def tell(step: str) -> None:
            bar.set_description_str(f"{what}: {step}")

        with progress_listener(tell):
            yield
