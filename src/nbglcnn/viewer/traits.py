"""What the Viewer's traits may hold: checks of what users and pages set, and what pages tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from traitlets import TraitError

from nbglcnn.plan import Value
from nbglcnn.viewer.protocol import Spot

OF_THE_PAGE = ("input_index", "selected", "height", "colormap", "normalization")  # it may set them


def checked_index(index: int, shape: Sequence[int]) -> int:
    """The number of an example in a batch of this shape."""
    if shape and index >= shape[0]:
        raise TraitError(f"input_index {index}: the batch has {shape[0]} examples, from 0")
    return index


def checked_selection(
    value: dict[str, Any] | None, values: Sequence[Value]
) -> dict[str, Any] | None:
    """A layer of the network, and a channel or None."""
    if value is None:
        return None
    layer, channel = value.get("layer"), value.get("channel")
    if set(value) - {"layer", "channel"} or layer not in {v.key for v in values}:
        raise TraitError(f"selected needs a layer of this network, not {layer!r}")
    if channel is not None and (not isinstance(channel, int) or channel < 0):
        raise TraitError(f"selected: {channel!r} is not the number of a channel")
    return {"layer": layer, "channel": channel}


def hovered(spot: Spot | None, values: Sequence[Value]) -> dict[str, Any] | None:
    """`hover` for what a page says is under its pointer; None for what the network doesn't have."""
    if spot is None:
        return None
    value = next((value for value in values if value.key == spot.layer), None)
    if value is None:
        return None
    _, channels, height, width = value.layout.frame
    if spot.y >= height or spot.x >= width or (spot.channel or 0) >= channels:
        return None
    numbers = [float(number) for number in spot.values]
    return {
        "layer": spot.layer,
        "channel": spot.channel,
        "y": spot.y,
        "x": spot.x,
        "value": numbers[0] if len(numbers) == 1 else numbers or None,
    }


def as_json(hover: dict[str, Any] | None, _: object) -> dict[str, Any] | None:
    """`hover` for the page: JSON has no NaN and no infinity."""
    if hover is None:
        return None
    value = hover["value"]
    if isinstance(value, list):
        return {**hover, "value": [_number(one) for one in value]}
    return {**hover, "value": _number(value)}


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)
