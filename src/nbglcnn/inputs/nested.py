"""Nested arguments of forward: arrays and constants, addressed by paths.

A path is an argument's name and the indices of a value in it: `sizes[0]`, `cond['embeds']`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from nbglcnn.errors import InputError
from nbglcnn.inputs.arguments import resolve_names

CONSTANTS = (type(None), bool, int, float, complex)


def is_constant(one: Any) -> bool:
    """Whether a value is None, a bool, a Python number, or a string that is not a file's path."""
    return isinstance(one, CONSTANTS) or (isinstance(one, str) and not os.path.isfile(one))


def is_nested(one: Any) -> bool:
    """Whether an argument is a constant or a container; a list of pictures is a batch, not one."""
    return is_constant(one) or isinstance(one, Mapping | tuple) or _is_list(one)


def _is_list(one: Any) -> bool:
    """Whether forward receives the value as a list; a list of pictures becomes one tensor."""
    pictures = isinstance(one, list) and one and all(map(_is_picture, one))
    return isinstance(one, list) and not pictures


def _is_picture(one: Any) -> bool:
    return hasattr(one, "convert") or (isinstance(one, str | os.PathLike) and not is_constant(one))


def map_leaves(
    tree: Any, path: str, leaf: Callable[[str, Any], Any], names: Container[str] = ()
) -> Any:
    """Apply `leaf` to the path and value of each leaf; return the tree of the results.

    A value whose path is in `names` is a leaf, even if it is a container.
    """

    def inside(one: Any, picked: str) -> Any:
        return map_leaves(one, f"{path}[{picked}]", leaf, names)

    if path in names or is_constant(tree):
        return leaf(path, tree)
    if isinstance(tree, Mapping):
        return {key: inside(one, repr(key)) for key, one in tree.items()} or leaf(path, {})
    if isinstance(tree, tuple) or _is_list(tree):
        items = (inside(one, str(at)) for at, one in enumerate(tree))
        return rebuild_sequence(tree, items) if len(tree) else leaf(path, tree)
    return leaf(path, tree)


def rebuild_sequence(one: Sequence[Any], items: Iterator[Any]) -> Any:
    """Build a list, tuple or named tuple of the type of `one` from items."""
    make: Callable[[Any], Any] = getattr(type(one), "_make", list if type(one) is list else tuple)
    return make(items)


def constant_text(constant: Any) -> str | None:
    """The repr of a constant or an empty dict, tuple or list; None for anything else."""
    if isinstance(constant, tuple | list | Mapping) and not constant:
        return "{}" if isinstance(constant, Mapping) else "[]" if _is_list(constant) else "()"
    if not is_constant(constant):
        return None
    kinds: tuple[Callable[[Any], Any], ...] = (bool, int, float, complex, str)
    for kind in kinds:  # reprs of NumPy and enum values as plain Python
        if isinstance(constant, kind):  # type: ignore[arg-type]
            return repr(kind(constant))
    return "None"


def match_inputs(
    x: Any, names: Sequence[str], parameters: Sequence[str], constants: Mapping[str, str]
) -> Any:
    """Select the arrays of another call, by the inputs' `names`.

    Args:
        x: A tuple or dict of forward's arguments; or only the inputs, in order or by name, which
            are returned unchanged.
        names: The inputs' names, noise inputs last.
        parameters: The names of forward's arguments, in order.
        constants: The constants that the network was compiled with, as reprs by path.

    Raises:
        InputError: If a constant differs, or is in the place of an array.
    """
    if not parameters and not constants:
        return x
    named = isinstance(x, Mapping)
    items = tuple(x) if named else x if type(x) is tuple else (x,)
    paths = dict.fromkeys((*names, *constants))
    if named:
        if set(x) <= set(names):
            return x
        given = resolve_names(x, [*parameters, *(path.partition("[")[0] for path in paths)])
        extra_arguments: Sequence[Any] = ()
    else:
        if len(items) <= len(names) and not any(map(is_nested, items)):
            return x
        given = dict(zip(parameters, items, strict=False))
        extra_arguments = items[len(parameters) :]
    found: dict[str, Any] = {}
    seen = set[str]()

    def leaf(path: str, one: Any) -> None:
        text = constant_text(one)
        seen.add(path)
        if path in names or (text is None and path not in constants):
            found[path] = one
        elif constants.get(path) != text:
            raise another(path, "an array" if text is None else text)

    def another(path: str, now: str) -> InputError:
        inside = ", ".join(sorted(one for one in paths if one.startswith(f"{path}[")))
        own = "an array" if path in names else constants.get(path, inside)
        return InputError(
            f"{path}: {now} was given; the network was compiled "
            f"{f'with {own}' if own else f'without {path}'}, and only the values of arrays may "
            f"change. {f'Give {own}' if own else 'Leave it out'}, or give only the inputs, by "
            f"name ({', '.join(map(repr, names))}). For another constant, compile the model again"
        )

    for name, one in given.items():
        map_leaves(one, name, leaf, names)
        for path in paths:
            if path.startswith(f"{name}[") and path not in seen:
                raise another(path, "nothing")
    free = [name for name in names if name not in found]
    if len(extra_arguments) > len(free):
        raise InputError(
            f"{len(items)} arguments were given; forward takes {len(parameters)}: "
            f"{', '.join(parameters)}"
        )
    return found | dict(zip(free, extra_arguments, strict=False))
