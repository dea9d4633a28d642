"""The base class of input sources, and checks of their arguments."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.features.sources.records import BLOB_FIELDS, SourceRecord, kind_of
from nbglcnn.graph import Array
from nbglcnn.plan.picture_layout import PICTURE_INPUTS_TEXT
from nbglcnn.plan.schema import Input

MAX_SEED = 2**31
MAX_RATE = 1000.0
MAX_PATH_LENGTH = 1000  # characters, as in the records' Text


class SourceBlobs(Protocol):
    """The named blobs of a source that pages can request from Python."""

    def record_fields(self) -> dict[str, Any]:
        """Return the fields of the record that name the blobs."""

    def blob(self, name: str) -> memoryview | None:
        """Return a blob's bytes, or None for an unknown name."""

    def blob_names(self) -> Iterator[str]:
        """Iterate over the names of all blobs."""

    @property
    def nbytes(self) -> int:
        """The size of all blobs in bytes."""


@dataclass(frozen=True)
class InputSource:
    """Base class of sources, which feed the input of a Viewer.

    Set a source as `viewer.input` or `viewer.source`.

    Args:
        input: The key of the input to feed, if the network has several. Default: the first
            compatible one.
        owner: Read-only: the page that has the pictures, set by that page; `""` for none.
    """

    record_type: ClassVar[type[SourceRecord]]
    kind: ClassVar[str]  # the kind of the record
    pages_can_start: ClassVar[bool] = True  # a page may start it without Python
    feeds_input: ClassVar[bool] = True  # False for a latent
    accepted_inputs_text: ClassVar[str] = f"pictures: {PICTURE_INPUTS_TEXT}"
    public_methods: ClassVar[tuple[str, ...]] = ()  # other public attributes

    input: str = field(default="", kw_only=True)
    owner: str = field(default="", kw_only=True, repr=False)

    def __init_subclass__(cls) -> None:
        cls.kind = kind_of(cls.record_type)

    @classmethod
    def synced_fields(cls) -> tuple[str, ...]:
        """Return the names of the fields that are synced with pages.

        Returns:
            The names, without `input` and `owner`.
        """
        own = {one.name for one in fields(cls)} - {"input", "owner", *BLOB_FIELDS}
        return tuple(name for name in cls.record_type.__struct_fields__ if name in own)

    @property
    def page_only_content(self) -> str:
        """Content that only a page has, as text: "a picture"; "" if Python has the data."""
        return ""

    def __dir__(self) -> list[str]:
        """Return the public names, for completion in a notebook; hides those for the Viewer."""
        names = {*(one.name for one in fields(self)), *self.public_methods}
        return sorted(name for name in names if not name.startswith("_"))

    def fits_input(self, model_input: Input) -> bool:
        """Return whether an input can take this source.

        Args:
            model_input: The input.

        Returns:
            True if it can.
        """
        return model_input.fit != ""

    def open_blobs(
        self, model_input: Input, earlier_blobs: SourceBlobs | None = None
    ) -> SourceBlobs | None:
        """Return the data that pages can request while the source feeds an input.

        Args:
            model_input: The input.
            earlier_blobs: The data of an earlier source, which is reused if it is the same.

        Returns:
            The data, or None without any.
        """
        return None

    def current_input_array(self, model_input: Input, blobs: SourceBlobs | None) -> Array | None:
        """Return the current input array.

        Args:
            model_input: The input.
            blobs: The data of `open_blobs`.

        Returns:
            An array in the shape and dtype of the input, or None if only a page has the pictures.

        Raises:
            InputError: If the current item cannot be read. The message names it.
        """
        return None

    def to_record(self, input_key: str) -> SourceRecord:
        """Return the source as the record that pages get, without data and owner.

        Args:
            input_key: The key of the input that it feeds.

        Returns:
            The record.
        """
        return self.record_type(
            input=input_key, **{name: getattr(self, name) for name in self.synced_fields()}
        )

    @classmethod
    def from_record(cls, record: SourceRecord) -> Self:
        """Build the source that a page has chosen.

        Args:
            record: The record of the page.

        Returns:
            The source.
        """
        told = {name: getattr(record, name) for name in cls.synced_fields()}
        return cls(**told, owner=record.owner)

    def updated_from(self, record: SourceRecord) -> Self:
        """Return this source with the changes of a page.

        Args:
            record: The record of the page.

        Returns:
            The changed source.

        Raises:
            InputError: If the record is not valid for this source.
        """
        told = {name: getattr(record, name) for name in self.synced_fields()}
        return replace(self, **told, owner=record.owner)

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in self._repr_fields().items()]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_fields(self) -> Mapping[str, Any]:
        """Return the fields for the repr: those that differ from their defaults."""
        return {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.repr and getattr(self, one.name) != one.default
        }


def find_input(source: InputSource, inputs: tuple[Input, ...]) -> Input:
    """Return the network's input that a source feeds; InputError if none fits."""
    names = {record.key: record for record in inputs}
    if source.input and source.input not in names:
        near = suggest_names(source.input, names)
        raise InputError(
            f"{type(source).__name__}: no input {source.input!r}{near}; the network takes "
            f"{', '.join(names)}"
        )
    asked = [names[source.input]] if source.input else list(inputs)
    # For sources such as Noise, which fit several inputs, prefer an input for pictures.
    usual = sorted(asked, key=lambda record: record.fit == "")
    for record in usual:
        if source.fits_input(record):
            return record
    found = ", ".join(f"{record.key} is {record.dtype} of {record.shape}" for record in asked)
    raise InputError(
        f"{type(source).__name__} needs an input that takes {source.accepted_inputs_text}; "
        f"{found}. Give arrays as viewer.input"
    )


def folder_of(data: Any, *more: Any) -> str:
    """Return a folder's path as passed; "" for other data, or if one of `more` isn't None."""
    given = isinstance(data, str | os.PathLike) and all(one is None for one in more)
    path = str(os.fspath(data)) if given else ""
    return path if len(path) <= MAX_PATH_LENGTH else ""


def float_field(source: InputSource, name: str) -> float:
    """Return a field as a float; InputError if it isn't a finite number."""
    given = getattr(source, name)
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or isinstance(given, str):
        raise InputError(f"{type(source).__name__}: {name}={given!r}; expected a finite number")
    return number


def check_int_field(source: InputSource, name: str, maximum: int = MAX_SEED) -> None:
    """Convert a field to an int from 0 to `maximum`; InputError if it isn't one."""
    given = getattr(source, name)
    try:
        number = given.__index__() if not isinstance(given, bool) else -1
    except AttributeError:
        number = -1
    if not 0 <= number <= maximum:
        raise InputError(
            f"{type(source).__name__}: {name}={given!r}; expected an integer from 0 to {maximum}"
        )
    object.__setattr__(source, name, int(number))


def check_bool_fields(source: InputSource, *names: str) -> None:
    """Convert the fields to bool; InputError if one is neither True nor False."""
    for name in names:
        given = getattr(source, name)
        if not isinstance(given, bool | np.bool_):
            raise InputError(f"{type(source).__name__}: {name}={given!r}; expected True or False")
        object.__setattr__(source, name, bool(given))


def with_input_key(source: InputSource, key: str, inputs: tuple[Input, ...]) -> InputSource:
    """Return the source for the input of this key; its `input` is set unless that is the default.

    Raises InputError if the source doesn't fit the input.
    """
    if not source.feeds_input:
        return source
    find_input(replace(source, input=key), inputs)
    plain = replace(source, input="")
    return plain if find_input(plain, inputs).key == key else replace(source, input=key)
