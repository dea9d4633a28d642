"""What all sources have that people give to a Viewer, and the checks of their arguments."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from nbglcnn.errors import InputError, nearest
from nbglcnn.features.sources.records import BLOB_FIELDS, SourceRecord, kind_of
from nbglcnn.graph import Array
from nbglcnn.plan.picture_layout import PICTURED
from nbglcnn.plan.schema import Input

MOST_SEED = 2**31
MOST_RATE = 1000.0
MOST_PATH = 1000  # characters, as of a Source's texts


class Blobs(Protocol):
    """What of a source pages may ask Python for, by name."""

    def fields(self) -> dict[str, Any]:
        """The fields of the record that name them."""

    def blob(self, name: str) -> memoryview | None:
        """The bytes of one; None for a name that is none of them."""

    def names(self) -> Iterator[str]:
        """All of them."""

    @property
    def nbytes(self) -> int:
        """Of all."""


@dataclass(frozen=True)
class InputSource:
    """What all sources have: set one as `viewer.input` or `viewer.source`.

    `input` is the key of the input that it feeds, where the network has several: by default the
    first that takes what it gives. `owner` is the page that has its pictures ("" for none yet), of
    sources whose pictures exist in one page alone; it is told, what is given for it counts nothing.
    """

    record: ClassVar[type[SourceRecord]]
    kind: ClassVar[str]  # the record's
    by_pages: ClassVar[bool] = True  # a page may begin it without Python
    feeds: ClassVar[bool] = True  # an input
    takes: ClassVar[str] = f"pictures: {PICTURED}"
    offers: ClassVar[tuple[str, ...]] = ()  # besides its fields, for people

    input: str = field(default="", kw_only=True)
    owner: str = field(default="", kw_only=True, repr=False)

    def __init_subclass__(cls) -> None:
        cls.kind = kind_of(cls.record)

    @classmethod
    def told(cls) -> tuple[str, ...]:
        """The fields that its record has as well."""
        own = {one.name for one in fields(cls)} - {"input", "owner", *BLOB_FIELDS}
        return tuple(name for name in cls.record.__struct_fields__ if name in own)

    @property
    def missing(self) -> str:
        """What it is where a page alone has its pictures, as "a picture"; "" else."""
        return ""

    def __dir__(self) -> list[str]:
        """What is for people, as a notebook completes it; the rest is between it and a Viewer."""
        names = {*(one.name for one in fields(self)), *self.offers}
        return sorted(name for name in names if not name.startswith("_"))

    def fits(self, record: Input) -> bool:
        """Whether this input takes what the source gives."""
        return record.fit != ""

    def blobs(self, record: Input, earlier: Blobs | None = None) -> Blobs | None:
        """What pages may ask for while it feeds this input; the `earlier` ones where they are."""
        return None

    def tensor(self, record: Input, blobs: Blobs | None) -> Array | None:
        """The input of now, in its own shape; None where Python doesn't have the pictures.

        Raises:
            InputError: the item of now cannot be had; it names it.
        """
        return None

    def wire(self, key: str) -> SourceRecord:
        """Its record, but for blobs and an owner."""
        return self.record(input=key, **{name: getattr(self, name) for name in self.told()})

    @classmethod
    def of(cls, wire: SourceRecord) -> Self:
        """A source that a page has chosen."""
        told = {name: getattr(wire, name) for name in cls.told()}
        return cls(**told, owner=wire.owner)

    def followed(self, wire: SourceRecord) -> Self:
        """The same source as a page has changed it; InputError where it cannot be."""
        told = {name: getattr(wire, name) for name in self.told()}
        return replace(self, **told, owner=wire.owner)

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in self._shown().items()]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _shown(self) -> Mapping[str, Any]:
        """What its repr says: what is not as it is without a word, and where it is fed."""
        return {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.repr and getattr(self, one.name) != one.default
        }


def chosen_input(source: InputSource, inputs: tuple[Input, ...]) -> Input:
    """Which of a network's own inputs a source feeds; InputError where there is none."""
    names = {record.key: record for record in inputs}
    if source.input and source.input not in names:
        near = nearest(source.input, names)
        raise InputError(
            f"{type(source).__name__}: no input {source.input!r}{near}; the network takes "
            f"{', '.join(names)}"
        )
    asked = [names[source.input]] if source.input else list(inputs)
    # Noise is for what takes pictures, too, where there is such an input.
    usual = sorted(asked, key=lambda record: record.fit == "")
    for record in usual:
        if source.fits(record):
            return record
    found = ", ".join(f"{record.key} is {record.dtype} of {record.shape}" for record in asked)
    raise InputError(
        f"{type(source).__name__} needs an input that takes {source.takes}; {found}. Give arrays "
        "as viewer.input"
    )


def folder_of(data: Any, *more: Any) -> str:
    """A folder as people have given it; "" for other data, and for one with `more` than its own."""
    given = isinstance(data, str | os.PathLike) and all(one is None for one in more)
    path = str(os.fspath(data)) if given else ""
    return path if len(path) <= MOST_PATH else ""


def finite(record: InputSource, name: str) -> float:
    """A field as a float; InputError where it is no finite number."""
    given = getattr(record, name)
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or isinstance(given, str):
        raise InputError(f"{type(record).__name__}: {name}={given!r}; a finite number is needed")
    return number


def whole(record: InputSource, name: str, most: int = MOST_SEED) -> None:
    """Makes a field an int from 0 to `most`; InputError else."""
    given = getattr(record, name)
    try:
        number = given.__index__() if not isinstance(given, bool) else -1
    except AttributeError:
        number = -1
    if not 0 <= number <= most:
        raise InputError(
            f"{type(record).__name__}: {name}={given!r}; a whole number from 0 to {most} is needed"
        )
    object.__setattr__(record, name, int(number))


def yes_or_no(record: InputSource, *names: str) -> None:
    """InputError where one of the fields is neither True nor False."""
    for name in names:
        given = getattr(record, name)
        if not isinstance(given, bool | np.bool_):
            raise InputError(f"{type(record).__name__}: {name}={given!r}; True or False is needed")
        object.__setattr__(record, name, bool(given))


def feeding(source: InputSource, key: str, inputs: tuple[Input, ...]) -> InputSource:
    """The same as it feeds the input of this key, which is said where it isn't the usual one.

    InputError where that one cannot be fed.
    """
    if not source.feeds:
        return source
    chosen_input(replace(source, input=key), inputs)
    plain = replace(source, input="")
    return plain if chosen_input(plain, inputs).key == key else replace(source, input=key)
