"""Class names from users and untrusted files, cleaned to short texts of one line."""

from __future__ import annotations

import enum
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from operator import index
from typing import Any

from nbglcnn.errors import InputError

ClassNameTuple = tuple[str, ...]

MAX_NAME_LENGTH = 100  # characters kept of a name
MAX_NAMES = 2**20  # names; bounds the memory that an index in a dict can request
MAX_TEXT_LENGTH = 2**23  # characters of a file's text that are parsed for names
EXPECTED_CLASSES_MESSAGE = (
    "expected a list of names, a dict of names by index, or weights with .meta['categories']"
)
# The supported subset of Python literals, parsed here without Python's own parser.
_SEPARATOR_PATTERN = re.compile(r"[\s,]*")
_INDEX_PATTERN = re.compile(r"(\d{1,9})\s*:\s*")
_QUOTED_TEXT_PATTERN = re.compile(r"""'(?:[^'\\\n]|\\[^\n])*'|"(?:[^"\\\n]|\\[^\n])*\"""")
_ESCAPE_PATTERN = re.compile(
    r"\\(?:(?P<code>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|(?P<letter>.))", re.DOTALL
)


def clean_name(name: str) -> str:
    """Return a name on one line, without control characters that a terminal or page interprets."""
    # Cc, Cf: control characters, including those that change text direction; Cs: surrogates.
    kept = (
        " " if c.isspace() else c
        for c in name[: 10 * MAX_NAME_LENGTH]
        if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf", "Cs")
    )
    line = " ".join("".join(kept).split())
    return line if len(line) <= MAX_NAME_LENGTH else f"{line[: MAX_NAME_LENGTH - 1].rstrip()}…"


def to_class_names(classes: Any) -> ClassNameTuple:
    """Return the names of a list, a dict by index (missing indices: "") or a weights enum."""
    if isinstance(classes, type) and issubclass(classes, enum.Enum):
        member = next(iter(classes.__members__), "…")
        raise InputError(
            f"classes is the enum {classes.__name__} itself; give one of its members, for example "
            f"{classes.__name__}.{member}"
        )
    meta = getattr(classes, "meta", None)
    if isinstance(meta, Mapping):
        if "categories" not in meta:
            raise InputError(
                f"classes is {classes}, whose .meta has no 'categories'; {EXPECTED_CLASSES_MESSAGE}"
            )
        classes = meta["categories"]
    if isinstance(classes, Mapping):
        return _names_by_index(classes)
    if isinstance(classes, str | bytes):
        raise InputError(
            f"classes is a string, {classes[:60]!r}; {EXPECTED_CLASSES_MESSAGE}: ['cat', 'dog'], "
            "one for each value of the output"
        )
    if isinstance(classes, set | frozenset) or not isinstance(classes, Iterable):
        kind = type(classes).__name__
        why = ", which has no order" if isinstance(classes, set | frozenset) else ""
        raise InputError(f"classes is of type {kind}{why}; {EXPECTED_CLASSES_MESSAGE}")
    names: list[str] = []
    for at, name in enumerate(classes):
        if at >= MAX_NAMES:
            raise InputError(
                f"classes has more than {MAX_NAMES:,} names; {EXPECTED_CLASSES_MESSAGE}"
            )
        names.append(_validate_name(name, at))
    return tuple(names)


def _validate_name(name: Any, index: int) -> str:
    if not isinstance(name, str):
        kind = type(name).__name__
        raise InputError(
            f"classes[{index}] is {str(name)[:60]}, of type {kind}; {EXPECTED_CLASSES_MESSAGE}: "
            "[str(name) for name in classes] converts them"
        )
    return clean_name(name)


def _names_by_index(names_by_index: Mapping[Any, Any]) -> ClassNameTuple:
    found: dict[int, str] = {}
    for key, name in names_by_index.items():
        at = _parse_index(key)
        if at is None:
            hint = (
                "; {index: name for name, index in classes.items()} inverts it"
                if isinstance(name, int)
                else ""
            )
            raise InputError(
                f"classes has the key {str(key)[:60]!r}, which is not an index; a dict maps "
                f"class indices to names, {{0: 'cat', 1: 'dog'}}{hint}"
            )
        found[at] = _validate_name(name, at)
    return tuple(found.get(at, "") for at in range(max(found, default=-1) + 1))


def _parse_index(key: Any) -> int | None:
    """Return a key as an index, or None; text is allowed because JSON keys are text."""
    if isinstance(key, str):
        return int(key) if re.fullmatch(r"[0-9]{1,7}", key) and int(key) < MAX_NAMES else None
    try:
        at = index(key)
    except TypeError:
        return None
    return at if 0 <= at < MAX_NAMES else None


def fit_to_outputs(
    names: ClassNameTuple, outputs: Mapping[str, int], *, allow_partial: bool = False
) -> ClassNameTuple:
    """Return the names if an output has as many values as there are names.

    With `allow_partial` the output may have more values: those without a name get "". `outputs`
    maps each output of the network to its number of values, or of channels of maps.

    Raises:
        InputError: If no output fits.
    """
    counts = list(outputs.values())
    if not names or len(names) in counts:
        return names
    most = max(counts, default=0)
    if allow_partial and len(names) <= most:
        count = next(count for count in counts if count >= len(names))
        return names + ("",) * (count - len(names))
    sizes = " and ".join(f"{key} has {count:,}" for key, count in list(outputs.items())[:4])
    if allow_partial:
        raise InputError(
            f"classes has a name for index {len(names) - 1:,}, but "
            f"{sizes or 'there is no output'}: give names for indices of the output's values, "
            "counted from 0"
        )
    one = "1 name" if len(names) == 1 else f"{len(names):,} names"
    raise InputError(
        f"classes has {one}, but {sizes or 'there is no output'}: give one name for each value of "
        "the output, in its order, or a dict {index: name} for some of them"
    )


def parse_names(text: str) -> ClassNameTuple:
    """Parse the names in a file's metadata: a list or a dict by index, as JSON or a Python literal.

    Return () for anything else: the key `labels` of a file may hold other data.
    """
    if len(text) > MAX_TEXT_LENGTH:
        return ()
    try:
        return to_class_names(_parse_text(text))
    except InputError:
        return ()


def _parse_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _parse_literal(text.strip())


def _parse_literal(text: str) -> Any:
    """Parse a flat list of strings or dict of strings by number as a Python literal, else None."""
    if text[:1] + text[-1:] not in ("{}", "[]", "()"):
        return None
    found: dict[int, str] = {}
    at, end = 1, len(text) - 1
    while (at := _match_end(_SEPARATOR_PATTERN, text, at)) < end:
        number = len(found)
        if text[0] == "{":
            key = _INDEX_PATTERN.match(text, at, end)
            if key is None:
                return None
            number, at = int(key[1]), key.end()
        word = _QUOTED_TEXT_PATTERN.match(text, at, end)
        if word is None or len(found) >= MAX_NAMES:
            return None
        at = word.end()
        found[number] = _ESCAPE_PATTERN.sub(_unescape, word[0][1:-1])
    return found


def _unescape(match: re.Match[str]) -> str:
    if match["code"]:
        code = int(match["code"][1:], 16)
        return chr(code) if code <= sys.maxunicode else ""
    return {"n": "\n", "t": "\t", "r": "\r"}.get(match["letter"], match["letter"])


def _match_end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return found.end() if found else start
