"""The signature of a module's forward: the names of its inputs, and the channels of pictures."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import InputError, UnsupportedModel

if TYPE_CHECKING:
    import torch


def input_names(model: torch.nn.Module, count: int) -> list[str]:
    """The names of forward's first `count` inputs: `x`, or `inputs[0]` for *inputs."""
    name = type(model).__name__
    names: list[str] = []
    allowed = 0
    for parameter in inspect.signature(model.forward).parameters.values():
        missing = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
            return names
        if parameter.kind is parameter.KEYWORD_ONLY and missing:
            raise UnsupportedModel(
                f"{name}.forward needs the keyword {parameter.name!r}; nbglcnn passes inputs by "
                "position, so wrap the model in a module whose forward passes it"
            )
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            allowed += 1
            if len(names) < count:
                names.append(parameter.name)
            elif missing:
                raise InputError(
                    f"{name}.forward needs an input {parameter.name!r}; {count} "
                    f"{'was' if count == 1 else 'were'} given. Give a tuple with an array for each"
                )
    if count > allowed:
        most = "1 input" if allowed == 1 else f"{allowed} inputs"
        raise InputError(f"{name}.forward takes {most}; {count} were given")
    return names


def parameters_by_name(
    model: torch.nn.Module,
) -> tuple[list[str], list[str] | None, dict[str, Any]]:
    """Forward's positional parameters, its keyword parameters (None for any), and its defaults."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    by_position = [
        one.name
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return by_position, None, defaults
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return by_position, [one.name for one in parameters if one.kind in named], defaults


def image_channels(model: torch.nn.Module) -> int | None:
    """The input channels of the first convolution, to which pictures are converted."""
    for module in model.modules():
        channels = getattr(module, "in_channels", None)
        if isinstance(channels, int):
            return channels
    return None
