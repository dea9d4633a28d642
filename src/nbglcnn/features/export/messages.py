"""What an exported page reads of its file."""

from __future__ import annotations

from typing import Any

import msgspec

from nbglcnn.protocol import Count, Name, Text


class ParitySamples(msgspec.Struct, frozen=True):
    """What the framework computes of an exported page's example, in stretches of each value.

    `spans` are as in a Probe, and the blob "samples" has their elements as float32, one value after
    the other; a device may differ from them by `tolerances`. `equal_examples` are the keys whose
    examples are equal where their inputs are; `non_finite` and `float16_overflow` are as in
    VerifyResult.
    """

    reference: Text
    keys: tuple[str, ...]
    spans: tuple[tuple[tuple[Count, Count, Count], ...], ...]
    tolerances: tuple[float, ...]
    equal_examples: tuple[str, ...]
    non_finite: tuple[tuple[Text, Count, Count, int], ...] = ()
    float16_overflow: Text = ""


class PageData(msgspec.Struct, frozen=True):
    """What an exported page shows first: the traits of its Viewer, and a view for each step.

    `snapshot` is a picture of the network, as a data: URL, for a browser that cannot draw. `edits`
    are those of then; `injected_arrays` names their arrays, which the page holds behind its inputs,
    and `blobs` those of the `source` (None for none) and of the training, which it holds behind
    these. `training` is a TrainingRecord, None where the page trains nothing; `weight_names` are
    the parameters of the network that it gives to its reader, `other_weights` a blob in the
    safetensors format of those that it doesn't read. `teaching` is a TeachingRecord, None where
    nothing is taught; its LessonSnapshot is the blob "page.1". With `parity_samples` the page
    checks itself on its reader's device; `unchecked_reason` says why it has none.
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
