"""The common part of all sources' records, which Python and a Viewer's pages exchange.

Each kind's record is defined in its own file; `source_kinds.py` has their union.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

BLOCK_BYTES = 2**20  # bytes of a block of a data set, which has at least one item
# Fields with blobs' names and sizes, which pages must not change.
BLOB_FIELDS = ("data", "count", "block_size", "dtype", "labels", "classes", "items")

Name = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=1000)]
NonNegative = Annotated[int, Meta(ge=0, le=2**31)]


class SourceRecord(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True
):
    """The base record of a source of any kind.

    `input` is the key of the input that the source feeds, or a latent's layer. `owner` is the page
    that has the pictures, for kinds whose pictures exist in one page only; "" without an owner, and
    for all other kinds.
    """

    page_owned: ClassVar[bool] = False  # whether one page feeds the others, through Python

    input: Text
    owner: Name = ""

    @property
    def kind(self) -> str:
        """The name of the kind, as in messages."""
        return kind_of(type(self))

    def is_same_source(self, other: SourceRecord | None) -> bool:
        """Whether the other record is the same source, apart from its settings."""
        return (
            other is not None
            and self.kind == other.kind
            and data_blob_name(self) == data_blob_name(other)
        )

    def is_finite(self) -> bool:
        """Whether all numbers are finite."""
        fields = msgspec.structs.astuple(self)
        numbers = [n for one in fields for n in (one if isinstance(one, tuple) else [one])]
        return all(math.isfinite(number) for number in numbers if isinstance(number, float))

    def for_export(self) -> Self:
        """Return the record for an exported page, which has no owner."""
        return msgspec.structs.replace(self, owner="")


def kind_of(record: type[SourceRecord]) -> str:
    """Return the name of a record's kind."""
    return str(record.__struct_config__.tag)


def data_blob_name(source: SourceRecord) -> str:
    """Return the name of the data's blob, or of its blocks; "" if Python has no data."""
    return str(getattr(source, "data", ""))


def blob_field_values(source: SourceRecord) -> dict[str, Any]:
    """Return the record's values of `BLOB_FIELDS`."""
    return {name: getattr(source, name) for name in source.__struct_fields__ if name in BLOB_FIELDS}
