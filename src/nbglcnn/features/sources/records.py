"""What the records of all sources have in common: what Python and a Viewer's pages send each other.

Each kind's record stands in its own file, and `source_kinds.py` has the union of them.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

BLOCK_BYTES = 2**20  # of a data set that travel together; at least one item does
# Fields that name blobs of Python's, and say how they are cut: a page changes none of them.
BLOB_FIELDS = ("data", "count", "block_size", "dtype", "labels", "classes", "items")

Name = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=1000)]
NonNegative = Annotated[int, Meta(ge=0, le=2**31)]


class SourceRecord(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True
):
    """Where the input comes from, of any kind.

    `input` is the key of the input that is fed; of a latent the layer whose value is. `owner` is
    the page that has the pictures, of kinds whose pictures exist in one page alone: "" as long as
    none has, and of all others.
    """

    page_owned: ClassVar[bool] = False  # that page feeds the others, by way of Python

    input: Text
    owner: Name = ""

    @property
    def kind(self) -> str:
        """The name of its kind, as it is sent."""
        return kind_of(type(self))

    def is_same_source(self, other: SourceRecord | None) -> bool:
        """Whether the other is the same source with other settings."""
        return other is not None and self.kind == other.kind and data_name(self) == data_name(other)

    def is_finite(self) -> bool:
        """Whether all its numbers are finite."""
        fields = msgspec.structs.astuple(self)
        numbers = [n for one in fields for n in (one if isinstance(one, tuple) else [one])]
        return all(math.isfinite(number) for number in numbers if isinstance(number, float))

    def for_export(self) -> Self:
        """The same for an exported page, which no other page shares."""
        return msgspec.structs.replace(self, owner="")


def kind_of(record: type[SourceRecord]) -> str:
    """The name of a record's kind."""
    return str(record.__struct_config__.tag)


def data_name(source: SourceRecord) -> str:
    """The name of its data's blob, or of the blocks of it; "" where Python gave none."""
    return str(getattr(source, "data", ""))


def blob_field_values(source: SourceRecord) -> dict[str, Any]:
    """Those of `BLOB_FIELDS` that it has."""
    return {name: getattr(source, name) for name in source.__struct_fields__ if name in BLOB_FIELDS}
