"""The messages between the kernel and its pages; TypeScript's are generated from them.

Traits carry small JSON only; everything large is a *blob*, named by content hash, that travels in
parts of at most CHUNK bytes, one part a message. Receivers count parts and bytes and ask once again
for what is missing. Every message is checked against its record; what doesn't fit is ignored.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from nbglcnn.features.sources.kinds import Source
from nbglcnn.features.sources.records import SourceRecord
from nbglcnn.features.teaching import records as teachings
from nbglcnn.features.training.records import Column, Course, TrainingRecord
from nbglcnn.pictures.colors import CLASS_COLORS as CLASS_COLORS
from nbglcnn.pictures.colors import COLORMAPS as COLORMAPS
from nbglcnn.pictures.colors import SIGNED as SIGNED
from nbglcnn.plan.schema import Precision, Target

log = logging.getLogger("nbglcnn")

CHUNK = 2 * 2**20  # bytes; notebook servers silently drop a frame above 10 MiB
COLOR_RANGES = ("channel", "layer", "fixed")
VIEWS = (
    *("network", "maps", "filters", "explain", "bend", "train", "teach", "profile", "compare"),
)
MAX_COMPARED = 4  # channels that are shown large beside each other, at most
MAX_BLOB = 2**31  # bytes of one blob; more than any texture we make
MAX_SCREEN = 2**26  # bytes of the PNG of a view
MAX_PROBED = 2**26  # bytes of the samples of a parity check, and of the input that they are of
MOST_APART = 1024  # values that are named there in which equal examples differ

Name = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=10_000)]
Edits = Annotated[str, Meta(max_length=2**20)]  # active edits in JSON; "" for none
Count = Annotated[int, Meta(ge=0, le=MAX_BLOB)]


class Message(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """A record with its class's name in lower case as `type`."""


class State(Message, frozen=True):
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


class Part(Message, frozen=True):
    """One part of a blob, in the message's only buffer; `count` parts make `bytes` bytes."""

    blob: Name
    part: Count
    count: Count
    bytes: Count


class Patches(Message, frozen=True):
    """Other numbers in rectangles of weight textures make revision `base` the `revision`.

    Each rectangle is (texture, layer, x, y, width, height) in texels; the message's only buffer has
    the texels of all of them, one after the other: four float32 each, in rows.
    """

    base: Count
    revision: Count
    rectangles: tuple[tuple[Count, Count, Count, Count, Count, Count], ...]


class Mirrored(Message, frozen=True):
    """The weights of a loop in Python behind `step` steps make revision `base` the `revision`.

    `textures` are the weight textures that have changed. The message's only buffer has first, in
    its first part, the losses of `rows` steps from step `first` on, two float32 each as in Stepped;
    then one of `count` parts of the textures' contents, one after the other.
    `held_out` are rows as in Stepped.
    """

    training: Name
    base: Count
    revision: Count
    textures: tuple[Count, ...]
    part: Count
    count: Count
    step: Count
    first: Count
    rows: Count
    held_out: tuple[tuple[Count, float | None, float | None], ...] = ()


class Read(Message, frozen=True):
    """Asks for values under their keys, computed from `revision` or a later one.

    Sent again with the same `id`, it asks for the `missing` parts, (index of the key, part), of an
    answer, or for all of it when there are none listed. With `screen` it asks for no value but for
    the view as it is on screen, a PNG, which comes like that of a first key; with `unbent` for each
    value before its own edits. With a `page` only that one answers.
    """

    id: Name  # at the top level and a string: ipykernel 7.4 routes the reply by exactly this field
    keys: tuple[str, ...]
    revision: Count
    missing: tuple[tuple[Count, Count], ...] = ()
    screen: bool = False
    unbent: bool = False
    page: Name = ""


class Probe(Message, frozen=True):
    """Asks one page for stretches of values, of exactly this revision: the parity check's samples.

    The `bands` of a key are (x, y, width) in texels of what reading its value draws. The page
    sends them at once, and again by itself each time that a check is due, for as long as it shows
    this Plan.
    """

    page: Name
    revision: Count
    keys: tuple[str, ...]
    bands: tuple[tuple[tuple[Count, Count, Count], ...], ...]


