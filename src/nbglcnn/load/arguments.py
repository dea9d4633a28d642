"""Arguments of a module's forward: arrays in nested dicts, tuples and lists, and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.inputs.nested import constant_text, is_nested, map_leaves, rebuild_sequence


@dataclass(frozen=True, slots=True)
class InputPlaceholder:
    """A placeholder for an input among the arguments."""

    index: int


@dataclass(frozen=True)
class Arguments:
    """A call of forward, with positional and keyword arguments, and placeholders for the inputs.

    `names` are the inputs' names: added_cond_kwargs['image_embeds'], sizes[0]. `parameters` are the
    names of forward's positional arguments. `constants` are the constants' reprs by path: the ones
    in the call, and the defaults of omitted arguments.
    """

    by_position: tuple[Any, ...]
    by_name: Mapping[str, Any]
    names: tuple[str, ...]
    parameters: tuple[str, ...]
    constants: Mapping[str, str]

    def bind(self, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the args and kwargs of a call with these inputs."""
        return _fill_placeholders(self.by_position, inputs), _fill_placeholders(
            dict(self.by_name), inputs
        )

    def example(self, inputs: Sequence[Any]) -> Any:
        """The example input with these arrays, in the form that the user passes."""
        args, named = self.bind(inputs)
        return named if self.by_name else args


def parse_arguments(
    x: Any, parameters: Sequence[str], defaults: Mapping[str, Any]
) -> tuple[Arguments, tuple[Any, ...]] | None:
    """Split an example input into Arguments and arrays; None if it is plain arrays in order.

    `parameters` are the names of forward's positional arguments, in order; `defaults` are the
    default values of optional arguments, by name.
    """
    named = isinstance(x, Mapping)
    given: dict[str, Any] = (
        dict(x)
        if named
        else {_name(parameters, at): one for at, one in enumerate(x if type(x) is tuple else (x,))}
    )
    plain = not (named or type(x) is tuple) or not any(map(is_nested, given.values()))
    if plain and (not named or set(given) <= set(parameters[: len(given)])):
        return None
    found: list[tuple[str, Any]] = []
    constants: dict[str, str] = {}
    for name, default in defaults.items():
        if name not in given:
            _insert_placeholders(default, name, [], constants)
    tree = {
        name: _insert_placeholders(one, str(name), found, constants) for name, one in given.items()
    }
    if not found:
        raise InputError(
            f"x: {', '.join(map(repr, given.values()))} contains neither an array nor a "
            "picture's path; give at least one input as an array or a tensor. None, bools and "
            "Python numbers are constants"
        )
    own = Arguments(
        () if named else tuple(tree.values()),
        tree if named else {},
        tuple(name for name, _ in found),
        (*parameters, *(name for name in given if not named and name not in parameters)),
        constants,
    )
    return own, tuple(array for _, array in found)


def plain_arguments(names: Sequence[str]) -> Arguments:
    """The Arguments of a call with arrays in order."""
    slots = tuple(map(InputPlaceholder, range(len(names))))
    return Arguments(slots, {}, tuple(names), tuple(names), {})


def check_names(given: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise InputError for an argument that forward doesn't have."""
    for name in given:
        if name not in names:
            raise InputError(
                f"no input {name!r}{suggest_names(name, names)}; the model takes "
                f"{', '.join(map(repr, names))}"
            )


def _name(parameters: Sequence[str], at: int) -> str:
    if at < len(parameters):
        return parameters[at]
    return f"input {at}"


def _insert_placeholders(
    tree: Any, name: str, found: list[tuple[str, Any]], constants: dict[str, str]
) -> Any:
    """Return tree with placeholders for arrays; append the arrays and their names to `found`."""

    def leaf(path: str, one: Any) -> Any:
        if (text := constant_text(one)) is not None:
            constants[path] = text
            return one
        found.append((path, one))
        return InputPlaceholder(len(found) - 1)

    return map_leaves(tree, name, leaf)


def _fill_placeholders(tree: Any, inputs: Sequence[Any]) -> Any:
    if isinstance(tree, InputPlaceholder):
        return inputs[tree.index]
    if isinstance(tree, dict):
        return {key: _fill_placeholders(one, inputs) for key, one in tree.items()}
    if isinstance(tree, tuple | list):
        return rebuild_sequence(tree, (_fill_placeholders(one, inputs) for one in tree))
    return tree
