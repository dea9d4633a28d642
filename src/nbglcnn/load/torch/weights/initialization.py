"""Initialization of a module's weights by its own reset_parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from nbglcnn.errors import InputError
from nbglcnn.load.size_limits import quote_name
from nbglcnn.load.torch.isolation.copies import detached_copy

GIVEN_WEIGHTS_HINT = 'create the module again, with its own weights, and use weights="given"'


def initial_weights(model: nn.Module, seed: int) -> dict[str, Any]:
    """The state_dict of a copy after `reset_parameters` of all its modules, in order.

    The process's random state is restored. Raises InputError that names a module which has
    parameters but cannot initialize them.
    """
    twin = detached_copy(model)[0].cpu()
    resets = [
        found for one in twin.named_modules() if (found := _find_initializer(*one)) is not None
    ]
    before = torch.get_rng_state()
    try:
        # As torch.manual_seed, but without the generators of other devices.
        torch.default_generator.manual_seed(seed)
        for reset in resets:
            reset()
    finally:
        torch.set_rng_state(before)
    return dict(twin.state_dict())


def _find_initializer(path: str, module: nn.Module) -> Callable[[], Any] | None:
    """A module's own initializer; None if it has neither parameters nor an initializer."""
    name = f"{quote_name(path) if path else 'the model itself'} ({type(module).__name__})"
    own = [key for key, _ in module.named_parameters(recurse=False)]
    hooks = {type(hook).__name__ for hook in module._forward_pre_hooks.values()}
    if parametrize.is_parametrized(module) or hooks & {"WeightNorm", "SpectralNorm"}:
        raise InputError(
            f'weights="random": {name} computes its weights from other weights; '
            f"{GIVEN_WEIGHTS_HINT}"
        )
    if isinstance(module, parametrize.ParametrizationList):
        return None  # its parent module has been refused
    found: Callable[[], Any] | None = getattr(module, "reset_parameters", None)
    if found is None and own:  # nn.MultiheadAttention's spelling
        found = getattr(module, "_reset_parameters", None)
    if found is None and own:
        raise InputError(
            f'weights="random": {name} has {", ".join(own)} but no reset_parameters() to '
            f"initialise them; write one, or {GIVEN_WEIGHTS_HINT}"
        )
    return found