class Done(Message, frozen=True):
    """The answer to a Read has arrived whole, or isn't wanted any more."""

    read: Name


class Verified(Message, frozen=True):
    """What verify() found of this revision: each layer's largest error, and whether it matches.

    With a `page` it is what the parity check found there, in samples of every layer. `flawed` are
    the values that aren't finite: how many NaN and infinities, and the channel of the first, or -1.
    `edits` were replayed; with a `page` as its Probed said them. `note` is a sentence about the
    first layer that differs, `beyond` the first layer whose numbers do not fit into 16 bits while
    the Plan has float16; "" for none.
    """

    revision: Count
    reference: Text
    layers: tuple[tuple[Text, float, bool], ...]
    flawed: tuple[tuple[Text, Count, Count, int], ...] = ()
    page: Name = ""
    edits: Edits = ""
    note: Text = ""
    beyond: Text = ""


class Release(Message, frozen=True):
    """Another Viewer replaced this one: give the GPU's memory back until somebody asks again."""


class Refuse(Message, frozen=True):
    """Python cannot work with this page; the view shows why."""

    page: Name
    title: Text
    text: Text


class Hello(Message, frozen=True):
    """A page's first words: who it is, which blobs it has, what its device can do.

    `target` is None when the page cannot run a network at all; `problem` says why then. `host` is
    the application around the page and its version, as far as it says.
    """

    page: Name
    version: Name
    protocol: Name
    have: Annotated[tuple[Name, ...], Meta(max_length=100_000)]
    renderer: Annotated[str, Meta(max_length=1000)]
    target: Target | None = None
    problem: Text = ""
    browser: Annotated[str, Meta(max_length=1000)] = ""
    host: Annotated[str, Meta(max_length=100)] = ""


class Need(Message, frozen=True):
    """Asks for these parts of a blob, all when none are listed."""

    page: Name
    blob: Name
    parts: tuple[Count, ...] = ()


class Progress(Message, frozen=True):
    """What the page is busy with, at least once a second while it is; restarts the time-outs."""

    page: Name
    stage: Literal["receiving", "compiling", "running", "reading"]
    done: Count
    total: Count


class Ran(Message, frozen=True):
    """The page has computed every value of a revision.

    `again`: once more, when it had come to rest, to measure a run with nothing beside it.
    """

    page: Name
    revision: Count
    ms: float
    timing: Annotated[str, Meta(max_length=40)]
    passes: Count
    again: bool


class Health(Message, frozen=True):
    """The graphics context, told when something of it changes: `losses` since the page was loaded.

    `bytes` are what this Viewer's textures and buffers take in the page, `views` how often it is
    shown there.
    """

    page: Name
    lost: bool
    losses: Count
    bytes: Annotated[int, Meta(ge=0, le=2**50)]
    views: Count


class Pace(Message, frozen=True):
    """Whether the page runs the network, and how many runs it has finished within the last second.

    Told when it begins, four times a second while it goes on, and when it has ended.
    """

    page: Name
    running: bool
    runs_per_second: Annotated[float, Meta(ge=0, le=100_000)]


class Spot(msgspec.Struct, frozen=True):
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


class Pointed(Message, frozen=True):
    """The pointer has come to an element; None: it has left the pictures."""

    page: Name
    at: Spot | None


class Reply(Message, frozen=True):
    """One part of the float32 elements of `keys[key]` of a Read, in the message's only buffer.

    Of a `screen` one part of the PNG.
    """

    page: Name
    id: Name
    key: Count
    part: Count
    count: Count
    bytes: Count
    revision: Count


class Probed(Message, frozen=True):
    """One part of the texels of a Probe's bands in its order, as float32 in the only buffer.

    `edits` are those that they were computed with. Behind the texels come the elements of the input
    `fed` that they were computed from, where a source feeds one ("": Python's own). `apart` names
    values in which an example differs from an earlier one of the same input: (key, the earlier
    example, the other).
    """

    page: Name
    revision: Count
    part: Count
    count: Count
    bytes: Annotated[int, Meta(ge=0, le=MAX_PROBED)]
    edits: Edits = ""
    fed: Annotated[str, Meta(max_length=1000)] = ""
    apart: Annotated[
        tuple[tuple[Annotated[str, Meta(max_length=1000)], Count, Count], ...],
        Meta(max_length=MOST_APART),
    ] = ()


