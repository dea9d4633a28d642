"""A drawing as a source, which the page where it is drawn has alone."""

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
    """What is drawn in the page with mouse, touch or pen, white on black; one example.

    It has the input's size, numbers from 0 to 1. Until the first stroke the network keeps the input
    that it has.
    """

    record_type: ClassVar[type[SourceRecord]] = DrawingRecord
