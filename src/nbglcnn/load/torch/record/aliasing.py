"""Aliases of module outputs, to tell them from equal tensors read before or beside the module.

A Dropout in eval mode returns its input, an in-place ReLU returns its modified input, and a module
may keep the tensor that it returns. A recording has one value for such a tensor. So each call
returns an alias of its tensors; code that reads the alias reads the value after the module.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbglcnn.graph import Node
from nbglcnn.load.draft import FoldState
from nbglcnn.load.module_keys import ModuleCall, map_tensors, walk_calls

if TYPE_CHECKING:
    import torch


def alias_outputs(
    arguments: Iterable[Any], output: Any, on_alias: Callable[[torch.Tensor], None]
) -> Any:
    """Return a call's output with each tensor replaced by an alias.

    Code that holds the original tensor, or passed it to a module that writes in place, reads the
    value before the module. The aliases are views, so a write to an alias also changes the
    original. `on_alias` is called with each alias.
    """
    import torch

    if any(one is output for one in arguments) and not isinstance(output, torch.Tensor):
        return output  # a container that the caller continues to use

    def other(_: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided:
            return tensor
        name: torch.Tensor = torch.ops.aten.alias.default(tensor)
        name.__dict__.update(tensor.__dict__)
        on_alias(name)
        return name

    return map_tensors(output, _is_tensor, other)


def write_version(tensor: torch.Tensor) -> int:
    """A counter of the writes to the tensor's memory; always 0 for inference tensors."""
    return 0 if tensor.is_inference() else tensor._version


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def remove_unneeded_aliases(program: Any, root: ModuleCall) -> None:
    """Remove aliases of tensors that are read only through the alias; most aliases are.

    The program's last outputs are the captured outputs of all calls. Being captured by a hook does
    not count as a read; being an output of the model does.
    """
    import torch

    alias, graph = torch.ops.aten.alias.default, program.graph
    output = graph.output_node()
    calls = list(walk_calls(root))
    count = sum(len(call.outputs) for call in calls)

    def given(call: ModuleCall) -> list[Any]:
        nodes = output.args[0]
        return [nodes[len(nodes) - count + index] for _, index in call.outputs]

    by_name = {call.name: call for call in calls if call.path}
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not alias:
            continue
        source, last = node.args[0], node
        while True:
            others = {user for user in source.users if user is not last}
            if source not in given(root):
                others.discard(output)
            call = by_name.get(scope[-1]) if (scope := _module_stack(node)) else None
            if others or (call is not None and source in given(call)):
                break  # it is read elsewhere, or the call returns it twice
            inner = source.args[0] if source.op == "call_function" and source.args else None
            if not isinstance(inner, torch.fx.Node) or _module_stack(source) != _module_stack(node):
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
                break
            source, last = inner, source


def preserved_aliases(
    root: ModuleCall,
    captured_values: Sequence[str],
    nodes: Sequence[Node],
    python_modules: Container[str],
) -> set[str]:
    """The captured names of call outputs that are computed inside the call itself.

    `captured_values` are the names of all captured outputs, by position.
    """
    producer = {name: node for node in nodes for name in node.outputs}
    found = set()
    for call in walk_calls(root):
        if not call.path or call.path in python_modules:
            continue
        for _, index in call.outputs:
            made = producer.get(captured_values[index])
            if made is not None and f"{made.module}.".startswith(f"{call.path}."):
                found.add(captured_values[index])
    return found


NodesWithCalls = Sequence[tuple[int, Node, ModuleCall]]


def remove_unneeded_identities(
    fold_state: FoldState,
    nodes_with_calls: NodesWithCalls,
    root: ModuleCall,
    captured_values: Sequence[str],
) -> NodesWithCalls:
    """Remove Identity nodes, except those needed to tell the readers of two values apart.

    An Identity node stays if its input is also read by a node outside the module's call or is an
    output of the model: that input is the value before the module. It also stays if its call
    returns the same value under two names. `nodes_with_calls` are all nodes with their calls,
    `captured_values` the captured outputs of all calls.
    """
    readers: dict[str, list[tuple[Node, ModuleCall]]] = {}
    for _, node, call in nodes_with_calls:
        for name in dict.fromkeys(filter(None, node.inputs)):
            readers.setdefault(name, []).append((node, call))
    returned = {fold_state.resolve(captured_values[index]) for _, index in root.outputs}
    same: dict[str, str] = {}  # removed names, and the names they are aliases of
    passing = [(node, call) for _, node, call in nodes_with_calls if node.op == "Identity"]
    sources = {node.outputs[0]: (node.inputs[0], call) for node, call in passing}
    for node, call in passing:
        name = node.outputs[0]
        source = same.get(node.inputs[0], node.inputs[0])
        others = [one for one in readers[source] if one[0] is not node]
        own = list(map(id, walk_calls(call)))
        beside = {fold_state.resolve(captured_values[index]) for _, index in call.outputs} - {name}
        twice = any(
            source in (one, same.get(one)) or sources.get(one) == sources[name] for one in beside
        )
        if twice or source in returned:
            continue
        if all(id(where) in own for _, where in others):
            same[name] = source
            readers[source] = others + readers.pop(name, [])
            returned |= {source} if name in returned else set()
    fold_state.aliases = {
        name: same.get(value, value) for name, value in fold_state.aliases.items()
    } | same
    return [
        (at, replace(node, inputs=tuple(same.get(name, name) for name in node.inputs)), call)
        for at, node, call in nodes_with_calls
        if node.outputs[0] not in same
    ]


def _module_stack(node: Any) -> list[Any]:
    return list(node.meta.get("nn_module_stack") or ())