class SetPrecision(Message, frozen=True):
    """Asks Python to compile the network again with this precision."""

    page: Name
    precision: Precision


class Failed(Message, frozen=True):
    """A read that failed, or with an empty `id` whatever else did; the page stays alive.

    An "edit" that failed, as a text in GLSL that the page's compiler refuses, leaves those before.
    """

    page: Name
    id: Name
    kind: Literal["lost", "device", "data", "internal", "edit"]
    text: Text


class SetWeight(Message, frozen=True):
    """Asks Python for other numbers in a parameter, from a flat row-major index on.

    Those of one `step` are undone together: all of a drag. A page gives no step's name twice.
    """

    page: Name
    name: Annotated[str, Meta(max_length=1000)]
    index: Count
    values: Annotated[tuple[float, ...], Meta(min_length=1, max_length=2**16)]
    step: Name


class Fed(Message, frozen=True):
    """The page's source has given it another picture; `rate` are those of the last second.

    `still`: no other follows by itself, so that this one can be compared and kept. Told at most ten
    times a second, and always of the last one.
    """

    page: Name
    still: bool
    rate: Annotated[float, Meta(ge=0, le=100_000)]


class Stepped(Message, frozen=True):
    """Steps that a page has done of a training, from step `first` on.

    The message's only buffer has two float32 for each: the loss, and the share of right answers
    (NaN where there are no classes). `held_out` are rows of steps done, loss and that share, of
    what is held out; None is NaN or infinite, for which JSON has no word. `message` says why it has
    stopped by itself, or goes on from an earlier step.
    `failed` are the examples of a batch that gave NaN or infinite numbers, which stopped it, and
    `numbers` the scalars of that step by what they are. `paused`: behind the last step it has
    paused by itself, which the trait says too, but only to a kernel that runs no cell. `elsewhere`:
    another page trains, and this one only says that it sees that.
    """

    page: Name
    training: Name
    first: Count
    held_out: tuple[tuple[Count, float | None, float | None], ...] = ()
    message: Text = ""
    failed: tuple[Count, ...] = ()
    numbers: dict[str, float] = {}
    paused: bool = False
    elsewhere: bool = False


class Saved(Message, frozen=True):
    """One part of the state of a training behind `step` steps, in the message's only buffer.

    All that changes, in its Course's order, as float32. `last`: it has ended with it; `handing`:
    the page waits for another Course.
    """

    page: Name
    training: Name
    step: Count
    part: Count
    count: Count
    bytes: Count
    last: bool = False
    handing: bool = False


class Taught(Message, frozen=True):
    """One part of what a page changes of a teaching, with its data in the message's only buffer.

    The page's changes have numbers, from 1 on. One without data has one empty part.
    """

    page: Name
    teaching: Name
    number: Count
    change: teachings.Change
    part: Count
    count: Count
    bytes: Count


class Samples(msgspec.Struct, frozen=True):
    """What the framework computes of an exported page's example, in stretches of each value.

    `bands` are as in a Probe, and the blob "samples" has their elements as float32, one value after
    the other; a device may differ from them by `allowed`. `alike` are the keys whose examples are
    equal where their inputs are; `flawed` and `beyond` are as in Verified.
    """

    reference: Text
    keys: tuple[str, ...]
    bands: tuple[tuple[tuple[Count, Count, Count], ...], ...]
    allowed: tuple[float, ...]
    alike: tuple[str, ...]
    flawed: tuple[tuple[Text, Count, Count, int], ...] = ()
    beyond: Text = ""


