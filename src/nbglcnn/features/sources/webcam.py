"""A camera as a source, which the page that starts it has alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from nbglcnn.errors import InputError
from nbglcnn.features.sources.input_source import InputSource, check_bool_fields
from nbglcnn.features.sources.records import SourceRecord


class WebcamRecord(SourceRecord, frozen=True, kw_only=True, tag="webcam"):
    """A camera: it `faces` the user or the environment, and is `mirrored` like a mirror."""

    page_owned: ClassVar[bool] = True

    faces: Literal["user", "environment"] = "user"
    mirrored: bool = True
    playing: bool = False


@dataclass(frozen=True, repr=False)
class Webcam(InputSource):
    """The camera of the computer that shows the page, live; one example.

    Nothing starts by itself: the page asks for a click, then the browser for its permission. Until
    the first picture the network keeps the input that it has. Pictures are cut and resized to the
    input's size as its Plan says, numbers from 0 to 1. Python gets one only when it asks for
    values, when the camera is paused, and while other pages show the Viewer, too.

    Args:
        faces: which camera, where there are two: "user" or "environment".
        mirrored: left and right exchanged, as in a mirror.
        playing: goes on; False keeps the last picture.

    Raises:
        InputError: an argument is none of these.
    """

    record_type: ClassVar[type[SourceRecord]] = WebcamRecord

    faces: Literal["user", "environment"] = "user"
    mirrored: bool = True
    playing: bool = True

    def __post_init__(self) -> None:
        if self.faces not in ("user", "environment"):
            raise InputError(f'Webcam: faces={self.faces!r}; give "user" or "environment"')
        check_bool_fields(self, "mirrored", "playing")
