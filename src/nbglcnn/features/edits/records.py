"""Edits as plain data: an ordered list of changes to values, validated before anything runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from nbglcnn.errors import InputError, unknown_name_message
from nbglcnn.features.edits.transforms import (
    GLSL,
    INJECT,
    MAX_PARAMETERS,
    TRANSFORM_KINDS,
    TransformParameter,
)
from nbglcnn.plan.schema import NOT_EDITABLE, Plan, Value

PARAMETER_NAME_PATTERN = re.compile(r"[A-Za-z_]\w{0,30}")
MAX_EDITS = 1000


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """One edit of a layer's value, as plain data: a transform of some of its channels.

    Attributes:
        layer: The key of the value.
        name: The name of the edit, unique among all edits.
        transform: The name of a transform, "glsl" or "inject".
        parameters: The numbers of the transform, in its order.
        channels: The numbers of the edited channels; None for all.
        mix: The result is mix · transformed + (1 − mix) · before.
        enabled: Whether the edit is active.
        source: The code of "glsl".
        parameter_names: The names of `parameters` in the code of "glsl".
        array_hash: The content hash of an injected array, shape (n, channels, h, w).
        is_frozen: Whether the injected array was the layer's own value.
        skips_upstream: Whether the passes that only lead to this value are skipped, as for a
            latent.
    """

    layer: str
    name: str
    transform: str
    parameters: tuple[float, ...] = ()
    channels: tuple[int, ...] | None = None
    mix: float = 1.0
    enabled: bool = True
    source: str = ""
    parameter_names: tuple[str, ...] = ()
    array_hash: str = ""
    is_frozen: bool = False
    skips_upstream: bool = False


def parameters_of(edit: Edit) -> dict[str, float]:
    """Return an edit's parameters by name."""
    kind = TRANSFORM_KINDS.get(edit.transform)
    names = [one.name for one in kind.parameters] if kind else edit.parameter_names
    return dict(zip(names, edit.parameters, strict=False))


def check_batched_seeds(edits: Iterable[Edit], batch_size: int, example_count: int) -> None:
    """Raise InputError for random bends if the batches of a larger input would repeat numbers."""
    for edit in active_edits(edits):
        if example_count > batch_size and "seed" in parameters_of(edit):
            raise InputError(
                f"{edit.layer} is bent by {edit.transform}, and {example_count} examples would run "
                f"in batches of {batch_size} with equal random numbers in each: compile for a "
                f"batch of {example_count}, or disable the bend {edit.name!r} (enabled = False)"
            )


def validate_number(
    error_subject: str, number: Any, parameter: TransformParameter | None = None
) -> float:
    """Return a parameter as a float; InputError if it is no number, not finite or out of range."""
    try:
        value = float(number)
    except (TypeError, ValueError):
        raise InputError(f"{error_subject}: expected a number, not {number!r}") from None
    if not math.isfinite(value):
        raise InputError(f"{error_subject} is {value}; expected a finite number")
    if parameter is None:
        return value
    if parameter.integer and value != int(value):
        raise InputError(f"{error_subject} is {value}; expected an integer")
    least, most = parameter.least, parameter.most
    if least is not None and (value < least or (parameter.above and value == least)):
        relation = ">" if parameter.above else "≥"
        raise InputError(f"{error_subject} is {value}; expected a number {relation} {least}")
    if most is not None and value > most:
        raise InputError(f"{error_subject} is {value}; expected a number ≤ {most}")
    return value


def validate_glsl(source: Any, names: Sequence[str]) -> str:
    """Validate the code of a custom GLSL transform as far as possible without a compiler."""
    if not isinstance(source, str) or not source.strip():
        raise InputError(
            'transforms.glsl: expected a string, as in glsl("y = sin(x * p0)", p0=1.0)'
        )
    if "#" in source or "\\" in source or not source.isascii():
        raise InputError(
            "transforms.glsl: # (directives), backslashes and non-ASCII letters are not allowed"
        )
    if not re.search(r"\by\b", source):
        raise InputError(
            'transforms.glsl: the code never sets y, the new value of x, as in glsl("y = sin(x * '
            'p0)", p0=1.0)'
        )
    depth = 0
    for letter in source:
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            break
    if depth:
        raise InputError("transforms.glsl: its braces { } don't match")
    if len(names) > MAX_PARAMETERS:
        raise InputError(f"transforms.glsl: at most {MAX_PARAMETERS} parameters, not {len(names)}")
    for name in names:
        if not PARAMETER_NAME_PATTERN.fullmatch(name) or name.startswith("gl_"):
            raise InputError(f"transforms.glsl: {name!r} is not a valid parameter name")
    trusted_glsl_sources.add(source.strip())
    return source.strip()


trusted_glsl_sources: set[str] = set()  # code that this process has created


