"""Tensors created from lists that contain tensors: `torch.tensor([x.mean(), 1])`.

PyTorch reads the elements' values without any operator, so the elements are stacked instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# Values: the position of the list among the arguments.
TENSOR_FACTORIES = {
    torch.tensor: 0,
    torch.as_tensor: 0,
    torch.asarray: 0,
    torch.Tensor.new_tensor: 1,
}


class StackListsMode(TorchFunctionMode):
    """A mode for recording that replaces such a tensor with a stack of the list's elements."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        at = TENSOR_FACTORIES.get(function)
        if at is not None:
            data = args[at] if at < len(args) else named.get("data", named.get("obj"))
            leaves = list(_leaves(data))
            if isinstance(data, list | tuple) and any(map(_is_tensor, leaves)):
                dtype = named.get("dtype") or (args[at + 1] if at + 1 < len(args) else None)
                if dtype is None and at:
                    dtype = args[0].dtype
                if dtype is None:
                    dtype = reduce(torch.promote_types, map(_dtype, leaves))
                return _stack(data, dtype)
        return function(*args, **named)


def _stack(data: Any, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(data, list | tuple):
        made = [_stack(one, dtype) for one in data]
        if made[0].dim() == 0:  # a one-element tensor counts as a number here
            made = [one.reshape(()) for one in made]
        return torch.stack(made)
    if isinstance(data, torch.Tensor):
        return data.detach().to(dtype)
    return torch.tensor(data, dtype=dtype)


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, list | tuple):
        for one in data:
            yield from _leaves(one)
    else:
        yield data


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _dtype(value: Any) -> torch.dtype:
    return value.dtype if isinstance(value, torch.Tensor) else torch.tensor(value).dtype
