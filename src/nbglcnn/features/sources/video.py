"""A video file as a source; pages decode it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from nbglcnn.errors import InputError
from nbglcnn.features.sources.input_source import InputSource, SourceBlobs, check_bool_fields
from nbglcnn.features.sources.records import Name, SourceRecord, Text
from nbglcnn.inputs.arguments import check_local_path
from nbglcnn.plan.schema import Input

MAX_VIDEO_BYTES = 2**28  # bytes of a video file


class VideoRecord(SourceRecord, frozen=True, kw_only=True, tag="video"):
    """A video: `data` is its blob, "" if only a page has it; `title` is the file's name."""

    page_owned: ClassVar[bool] = True

    data: Name = ""
    playing: bool = False
    mirrored: bool = False
    title: Text = ""


class VideoFile:
    """A video file's bytes as a blob with a unique name."""

    def __init__(self, content: bytes, title: str) -> None:
        self.name = uuid4().hex
        self.mime = mime_of(content, title)
        self._content = content

    def record_fields(self) -> dict[str, Any]:
        """Return the field of the record that names the blob."""
        return {"data": self.name}

    def blob(self, name: str) -> memoryview | None:
        """Return the video's bytes, or None for another name."""
        return memoryview(self._content) if name == self.name else None

    def blob_names(self) -> Iterator[str]:
        """Iterate over the only blob's name."""
        yield self.name

    @property
    def nbytes(self) -> int:
        """The size of the file in bytes."""
        return len(self._content)


@dataclass(frozen=True, repr=False)
class Video(InputSource):
    """A video as a source. The page that starts it decodes it, in a loop and without sound.

    Until the first picture the network keeps its last input. Pictures are cropped and resized to
    the input's size as the Plan says; they have one example, with numbers from 0 to 1.

    Args:
        data: The path of a file, or its bytes: MP4, WebM, Ogg, MOV or Matroska, at most 256 MiB.
            The browser determines which codecs play. None for a video that was chosen in a page.
        playing: Whether it plays; False keeps the current picture. Default: True.
        mirrored: Whether left and right are exchanged. Default: False.
        title: The name in the page. Default: the file's name.
        input: The key of the input to feed, if the network has several. Default: the first
            compatible one.
        owner: Read-only: the page that plays the video, set by that page; `""` for none.

    Raises:
        InputError: If the data is not such a file, is too large, or is a URL (nothing is
            downloaded).
        OSError: If the file cannot be read.

    Example:
        >>> viewer.input = nbglcnn.Video("walk.mp4")
    """

    record_type: ClassVar[type[SourceRecord]] = VideoRecord

    data: Any = None
    playing: bool = True
    mirrored: bool = False
    title: str = field(default="", kw_only=True)
    # The file read from `data`, and the `data` it was read from; `replace` passes it on.
    _file: tuple[Any, VideoFile] | None = field(
        default=None, kw_only=True, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_bool_fields(self, "playing", "mirrored")
        if not isinstance(self.title, str):
            raise InputError(f"Video: title={self.title!r}; expected a string")
        if self.data is None:
            object.__setattr__(self, "_file", None)
        elif self._file is None or self._file[0] is not self.data:
            content, name = _read_content(self.data)
            object.__setattr__(self, "title", (self.title or name)[:1000])
            object.__setattr__(self, "_file", (self.data, VideoFile(content, self.title)))

    @property
    def page_only_content(self) -> str:
        """Content that only a page has: "a video without data"; "" if Python has the file."""
        return "a video without data" if self.data is None else ""

    @property
    def mime(self) -> str:
        """The MIME type of the file; "" if only a page has it."""
        return self._file[1].mime if self._file else ""

    def open_blobs(
        self, model_input: Input, earlier_blobs: SourceBlobs | None = None
    ) -> SourceBlobs | None:
        """Return the file's bytes for pages, if Python has them.

        Args:
            model_input: The input.
            earlier_blobs: The data of an earlier source; not used.

        Returns:
            The data, or None if only a page has it.
        """
        return self._file[1] if self._file else None

    def __repr__(self) -> str:
        if self._file is None:
            what = repr(self.title) + ", chosen in a page"
        else:
            what = f"{self.title!r}, {self._file[1].nbytes / 2**20:.1f} MiB of {self.mime}"
        return f"Video({what}{'' if self.playing else ', playing=False'})"


def _read_content(data: Any) -> tuple[bytes, str]:
    """Read a video; return its bytes and name."""
    if isinstance(data, bytes | bytearray | memoryview):
        content, name = bytes(data), ""
    elif isinstance(data, str | os.PathLike):
        text = os.fspath(data)
        check_local_path("Video", str(text))
        path = Path(str(text)).expanduser()
        if not path.is_file():
            there = "is a folder" if path.is_dir() else "does not exist"
            raise InputError(f"Video: {path} {there}; expected the path of a video file")
        _check_size(path.stat().st_size, path.name)
        content, name = path.read_bytes(), path.name
    else:
        raise InputError(
            f"Video: {type(data).__name__} was given; expected the path of a video file, or its "
            "bytes. For arrays of pictures use nbglcnn.Images(array, playing=True)"
        )
    _check_size(len(content), name or "these bytes")
    return content, name


def _check_size(size: int, name: str) -> None:
    if size > MAX_VIDEO_BYTES:
        raise InputError(
            f"Video: {name} has {size / 2**20:.0f} MiB; at most {MAX_VIDEO_BYTES // 2**20} MiB "
            "are supported, since the page loads all of it: shorten the video, or reduce its size"
        )


def mime_of(content: bytes, name: str = "") -> str:
    """Return a video's MIME type from its first bytes; InputError for an unknown format."""
    head = content[:64]
    if head[4:8] == b"ftyp":
        return "video/quicktime" if head[8:10] == b"qt" else "video/mp4"
    if head[4:8] in (b"moov", b"mdat", b"wide", b"free"):  # QuickTime before 2001
        return "video/quicktime"
    if head[:4] == b"\x1aE\xdf\xa3":
        return "video/webm" if b"webm" in head else "video/x-matroska"
    if head[:4] == b"OggS":
        return "video/ogg"
    begins = f"begins with {head[:8].hex(' ')}" if head else "is empty"
    raise InputError(
        f"Video: {name or 'this'} {begins}; expected a video in MP4, WebM, Ogg, MOV or Matroska. "
        "For pictures use nbglcnn.Images(…)"
    )
