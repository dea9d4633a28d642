"""A picture file that the user has chosen in a page, as a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nbglcnn.features.sources.input_source import InputSource
from nbglcnn.features.sources.records import SourceRecord, Text


class PictureRecord(SourceRecord, frozen=True, kw_only=True, tag="picture"):
    """A picture; `title` is the name of its file."""

    page_owned: ClassVar[bool] = True

    title: Text = ""


@dataclass(frozen=True, repr=False)
class Picture(InputSource):
    """A picture that was chosen, dropped or pasted in a page, and exists only there; one example.

    It can't be created in Python: to set a picture from Python, use `viewer.source =
    nbglcnn.Images([path])`. `title` is the file's name.
    """

    record_type: ClassVar[type[SourceRecord]] = PictureRecord

    title: str = ""

    @property
    def page_only_content(self) -> str:
        """The content that only a page has, as text."""
        return "a picture"
