"""The message by which a page edits a weight."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nbglcnn.protocol import Count, Messages, Name


class SetWeight(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Requests new numbers in a parameter, starting at a flat row-major index.

    Changes with one `step`, as in one drag, are undone together. A page uses each step name only
    once.
    """

    page: Name
    name: Annotated[str, Meta(max_length=1000)]
    index: Count
    values: Annotated[tuple[float, ...], Meta(min_length=1, max_length=2**16)]
    step: Name


MESSAGES = Messages(from_page=(SetWeight,))
