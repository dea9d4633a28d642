"""The message of a page that edits a weight."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nbglcnn.protocol import Count, Messages, Name


class SetWeight(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Asks Python for other numbers in a parameter, from a flat row-major index on.

    Those of one `step` are undone together: all of a drag. A page gives no step's name twice.
    """

    page: Name
    name: Annotated[str, Meta(max_length=1000)]
    index: Count
    values: Annotated[tuple[float, ...], Meta(min_length=1, max_length=2**16)]
    step: Name


MESSAGES = Messages(from_page=(SetWeight,))