def check_trusted_glsl(source: str) -> None:
    """Raise InputError for GLSL code that this process didn't create."""
    if source not in trusted_glsl_sources:
        raise InputError(
            f"a GLSL bend from a file or page needs your approval: read {source[:60]!r}, and if "
            "you trust it, call nbglcnn.transforms.glsl(...) with it once first"
        )


def validate_edits(edits: Iterable[Edit], plan: Plan) -> tuple[Edit, ...]:
    """Validate edits for this Plan, with unique names; raises KeyError or InputError."""
    found = tuple(edits)
    if len(found) > MAX_EDITS:
        raise InputError(f"{len(found)} edits; at most {MAX_EDITS} are supported")
    names: set[str] = set()
    for edit in found:
        if not edit.name or edit.name in names:
            raise InputError(f"an edit named {edit.name!r} already exists; give it another name")
        names.add(edit.name)
        _check_edit(edit, plan)
    return found


def _check_edit(edit: Edit, plan: Plan) -> None:
    value = editable_value(plan, edit.layer)
    where = f"{edit.transform} of {edit.layer}"
    kind = TRANSFORM_KINDS.get(edit.transform)
    own: Sequence[TransformParameter | None]
    if edit.transform == GLSL:
        check_trusted_glsl(edit.source)
        own = [None] * len(edit.parameter_names)
    elif edit.transform == INJECT:
        if not edit.array_hash:
            raise InputError(f"{where}: the array is missing")
        own = ()
    elif kind is None:
        raise InputError(
            f"unknown transform {edit.transform!r}; expected one of "
            f"{', '.join([*TRANSFORM_KINDS, GLSL])}"
        )
    else:
        own = kind.parameters
        count = value.nchw[1]
        if kind.counts and count not in kind.counts:
            raise InputError(
                f"{where} mixes red, green and blue, so it needs a value of "
                f"{' or '.join(map(str, kind.counts))} channels; this one has {count}. Bend a "
                "colour picture, or multiply some channels instead"
            )
    if len(own) != len(edit.parameters):
        raise InputError(f"{where} takes {len(own)} parameters, not {len(edit.parameters)}")
    for (name, number), parameter in zip(parameters_of(edit).items(), own, strict=True):
        validate_number(f"{where}: {name}", number, parameter)
    mix = validate_number(f"{where}: mix", edit.mix)
    if not 0 <= mix <= 1:
        raise InputError(f"{where}: mix is {mix}; expected 0 (unbent) to 1")
    if edit.skips_upstream and (edit.transform, edit.channels, mix) != (INJECT, None, 1):
        raise InputError(f"{where}: only a whole injected value can stand for the layers before it")
    validate_channels(edit.channels, value)


def validate_channels(channels: Any, value: Value) -> tuple[int, ...] | None:
    """Return a value's channel numbers in ascending order; None means all."""
    if channels is None:
        return None
    count = value.nchw[1]
    found = []
    for one in channels:
        if isinstance(one, bool) or not hasattr(one, "__index__"):
            raise InputError(f"{value.key}: {one!r} is not a channel index")
        number = one.__index__()
        if not 0 <= number < count:
            raise InputError(f"{value.key} has channels 0 to {count - 1}, not {number}")
        found.append(number)
    return tuple(sorted(set(found)))


def editable_value(plan: Plan, layer: str) -> Value:
    """Return the value of a key; KeyError if it isn't kept, InputError if it can't be edited."""
    known = {value.key: value for value in plan.values}
    if layer not in known:
        fused = layer in {one.name for one in plan.layers}
        raise KeyError(
            f"{layer!r} is not kept by this Plan, so it cannot be edited: compile with "
            'observe="all", or a list with its name'
            if fused
            else unknown_name_message(layer, list(known), shared=plan.header.shared_modules)
        )
    value = known[layer]
    if value.edit_pass != NOT_EDITABLE:
        return value
    if value.dtype != "float32":
        raise InputError(f"{layer} has {value.dtype} values; only float32 values can be edited")
    if not value.readback.count:
        raise InputError(f"{layer} has no elements to edit")
    raise InputError(
        f"{layer} is a constant of the network or its state, which can't be edited; edit a layer "
        "that reads it, or set the weight"
    )


def edits_to_dicts(edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """Convert edits to data for JSON."""
    found: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(list(edits)))
    return found


def edits_from_dicts(rows: Iterable[Mapping[str, Any]]) -> tuple[Edit, ...]:
    """Parse edits from data of JSON; InputError if one is invalid."""
    try:
        return tuple(msgspec.convert(row, Edit) for row in rows)
    except (msgspec.ValidationError, TypeError) as error:
        raise InputError(f"not a list of edits: {error}") from None


def active_edits(edits: Iterable[Edit]) -> list[Edit]:
    """Return the edits that are enabled and have an effect."""
    return [one for one in edits if one.enabled and one.mix > 0 and one.channels != ()]
