"""The protocol between the kernel and its pages, and the Viewer's own messages.

A feature's messages are in the feature's folder. TypeScript's types are generated from all of them.

Traits carry small JSON only. Large data are *blobs*, named by content hash and sent in chunks of at
most CHUNK_BYTES bytes, one chunk per message. Receivers count chunks and bytes, and request missing
chunks once. Every message is checked against its record; a message that doesn't match is ignored.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from nbglcnn.plan.schema import Precision, Target

log = logging.getLogger("nbglcnn")

CHUNK_BYTES = 2 * 2**20  # bytes; notebook servers silently drop a frame above 10 MiB
COLOR_RANGE_MODES = ("channel", "layer", "fixed")
DEFAULT_VIEW: dict[str, Any] = {"name": "network", "layer": None, "channels": [], "pixel": None}
RESEND_TIMEOUT_S = 2.0  # without a message until missing chunks are requested again, once
VIEW_NAMES = (
    *("network", "maps", "filters", "explain", "bend", "train", "teach", "profile", "compare"),
)
MAX_COMPARED_CHANNELS = 4  # maximum number of channels shown large side by side
MAX_BLOB_BYTES = 2**31  # bytes of one blob; larger than any texture here
MAX_SCREENSHOT_BYTES = 2**26  # maximum bytes of a view's PNG
MAX_PROBE_BYTES = 2**26  # bytes of a parity check's samples, including those of a source's input
MAX_EXAMPLE_MISMATCHES = 1024  # values listed in a ProbeReply's `example_mismatches`

Name = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=10_000)]
EditsJson = Annotated[str, Meta(max_length=2**20)]  # active edits in JSON; "" for none
Count = Annotated[int, Meta(ge=0, le=MAX_BLOB_BYTES)]


class Manifest(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The state for pages to show: hashes of the Plan, of each weight and of each input array.

    `revision` increases with every change; `sizes` has the bytes of every blob named here.
    `snapshot` is the hash of a picture (PNG) for a page that cannot draw. `classes` is the hash of
    a JSON list of the output's class names. Both are "" for none. `injected` are the hashes of the
    arrays that replace values, in edits or in steps that can be undone.
    """

    revision: Count
    plan: Name
    weights: tuple[Name, ...]
    inputs: tuple[Name, ...]
    sizes: dict[str, Count]
    snapshot: Name = ""
    classes: Name = ""
    injected: tuple[Name, ...] = ()


