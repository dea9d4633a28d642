"""Loading each module of a model separately, for models that cannot be loaded as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import NbglcnnError, UnsupportedModel
from nbglcnn.graph import Array, Graph
from nbglcnn.load.arguments import ForwardArguments
from nbglcnn.load.torch.isolation.copies import detached_copy
from nbglcnn.load.torch.isolation.module_checks import is_innermost
from nbglcnn.load.torch.isolation.process_state import preserve_rng_state, restore_torch_on_error
from nbglcnn.load.torch.isolation.tensor_redirection import redirect_to_copy
from nbglcnn.load.torch.module import load_module
from nbglcnn.load.torch.record.module_calls import call_model

if TYPE_CHECKING:
    import torch

ModuleResult = tuple[str, str, Graph | NbglcnnError]


def load_each_module(
    model: torch.nn.Module, arrays: Sequence[Array], arguments: ForwardArguments | None = None
) -> list[ModuleResult]:
    """Load the innermost modules in call order; return path, type, and Graph or error of each.

    Each module is loaded with the inputs that it receives in a run of the model. Modules that
    receive keyword arguments or non-tensors are left out, because they cannot be loaded separately.
    So are modules that run after a failing one. The list is empty if the model contains a
    ScriptModule or lazy parameters.
    """
    import torch
    from torch.nn.parameter import is_lazy

    hidden = any(isinstance(one, torch.jit.ScriptModule) for one in model.modules())
    if hidden or any(map(is_lazy, (*model.parameters(), *model.buffers()))):
        return []
    try:
        twin, _ = detached_copy(model)
    except UnsupportedModel:  # the model cannot be copied
        return []
    calls: dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...]]] = {}
    handles = []

    def before(path: str) -> Any:
        def hook(module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            if not named and inputs and all(isinstance(x, torch.Tensor) for x in inputs):
                calls.setdefault(path, (module, tuple(x.detach().clone() for x in inputs)))

        return hook

    for path, module in twin.named_modules():
        if path and is_innermost(module):
            handles.append(module.register_forward_pre_hook(before(path), with_kwargs=True))
    try:
        with (
            contextlib.suppress(Exception),
            restore_torch_on_error(),
            preserve_rng_state(lambda: False),
            torch.no_grad(),
            redirect_to_copy(twin),
        ):
            call_model(twin, [torch.from_numpy(array.copy()) for array in arrays], arguments)
    finally:
        for handle in handles:
            handle.remove()
    found: list[ModuleResult] = []
    for path, (module, inputs) in calls.items():
        kind = type(module).__name__
        try:
            own = [x.float() if x.is_floating_point() else x for x in inputs]
            graph, _ = load_module(module, [x.resolve_conj().resolve_neg().numpy() for x in own])
            found.append((path, kind, graph))
        except NbglcnnError as error:
            found.append((path, kind, error))
        except (TypeError, RuntimeError):  # the input is not a dense tensor of real numbers
            continue
    return found
