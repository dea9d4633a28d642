"""Keys: which name shows which value, from the record of a model's calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any

from nbglcnn.graph import Array, Graph, Key, Node
from nbglcnn.inputs.arguments import InputSpec, to_input_arrays
from nbglcnn.inputs.nested import match_inputs


@dataclass(slots=True, eq=False)
class ModuleCall:
    """One call of a module: its path, its number among the calls of that path, and what it gave.

    `outputs` are (suffix, index): "" or "[0]", "['mean']", and the position among all captured
    tensors. `end_index` is the place in the node list where it returned.
    """

    path: str
    number: int
    is_leaf: bool
    module_type: str
    description: str
    outputs: list[tuple[str, int]] = field(default_factory=list)
    children: list[ModuleCall] = field(default_factory=list)
    end_index: int = -1

    @property
    def name(self) -> str:
        """The key without the part that picks from a tuple: `block`, `block:1`.

        A module `output` is `output:module`: `output` is what the network itself gives.
        """
        name = "output:module" if self.path == "output" else self.path
        return f"{name}:{self.number}" if self.number else name


def tensor_leaves(
    value: Any, is_tensor: Callable[[Any], bool], suffix: str = ""
) -> Iterator[tuple[str, Any]]:
    """The tensors in nested tuples, lists, dicts and dataclasses, each with what picks it."""
    for picked, part in tree_leaves(value, is_tensor, suffix):
        if is_tensor(part):
            yield picked, part


def tree_leaves(
    value: Any, is_tensor: Callable[[Any], bool], suffix: str = ""
) -> Iterator[tuple[str, Any]]:
    """All that stands in nested tuples, lists, dicts and dataclasses, each with what picks it."""
    if is_tensor(value):
        yield suffix, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from tree_leaves(item, is_tensor, f"{suffix}[{name!r}]")
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from tree_leaves(item, is_tensor, f"{suffix}[{index}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for part in fields(value):
            yield from tree_leaves(getattr(value, part.name), is_tensor, f"{suffix}.{part.name}")
    else:
        yield suffix, value


def map_tensors(
    value: Any,
    is_tensor: Callable[[Any], bool],
    change: Callable[[str, Any], Any],
    suffix: str = "",
) -> Any:
    """The same tuples, lists, dicts and dataclasses with what `change` makes of each tensor.

    It gets what picks the tensor, too. Where nothing inside is another one, a thing stays itself.
    """

    def inside(items: Mapping[Any, Any], picked: Callable[[Any], str]) -> dict[Any, Any]:
        made = {
            n: map_tensors(item, is_tensor, change, suffix + picked(n)) for n, item in items.items()
        }
        return {n: item for n, item in made.items() if item is not items[n]}

    if is_tensor(value):
        return change(suffix, value)
    if isinstance(value, Mapping):
        filled: Any = value
        for name, item in inside(value, lambda n: f"[{n!r}]").items():
            filled = copy.copy(value) if filled is value else filled
            filled[name] = item
        return filled
    if isinstance(value, tuple | list):
        changed = inside(dict(enumerate(value)), lambda n: f"[{n}]")
        if not changed:
            return value
        items = [changed.get(n, item) for n, item in enumerate(value)]
        return value._make(items) if hasattr(value, "_make") else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        own = {part.name: getattr(value, part.name) for part in fields(value)}
        filled = value
        for name, item in inside(own, lambda n: f".{n}").items():
            filled = copy.copy(value) if filled is value else filled
            object.__setattr__(filled, name, item)
        return filled
    return value


def graph_input_specs(
    graph: Graph, current: Sequence[Array] | None = None
) -> tuple[InputSpec, ...]:
    """The inputs of a Graph under their keys.

    Noise that is left out is what it is `current` among all inputs, or what the Graph begins with.
    """
    names = {key.value: key.name for key in reversed(graph.keys) if key.kind == "input"}
    first = {value: graph.values[constant].data for value, constant in graph.noise.items()}
    if current is not None:
        first = {v: array for v, array in zip(graph.inputs, current, strict=True) if v in first}
    fits = {value: graph.picture_fits.get(value, ("", 1.0)) for value in graph.inputs}
    return tuple(
        InputSpec(
            names.get(v, v),
            graph.values[v].shape,
            graph.values[v].dtype,
            default=first.get(v),
            fit=fits[v][0],
            crop_fraction=fits[v][1],
        )
        for v in graph.inputs
    )


def convert_inputs(
    graph: Graph, x: Any, current: Sequence[Array] | None = None
) -> tuple[Array, ...]:
    """The inputs of a Graph for another call, `x` as its model takes it.

    `current` is as in `graph_input_specs`.
    """
    specs = graph_input_specs(graph, current)
    if (own := graph.arguments) is not None:
        x = match_inputs(x, [spec.name for spec in specs], own.parameters, own.constants)
    return to_input_arrays(x, specs)


def walk_calls(call: ModuleCall) -> Iterator[ModuleCall]:
    """A call and all below it, in call order, each before its children."""
    yield call
    for child in call.children:
        yield from walk_calls(child)


def parent_calls(root: ModuleCall) -> Mapping[str, str]:
    """Each call with the one that it was made in, by their names in call order; "" is the model's.

    One comes behind the call that it was made in.
    """
    around = {child.name: call.name for call in walk_calls(root) for child in call.children}
    return MappingProxyType({c.name: around[c.name] for c in walk_calls(root) if c is not root})


def assign_calls(
    root: ModuleCall, nodes: Sequence[tuple[int, Node]]
) -> list[tuple[int, Node, ModuleCall]]:
    """For each node the call that it ran in: the first of its module's calls that ends after it."""
    calls: dict[str, list[ModuleCall]] = {}
    for call in walk_calls(root):
        calls.setdefault(call.path, []).append(call)
    return [
        (at, node, next((c for c in calls.get(node.module, []) if c.end_index > at), root))
        for at, node in nodes
    ]


