"""The messages that an exported page reads from its file."""

from __future__ import annotations

from typing import Any

import msgspec

from nbglcnn.protocol import Count, Name, Text


class ParitySamples(msgspec.Struct, frozen=True):
    """The framework's values of an exported page's example, sampled in spans of each value.

    `spans` are as in a Probe, and the blob "samples" has their elements as float32, value by value;
    a device may differ from them by `tolerances`. `equal_examples` are the keys with equal examples
    if the inputs' examples are equal; `non_finite` and `float16_overflow` are as in VerifyResult.
    """

    reference: Text
    keys: tuple[str, ...]
    spans: tuple[tuple[tuple[Count, Count, Count], ...], ...]
    tolerances: tuple[float, ...]
    equal_examples: tuple[str, ...]
    non_finite: tuple[tuple[Text, Count, Count, int], ...] = ()
    float16_overflow: Text = ""


class PageData(msgspec.Struct, frozen=True):
    """The initial state of an exported page: the traits of its Viewer, and a view for each step.

    `snapshot` is a picture of the network, as a data: URL, for a browser that cannot run the
    network. `edits` are the edits at export. The page stores its blobs in this order: inputs, the
    arrays named by `injected_arrays`, then `blobs`: those of the `source` (None without one) and of
    the training. `training` is a TrainingRecord, None for a page without training; `weight_names`
    are the parameters that the page can read back for the user, `other_weights` is a blob in the
    safetensors format with the others. `teaching` is a TeachingRecord, None for a page without
    teaching; its LessonSnapshot is the blob "page.1". With `parity_samples` the page checks itself
    on the user's device; otherwise `unchecked_reason` is the reason.
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
    injected_arrays: tuple[Name, ...] = ()
    source: dict[str, Any] | None = None
    blobs: tuple[Name, ...] = ()
    training: dict[str, Any] | None = None
    weight_names: tuple[str, ...] = ()
    other_weights: Name = ""
    teaching: dict[str, Any] | None = None
    parity_samples: ParitySamples | None = None
    unchecked_reason: Text = ""
