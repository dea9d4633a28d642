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
CLI_REPLACEMENTS = {
    "Give an example input x to fix it": SHAPE_HINT,
    "observe: no layer": "no layer",
}


class CommandError(Exception):
    """A command that cannot be carried out; the message gives the reason and the remedy."""


def format_cli_error(error: Exception) -> str:
    """Return the message of an error, worded for the command line."""
    words = str(error.args[0] if error.args else error)
    for python, option in CLI_REPLACEMENTS.items():
        words = words.replace(python, option)
    return words


def print_note(message: str) -> None:
    """Print a note to stderr."""
    print(f"nbglcnn: {message}", file=sys.stderr)


def print_json(data: Any) -> None:
    """Print data as JSON; NaN and infinities become null."""
    print(json.dumps(_replace_non_finite(data), indent=2, allow_nan=False))


def _replace_non_finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _replace_non_finite(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_replace_non_finite(item) for item in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


@contextmanager
def convert_write_errors(path: str | Path) -> Iterator[None]:
    """Turn an OSError while writing a file into a CommandError with its name and the reason."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def show_progress(task: str) -> Iterator[None]:
    """Show each step in a terminal when it starts; the first export takes seconds."""
    from tqdm import tqdm

    from nbglcnn.load.progress import progress_listener

    line = "{desc} [{elapsed}]"
    with tqdm(desc=task, bar_format=line, leave=False, delay=0.5, disable=None) as bar:

        def tell(step: str) -> None:
            bar.set_description_str(f"{task}: {step}")

        with progress_listener(tell):
            yield
