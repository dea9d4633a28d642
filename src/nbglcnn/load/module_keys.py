"""Keys: the names of values, derived from the recorded module calls of a model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any

from nbglcnn.graph import Array, Graph, Node, ValueKey
from nbglcnn.inputs.arguments import InputSpec, to_input_arrays
from nbglcnn.inputs.nested import match_inputs


@dataclass(slots=True, eq=False)
class ModuleCall:
    """A call of a module: its path, its number among the calls of that path, and its outputs.

    `outputs` are pairs (suffix, index): the suffix is "", "[0]" or "['mean']", and the index is the
    position among all captured tensors. `end_index` is the position in the node list at which the
    call returned.
    """

    path: str
    call_index: int
    is_leaf: bool
    module_type: str
    description: str
    outputs: list[tuple[str, int]] = field(default_factory=list)
    children: list[ModuleCall] = field(default_factory=list)
    end_index: int = -1

    @property
    def name(self) -> str:
        """The key without a tuple suffix: `block`, `block:1`.

        A module named `output` gets `output:module`, because `output` is the network's own output.
        """
        name = "output:module" if self.path == "output" else self.path
        return f"{name}:{self.call_index}" if self.call_index else name


def tensor_leaves(
    value: Any, is_tensor: Callable[[Any], bool], suffix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Iterate over tensors in nested tuples, lists, dicts and dataclasses, with their suffixes."""
    for picked, part in tree_leaves(value, is_tensor, suffix):
        if is_tensor(part):
            yield picked, part


def tree_leaves(
    value: Any, is_tensor: Callable[[Any], bool], suffix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Iterate over leaves of nested tuples, lists, dicts and dataclasses, with their suffixes."""
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
    """Apply `change` to each tensor in nested tuples, lists, dicts and dataclasses.

    `change` gets the suffix and the tensor. Containers in which nothing changes are returned as
    they are.
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
    graph: Graph, current_inputs: Sequence[Array] | None = None
) -> tuple[InputSpec, ...]:
    """The InputSpecs of a Graph's inputs, named by their keys.

    The default of a noise input is its array in `current_inputs`, or else its initial constant.
    """
    names = {key.value_name: key.name for key in reversed(graph.keys) if key.kind == "input"}
    first = {value: graph.values[constant].data for value, constant in graph.noise_defaults.items()}
    if current_inputs is not None:
        first = {
            v: array for v, array in zip(graph.inputs, current_inputs, strict=True) if v in first
        }
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
    graph: Graph, x: Any, current_inputs: Sequence[Array] | None = None
) -> tuple[Array, ...]:
    """Convert `x`, in the form that the model takes, to the inputs of a Graph.

    `current_inputs` is as in `graph_input_specs`.
    """
    specs = graph_input_specs(graph, current_inputs)
    if (own := graph.input_structure) is not None:
        x = match_inputs(x, [spec.name for spec in specs], own.positional_names, own.constant_texts)
    return to_input_arrays(x, specs)


def walk_calls(call: ModuleCall) -> Iterator[ModuleCall]:
    """Iterate over a call and its descendants in call order, parents first."""
    yield call
    for child in call.children:
        yield from walk_calls(child)


def map_call_parents(root: ModuleCall) -> Mapping[str, str]:
    """Map each call to its parent call, by their names in call order; "" is the model's call.

    Parents come before their children.
    """
    around = {child.name: call.name for call in walk_calls(root) for child in call.children}
    return MappingProxyType({c.name: around[c.name] for c in walk_calls(root) if c is not root})


def assign_calls(
    root: ModuleCall, nodes: Sequence[tuple[int, Node]]
) -> list[tuple[int, Node, ModuleCall]]:
    """Assign each node to its call: the first of its module's calls that ends after the node."""
    calls: dict[str, list[ModuleCall]] = {}
    for call in walk_calls(root):
        calls.setdefault(call.path, []).append(call)
    return [
        (at, node, next((c for c in calls.get(node.module, []) if c.end_index > at), root))
        for at, node in nodes
    ]


def make_torch_keys(
    inputs: Mapping[str, str],
    root: ModuleCall,
    captured_values: Sequence[str],
    nodes_with_calls: Sequence[tuple[int, Node, ModuleCall]],
    name_operator: Callable[[int, Node, str], str],
) -> list[ValueKey]:
    """Make all keys, in order; `inputs` maps the parameters of forward to values.

    `name_operator` returns the name of an operator's output that belongs to no module; its key also
    has the call: `block.0: add`.
    """
    within: dict[int, list[tuple[int, Node]]] = {}
    for at, node, call in nodes_with_calls:
        if not call.is_leaf or call is root:
            within.setdefault(id(call), []).append((at, node))
    keys: list[ValueKey] = []
    weak: list[int] = []  # positions in `keys` of names that yield to a module's name

    def add(call: ModuleCall) -> None:
        kind = "layer" if call.is_leaf else "module"
        if call is not root:
            for suffix, index in call.outputs:
                name = call.name + suffix
                keys.append(
                    ValueKey(
                        name,
                        captured_values[index],
                        kind,
                        call.module_type,
                        call.description,
                        call.name,
                    )
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
            text = name_operator(at, node, output)
            weak.append(len(keys))
            keys.append(ValueKey(f"{call.name}: {text}" if call.path else text, output, "layer"))

    for name, value in inputs.items():
        weak.append(len(keys))
        keys.append(ValueKey(name, value, "input"))
    add(root)
    for suffix, index in root.outputs:
        weak.append(len(keys))
        keys.append(
            ValueKey(
                "output" + suffix,
                captured_values[index],
                "output",
                root.module_type,
                root.description,
                "",
            )
        )
    return resolve_name_clashes(keys, weak)


def resolve_name_clashes(keys: list[ValueKey], renamable_indices: Sequence[int]) -> list[ValueKey]:
    """Make names unique: on a clash, keys at `renamable_indices` get a suffix `:1`, `:2` …."""
    yielding = set(renamable_indices)
    taken = {key.name for i, key in enumerate(keys) if i not in yielding}
    # Users type the names of outputs and inputs, so these come before functional operators.
    order = sorted(yielding, key=lambda i: (("output", "input", "layer").index(keys[i].kind), i))
    for i in order:
        name, number = keys[i].name, 0
        while name in taken:
            number += 1
            name = f"{keys[i].name}:{number}"
        taken.add(name)
        keys[i] = replace(keys[i], name=name)
    return keys
