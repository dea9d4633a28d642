"""Edits as plain data: what is done to a value, in order; checked before anything runs."""

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

PARAMETER_NAME = re.compile(r"[A-Za-z_]\w{0,30}")
MAX_EDITS = 1000


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """One edit of one layer's value: a transform of some of its channels.

    `layer` is the key of the value, `name` the edit's own, `transform` one of `TRANSFORM_KINDS`,
    "glsl" or "inject". `channels` are numbers of the value's shown channels, None for all. The
    result is `mix` · the transformed value + (1 − mix) · the value before. `source` is the text of
    "glsl", whose `parameters` are called `names` there; `array` is the content hash of an injected
    array of (n, channels, h, w), and `frozen` says that it was the layer's own value. With `skips`,
    as of a latent, an injected whole value spares all passes that nothing behind it needs.
    """

    layer: str
    name: str
    transform: str
    parameters: tuple[float, ...] = ()
    channels: tuple[int, ...] | None = None
    mix: float = 1.0
    enabled: bool = True
    source: str = ""
    names: tuple[str, ...] = ()
    array: str = ""
    frozen: bool = False
    skips: bool = False


def parameters_of(edit: Edit) -> dict[str, float]:
    """An edit's parameters by their names."""
    kind = TRANSFORM_KINDS.get(edit.transform)
    names = [one.name for one in kind.parameters] if kind else edit.names
    return dict(zip(names, edit.parameters, strict=False))


def check_batched_seeds(edits: Iterable[Edit], batch: int, count: int) -> None:
    """InputError for bends whose random numbers each piece of a larger batch would have again."""
    for edit in active_edits(edits):
        if count > batch and "seed" in parameters_of(edit):
            raise InputError(
                f"{edit.layer} is bent by {edit.transform}, and {count} examples would run in "
                f"pieces of {batch} with the same random numbers each: compile for a batch of "
                f"{count}, or switch the bend {edit.name!r} off (enabled = False)"
            )


def validate_number(what: str, number: Any, parameter: TransformParameter | None = None) -> float:
    """A parameter's value as a float; InputError where it is none, not finite or out of range."""
    try:
        value = float(number)
    except (TypeError, ValueError):
        raise InputError(f"{what}: a number is needed, not {number!r}") from None
    if not math.isfinite(value):
        raise InputError(f"{what} is {value}; a finite number is needed")
    if parameter is None:
        return value
    if parameter.integer and value != int(value):
        raise InputError(f"{what} is {value}; a whole number is needed")
    least, most = parameter.least, parameter.most
    if least is not None and (value < least or (parameter.above and value == least)):
        raise InputError(f"{what} is {value}; more than {least} is needed" if parameter.above
                         else f"{what} is {value}; at least {least} is needed")  # fmt: skip
    if most is not None and value > most:
        raise InputError(f"{what} is {value}; at most {most} is possible")
    return value


