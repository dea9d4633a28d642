"""Modules that give back a tensor which was there before their call, and who reads it behind them.

A Dropout in eval mode, an Identity: in a trace such a tensor is one value, whoever reads it. So
their calls return another name of it, and what reads that name reads behind the module.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nbglcnn.graph import Node
from nbglcnn.load.draft import State
from nbglcnn.load.names import Call, replaced, walk

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class SeenTensors:
    """The tensors that hooks have seen in a run, each with when it was first seen as it is."""

    now: int = 0
    _seen: dict[int, tuple[weakref.ref[Any], int, int]] = field(default_factory=dict)

    def see(self, tensors: Iterable[torch.Tensor]) -> None:
        """These are there now."""
        for tensor in tensors:
            if self._first(tensor) is None:
                self._seen[id(tensor)] = weakref.ref(tensor), _version(tensor), self.now

    def begin(self) -> int:
        """A call begins; gives the moment."""
        self.now += 1
        return self.now - 1

    def known(self, moment: int, given: Iterable[tuple[str, torch.Tensor]]) -> Iterator[str]:
        """A call ends that began at that moment; tells what it gives that was there, or is twice.

        `given` are its tensors, each with what picks it.
        """
        now: set[int] = set()
        for suffix, tensor in given:
            first = self._first(tensor)
            if id(tensor) in now or (first is not None and first <= moment):
                yield suffix
            now.add(id(tensor))
            self.see([tensor])

    def _first(self, tensor: torch.Tensor) -> int | None:
        known = self._seen.get(id(tensor))
        # An id may be another tensor's by now; and in place a ReLU gives its input, but altered.
        if known is None or known[0]() is not tensor or known[1] != _version(tensor):
            return None
        return known[2]


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def renamed(output: Any, given: Iterable[Any], name: str, passed: Container[str]) -> Any:
    """What a call gives, with another name for those of its tensors that are among `passed`.

    As views, for what is written into one is written into the other.
    """
    import torch

    if any(one is output for one in given) and not isinstance(output, torch.Tensor):
        return output  # a list that the caller goes on with

    def other(suffix: str, tensor: torch.Tensor) -> torch.Tensor:
        if name + suffix not in passed:
            return tensor
        return torch.ops.aten.alias.default(tensor)  # type: ignore[no-any-return]

    return replaced(output, lambda one: isinstance(one, torch.Tensor), other)


def without_idle_names(program: Any, count: int, root: Call) -> None:
    """Take the names out again of tensors that nothing reads but through them, as most are.

    The last `count` outputs are what calls gave: that a hook sees a tensor is no use of it, but
    that the model returns it is.
    """
    import torch

    alias, graph = torch.ops.aten.alias.default, program.graph
    given = list(graph.output_node().args[0])[-count:]
    returned = {index for _, index in root.outputs}
    seen = {node for index, node in enumerate(given) if index not in returned}
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not alias:
            continue
        source, last = node.args[0], node
        while True:
            others = [user for user in source.users if user is not last]
            if not seen.issuperset(others) or _scope(node) in map(_scope, others):
                break  # somebody reads it before, or the call gives it twice
            inner = source.args[0] if source.op == "call_function" and source.args else None
            if not isinstance(inner, torch.fx.Node) or _scope(source) != _scope(node):
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
                break
            source, last = inner, source


def names_apart(
    root: Call, captured: Sequence[str], nodes: Sequence[Node], cut: Container[str]
) -> set[str]:
    """The names under which calls give their tensors, as far as something in the call gives them.

    `captured` are copies of these, by position.
    """
    producer = {name: node for node in nodes for name in node.outputs}
    found = set()
    for call in walk(root):
        if not call.path or call.path in cut:
            continue
        for _, index in call.outputs:
            copied = producer.get(captured[index])
            if copied is None or copied.op != "Identity":
                continue
            made = producer.get(copied.inputs[0])
            if made is not None and f"{made.module}.".startswith(f"{call.path}."):
                found.add(copied.inputs[0])
    return found


Placed = Sequence[tuple[int, Node, Call]]


def without_idle_nodes(done: State, placed: Placed, root: Call, captured: Sequence[str]) -> Placed:
    """Only those of the nodes that pass a value on which tell its readers apart.

    A node stays where what it passes on is read by another one, and not in the module's own call,
    or is an output: that is what comes before the module. So does one of a call that gives the same
    under two names. `placed` are all nodes with their calls, `captured` what calls gave.
    """
    readers: dict[str, list[tuple[Node, Call]]] = {}
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
        own = list(map(id, walk(call)))
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


def _scope(node: Any) -> list[Any]:
    return list(node.meta.get("nn_module_stack") or ())
