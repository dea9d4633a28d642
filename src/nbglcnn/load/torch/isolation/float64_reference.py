"""A torch module in float64, including tensors that its code creates in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@contextmanager
def float64_mode(model: torch.nn.Module) -> Iterator[None]:
    """Convert a module to float64, and run this thread's float32 operations in float64."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    def wider(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            return value.double()
        return torch.float64 if value is torch.float32 else value

    class Double(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            schema = function._schema
            if not schema.is_mutable:  # a mutated tensor keeps its dtype
                args, kwargs = tree_map(wider, (args, kwargs or {}))
            result = function(*args, **(kwargs or {}))
            # arange(), full() and similar functions create float32 by default.
            if isinstance(result, torch.Tensor) and result.dtype == torch.float32:
                if any(one.name == "dtype" for one in schema.arguments):
                    return function(*args, **{**(kwargs or {}), "dtype": torch.float64})
                if not schema.is_mutable:
                    return result.double()
            return result

    model.double()
    with Double():  # type: ignore[no-untyped-call]
        yield