class BlobChunk(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """One chunk of a blob, in the message's only buffer; `count` chunks make `bytes` bytes."""

    blob: Name
    index: Count
    count: Count
    bytes: Count


class Patches(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """New numbers for rectangles of weight textures, which turn revision `base` into `revision`.

    Each rectangle is (texture, layer, x, y, width, height) in texels. The message's only buffer has
    the texels of all rectangles, one after the other: four float32 per texel, row by row.
    """

    base: Count
    revision: Count
    rectangles: tuple[tuple[Count, Count, Count, Count, Count, Count], ...]


class Read(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """A request for values by key, computed from `revision` or a later one.

    Sent again with the same `id`, it requests the `missing_chunks` of the reply, (index of the key,
    chunk), or the whole reply if none are listed. With `is_screenshot`, it requests no values but
    the view as it is on screen, a PNG, sent as the reply for the first key. With `before_edits`, it
    requests each value before its own edits. With a `page`, only that page replies.
    """

    id: Name  # must be top-level and a string: ipykernel 7.4 routes the reply by exactly this field
    keys: tuple[str, ...]
    revision: Count
    missing_chunks: tuple[tuple[Count, Count], ...] = ()
    is_screenshot: bool = False
    before_edits: bool = False
    page: Name = ""


class Probe(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """A request to one page for spans of values of exactly this revision, for the parity check.

    The `spans` of a key are (x, y, width) in texels of the value's readback. The page sends the
    samples at once, and again whenever a check is due, as long as it shows this Plan.
    """

    page: Name
    revision: Count
    keys: tuple[str, ...]
    spans: tuple[tuple[tuple[Count, Count, Count], ...], ...]


class ReadDone(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The end of a Read: its reply is complete, or no longer needed."""

    read: Name


class VerifyResult(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The result of verify() for this revision: each layer's largest error, and whether it matches.

    With a `page`, it is the result of the parity check there, from samples of every layer.
    `non_finite` lists the values that aren't finite: the number of NaN, of infinities, and the
    channel of the first, or -1. `edits` are the replayed edits; with a `page`, those of its
    ProbeReply. `note` is a sentence about the first layer that differs. `float16_overflow` is the
    first layer whose numbers do not fit into 16 bits, for a Plan in float16. Both are "" for none.
    """

    revision: Count
    reference: Text
    layers: tuple[tuple[Text, float, bool], ...]
    non_finite: tuple[tuple[Text, Count, Count, int], ...] = ()
    page: Name = ""
    edits: EditsJson = ""
    note: Text = ""
    float16_overflow: Text = ""


class ReleaseMemory(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Another Viewer replaced this one: free the GPU's memory until this one is used again."""


class RejectPage(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Python is incompatible with this page; the view shows the reason."""

    page: Name
    title: Text
    text: Text


class Hello(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """A page's first message: its identity, its cached blobs, and its device's capabilities.

    `target` is None if the page cannot run a network at all; `problem` is then the reason. `host`
    is the application around the page with its version, if known.
    """

    page: Name
    version: Name
    protocol: Name
    cached_blobs: Annotated[tuple[Name, ...], Meta(max_length=100_000)]
    renderer: Annotated[str, Meta(max_length=1000)]
    target: Target | None = None
    problem: Text = ""
    browser: Annotated[str, Meta(max_length=1000)] = ""
    host: Annotated[str, Meta(max_length=100)] = ""


class RequestBlob(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """A request for these chunks of a blob; for all chunks if none are listed."""

    page: Name
    blob: Name
    chunks: tuple[Count, ...] = ()


class Progress(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The page's current activity, sent at least once a second while busy; restarts timeouts."""

    page: Name
    stage: Literal["receiving", "compiling", "running", "reading"]
    done: Count
    total: Count


class RunReport(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The page has computed every value of a revision.

    `is_remeasured`: the page ran the revision once more when idle, to measure a run without other
    work.
    """

    page: Name
    revision: Count
    ms: float
    timing: Annotated[str, Meta(max_length=40)]
    passes: Count
    is_remeasured: bool


class ContextHealth(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The state of the graphics context, sent on changes; `losses` counts since the page's load.

    `bytes` is the memory of this Viewer's textures and buffers in the page, `views` the number of
    its views there.
    """

    page: Name
    lost: bool
    losses: Count
    bytes: Annotated[int, Meta(ge=0, le=2**50)]
    views: Count


class RunRate(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Whether the page is running the network, and the number of runs finished in the last second.

    Sent when running starts, four times a second while it continues, and when it ends.
    """

    page: Name
    running: bool
    runs_per_second: Annotated[float, Meta(ge=0, le=100_000)]


class HoverTarget(msgspec.Struct, frozen=True):
    """An element of a value, or a colour picture's pixel: three elements, `channel` None.

    `values` is empty until the values arrive, and for a value that is too large to be read.
    """

    layer: str
    channel: Count | None
    y: Count
    x: Count
    values: Annotated[
        tuple[float | Literal["NaN", "Infinity", "-Infinity"], ...], Meta(max_length=3)
    ]


class PointerHover(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The pointer has moved to another element; None: it has left the pictures."""

    page: Name
    target: HoverTarget | None


class Reply(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """One chunk of the float32 elements of `keys[key]` of a Read, in the message's only buffer.

    For a screenshot, one chunk of the PNG.
    """

    page: Name
    id: Name
    key: Count
    chunk: Count
    count: Count
    bytes: Count
    revision: Count


class ProbeReply(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """One chunk of the texels of a Probe's spans, in order, as float32 in the only buffer.

    `edits` are the edits that the samples were computed with. If a source feeds an input, the
    elements of that input for this run follow the texels, and `source_input` is its key ("" if all
    inputs are Python's). `example_mismatches` lists values in which an example differs from an
    earlier one with the same input: (key, earlier example, later example).
    """

    page: Name
    revision: Count
    chunk: Count
    count: Count
    bytes: Annotated[int, Meta(ge=0, le=MAX_PROBE_BYTES)]
    edits: EditsJson = ""
    source_input: Annotated[str, Meta(max_length=1000)] = ""
    example_mismatches: Annotated[
        tuple[tuple[Annotated[str, Meta(max_length=1000)], Count, Count], ...],
        Meta(max_length=MAX_EXAMPLE_MISMATCHES),
    ] = ()


class SetPrecision(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """A request to compile the network again with this precision."""

    page: Name
    precision: Precision


class PageFailure(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """A failed read, or with an empty `id` any other failure; the page keeps working.

    After a failed "edit", such as GLSL code that the page's compiler rejects, the previous edits
    stay.
    """

    page: Name
    id: Name
    kind: Literal["lost", "device", "data", "internal", "edit"]
    text: Text


class SourceUpdate(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The page's source has delivered another picture; `rate` is the number in the last second.

    `is_still`: no other picture follows by itself, so this one can be compared and kept. Sent at
    most ten times a second, and always for the last picture.
    """

    page: Name
    is_still: bool
    rate: Annotated[float, Meta(ge=0, le=100_000)]


_warned_texts: set[str] = set()


@dataclass(frozen=True)
class Messages:
    """A part of the protocol: a feature's messages, the Viewer's own, or all of them.

    Args:
        from_kernel: Messages that the kernel sends.
        from_page: Messages that pages send.
        records: Other records that messages, traits and blobs contain.
    """

    from_kernel: tuple[type[msgspec.Struct], ...] = ()
    from_page: tuple[type[msgspec.Struct], ...] = ()
    records: tuple[type[msgspec.Struct], ...] = ()

    def __add__(self, other: Messages) -> Messages:
        return Messages(
            self.from_kernel + other.from_kernel,
            self.from_page + other.from_page,
            self.records + other.records,
        )

    @cached_property
    def digest(self) -> str:
        """A hash of all records; a page with another hash must reload.

        It hashes the text of the annotations, because msgspec's schema changes with its version.
        """
        records = [*self.from_kernel, *self.from_page, *self.records]
        found = [(record.__name__, record.__annotations__) for record in records]
        return hashlib.sha256(repr((CHUNK_BYTES, found)).encode()).hexdigest()[:12]

    @cached_property
    def _any_from_page(self) -> Any:
        return reduce(or_, self.from_page)

    def decode(self, content: Any) -> Any:
        """Decode a page's custom message; log a warning and return None if it matches no record."""
        try:
            return msgspec.convert(content, self._any_from_page)
        except (ValueError, TypeError, RecursionError) as error:  # lone surrogates raise ValueError
            warn_once(f"ignored a message from the page: {error}")
            return None


# The Viewer's own messages; each feature adds its part.
VIEWER_MESSAGES = Messages(
    (Manifest, BlobChunk, Patches, Read, Probe, ReadDone, VerifyResult, ReleaseMemory, RejectPage),
    (
        *(
            Hello,
            RequestBlob,
            Progress,
            RunReport,
            ContextHealth,
            RunRate,
            PointerHover,
            Reply,
            ProbeReply,
            PageFailure,
        ),
        *(SetPrecision, SourceUpdate),
    ),
    (HoverTarget,),
)


def warn_once(text: str) -> None:
    """Log a warning once per text, for at most a hundred different texts."""
    text = text[:500].encode("ascii", "backslashreplace").decode()
    if text not in _warned_texts and len(_warned_texts) < 100:
        _warned_texts.add(text)
        log.warning("nbglcnn: %s", text)


def chunk_count(size: int) -> int:
    """The number of chunks of a blob of this size."""
    return max(1, -(-size // CHUNK_BYTES))


def split_chunks(data: memoryview, chunks: Sequence[int] = ()) -> Iterator[tuple[int, memoryview]]:
    """Yield (index, bytes) for these chunks of a blob, or all; skip indices beyond the last."""
    for part in chunks or range(chunk_count(len(data))):
        if part < chunk_count(len(data)):
            yield part, data[part * CHUNK_BYTES : (part + 1) * CHUNK_BYTES]


class BlobAssembler:
    """A blob being received: chunks in any order, each counted once, with its length checked."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.missing = set(range(chunk_count(size)))

    def add(self, chunk_index: int, count: int, blob_size_bytes: int, buffer: memoryview) -> bool:
        """Store a chunk; return False if it doesn't fit, or was stored before."""
        at = chunk_index * CHUNK_BYTES
        length = min(CHUNK_BYTES, len(self.data) - at)
        if (
            blob_size_bytes != len(self.data)
            or count != chunk_count(blob_size_bytes)
            or buffer.nbytes != length
        ):
            warn_once(
                f"ignored part {chunk_index + 1} of {count} ({buffer.nbytes} of {blob_size_bytes} "
                f"bytes) where {chunk_count(len(self.data))} parts make {len(self.data)} bytes"
            )
            return False
        if chunk_index not in self.missing:
            return False
        self.data[at : at + length] = buffer.cast("B")
        self.missing.discard(chunk_index)
        return True
