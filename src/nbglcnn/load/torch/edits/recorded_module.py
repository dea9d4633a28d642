"""A recorded module that runs its operators one by one, with edits between them.

Recorded operators have the names of the Graph's values, which identifies the key of an operator
outside of modules. Edits of modules are recorded as calls of a custom operator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

BendFn = Callable[[str, Any], Any]
_COLLECTED_PROGRAMS: ContextVar[list[Any] | None] = ContextVar("programs", default=None)


@contextlib.contextmanager
def collect_programs() -> Iterator[list[Any]]:
    """Collect the programs that are translated inside the context; callers use the last one."""
    kept: list[Any] = []
    token = _COLLECTED_PROGRAMS.set(kept)
    try:
        yield kept
    finally:
        _COLLECTED_PROGRAMS.reset(token)


def record_translated_program(program: Any) -> None:
    """Add a translated program to the active collection, if any."""
    kept = _COLLECTED_PROGRAMS.get()
    if kept is not None:
        kept.append(program)


@cache
def bend_operator() -> Any:
    """The operator nbglcnn::bend(x, key): a copy of x that marks an edit of a module."""
    import torch

    def same(x: Any, key: str) -> Any:
        return x.clone()

    made: Any = torch.library.custom_op(
        "nbglcnn::bend", same, mutates_args=(), schema="(Tensor x, str key) -> Tensor"
    )
    made.register_fake(lambda x, key: torch.empty_like(x))
    return torch.ops.nbglcnn.bend.default


@dataclass(frozen=True)
class RecordedModule:
    """A recorded program; `output_indices` are those of the model's outputs among all outputs."""

    program: Any
    output_indices: Sequence[int]

    def nodes(self) -> dict[str, Any]:
        """The operators' nodes by name."""
        return {n.name: n for n in self.program.graph.nodes if n.op == "call_function"}

    def bent_keys(self) -> set[str]:
        """The keys of modules whose edits are in the recording."""
        operator = bend_operator()
        return {str(n.args[1]) for n in self.program.graph.nodes if n.target is operator}

    def run(
        self,
        model: torch.nn.Module,
        inputs: Sequence[torch.Tensor],
        bend: BendFn,
        key_by_node: Mapping[str, str],
        wanted_nodes: Sequence[str] = (),
    ) -> tuple[list[torch.Tensor], dict[str, Any]]:
        """Return the outputs for the current weights, and the values of `wanted_nodes` by name.

        `bend` edits the value of a key; `key_by_node` maps names of nodes to keys.
        """
        import torch

        device = next((one.device for one in inputs), torch.device("cpu"))
        graph = self.program.graph
        results = graph.output_node().args[0]
        ends = [results[at] for at in self.output_indices]
        needed = _ancestor_nodes(
            graph, [*ends, *(n for n in graph.nodes if n.name in wanted_nodes)]
        )
        values = self._placeholder_values(model, inputs, device)
        operator = bend_operator()
        for node in graph.nodes:
            if node.op != "call_function" or node not in needed:
                continue
            args = torch.fx.map_arg(node.args, lambda one: values[one])
            named = dict(torch.fx.map_arg(node.kwargs, lambda one: values[one]))
            if node.target is operator:
                values[node] = bend(str(args[1]), args[0])
                continue
            if "device" in named:
                named["device"] = device
            found = node.target(*args, **named)
            if node.name in key_by_node:
                found = bend(key_by_node[node.name], found)
            values[node] = found
        by_name = {node.name: value for node, value in values.items()}
        return [values[one] for one in ends], {name: by_name[name] for name in wanted_nodes}

    def _placeholder_values(
        self, model: torch.nn.Module, inputs: Sequence[torch.Tensor], device: Any
    ) -> dict[Any, Any]:
        """The values of placeholders: the model's own tensors, constants and inputs."""
        own: dict[str, Any] = dict(model.named_parameters(remove_duplicate=False))
        own |= dict(model.named_buffers(remove_duplicate=False))
        tensors = dict(zip(self.program.inputs, inputs, strict=True))
        for node, tensor in self.program.placeholder_tensors.items():
            tensors[node] = own.get(self.program.parameter_names.get(node, ""), tensor)
        return {node: _to_float32(tensor.to(device)) for node, tensor in tensors.items()}


def _to_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _ancestor_nodes(graph: Any, end_nodes: Sequence[Any]) -> set[Any]:
    found: set[Any] = set()
    waiting = list(end_nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found
