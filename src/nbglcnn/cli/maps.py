"""Maps of layers as a picture: a row for each example, in it a picture for each layer."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbglcnn.graph import Array
    from nbglcnn.plan import Plan

MOST_ROWS = 32


def sheet(plan: Plan, values: Mapping[str, Array], renderer: str) -> bytes:
    """A PNG of these values, of the first MOST_ROWS examples."""
    from msgspec.structs import replace
    from PIL import Image

    from nbglcnn.pieces import has_examples
    from nbglcnn.viewer.snapshot import row

    known = {value.key: value for value in plan.values}
    shown = [known[key] for key in values]
    batched = [value for value in shown if has_examples(value, plan.header.batch)]
    count = max((len(values[value.key]) for value in batched), default=1)
    rows = []
    for example in range(min(count, MOST_ROWS)):
        one = {
            value.key: values[value.key][example : example + 1]
            if value in batched
            else values[value.key]
            for value in shown
        }
        single = [
            replace(value, nchw=(1, *value.nchw[1:]), shape=(1, *value.shape[1:]))
            if value in batched
            else value
            for value in shown
        ]
        rows.append(Image.open(io.BytesIO(row(plan, single, one, 0, renderer))))
    width, height = max(picture.width for picture in rows), rows[0].height
    whole = Image.new("RGB", (width, height * len(rows)), "white")
    for number, picture in enumerate(rows):
        whole.paste(picture, (0, number * height))
    data = io.BytesIO()
    whole.save(data, "PNG", optimize=True)
    return data.getvalue()
