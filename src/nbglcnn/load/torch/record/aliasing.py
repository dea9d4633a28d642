"""The values that modules give, apart from the tensors that are read before or beside them.

A Dropout in eval mode returns its input, an in-place ReLU returns its altered input, and a module
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


def alias_outputs(given: Iterable[Any], output: Any, added: Callable[[torch.Tensor], None]) -> Any:
    """What a call gives, with another name for each tensor.

    Code that keeps the tensor itself, or passed it to a module that writes in place, reads the
    value before the module. The names are views, so that a write into one reaches the other.
    `added` is called with each name.
    """
    import torch

    if any(one is output for one in given) and not isinstance(output, torch.Tensor):
        return output  # a list that the caller goes on with

    def other(_: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided:
            return tensor
        name: torch.Tensor = torch.ops.aten.alias.default(tensor)
        name.__dict__.update(tensor.__dict__)
        added(name)
        return name

    return map_tensors(output, _is_tensor, other)


def write_version(tensor: torch.Tensor) -> int:
    """A number that each write into the tensor's memory changes; tensors of inference have none."""
    return 0 if tensor.is_inference() else tensor._version


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def remove_idle_aliases(program: Any, root: ModuleCall) -> None:
    """Take the names out again of tensors that nothing reads but through them, as most are.

    The program's last outputs are what calls gave: that a hook sees a tensor is no use of it, but
    that the model returns it is.
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
                break  # it is read before, or the call gives it twice
            inner = source.args[0] if source.op == "call_function" and source.args else None
            if not isinstance(inner, torch.fx.Node) or _module_stack(source) != _module_stack(node):
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
                break
            source, last = inner, source


def preserved_aliases(
    root: ModuleCall, captured: Sequence[str], nodes: Sequence[Node], cut: Container[str]
) -> set[str]:
    """The names under which calls give their tensors, as far as something in the call gives them.

    `captured` are these, by position.
    """
    producer = {name: node for node in nodes for name in node.outputs}
    found = set()
    for call in walk_calls(root):
        if not call.path or call.path in cut:
            continue
        for _, index in call.outputs:
            made = producer.get(captured[index])
            if made is not None and f"{made.module}.".startswith(f"{call.path}."):
                found.add(captured[index])
    return found


NodesWithCalls = Sequence[tuple[int, Node, ModuleCall]]


def remove_idle_identities(
    done: FoldState, placed: NodesWithCalls, root: ModuleCall, captured: Sequence[str]
) -> NodesWithCalls:
    """Only those of the nodes that pass a value on which tell its readers apart.

    A node stays where what it passes on is read by another one, and not in the module's own call,
    or is an output: that is what comes before the module. So does one of a call that gives the same
    under two names. `placed` are all nodes with their calls, `captured` what calls gave.
    """
    readers: dict[str, list[tuple[Node, ModuleCall]]] = {}
    for _, node, call in placed:
        for name in dict.fromkeys(filter(None, node.inputs)):
            readers.setdefault(name, []).append((node, call))
    returned = {done.resolve(captured[index]) for _, index in root.outputs}
    same: dict[str, str] = {}  # names that are not needed, and what they are other names of
    passing = [(node, call) for _, node, call in placed if node.op == "Identity"]
    sources = {node.outputs[0]: (node.inputs[0], call) for node, call in passing}
    for node, call in passing:
        name = node.outputs[0]
        source = same.get(node.inputs[0], node.inputs[0])
        others = [one for one in readers[source] if one[0] is not node]
        own = list(map(id, walk_calls(call)))
        beside = {done.resolve(captured[index]) for _, index in call.outputs} - {name}
        twice = any(
            source in (one, same.get(one)) or sources.get(one) == sources[name] for one in beside
        )
        if twice or source in returned:
            continue
        if all(id(where) in own for _, where in others):
            same[name] = source
            readers[source] = others + readers.pop(name, [])
            returned |= {source} if name in returned else set()
    done.aliases = {name: same.get(value, value) for name, value in done.aliases.items()} | same
    return [
        (at, replace(node, inputs=tuple(same.get(name, name) for name in node.inputs)), call)
        for at, node, call in placed
        if node.outputs[0] not in same
    ]


def _module_stack(node: Any) -> list[Any]:
    return list(node.meta.get("nn_module_stack") or ())