def validate_glsl(source: Any, names: Sequence[str]) -> str:
    """The text of a transform of one's own, as far as it can be checked without a compiler."""
    if not isinstance(source, str) or not source.strip():
        raise InputError('transforms.glsl needs a text, as in glsl("y = sin(x * p0)", p0=1.0)')
    if "#" in source or "\\" in source or not source.isascii():
        raise InputError(
            "transforms.glsl: no # (directives), no backslash and ASCII letters only, please"
        )
    if not re.search(r"\by\b", source):
        raise InputError(
            "transforms.glsl: the text never sets y, the new value of x, as in "
            'glsl("y = sin(x * p0)", p0=1.0)'
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
        if not PARAMETER_NAME.fullmatch(name) or name.startswith("gl_"):
            raise InputError(f"transforms.glsl: {name!r} is no name that a parameter can have")
    trusted_glsl.add(source.strip())
    return source.strip()


trusted_glsl: set[str] = set()  # texts that this process has made


def check_trusted_glsl(source: str) -> None:
    """InputError for a text in GLSL that comes from elsewhere."""
    if source not in trusted_glsl:
        raise InputError(
            f"a bend of a text in GLSL, {source[:60]!r}, comes from elsewhere: read it, and if it "
            "is right call nbglcnn.transforms.glsl(...) with it once before"
        )


def validate_edits(edits: Iterable[Edit], plan: Plan) -> tuple[Edit, ...]:
    """Edits that this Plan can run, each with a name of its own; KeyError or InputError else."""
    found = tuple(edits)
    if len(found) > MAX_EDITS:
        raise InputError(f"{len(found)} edits; at most {MAX_EDITS} are possible")
    names: set[str] = set()
    for edit in found:
        if not edit.name or edit.name in names:
            raise InputError(f"there is an edit called {edit.name!r} already; give it another name")
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
        own = [None] * len(edit.names)
    elif edit.transform == INJECT:
        if not edit.array:
            raise InputError(f"{where}: the array is missing")
        own = ()
    elif kind is None:
        raise InputError(
            f"no transform {edit.transform!r}; there are {', '.join([*TRANSFORM_KINDS, GLSL])}"
        )
    else:
        own = kind.parameters
        count = value.nchw[1]
        if kind.counts and count not in kind.counts:
            raise InputError(
                f"{where} mixes red, green and blue, so it takes values of "
                f"{' or '.join(map(str, kind.counts))} channels, and this one has {count}: bend a "
                "colour picture, or multiply some channels instead"
            )
    if len(own) != len(edit.parameters):
        raise InputError(f"{where} takes {len(own)} parameters, not {len(edit.parameters)}")
    for (name, number), parameter in zip(parameters_of(edit).items(), own, strict=True):
        validate_number(f"{where}: {name}", number, parameter)
    mix = validate_number(f"{where}: mix", edit.mix)
    if not 0 <= mix <= 1:
        raise InputError(f"{where}: mix is {mix}; it goes from 0 (unbent) to 1")
    if edit.skips and (edit.transform, edit.channels, mix) != (INJECT, None, 1):
        raise InputError(f"{where}: only a whole injected value can stand for the layers before it")
    validate_channels(edit.channels, value)


def validate_channels(channels: Any, value: Value) -> tuple[int, ...] | None:
    """Numbers of channels that a value has, in ascending order; None stands for all."""
    if channels is None:
        return None
    count = value.nchw[1]
    found = []
    for one in channels:
        if isinstance(one, bool) or not hasattr(one, "__index__"):
            raise InputError(f"{value.key}: {one!r} is not the number of a channel")
        number = one.__index__()
        if not 0 <= number < count:
            raise InputError(f"{value.key} has channels 0 to {count - 1}, not {number}")
        found.append(number)
    return tuple(sorted(set(found)))


def editable_value(plan: Plan, layer: str) -> Value:
    """The value of a key; KeyError where it isn't kept, InputError where it can't be edited."""
    known = {value.key: value for value in plan.values}
    if layer not in known:
        fused = layer in {one.name for one in plan.layers}
        raise KeyError(
            f'{layer!r} is not kept by this Plan, so it cannot be edited: give observe="all", or a '
            "list with its name"
            if fused
            else unknown_name_message(layer, list(known), shared=plan.header.shared)
        )
    value = known[layer]
    if value.after != NOT_EDITABLE:
        return value
    if value.dtype != "float32":
        raise InputError(f"{layer} holds {value.dtype} numbers; only float32 values can be edited")
    if not value.read.count:
        raise InputError(f"{layer} has no elements to edit")
    raise InputError(
        f"{layer} is a constant of the network or its state, which can't be edited; edit a layer "
        "that reads it, or set the weight"
    )


def to_dict(edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """Edits as JSON has them, with lists."""
    found: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(list(edits)))
    return found


def from_dict(rows: Iterable[Mapping[str, Any]]) -> tuple[Edit, ...]:
    """The inverse; InputError where something is none."""
    try:
        return tuple(msgspec.convert(row, Edit) for row in rows)
    except (msgspec.ValidationError, TypeError) as error:
        raise InputError(f"that is no list of edits: {error}") from None


def active_edits(edits: Iterable[Edit]) -> list[Edit]:
    """Those that change something."""
    return [one for one in edits if one.enabled and one.mix > 0 and one.channels != ()]
