"""What an exported page reads of its file."""

from __future__ import annotations

from typing import Any

import msgspec

from nbglcnn.protocol import Count, Name, Text


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
