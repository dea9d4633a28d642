"""The protocol of the kernel and its pages, and the Viewer's own messages.

A feature's messages stand in its folder. TypeScript's are generated from all of them.

Traits carry small JSON only; everything large is a *blob*, named by content hash, that travels in
parts of at most CHUNK bytes, one part a message. Receivers count parts and bytes and ask once again
for what is missing. Every message is checked against its record; what doesn't fit is ignored.
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

CHUNK = 2 * 2**20  # bytes; notebook servers silently drop a frame above 10 MiB
COLOR_RANGES = ("channel", "layer", "fixed")
DEFAULT_VIEW: dict[str, Any] = {"name": "network", "layer": None, "channels": [], "pixel": None}
RESEND_TIMEOUT_S = 2.0  # without a message before missing parts are asked for again, once
VIEWS = (
    *("network", "maps", "filters", "explain", "bend", "train", "teach", "profile", "compare"),
)
MAX_COMPARED = 4  # channels that are shown large beside each other, at most
MAX_BLOB = 2**31  # bytes of one blob; more than any texture we make
MAX_SCREENSHOT = 2**26  # bytes of the PNG of a view
MAX_PROBE_BYTES = 2**26  # bytes of the samples of a parity check, and of the input that they are of
MAX_EXAMPLE_MISMATCHES = 1024  # values that are named there in which equal examples differ

Name = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=10_000)]
EditsJson = Annotated[str, Meta(max_length=2**20)]  # active edits in JSON; "" for none
Count = Annotated[int, Meta(ge=0, le=MAX_BLOB)]


class Manifest(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """What the page shall show: hashes of the Plan, of each of its weights, of each input array.

    `revision` grows with every change; `sizes` are the bytes of every blob named here.
    `snapshot` is the hash of a picture (PNG) for a page that cannot draw, `classes` that of a JSON
    list of the names of the output's classes; "" when there is none. `injected` are the arrays that
    edits, or steps that can be undone, put in the place of values.
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
    """One part of a blob, in the message's only buffer; `count` parts make `bytes` bytes."""

    blob: Name
    index: Count
    count: Count
    bytes: Count


