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
class ForwardArguments:
    """A call of forward, with positional and keyword arguments, and placeholders for the inputs.

    `input_names` are the inputs' names: added_cond_kwargs['image_embeds'], sizes[0].
    `positional_names` are the names of forward's positional arguments. `constant_texts` are the
    constants' reprs by path: the ones in the call, and the defaults of omitted arguments.
    """

    positional: tuple[Any, ...]
    keyword: Mapping[str, Any]
    input_names: tuple[str, ...]
    positional_names: tuple[str, ...]
    constant_texts: Mapping[str, str]

    def bind(self, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the args and kwargs of a call with these inputs."""
        return _fill_placeholders(self.positional, inputs), _fill_placeholders(
            dict(self.keyword), inputs
        )

    def example(self, inputs: Sequence[Any]) -> Any:
        """The example input with these arrays, in the form that the user passes."""
        args, named = self.bind(inputs)
        return named if self.keyword else args


def parse_arguments(
    x: Any, positional_names: Sequence[str], defaults: Mapping[str, Any]
) -> tuple[ForwardArguments, tuple[Any, ...]] | None:
    """Split an example input into Arguments and arrays; None if it is plain arrays in order.

    `positional_names` are the names of forward's positional arguments, in order; `defaults` are the
    default values of optional arguments, by name.
    """
    named = isinstance(x, Mapping)
    given: dict[str, Any] = (
        dict(x)
        if named
        else {
            _positional_name(positional_names, at): one
            for at, one in enumerate(x if type(x) is tuple else (x,))
        }
    )
    plain = not (named or type(x) is tuple) or not any(map(is_nested, given.values()))
    if plain and (not named or set(given) <= set(positional_names[: len(given)])):
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
    own = ForwardArguments(
        () if named else tuple(tree.values()),
        tree if named else {},
        tuple(name for name, _ in found),
        (
            *positional_names,
            *(name for name in given if not named and name not in positional_names),
        ),
        constants,
    )
    return own, tuple(array for _, array in found)


def make_plain_arguments(input_names: Sequence[str]) -> ForwardArguments:
    """The Arguments of a call with arrays in order."""
    slots = tuple(map(InputPlaceholder, range(len(input_names))))
    return ForwardArguments(slots, {}, tuple(input_names), tuple(input_names), {})


def check_argument_names(arguments: Mapping[str, Any], allowed_names: Sequence[str]) -> None:
    """Raise InputError for an argument that forward doesn't have."""
    for name in arguments:
        if name not in allowed_names:
            raise InputError(
                f"no input {name!r}{suggest_names(name, allowed_names)}; the model takes "
                f"{', '.join(map(repr, allowed_names))}"
            )


def _positional_name(positional_names: Sequence[str], index: int) -> str:
    if index < len(positional_names):
        return positional_names[index]
    return f"input {index}"


def _insert_placeholders(
    tree: Any, name: str, named_arrays: list[tuple[str, Any]], constant_texts: dict[str, str]
) -> Any:
    """Put placeholders for arrays into a tree; append the arrays to `named_arrays`."""

    def leaf(path: str, one: Any) -> Any:
        if (text := constant_text(one)) is not None:
            constant_texts[path] = text
            return one
        named_arrays.append((path, one))
        return InputPlaceholder(len(named_arrays) - 1)

    return map_leaves(tree, name, leaf)


def _fill_placeholders(tree: Any, inputs: Sequence[Any]) -> Any:
    if isinstance(tree, InputPlaceholder):
        return inputs[tree.index]
    if isinstance(tree, dict):
        return {key: _fill_placeholders(one, inputs) for key, one in tree.items()}
    if isinstance(tree, tuple | list):
        return rebuild_sequence(tree, (_fill_placeholders(one, inputs) for one in tree))
    return tree
