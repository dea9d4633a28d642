"""Plan headers (JSON) with one to three places changed: numbers, names and list items."""

import copy
from collections import defaultdict
from random import Random
from typing import Any

HeaderPath = tuple[str | int, ...]
NUMBERS = (0, 1, 2, -1, -2, -3, 999, 2**20, 2**28 + 1)
STRINGS = ("", "x", "y", "input", "forward", "__proto__", "a b", "0" * 32, 'q"\\é')
OPTION_STRINGS = ("uint8", "float32", "crop", "NHWC", "rgba16f")
# All list fields of a header except user-visible texts, program sources and the target.
LIST_FIELDS = (
    *("textures", "programs", "passes", "sections", "weights", "inputs", "values", "parameters"),
    *(
        "outputs",
        "layers",
        "field_maps",
        "carries",
        "tokens",
        "comparison",
        "batch",
        "uniform_bytes",
    ),
)


def header_paths(header: Any) -> dict[HeaderPath, list[HeaderPath]]:
    """The paths into a header, grouped by kind: the path with * for each index."""
    found: dict[HeaderPath, list[HeaderPath]] = defaultdict(list)
    pending: list[tuple[Any, HeaderPath]] = [(header[name], (name,)) for name in LIST_FIELDS]
    while pending:
        node, path = pending.pop()
        items = (
            node.items() if isinstance(node, dict) else enumerate(node) if _is_list(node) else ()
        )
        pending += [(item, (*path, key)) for key, item in items]
        if not isinstance(node, dict | bool | None):
            found[tuple("*" if isinstance(one, int) else one for one in path)].append(path)
    return found


def _is_list(node: Any) -> bool:
    return isinstance(node, list)


def mutate_header(header: Any, paths: dict[HeaderPath, list[HeaderPath]], random: Random) -> Any:
    """Return a copy with one to three places changed; all kinds of place are equally likely."""
    changed = copy.deepcopy(header)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        *path, last = random.choice(paths[random.choice(list(paths))])
        node = changed
        try:
            for key in path:
                node = node[key]
            node[last] = _mutate_value(node[last], random)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed it
    return changed


def _mutate_value(old: Any, random: Random) -> Any:
    match old:
        case list():
            at = random.randrange(len(old) + 1)
            shorter = [*old[:at], *old[at + 1 :]]
            longer = [*old[:at], *copy.deepcopy(old[at - 1 : at] or old[:1]), *old[at:]]
            return random.choice((shorter, longer, old[::-1], old[:at]))
        case int():
            near = (old + 1, old - 1, 2 * old, -old, random.randrange(40))
            return random.choice((*near, *near, *NUMBERS))
        case float():
            return random.choice((0.0, 0.5, 1.5, -1.0))
        case str():
            return random.choice((*STRINGS, *OPTION_STRINGS, f"{old}x"))
    return old
