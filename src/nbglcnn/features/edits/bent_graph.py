"""A Graph with its edits as nodes: each key has the value after a forward hook there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from types import MappingProxyType

from nbglcnn.codegen.edit_targets import EditTargets
from nbglcnn.errors import InputError
from nbglcnn.features.edits.replay import EDIT_NODE_DOMAIN, EditReplay, make_bend_node
from nbglcnn.graph import Graph, Node, ValueKey


def bent_graph(graph: Graph, bends: EditReplay) -> Graph:
    """Return the Graph with edits as nodes; its keys and nodes have the values after the edits.

    Raises:
        InputError: If a layer computed in Python depends on an edit: its result has no edits.
    """
    if not bends:
        return graph
    bent = insert_nodes_at_keys(
        graph, [key.name for key in graph.keys if key.name in bends], "bent",
        lambda key, value, name: [make_bend_node(key.name, value, name, bends)],
    )  # fmt: skip
    changed = edited_values(bent)
    for node in bent.nodes:
        if node.python_fallback and not changed.isdisjoint(node.outputs):
            raise InputError(
                f"{node.name} ({node.python_fallback.operator}) runs in Python on values before "
                f"the bends: its result with the bends of {next(iter(bends.edits))} is unknown"
            )
    return bent


def insert_nodes_at_keys(
    graph: Graph,
    key_names: Collection[str],
    name_infix: str,
    make_nodes: Callable[[ValueKey, str, str], Sequence[Node]],
) -> Graph:
    """Insert nodes after some keys of a Graph, where a forward hook would act.

    `make_nodes` returns the nodes for a key, the name of their input and the name of their output,
    which contains `name_infix`. Other keys of the value, and the nodes that read it after the key,
    then refer to the output.
    """
    targets = EditTargets(graph, graph.keys)
    values, nodes_after = dict(graph.values), dict[str, list[Node]]()  # nodes by preceding value
    made: dict[int, str] = {}

    def of(number: int) -> str:
        """Return the value of a key after its node."""
        if number in made:
            return made[number]
        key, source = graph.keys[number], targets.preceding_key_index(number)
        value = key.value_name if source < 0 else of(source)
        if key.name in key_names:
            name = f"{key.value_name} {name_infix} as {key.name}"
            nodes_after.setdefault(key.value_name, []).extend(make_nodes(key, value, name))
            if key.value_name in values:  # values between two networks have no shapes yet
                values[name] = replace(values[key.value_name], name=name, data=None)
            value = name
        made[number] = value
        return value

    keys = tuple(replace(key, value_name=of(number)) for number, key in enumerate(graph.keys))

    def read(node: Node, name: str) -> str:
        number = targets.applicable_key_index(node, name) if name else -1
        return name if number < 0 else of(number)

    nodes = [node for name in graph.inputs for node in nodes_after.pop(name, ())]
    for own in graph.nodes:
        nodes.append(replace(own, inputs=tuple(read(own, name) for name in own.inputs)))
        nodes += (one for name in own.outputs for one in nodes_after.pop(name, ()))
    given = {old.value_name: key.value_name for old, key in zip(graph.keys, keys, strict=True)
             if key.kind == "output"}  # fmt: skip
    return replace(
        graph,
        nodes=tuple(nodes),
        values=MappingProxyType(values),
        keys=keys,
        outputs=tuple(given.get(name, name) for name in graph.outputs),
    )


def edited_values(graph: Graph, keys: Collection[str] | None = None) -> set[str]:
    """Return the values that depend on edits, on all of them or only on those of `keys`."""
    own = None if keys is None else {key.value_name for key in graph.keys if key.name in keys}
    found: set[str] = set()
    for node in graph.nodes:
        bends = node.domain == EDIT_NODE_DOMAIN and (
            own is None or not own.isdisjoint(node.outputs)
        )
        if bends or not found.isdisjoint(node.inputs):
            found.update(filter(None, node.outputs))
    return found


def keys_without_hook(graph: Graph, bends: EditReplay) -> list[str]:
    """Return the edited keys without a module to hook: operators of forward itself."""
    return [k.name for k in graph.keys if k.name in bends and k.kind == "layer"
            and not k.module_type]  # fmt: skip
