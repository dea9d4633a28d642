"""Arguments of a module's forward: arrays in nested dicts and tuples, and constants."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbglcnn.errors import InputError, nearest

CONSTANTS = (type(None), bool, int, float, complex)


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of an input among the arguments."""

    index: int


@dataclass(frozen=True)
class Arguments:
    """A call of forward: by position and by name, with a Slot in the place of each input.

    `names` are the inputs' names: added_cond_kwargs['image_embeds'], sizes[0].
    """

    by_position: tuple[Any, ...]
    by_name: Mapping[str, Any]
    names: tuple[str, ...]

    def filled(self, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with these inputs."""
        return _filled(self.by_position, inputs), _filled(dict(self.by_name), inputs)

    def example(self, inputs: Sequence[Any]) -> Any:
        """An example input of these arrays, as it is given with the module."""
        args, named = self.filled(inputs)
        return named if self.by_name else args

    def by_input(self, x: Any) -> Any:
        """Another example's arrays by the inputs' names, given as the first one or by these names.

        InputError where a constant is another one.
        """
        named = isinstance(x, Mapping)
        if named and set(x) <= set(self.names):
            return x
        if named != bool(self.by_name):
            return x
        old = self.by_name if named else dict(enumerate(self.by_position))
        new = dict(x) if named else dict(enumerate(x if type(x) is tuple else (x,)))
        found: list[tuple[str, Any]] = []
        tree = {key: _with_slots(one, str(key), found) for key, one in new.items()}
        if tree == dict(old):
            return {name: array for name, (_, array) in zip(self.names, found, strict=True)}
        constants = [key for key in new if _is_constant(new[key])]
        raise InputError(
            f"the arguments {', '.join(map(str, new))} were given; the first were "
            f"{', '.join(map(str, old))}, of which constants stay as they are. Give the inputs by "
            f"name ({', '.join(map(repr, self.names))}), or make another Viewer for other constants"
            if constants or set(new) != set(old)
            else "the arguments are nested otherwise than the first were; give the inputs by name: "
            f"{', '.join(map(repr, self.names))}"
        )


def arguments_of(x: Any, parameters: Sequence[str]) -> tuple[Arguments, tuple[Any, ...]] | None:
    """The Arguments of an example input and its arrays; None where it is plain arrays in order.

    `parameters` are the names of what forward takes by position, in order.
    """
    named = isinstance(x, Mapping)
    given: dict[str, Any] = (
        dict(x)
        if named
        else {_name(parameters, at): one for at, one in enumerate(x if type(x) is tuple else (x,))}
    )
    plain = not (named or type(x) is tuple) or not any(map(_is_nested, given.values()))
    if plain and (not named or set(given) <= set(parameters[: len(given)])):
        return None
    found: list[tuple[str, Any]] = []
    tree = {name: _with_slots(one, str(name), found) for name, one in given.items()}
    if not found:
        raise InputError(
            f"x: {', '.join(map(repr, given.values()))} holds no array, nor a picture's "
            "path; give at least one input as an array or a tensor. None, bools and numbers of "
            "Python's are constants"
        )
    own = Arguments(
        () if named else tuple(tree.values()),
        tree if named else {},
        tuple(name for name, _ in found),
    )
    return own, tuple(array for _, array in found)


def check_names(given: Mapping[str, Any], names: Sequence[str]) -> None:
    """InputError for an argument that forward doesn't have."""
    for name in given:
        if name not in names:
            raise InputError(
                f"no input {name!r}{nearest(name, names)}; the model takes "
                f"{', '.join(map(repr, names))}"
            )


def _name(parameters: Sequence[str], at: int) -> str:
    if at < len(parameters):
        return parameters[at]
    return f"input {at}"


def _is_nested(one: Any) -> bool:
    return _is_constant(one) or isinstance(one, Mapping | tuple)


def _is_constant(one: Any) -> bool:
    # A text that is a file's path is a picture.
    return isinstance(one, CONSTANTS) or (isinstance(one, str) and not os.path.isfile(one))


def _with_slots(tree: Any, name: str, found: list[tuple[str, Any]]) -> Any:
    """The tree with a Slot for each array, which `found` gets with its name."""

    def inner(one: Any, picked: str) -> Any:
        return _with_slots(one, f"{name}[{picked}]", found)

    if _is_constant(tree):
        return tree
    if isinstance(tree, Mapping):
        return {key: inner(one, repr(key)) for key, one in tree.items()}
    if isinstance(tree, tuple):
        return _like(tree, (inner(one, str(at)) for at, one in enumerate(tree)))
    found.append((name, tree))
    return Slot(len(found) - 1)


def _filled(tree: Any, inputs: Sequence[Any]) -> Any:
    if isinstance(tree, Slot):
        return inputs[tree.index]
    if isinstance(tree, dict):
        return {key: _filled(one, inputs) for key, one in tree.items()}
    if isinstance(tree, tuple):
        return _like(tree, (_filled(one, inputs) for one in tree))
    return tree


def _like(one: tuple[Any, ...], items: Iterator[Any]) -> tuple[Any, ...]:
    make: Callable[[Any], Any] = getattr(type(one), "_make", tuple)
    return make(items)  # type: ignore[no-any-return]
