"""A picture's file that was given to a page, as a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nbglcnn.features.sources.input_source import InputSource
from nbglcnn.features.sources.records import SourceRecord, Text


class PictureRecord(SourceRecord, frozen=True, kw_only=True, tag="picture"):
    """A picture; `title` is its file's name."""

    page_owned: ClassVar[bool] = True

    title: Text = ""


@dataclass(frozen=True, repr=False)
class Picture(InputSource):
    """A picture that was chosen, dropped or pasted in a page, which alone has it; one example.

    Not to be made in Python: `viewer.source = nbglcnn.Images([path])` sets a picture from here.
    `title` is the file's name.
    """

    record_type: ClassVar[type[SourceRecord]] = PictureRecord

    title: str = ""

    @property
    def page_only_content(self) -> str:
        """What it is: a page alone has it."""
        return "a picture"