class Exported(msgspec.Struct, frozen=True):
    """What an exported page shows first: the traits of its Viewer, and a view for each step.

    `snapshot` is a picture of the network, as a data: URL, for a browser that cannot draw. `edits`
    are those of then; `injected` names their arrays, which the page holds behind its inputs, and
    `blobs` those of the `source` (None for none) and of the training, which it holds behind these.
    `training` is a TrainingRecord, None where the page trains nothing; `weights` are the parameters
    of the network that it gives to its reader, `rest` a blob in the safetensors format of those
    that it doesn't read. `teaching` is a TeachingRecord, None where nothing is taught; its
    Listing is the blob "page.1". With `samples` the page checks itself on its reader's device;
    `unchecked` says why it has none.
    """

    view: dict[str, Any]
    selected: dict[str, Any] | None
    colormap: str
    color_range: str
    image_ranges: dict[str, Any]
    symmetric: bool
    example: int
    classes: tuple[str, ...]
    steps: tuple[dict[str, Any], ...]
    snapshot: str
    edits: tuple[dict[str, Any], ...] = ()
    injected: tuple[Name, ...] = ()
    source: dict[str, Any] | None = None
    blobs: tuple[Name, ...] = ()
    training: dict[str, Any] | None = None
    weights: tuple[str, ...] = ()
    rest: Name = ""
    teaching: dict[str, Any] | None = None
    samples: Samples | None = None
    unchecked: Text = ""


FromKernel = State | Part | Patches | Mirrored | Read | Probe | Done | Verified | Release | Refuse
FromPage = (
    Hello
    | Need
    | Progress
    | Ran
    | Health
    | Pace
    | Pointed
    | Reply
    | Probed
    | Failed
    | SetWeight
    | SetPrecision
    | Fed
    | Stepped
    | Saved
    | Taught
)

# A page that speaks another dialect is told to reload, and no version number is kept by hand. The
# annotations are this file's own text (not msgspec's schema, which changes with its version).
_TRAINED = (TrainingRecord, Course, Column)
_TAUGHT = (teachings.TeachingRecord, teachings.Listing, teachings.Change, teachings.TaughtHead)
_SOURCES = (SourceRecord, *get_args(Source))
_RECORDS = (*get_args(FromKernel | FromPage), Spot, *_SOURCES, *_TRAINED, *_TAUGHT)
_MESSAGES = [(c.__name__, c.__annotations__) for c in _RECORDS]
PROTOCOL = hashlib.sha256(repr((CHUNK, _MESSAGES)).encode()).hexdigest()[:12]

_warned: set[str] = set()


def decode(content: Any) -> FromPage | None:
    """The message in a custom message's content; None, and one line in the log, if it is none."""
    try:
        message: FromPage = msgspec.convert(content, FromPage)
        return message
    except (ValueError, TypeError, RecursionError) as error:  # lone surrogates are ValueErrors
        warn_once(f"ignored a message from the page: {error}")
        return None


def warn_once(text: str) -> None:
    """Log a warning; the same text, and more than a hundred different ones, only once."""
    text = text[:500].encode("ascii", "backslashreplace").decode()
    if text not in _warned and len(_warned) < 100:
        _warned.add(text)
        log.warning("nbglcnn: %s", text)


def parts_of(size: int) -> int:
    """The number of parts in which a blob travels."""
    return max(1, -(-size // CHUNK))


def split(data: memoryview, parts: Sequence[int] = ()) -> Iterator[tuple[int, memoryview]]:
    """(part, its bytes) for these parts of a blob, or all; numbers beyond its last are skipped."""
    for part in parts or range(parts_of(len(data))):
        if part < parts_of(len(data)):
            yield part, data[part * CHUNK : (part + 1) * CHUNK]


class Assembly:
    """A blob on its way in: parts in any order, each counted once and checked for its length."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.missing = set(range(parts_of(size)))

    def add(self, part: int, count: int, size: int, buffer: memoryview) -> bool:
        """Take a part; False when it doesn't belong here or was taken before."""
        at = part * CHUNK
        length = min(CHUNK, len(self.data) - at)
        if size != len(self.data) or count != parts_of(size) or buffer.nbytes != length:
            warn_once(
                f"ignored part {part + 1} of {count} ({buffer.nbytes} of {size} bytes) "
                f"where {parts_of(len(self.data))} parts make {len(self.data)} bytes"
            )
            return False
        if part not in self.missing:
            return False
        self.data[at : at + length] = buffer.cast("B")
        self.missing.discard(part)
        return True
