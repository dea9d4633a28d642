"""A module's state_dict with replaced values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from nbglcnn.errors import InputError
from nbglcnn.graph import Array
from nbglcnn.load.torch.isolation.copies import detached_copy


def state_dict_tensors(
    model: torch.nn.Module, unwrapped: torch.nn.Module, weights: Mapping[str, Array]
) -> dict[str, Any]:
    """A state_dict for `model.load_state_dict`, with the model's names and dtypes and `weights`.

    `unwrapped` is the module inside wrappers; `weights` has its names. Tensors that no forward
    reads, and that no Graph has, keep the module's values.
    """
    inside = {id(value): name for name, value in unwrapped.state_dict(keep_vars=True).items()}
    found: dict[str, Any] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        own = name if unwrapped is model else inside.get(id(value), name)
        if not isinstance(value, torch.Tensor):
            found[name] = value  # from get_extra_state
        elif own in weights:
            array = torch.from_numpy(weights[own].reshape(tuple(value.shape)).copy())
            found[name] = array.to(value.dtype)
        else:
            found[name] = value.detach().clone()
    return found


def state_dict_arrays(model: torch.nn.Module, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The same state_dict as arrays; 16-bit floats as float32."""
    found = {}
    for name, value in state_dict_tensors(model, model, weights).items():
        if isinstance(value, torch.Tensor):
            whole = value.float() if value.is_floating_point() else value
            found[name] = whole.cpu().numpy()
    return found


def convert_state_dict(model: torch.nn.Module, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tensors after `model.load_state_dict`, if the model's own code or hooks change them.

    Raises:
        InputError: If set_extra_state changes more than weights.
    """
    if not any(map(_has_load_code, model.modules())):
        return state_dict
    twin = detached_copy(model)[0]
    given = {n: torch.from_numpy(v) if isinstance(v, np.ndarray) else v
             for n, v in state_dict.items()}  # fmt: skip
    before = _extra_states(twin)
    try:
        twin.load_state_dict(given)
    except RuntimeError:
        return state_dict  # missing names are reported elsewhere with a better message
    if repr(before) != repr(_extra_states(twin)):
        raise InputError(
            f"load_state_dict: {type(model).__name__} has set_extra_state, which changes more "
            "than weights; load the state into the model and create another Viewer"
        )
    return {n: v for n, v in twin.state_dict().items() if isinstance(v, torch.Tensor)}


def _has_load_code(module: Any) -> bool:
    """Whether the module's load_state_dict runs code other than PyTorch's."""
    hooks = (
        *module._load_state_dict_pre_hooks.values(),
        *module._load_state_dict_post_hooks.values(),
    )
    functions = [getattr(one, "hook", one) for one in hooks]
    for name in ("load_state_dict", "_load_from_state_dict", "set_extra_state"):
        functions.append(getattr(type(module), name))
    return any(not str(one.__module__).startswith("torch.") for one in functions)


def _extra_states(module: Any) -> dict[str, Any]:
    return {n: v for n, v in module.state_dict().items() if n.rpartition(".")[2] == "_extra_state"}
