"""Edits of a torch tensor: simple ones in PyTorch, so that gradients pass; others in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.edits.replay import EditReplay

if TYPE_CHECKING:
    import torch

# Edits as PyTorch formulas, with the same numbers as in transforms.py.
FORMULAS: Mapping[str, Callable[..., Any]] = {
    "ablate": lambda x: x.new_zeros(x.shape),
    "invert": lambda x: 1 - x,
    "multiply": lambda x, factor: x * _round_to_float32(factor),
    "add": lambda x, number: x + _round_to_float32(number),
    "contrast": lambda x, factor: 0.5 + _round_to_float32(factor) * (x - 0.5),
    "flip_h": lambda x: x.flip(3),
    "flip_v": lambda x: x.flip(2),
}


def _round_to_float32(number: float) -> float:
    return float(np.float32(number))


def bend_tensor(bends: EditReplay, key: str, tensor: torch.Tensor) -> torch.Tensor:
    """Apply a key's edits to a tensor; its device and dtype stay the same.

    Edits in FORMULAS are differentiable; the backward pass of other edits raises an error.
    """
    import torch

    shown, edits = bends.nchw_shapes[key], bends.edits[key]
    if tensor.numel() != np.prod(shown, dtype=np.int64):
        raise InputError(
            f"{key} is bent as {shown} (examples, channels, rows, columns), but here it has the "
            f"shape {tuple(tensor.shape)}: give an input of the same size"
        )
    kept = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    if all(edit.transform in FORMULAS for edit in edits):
        found = kept.reshape(shown)
        for edit in edits:
            found = _apply_formula(found, edit)
        return found.reshape(tensor.shape).to(tensor.dtype)
    array = kept.detach().cpu().numpy()
    made = torch.from_numpy(np.ascontiguousarray(bends.apply(key, array)))
    made = made.to(tensor.device, tensor.dtype)
    if not (torch.is_grad_enabled() and tensor.requires_grad):
        return made
    words = ", ".join(f"{e.name!r} ({e.transform})" for e in edits if e.transform not in FORMULAS)
    found = _gradient_barrier()(tensor, made, f"{words} of {key}")
    return found  # type: ignore[no-any-return]


def _apply_formula(x: torch.Tensor, edit: Edit) -> torch.Tensor:
    import torch

    channels = list(range(x.shape[1]) if edit.channels is None else edit.channels)
    old = x[:, channels]
    made = FORMULAS[edit.transform](old, *edit.parameters)
    if edit.mix != 1:
        mix = _round_to_float32(edit.mix)
        made = old * (1 - mix) + made * mix
    return torch.index_copy(x, 1, torch.tensor(channels, device=x.device), made)


def _gradient_barrier() -> Any:
    import torch

    class WithoutGradient(torch.autograd.Function):
        """Values that were computed in NumPy: their backward pass raises an error."""

        @staticmethod
        def forward(ctx: Any, x: Any, made: Any, words: str) -> Any:
            ctx.words = words
            return made.clone()

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            raise InputError(
                f"the bend {ctx.words} has no gradient: it is computed in NumPy. Bends with "
                f"gradients are {', '.join(FORMULAS)}"
            )

    return WithoutGradient.apply