class Patches(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Other numbers in rectangles of weight textures make revision `base` the `revision`.

    Each rectangle is (texture, layer, x, y, width, height) in texels; the message's only buffer has
    the texels of all of them, one after the other: four float32 each, in rows.
    """

    base: Count
    revision: Count
    rectangles: tuple[tuple[Count, Count, Count, Count, Count, Count], ...]


class Read(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Asks for values under their keys, computed from `revision` or a later one.

    Sent again with the same `id`, it asks for the `missing_chunks` parts, (index of the key, part),
    of an answer, or for all of it when there are none listed. With `is_screenshot` it asks for no
    value but for the view as it is on screen, a PNG, which comes like that of a first key; with
    `before_edits` for each value before its own edits. With a `page` only that one answers.
    """

    id: Name  # at the top level and a string: ipykernel 7.4 routes the reply by exactly this field
    keys: tuple[str, ...]
    revision: Count
    missing_chunks: tuple[tuple[Count, Count], ...] = ()
    is_screenshot: bool = False
    before_edits: bool = False
    page: Name = ""


class Probe(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Asks one page for stretches of values, of exactly this revision: the parity check's samples.

    The `spans` of a key are (x, y, width) in texels of what reading its value draws. The page
    sends them at once, and again by itself each time that a check is due, for as long as it shows
    this Plan.
    """

    page: Name
    revision: Count
    keys: tuple[str, ...]
    spans: tuple[tuple[tuple[Count, Count, Count], ...], ...]


class ReadDone(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The answer to a Read has arrived whole, or isn't wanted any more."""

    read: Name


class VerifyResult(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """What verify() found of this revision: each layer's largest error, and whether it matches.

    With a `page` it is what the parity check found there, in samples of every layer. `non_finite`
    are the values that aren't finite: how many NaN and infinities, and the channel of the first, or
    -1. `edits` were replayed; with a `page` as its ProbeReply said them. `note` is a sentence about
    the first layer that differs, `float16_overflow` the first layer whose numbers do not fit into
    16 bits while the Plan has float16; "" for none.
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
    """Another Viewer replaced this one: give the GPU's memory back until somebody asks again."""


class RejectPage(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Python cannot work with this page; the view shows why."""

    page: Name
    title: Text
    text: Text


class Hello(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """A page's first words: who it is, which blobs it has, what its device can do.

    `target` is None when the page cannot run a network at all; `problem` says why then. `host` is
    the application around the page and its version, as far as it says.
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
    """Asks for these parts of a blob, all when none are listed."""

    page: Name
    blob: Name
    chunks: tuple[Count, ...] = ()


class Progress(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """What the page is busy with, at least once a second while it is; restarts the time-outs."""

    page: Name
    stage: Literal["receiving", "compiling", "running", "reading"]
    done: Count
    total: Count


class RunReport(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The page has computed every value of a revision.

    `is_remeasured`: once more, when it had come to rest, to measure a run with nothing beside it.
    """

    page: Name
    revision: Count
    ms: float
    timing: Annotated[str, Meta(max_length=40)]
    passes: Count
    is_remeasured: bool


class ContextHealth(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The graphics context, told when something of it changes: `losses` since the page was loaded.

    `bytes` are what this Viewer's textures and buffers take in the page, `views` how often it is
    shown there.
    """

    page: Name
    lost: bool
    losses: Count
    bytes: Annotated[int, Meta(ge=0, le=2**50)]
    views: Count


class RunRate(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Whether the page runs the network, and how many runs it has finished within the last second.

    Told when it begins, four times a second while it goes on, and when it has ended.
    """

    page: Name
    running: bool
    runs_per_second: Annotated[float, Meta(ge=0, le=100_000)]


class HoverTarget(msgspec.Struct, frozen=True):
    """An element of a value, or the three of a colour picture's pixel, whose `channel` is None.

    `values` is empty while they are on their way, and for a value too large to be looked at.
    """

    layer: str
    channel: Count | None
    y: Count
    x: Count
    values: Annotated[
        tuple[float | Literal["NaN", "Infinity", "-Infinity"], ...], Meta(max_length=3)
    ]


class PointerHover(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The pointer has come to an element; None: it has left the pictures."""

    page: Name
    target: HoverTarget | None


class Reply(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """One part of the float32 elements of `keys[key]` of a Read, in the message's only buffer.

    Of a screenshot one part of the PNG.
    """

    page: Name
    id: Name
    key: Count
    chunk: Count
    count: Count
    bytes: Count
    revision: Count


class ProbeReply(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """One part of the texels of a Probe's bands in its order, as float32 in the only buffer.

    `edits` are those that they were computed with. Behind the texels come the elements of the input
    `source_input` that they were computed from, where a source feeds one ("": Python's own).
    `example_mismatches` names values in which an example differs from an earlier one of the same
    input: (key, the earlier example, the other).
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
    """Asks Python to compile the network again with this precision."""

    page: Name
    precision: Precision


class PageFailure(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """A read that failed, or with an empty `id` whatever else did; the page stays alive.

    An "edit" that failed, as a text in GLSL that the page's compiler refuses, leaves those before.
    """

    page: Name
    id: Name
    kind: Literal["lost", "device", "data", "internal", "edit"]
    text: Text


class SourceUpdate(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The page's source has given it another picture; `rate` are those of the last second.

    `is_still`: no other follows by itself, so that this one can be compared and kept. Told at most
    ten times a second, and always of the last one.
    """

    page: Name
    is_still: bool
    rate: Annotated[float, Meta(ge=0, le=100_000)]


_warned: set[str] = set()


@dataclass(frozen=True)
class Messages:
    """A part of the protocol: of a feature, of the Viewer itself, or all of it.

    Args:
        from_kernel: messages of the kernel.
        from_page: messages of pages.
        records: what else crosses the connection: in messages, in traits, in blobs.
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
        """Hash of all records; a page with another hash has to reload.

        It is of the annotations' text, as msgspec's schema changes with its version.
        """
        records = [*self.from_kernel, *self.from_page, *self.records]
        found = [(record.__name__, record.__annotations__) for record in records]
        return hashlib.sha256(repr((CHUNK, found)).encode()).hexdigest()[:12]

    @cached_property
    def _any_from_page(self) -> Any:
        return reduce(or_, self.from_page)

    def decode(self, content: Any) -> Any:
        """A page's message in a custom message's content; None, and a line in the log, if none."""
        try:
            return msgspec.convert(content, self._any_from_page)
        except (ValueError, TypeError, RecursionError) as error:  # lone surrogates are ValueErrors
            warn_once(f"ignored a message from the page: {error}")
            return None


# The Viewer's own; each feature adds its part.
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
    """Log a warning; the same text, and more than a hundred different ones, only once."""
    text = text[:500].encode("ascii", "backslashreplace").decode()
    if text not in _warned and len(_warned) < 100:
        _warned.add(text)
        log.warning("nbglcnn: %s", text)


def chunk_count(size: int) -> int:
    """The number of parts in which a blob travels."""
    return max(1, -(-size // CHUNK))


def split_chunks(data: memoryview, chunks: Sequence[int] = ()) -> Iterator[tuple[int, memoryview]]:
    """(part, its bytes) for these parts of a blob, or all; numbers beyond its last are skipped."""
    for part in chunks or range(chunk_count(len(data))):
        if part < chunk_count(len(data)):
            yield part, data[part * CHUNK : (part + 1) * CHUNK]


class BlobAssembler:
    """A blob on its way in: parts in any order, each counted once and checked for its length."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.missing = set(range(chunk_count(size)))

    def add(self, part: int, count: int, size: int, buffer: memoryview) -> bool:
        """Take a part; False when it doesn't belong here or was taken before."""
        at = part * CHUNK
        length = min(CHUNK, len(self.data) - at)
        if size != len(self.data) or count != chunk_count(size) or buffer.nbytes != length:
            warn_once(
                f"ignored part {part + 1} of {count} ({buffer.nbytes} of {size} bytes) "
                f"where {chunk_count(len(self.data))} parts make {len(self.data)} bytes"
            )
            return False
        if part not in self.missing:
            return False
        self.data[at : at + length] = buffer.cast("B")
        self.missing.discard(part)
        return True