def torch_keys(
    inputs: Mapping[str, str],
    root: ModuleCall,
    captured: Sequence[str],
    placed: Sequence[tuple[int, Node, ModuleCall]],
    word: Callable[[int, Node, str], str],
) -> list[Key]:
    """All keys in order. `inputs` maps forward's parameters to values, `captured` are values.

    `word` is what an operator that belongs to no module calls a value: its key says in which call
    it is, `block.0: add`.
    """
    within: dict[int, list[tuple[int, Node]]] = {}
    for at, node, call in placed:
        if not call.is_leaf or call is root:
            within.setdefault(id(call), []).append((at, node))
    keys: list[Key] = []
    weak: list[int] = []  # positions in `keys` of names that give way to a module's

    def add(call: ModuleCall) -> None:
        kind = "layer" if call.is_leaf else "module"
        if call is not root:
            for suffix, index in call.outputs:
                name = call.name + suffix
                keys.append(
                    Key(name, captured[index], kind, call.module_type, call.description, call.name)
                )
        operators = iter(within.get(id(call), []))
        pending = next(operators, None)
        for child in call.children:
            while pending is not None and pending[0] < child.end_index:
                operator(call, *pending)
                pending = next(operators, None)
            add(child)
        while pending is not None:
            operator(call, *pending)
            pending = next(operators, None)

    def operator(call: ModuleCall, at: int, node: Node) -> None:
        for output in filter(None, node.outputs):
            text = word(at, node, output)
            weak.append(len(keys))
            keys.append(Key(f"{call.name}: {text}" if call.path else text, output, "layer"))

    for name, value in inputs.items():
        weak.append(len(keys))
        keys.append(Key(name, value, "input"))
    add(root)
    for suffix, index in root.outputs:
        weak.append(len(keys))
        keys.append(
            Key(
                "output" + suffix, captured[index], "output", root.module_type, root.description, ""
            )
        )
    return resolve_name_clashes(keys, weak)


def resolve_name_clashes(keys: list[Key], weak: Sequence[int]) -> list[Key]:
    """Give each key a name of its own: those at `weak` positions take `:1`, `:2` … on a clash."""
    yielding = set(weak)
    taken = {key.name for i, key in enumerate(keys) if i not in yielding}
    # Outputs and inputs are what people type: they choose before functional operators do.
    order = sorted(yielding, key=lambda i: (("output", "input", "layer").index(keys[i].kind), i))
    for i in order:
        name, number = keys[i].name, 0
        while name in taken:
            number += 1
            name = f"{keys[i].name}:{number}"
        taken.add(name)
        keys[i] = replace(keys[i], name=name)
    return keys
