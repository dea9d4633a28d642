"""A camera as a source; only the page that starts it has the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from nbglcnn.errors import InputError
from nbglcnn.features.sources.input_source import InputSource, check_bool_fields
from nbglcnn.features.sources.records import SourceRecord


class WebcamRecord(SourceRecord, frozen=True, kw_only=True, tag="webcam"):
    """A camera: `faces` is the user or the environment, `mirrored` exchanges left and right."""

    page_owned: ClassVar[bool] = True

    faces: Literal["user", "environment"] = "user"
    mirrored: bool = True
    playing: bool = False


@dataclass(frozen=True, repr=False)
class Webcam(InputSource):
    """The camera of the computer that shows the page, live, as a source.

    The camera starts after a click in the page and the browser's permission. Until the first
    picture the network keeps its last input. Pictures are cropped and resized to the input's size
    as the Plan says; they have one example, with numbers from 0 to 1. Python gets a picture only
    when it reads values, when the camera is paused, and while other pages show the Viewer, too.

    Args:
        faces: The camera of a device with two: `"user"` (default) or `"environment"`.
        mirrored: Whether left and right are exchanged, as in a mirror. Default: True.
        playing: Whether the camera runs; False keeps the last picture. Default: True.
        input: The key of the input to feed, if the network has several. Default: the first
            compatible one.
        owner: Read-only: the page that has the camera, set by that page; `""` for none.

    Raises:
        InputError: If an argument is not valid.

    Example:
        >>> viewer.input = nbglcnn.Webcam()
    """

    record_type: ClassVar[type[SourceRecord]] = WebcamRecord

    faces: Literal["user", "environment"] = "user"
    mirrored: bool = True
    playing: bool = True

    def __post_init__(self) -> None:
        if self.faces not in ("user", "environment"):
            raise InputError(f'Webcam: faces={self.faces!r}; expected "user" or "environment"')
        check_bool_fields(self, "mirrored", "playing")
