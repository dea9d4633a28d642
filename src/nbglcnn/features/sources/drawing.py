"""A drawing as a source; it exists only in the page where it is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nbglcnn.features.sources.input_source import InputSource
from nbglcnn.features.sources.records import SourceRecord


class DrawingRecord(SourceRecord, frozen=True, kw_only=True, tag="drawing"):
    """A drawing of the input's size."""

    page_owned: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class Drawing(InputSource):
    """A drawing in the page with mouse, touch or pen, white on black, as a source.

    It has the input's size, with numbers from 0 to 1, and one example. Until the first stroke the
    network keeps its last input.

    Args:
        input: The key of the input to feed, if the network has several. Default: the first
            compatible one.
        owner: Read-only: the page that has the drawing, set by that page; `""` for none.

    Example:
        >>> viewer.input = nbglcnn.Drawing()
    """

    record_type: ClassVar[type[SourceRecord]] = DrawingRecord
