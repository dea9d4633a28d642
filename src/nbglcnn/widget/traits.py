"""Validation of the Viewer's traits: values that users and pages set, and pages' reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from traitlets import TraitError

from nbglcnn.errors import suggest_names
from nbglcnn.plan.schema import Plan, Value
from nbglcnn.protocol import MAX_COMPARED_CHANNELS, VIEW_NAMES, HoverTarget
from nbglcnn.widget.connection import Page

# The traits that a page may set.
PAGE_WRITABLE_TRAITS = (
    "example",
    "selected",
    "view",
    "height",
    "colormap",
    "color_range",
    "image_ranges",
    "symmetric",
    "presenting",
)


def default_view(layer: object, pixel: object) -> str:
    """The default view of a layer, or of one of its pixels."""
    return "network" if layer is None else "maps" if pixel is None else "explain"


def validate_example(index: int, batch: int) -> int:
    """Check the index of an example in a batch of this size."""
    if index >= batch:
        raise TraitError(f"example {index}: the batch has {batch} examples, counted from 0")
    return index


def validate_selection(
    value: dict[str, Any] | None, values: Sequence[Value]
) -> dict[str, Any] | None:
    """Check a selection: a layer of the network, and a channel or None."""
    if value is None:
        return None
    layer, channel = value.get("layer"), value.get("channel")
    found = next((v for v in values if v.key == layer), None)
    if set(value) - {"layer", "channel"} or found is None:
        raise TraitError(f"selected: expected a layer of this network, not {layer!r}")
    count = found.nchw[1]
    if channel is not None and (not isinstance(channel, int) or not 0 <= channel < count):
        raise TraitError(f"selected: {layer} has channels 0 to {count - 1}, not {channel!r}")
    return {"layer": layer, "channel": channel}


def validate_image_ranges(ranges: Mapping[str, Any], values: Sequence[Value]) -> dict[str, Any]:
    """Check the values of black and white of pictures, by key: "layer", or two numbers."""
    found: dict[str, Any] = {}
    known = {value.key for value in values}
    for key, given in ranges.items():
        if key not in known:
            raise TraitError(f"image_ranges: unknown value {key!r}{suggest_names(key, known)}")
        if given == "layer":
            found[key] = given
            continue
        try:
            low, high = (float(end) for end in given)
        except (TypeError, ValueError):
            low = high = 0.0
        if not (low < high and math.isfinite(high - low)):
            raise TraitError(
                f"image_ranges[{key!r}] is {given!r}: give the values of black and white as "
                '(low, high), or "layer" for each picture\'s minimum and maximum'
            )
        found[key] = [low, high]
    return found


def validate_view(
    view: dict[str, Any], plan: Plan, feature_views: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Check and complete a value of `Viewer.view`; its channels and pixel must exist.

    `feature_views` are the views of features, each with the reason why it is unavailable; "" if it
    is available.
    """
    name, layer = view.get("name"), view.get("layer")
    channels, pixel = view.get("channels") or (), view.get("pixel")
    if why := feature_views.get(str(name)):
        raise TraitError(why)
    is_available = dict.fromkeys(("compare", "train", "teach"), False)
    is_available |= {one: why == "" for one, why in feature_views.items()}
    known = [one for one in VIEW_NAMES if is_available.get(one, True)]
    if name not in known:
        raise TraitError(f"unknown view {name!r}; expected one of {', '.join(known)}")
    whole = {"name": name, "layer": layer, "channels": list(channels), "pixel": pixel}
    if set(view) - set(whole):
        raise TraitError(f"a view is {', '.join(whole)}, not {', '.join(map(str, view))}")
    if layer is None:
        if channels or pixel is not None:
            raise TraitError("channels and a pixel need a layer; name it")
        return whole
    value = next((value for value in plan.values if value.key == layer), None)
    if value is None:
        raise TraitError(f"no layer {layer!r} with kept values")
    _, count, height, width = value.nchw
    wrong = [c for c in channels if not isinstance(c, int) or not 0 <= c < count]
    if wrong:
        raise TraitError(f"{layer} has channels 0 to {count - 1}, not {wrong[0]!r}")
    if len(channels) > MAX_COMPARED_CHANNELS:
        raise TraitError(
            f"at most {MAX_COMPARED_CHANNELS} channels can be compared, not {len(channels)}; the "
            "grid shows all of a layer's channels"
        )
    if pixel is not None:
        y, x = pixel
        if not (0 <= y < height and 0 <= x < width):
            raise TraitError(f"a map of {layer} has {height}×{width} pixels (y, x), not {pixel}")
        whole["pixel"] = [int(y), int(x)]
    return whole


def make_hover_value(
    hover_target: HoverTarget | None, values: Sequence[Value]
) -> dict[str, Any] | None:
    """The trait `hover` for a page's report; None for an element that the network doesn't have."""
    if hover_target is None:
        return None
    value = next((value for value in values if value.key == hover_target.layer), None)
    if value is None:
        return None
    _, channels, height, width = value.nchw
    if (
        hover_target.y >= height
        or hover_target.x >= width
        or (hover_target.channel or 0) >= channels
    ):
        return None
    numbers = [float(number) for number in hover_target.values]
    return {
        "layer": hover_target.layer,
        "channel": hover_target.channel,
        "y": hover_target.y,
        "x": hover_target.x,
        "value": numbers[0] if len(numbers) == 1 else numbers or None,
    }


def page_status(
    page: Page | None, plan: Plan, parity_text: str, parity_time_text: str = ""
) -> dict[str, Any]:
    """The trait `status`: the state of the page heard last, with the parity check's text.

    `parity_time_text` is the time of that check.
    """
    ran = page.last_run if page else None
    stage = page.progress if page else None
    return {
        "page": "none" if page is None else "unusable" if page.problem else "connected",
        "problem": page.problem or page.error if page else "",
        "renderer": page.renderer if page else "",
        "stage": stage.stage if stage else "",
        "done": stage.done if stage else 0,
        "total": stage.total if stage else 0,
        "ms": ran.ms if ran else None,
        "timing": ran.timing if ran else "",
        "precision": plan.precision,
        "parity": parity_text,
        "parity_at": parity_time_text if parity_text else "",
        "gpu_bytes": plan.gpu_bytes,
        "in_python": [layer.name for layer in plan.layers if layer.python],
    }


def hover_to_json(hover: dict[str, Any] | None, _: object) -> dict[str, Any] | None:
    """Convert `hover` to JSON, which has no NaN and no infinity."""
    if hover is None:
        return None
    value = hover["value"]
    if isinstance(value, list):
        return {**hover, "value": [_number_to_json(one) for one in value]}
    return {**hover, "value": _number_to_json(value)}


def _number_to_json(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)
