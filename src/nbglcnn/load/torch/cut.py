"""Modules that Python computes: which they are, and what stands in for them while recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import OWN, Array, InPython, Node
from nbglcnn.load.names import Call, parts, replaced, walk
from nbglcnn.load.torch.calls import Record, Seen, is_leaf

if TYPE_CHECKING:
    import torch


@dataclass
class Substitutes:
    """What modules gave in a run, for a recording to go on with in their place.

    `reasons` are why, by path. `calls` are those of these modules, `arrays` all that they gave, one
    after the other: further inputs of what is recorded. `reads` are the tensors that each call was
    given in the last recording. `hidden` are the positions, among all random numbers that forward
    draws, of those that these modules draw.
    """

    reasons: Mapping[str, str]
    calls: list[Call] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    reads: list[list[Any]] = field(default_factory=list)
    hidden: frozenset[int] = frozenset()
    _given: Mapping[str, Any] = field(default_factory=dict)
    _stand: dict[str, list[torch.Tensor]] = field(default_factory=dict)

    @staticmethod
    def of(reasons: Mapping[str, str], seen: Seen) -> Substitutes:
        """Those of a run in which these modules were cut."""
        calls = [call for call in walk(seen.root) if call.path in reasons and call.outputs]
        arrays = [seen.arrays[index] for call in calls for _, index in call.outputs]
        return Substitutes(reasons, calls, arrays, hidden=seen.hidden, _given=seen.given)

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """`arrays` as inputs of the recording."""
        import torch

        return tuple(torch.from_numpy(np.array(array)) for array in self.arrays)

    def place(self, twin: torch.nn.Module, record: Record) -> None:
        """Let the modules of `twin` give what they gave; all that hooks change is in it already."""
        modules = dict(twin.named_modules())
        for path in self.reasons:
            module = modules[path]
            module._forward_hooks.clear()
            module._forward_pre_hooks.clear()
            module.forward = self._forward(record)

    def begin(self, tensors: tuple[torch.Tensor, ...]) -> None:
        """A recording begins, in which `arrays` are these tensors."""
        self.reads = [[] for _ in self.calls]
        rest = iter(tensors)
        self._stand = {call.name: [next(rest) for _ in call.outputs] for call in self.calls}

    def _forward(self, record: Record) -> Any:
        import torch

        numbers = {call.name: number for number, call in enumerate(self.calls)}

        def is_tensor(one: Any) -> bool:
            return isinstance(one, torch.Tensor)

        def forward(*given: Any, **named: Any) -> Any:
            call = record.stack[-1]
            if call.name not in self._stand:
                return self._given.get(call.name)  # no tensor is in it
            found = parts([given, named], is_tensor)
            self.reads[numbers[call.name]] = [tensor.clone() for _, tensor in found]
            # Copies, for what comes after may write into them, and inputs stay as they are.
            each = iter([tensor.clone() for tensor in self._stand[call.name]])
            return replaced(self._given[call.name], is_tensor, lambda _, __: next(each))

        return forward

    def nodes(
        self, values: list[str], read: list[str], parameters: Mapping[str, str]
    ) -> Iterator[Node]:
        """A node for each call, which gives `values` and reads `read` and its parameters."""
        given, taken = iter(values), iter(read)
        for call, reads in zip(self.calls, self.reads, strict=True):
            outputs = tuple(next(given) for _ in call.outputs)
            inputs = [next(taken) for _ in reads]
            inputs += [n for p, n in parameters.items() if p.startswith(call.path + ".")]
            own = InPython(call.module_type, self.reasons[call.path])
            yield Node(
                f"{call.name} in Python",
                OWN,
                tuple(dict.fromkeys(inputs)),
                outputs,
                module=call.path,
                python=own,
            )


def widened(
    model: torch.nn.Module, reasons: Mapping[str, str], error: UnsupportedModel
) -> dict[str, str] | None:
    """The cuts with one more, at the module that an error is about; None where that cannot be.

    Modules of the same class and settings are cut with it: each would be found by a trace of its
    own.
    """
    paths = {id(module): path for path, module in reversed(list(model.named_modules()))}
    modules = dict(model.named_modules(remove_duplicate=False))
    if error.module not in modules:
        return None
    wrong = modules[error.module]
    path = paths[id(wrong)]
    if not path or path in reasons:
        return None
    alike = [
        paths[id(module)]
        for module in modules.values()
        if type(module) is type(wrong) and _settings(module) == _settings(wrong)
    ]
    return _outermost({**reasons, **{p: str(error) for p in alike if p}})


def recurrent(model: torch.nn.Module, missing: Callable[[str], str | None]) -> dict[str, str]:
    """Recurrent layers whose operators are missing, and why: they need no trace to be found."""
    import torch

    found = {}
    for path, module in model.named_modules():
        if path and isinstance(module, torch.nn.RNNBase):
            reason = missing(module.mode.partition("_")[0])  # RNN_TANH
            if reason is not None:
                found[path] = reason
    return found


def leaves_of(
    model: torch.nn.Module, nodes: Mapping[str, tuple[Node, str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Nodes that cannot run and why, apart: modules without others inside, and the other nodes."""
    modules = dict(model.named_modules())
    cut: dict[str, str] = {}
    alone: dict[str, str] = {}
    for name, (node, reason) in nodes.items():
        if node.module and is_leaf(modules[node.module]):
            cut.setdefault(node.module, reason)
        else:
            alone[name] = reason
    return cut, alone


def _settings(module: torch.nn.Module) -> str:
    try:
        return module.extra_repr()
    except Exception:
        return ""


def _outermost(reasons: Mapping[str, str]) -> dict[str, str]:
    return {
        path: reason
        for path, reason in reasons.items()
        if not any(path.startswith(other + ".") for other in reasons)
    }
