"""Nested arguments of forward: arrays and constants, addressed by paths.

A path is an argument's name and the indices of a value in it: `sizes[0]`, `cond['embeds']`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from nbglcnn.errors import InputError
from nbglcnn.inputs.arguments import resolve_input_names

CONSTANT_TYPES = (type(None), bool, int, float, complex)


def is_constant(value: Any) -> bool:
    """Whether a value is None, a bool, a Python number, or a string that is not a file's path."""
    return isinstance(value, CONSTANT_TYPES) or (
        isinstance(value, str) and not os.path.isfile(value)
    )


def is_nested(value: Any) -> bool:
    """Whether an argument is a constant or a container; a list of pictures is a batch, not one."""
    return is_constant(value) or isinstance(value, Mapping | tuple) or _is_list(value)


def _is_list(value: Any) -> bool:
    """Whether forward receives the value as a list; a list of pictures becomes one tensor."""
    pictures = isinstance(value, list) and value and all(map(_is_picture, value))
    return isinstance(value, list) and not pictures


def _is_picture(value: Any) -> bool:
    return hasattr(value, "convert") or (
        isinstance(value, str | os.PathLike) and not is_constant(value)
    )


def map_leaves(
    tree: Any, path: str, map_leaf: Callable[[str, Any], Any], leaf_paths: Container[str] = ()
) -> Any:
    """Apply `map_leaf` to the path and value of each leaf; return the tree of the results.

    A value whose path is in `leaf_paths` is a leaf, even if it is a container.
    """

    def inside(one: Any, picked: str) -> Any:
        return map_leaves(one, f"{path}[{picked}]", map_leaf, leaf_paths)

    if path in leaf_paths or is_constant(tree):
        return map_leaf(path, tree)
    if isinstance(tree, Mapping):
        return {key: inside(one, repr(key)) for key, one in tree.items()} or map_leaf(path, {})
    if isinstance(tree, tuple) or _is_list(tree):
        items = (inside(one, str(at)) for at, one in enumerate(tree))
        return rebuild_sequence(tree, items) if len(tree) else map_leaf(path, tree)
    return map_leaf(path, tree)


def rebuild_sequence(original: Sequence[Any], items: Iterator[Any]) -> Any:
    """Build a list, tuple or named tuple of the type of `original` from items."""
    make: Callable[[Any], Any] = getattr(
        type(original), "_make", list if type(original) is list else tuple
    )
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
    x: Any,
    input_names: Sequence[str],
    forward_parameters: Sequence[str],
    constants_by_path: Mapping[str, str],
) -> Any:
    """Select the arrays of another call, by the inputs' `input_names`.

    Args:
        x: A tuple or dict of forward's arguments; or only the inputs, in order or by name, which
            are returned unchanged.
        input_names: The inputs' names, noise inputs last.
        forward_parameters: The names of forward's arguments, in order.
        constants_by_path: The constants that the network was compiled with, as reprs by path.

    Raises:
        InputError: If a constant differs, or is in the place of an array.
    """
    if not forward_parameters and not constants_by_path:
        return x
    named = isinstance(x, Mapping)
    items = tuple(x) if named else x if type(x) is tuple else (x,)
    paths = dict.fromkeys((*input_names, *constants_by_path))
    if named:
        if set(x) <= set(input_names):
            return x
        given = resolve_input_names(
            x, [*forward_parameters, *(path.partition("[")[0] for path in paths)]
        )
        extra_arguments: Sequence[Any] = ()
    else:
        if len(items) <= len(input_names) and not any(map(is_nested, items)):
            return x
        given = dict(zip(forward_parameters, items, strict=False))
        extra_arguments = items[len(forward_parameters) :]
    found: dict[str, Any] = {}
    seen = set[str]()

    def leaf(path: str, one: Any) -> None:
        text = constant_text(one)
        seen.add(path)
        if path in input_names or (text is None and path not in constants_by_path):
            found[path] = one
        elif constants_by_path.get(path) != text:
            raise another(path, "an array" if text is None else text)

    def another(path: str, now: str) -> InputError:
        inside = ", ".join(sorted(one for one in paths if one.startswith(f"{path}[")))
        own = "an array" if path in input_names else constants_by_path.get(path, inside)
        return InputError(
            f"{path}: {now} was given; the network was compiled "
            f"{f'with {own}' if own else f'without {path}'}, and only the values of arrays may "
            f"change. {f'Give {own}' if own else 'Leave it out'}, or give only the inputs, by "
            f"name ({', '.join(map(repr, input_names))}). For another constant, compile the model "
            "again"
        )

    for name, one in given.items():
        map_leaves(one, name, leaf, input_names)
        for path in paths:
            if path.startswith(f"{name}[") and path not in seen:
                raise another(path, "nothing")
    free = [name for name in input_names if name not in found]
    if len(extra_arguments) > len(free):
        raise InputError(
            f"{len(items)} arguments were given; forward takes {len(forward_parameters)}: "
            f"{', '.join(forward_parameters)}"
        )
    return found | dict(zip(free, extra_arguments, strict=False))
