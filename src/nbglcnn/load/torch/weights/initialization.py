"""A module's weights drawn anew, as its own modules draw them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from nbglcnn.errors import InputError
from nbglcnn.load.bounds import quote_name
from nbglcnn.load.torch.isolation.copies import detached_copy

GIVEN_HINT = 'create the module again, with its own weights, and use weights="given"'


def initial_weights(model: nn.Module, seed: int) -> dict[str, Any]:
    """The state_dict of a copy behind the `reset_parameters` of all its modules, in their order.

    The process's own random numbers stay as they are. InputError naming the module that has
    parameters and cannot draw them.
    """
    twin = detached_copy(model)[0].cpu()
    resets = [found for one in twin.named_modules() if (found := _reset(*one)) is not None]
    before = torch.get_rng_state()
    try:
        # What torch.manual_seed does, but for other devices' generators.
        torch.default_generator.manual_seed(seed)
        for reset in resets:
            reset()
    finally:
        torch.set_rng_state(before)
    return dict(twin.state_dict())


def _reset(path: str, module: nn.Module) -> Callable[[], Any] | None:
    """What draws a module's own parameters; None where it has neither these nor that."""
    name = f"{quote_name(path) if path else 'the model itself'} ({type(module).__name__})"
    own = [key for key, _ in module.named_parameters(recurse=False)]
    hooks = {type(hook).__name__ for hook in module._forward_pre_hooks.values()}
    if parametrize.is_parametrized(module) or hooks & {"WeightNorm", "SpectralNorm"}:
        raise InputError(
            f'weights="random": {name} computes its weights from other weights; {GIVEN_HINT}'
        )
    if isinstance(module, parametrize.ParametrizationList):
        return None  # of a module that was refused before
    found: Callable[[], Any] | None = getattr(module, "reset_parameters", None)
    if found is None and own:  # as nn.MultiheadAttention calls it
        found = getattr(module, "_reset_parameters", None)
    if found is None and own:
        raise InputError(
            f'weights="random": {name} has {", ".join(own)} but no reset_parameters() to '
            f"initialise them; write one, or {GIVEN_HINT}"
        )
    return found
