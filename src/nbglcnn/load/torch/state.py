"""A module's state_dict with other numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbglcnn.graph import Array


def tensors_of(model: Any, numbers: Mapping[str, Array]) -> dict[str, Any]:
    """What `model.load_state_dict` takes: its own names and types, and these numbers.

    What no forward reads, and so no Graph has, is as the module has it.
    """
    import torch

    from nbglcnn.load.torch.check import unwrapped

    inner = unwrapped(model)
    inside = {id(value): name for name, value in inner.state_dict(keep_vars=True).items()}
    found: dict[str, Any] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        own = name if inner is model else inside.get(id(value), name)
        if not isinstance(value, torch.Tensor):
            found[name] = value  # of get_extra_state
        elif own in numbers:
            array = torch.from_numpy(numbers[own].reshape(tuple(value.shape)).copy())
            found[name] = array.to(value.dtype)
        else:
            found[name] = value.detach().clone()
    return found


def arrays_of(model: Any, numbers: Mapping[str, Array]) -> dict[str, Array]:
    """The same as arrays, under the names of the module inside wrappers.

    Numbers of 16 bits as float32.
    """
    import torch

    from nbglcnn.load.torch.check import unwrapped

    found = {}
    for name, value in tensors_of(unwrapped(model), numbers).items():
        if isinstance(value, torch.Tensor):
            whole = value.float() if value.is_floating_point() else value
            found[name] = whole.cpu().numpy()
    return found
