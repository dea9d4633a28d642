"""Weights that forward writes: `self.conv.weight.data = w`, as re-parametrised convolutions do.

While a module is traced the new weight takes the parameter's place for the rest of the call. So
what it was computed from is traced too: it follows load_state_dict, and folding computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@contextmanager
def written(model: torch.nn.Module) -> Iterator[None]:
    """What is assigned to the `.data` of a parameter or buffer meanwhile is used in its place."""
    import torch
    from torch.overrides import TorchFunctionMode

    data_get, data_set = (getattr(torch.Tensor.data, name) for name in ("__get__", "__set__"))
    before: list[tuple[dict[str, Any], dict[str, Any]]] = []  # tables, and what was in them
    places: list[tuple[torch.nn.Module, str]] = []  # of what was assigned

    def assign(tensor: torch.Tensor, value: torch.Tensor) -> bool:
        """Put the value in a parameter's or buffer's place; tied ones have several."""
        found = [place for place in places if vars(place[0])[place[1]] is tensor]
        for module in model.modules():
            for table in (module._parameters, module._buffers):
                for name in [n for n, registered in table.items() if registered is tensor]:
                    before.append((table, dict(table)))
                    del table[name]
                    found.append((module, name))
                    places.append((module, name))
        for module, name in found:
            vars(module)[name] = value
        return bool(found)

    class Written(TorchFunctionMode):
        def __torch_function__(
            self,
            function: Callable[..., Any],
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            if function == data_get:
                return args[0].detach()  # which the tracer follows
            if function == data_set and assign(*args):
                return None
            return function(*args, **(kwargs or {}))

    try:
        with Written():
            yield
    finally:
        for module, name in places:
            vars(module).pop(name, None)
        for table, content in reversed(before):
            table.clear()
            table.update(content)  # in the order that they had
