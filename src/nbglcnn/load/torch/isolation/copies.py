"""The copy of a module that runs in its place: in eval mode, in float32, without wrappers."""

from __future__ import annotations

import copy
from typing import Any

import torch

from nbglcnn.errors import UnsupportedModel
from nbglcnn.load.torch.isolation.tensor_redirection import register_copy


def unwrap_model(model: torch.nn.Module) -> torch.nn.Module:
    """Remove torch.compile and DataParallel wrappers; UnsupportedModel for TorchScript."""
    while True:
        if isinstance(model, torch.jit.ScriptModule):
            raise UnsupportedModel(
                f"{type(model).__name__} is TorchScript, which hides its layers; give the "
                "original torch.nn.Module"
            )
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, torch.nn.DataParallel):
            inner = model.module
        if not isinstance(inner, torch.nn.Module):
            return model
        model = inner


def detached_copy(
    model: torch.nn.Module, share_with: torch.nn.Module | None = None
) -> tuple[torch.nn.Module, list[str]]:
    """Copy a model in eval mode and float32; return the copy and notes on converted weights.

    If `share_with` is set, another copy, its parameters and buffers share that copy's memory.
    """
    memo: dict[int, Any] = {} if share_with is None else _shared_memo(share_with, model)
    for parameter in model.parameters():
        if id(parameter) in memo:
            continue
        # deepcopy of a Parameter shares no memory with the copies of its views.
        if type(parameter) is torch.nn.Parameter:
            numbers = copy.deepcopy(parameter.detach(), memo)
            memo[id(parameter)] = torch.nn.Parameter(numbers, parameter.requires_grad)
    for module in model.modules():
        for value in vars(module).values():
            # A non-leaf tensor as an attribute (weight_norm's weight) can't be deep-copied.
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                # With the same memo, so that a view of a parameter stays a view.
                memo[id(value)] = copy.deepcopy(value.detach(), memo)
    try:
        twin = copy.deepcopy(model, memo)
    except Exception as error:
        raise UnsupportedModel(
            f"{type(model).__name__} cannot be copied ({type(error).__name__}: {error}); does it "
            "contain a file, a generator or a result that requires a gradient?"
        ) from error
    register_copy(twin, model)
    twin.eval()
    notes = []
    other = {t.dtype for t in (*twin.parameters(), *twin.buffers()) if t.is_floating_point()}
    other.discard(torch.float32)
    if other:
        names = ", ".join(sorted(str(d).removeprefix("torch.") for d in other))
        notes.append(f"weights given as {names} are computed in float32")
        twin.float()
    return twin, notes


def _shared_memo(share_with: torch.nn.Module, model: torch.nn.Module) -> dict[int, Any]:
    """A deepcopy memo that maps the model's tensors to another copy's tensors."""
    parameters, buffers = dict(share_with.named_parameters()), dict(share_with.named_buffers())
    found: dict[int, Any] = {}
    for name, parameter in model.named_parameters():
        if name in parameters and type(parameter) is torch.nn.Parameter:
            numbers = parameters[name].detach()
            found[id(parameter)] = torch.nn.Parameter(numbers, parameter.requires_grad)
    for name, buffer in model.named_buffers():
        if name in buffers and type(buffer) is torch.Tensor:
            found[id(buffer)] = buffers[name].detach()
    return found


def drop_hooks(model_copy: torch.nn.Module) -> bool:
    """Remove the user's forward hooks; return whether there were any.

    Hooks of torch, such as spectral_norm's, and of nbglcnn, which replay edits, stay.
    """
    dropped = False
    for module in model_copy.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            for number, hook in list(hooks.items()):
                owner = getattr(hook, "__module__", None) or type(hook).__module__
                if not owner.startswith(("torch.", "nbglcnn.")):
                    del hooks[number]
                    dropped = True
    return dropped
