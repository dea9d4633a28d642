"""Modules that Python computes: choosing them, and replacing their calls in a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import PYTHON_OP, Node, PythonFallback
from nbglcnn.load.module_keys import ModuleCall, map_tensors
from nbglcnn.load.torch.record.aliasing import write_version
from nbglcnn.load.torch.record.module_calls import is_leaf
from nbglcnn.load.torch.record.recorder import Recorder
from nbglcnn.load.torch.record.tensor_memory import FxNode


@dataclass
class PythonCalls:
    """The calls of Python-computed modules in a recording.

    `reasons` has the reason for each module, by path. `calls` are the calls that returned tensors.
    `argument_nodes` has the tensors among each call's arguments. `returned_nodes` are all tensors
    that the calls returned, in order; they become further inputs of the network.
    """

    reasons: Mapping[str, str]
    recorder: Recorder
    calls: list[ModuleCall] = field(default_factory=list)
    argument_nodes: list[list[FxNode]] = field(default_factory=list)
    returned_nodes: list[FxNode] = field(default_factory=list)
    _argument_versions: list[tuple[torch.Tensor, int]] = field(default_factory=list)

    def begin_call(self, call: ModuleCall, arguments: Sequence[torch.Tensor]) -> None:
        """Begin such a call with these tensor arguments, and pause recording."""
        self.calls.append(call)
        self.argument_nodes.append([self.recorder.current_node(one) for one in arguments])
        self._argument_versions = [(one, write_version(one)) for one in arguments]
        self.recorder.pause()

    def end_call(self, output: Any) -> Any:
        """End the call: replace its output tensors with recorded inputs, and resume."""
        written = [one for one, version in self._argument_versions if write_version(one) != version]
        count = len(self.returned_nodes)

        def stand(_: str, tensor: torch.Tensor) -> torch.Tensor:
            copied = tensor.detach().clone()  # the output may share memory with recorded tensors
            self.returned_nodes.append(
                self.recorder.add_input(f"given_{len(self.returned_nodes)}", copied)
            )
            if not any(one is tensor for one in written):
                return copied
            written[:] = [one for one in written if one is not tensor]
            self.recorder.note_overwrite(tensor, self.returned_nodes[-1])
            return tensor

        output = map_tensors(output, lambda one: isinstance(one, torch.Tensor), stand)
        if written:
            raise UnsupportedModel(
                "it runs in Python and writes into an argument that it does not return; pass a "
                "copy of that tensor, x.clone()"
            )
        if len(self.returned_nodes) == count:
            self.calls.pop()
            self.argument_nodes.pop()
        self.recorder.resume()
        return output

    def make_nodes(
        self, output_names: list[str], input_names: list[str], parameters: Mapping[str, str]
    ) -> Iterator[Node]:
        """Yield a node per call, with outputs from `output_names` and inputs from `input_names`."""
        given, taken = iter(output_names), iter(input_names)
        for call, reads in zip(self.calls, self.argument_nodes, strict=True):
            outputs = tuple(next(given) for _ in call.outputs)
            inputs = [next(taken) for _ in reads]
            inputs += [n for p, n in parameters.items() if p.startswith(call.path + ".")]
            own = PythonFallback(call.module_type, self.reasons[call.path])
            yield Node(
                f"{call.name} in Python",
                PYTHON_OP,
                tuple(dict.fromkeys(inputs)),
                outputs,
                module=call.path,
                python_fallback=own,
            )


def extend_python_reasons(
    model: torch.nn.Module, reasons: Mapping[str, str], error: UnsupportedModel
) -> dict[str, str] | None:
    """Add the module that caused the error to the cut modules; None if it cannot be cut.

    The result has the reasons of all cut modules by path.

    Modules of the same class and settings are cut with it: otherwise each would take another
    recording to find.
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
        if type(module) is type(wrong) and _extra_repr(module) == _extra_repr(wrong)
    ]
    return _outermost_modules({**reasons, **{p: str(error) for p in alike if p}})


def find_unsupported_recurrent(
    model: torch.nn.Module, unsupported_reason: Callable[[str], str | None]
) -> dict[str, str]:
    """Recurrent layers without a supported operator, with the reason; found without recording."""
    found = {}
    for path, module in model.named_modules():
        if path and isinstance(module, torch.nn.RNNBase):
            reason = unsupported_reason(module.mode.partition("_")[0])  # RNN_TANH → RNN
            if reason is not None:
                found[path] = reason
    return found


def split_unsupported_nodes(
    model: torch.nn.Module, nodes: Mapping[str, tuple[Node, str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Split nodes that cannot run into those of leaf modules (by path) and the others (by name)."""
    modules = dict(model.named_modules())
    python_reasons: dict[str, str] = {}
    alone: dict[str, str] = {}
    for name, (node, reason) in nodes.items():
        if node.module and is_leaf(modules[node.module]):
            python_reasons.setdefault(node.module, reason)
        else:
            alone[name] = reason
    return python_reasons, alone


def _extra_repr(module: torch.nn.Module) -> str:
    try:
        return module.extra_repr()
    except Exception:
        return ""


def _outermost_modules(reasons: Mapping[str, str]) -> dict[str, str]:
    return {
        path: reason
        for path, reason in reasons.items()
        if not any(path.startswith(other + ".") for other in reasons)
    }
