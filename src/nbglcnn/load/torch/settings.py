"""Numbers of a module that Python reads: `if self.flag:`, `range(int(self.steps))`, `k.item()`.

While a module is traced its buffers and parameters have no numbers. They don't depend on the input,
so what Python reads of small ones, and of what follows from them alone, is taken from the module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LARGEST = 1024  # numbers of a buffer or parameter, or of what follows from it
READS = ("__bool__", "__int__", "__float__", "__index__", "item", "tolist")


def settings_read(twin: torch.nn.Module, read: set[str]) -> Any:
    """A mode for tracing `twin` in which Python can read small buffers and parameters.

    `read` receives their names in the state_dict. None where it has none.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import _disable_current_modes
    from torch.utils.weak import WeakTensorKeyDictionary

    def named() -> Any:
        return chain(twin.named_buffers(), twin.named_parameters())

    given = {name: t.detach().clone() for name, t in named() if t.numel() <= LARGEST}
    if not given:
        return None
    followed: Any = WeakTensorKeyDictionary()  # None: not any more

    def known(value: Any) -> tuple[torch.Tensor, frozenset[str]] | None:
        """A traced tensor's numbers, and the buffers and parameters that they come from."""
        if value in followed:
            return followed[value]  # type: ignore[no-any-return]
        for name, tensor in named():
            if tensor is value and name in given:
                return given[name], frozenset([name])
        return None

    class Settings(TorchFunctionMode):
        def __torch_function__(
            self,
            function: Callable[..., Any],
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            kwargs = kwargs or {}
            tensors = list(_tensors((args, kwargs)))
            found = {id(tensor): known(tensor) for tensor in tensors}
            sources = {key: source for key, source in found.items() if source is not None}
            if not sources or len(sources) < len(found):
                traced = function(*args, **kwargs)
                if any(traced is tensor for tensor in tensors):  # altered in place
                    followed[traced] = None
                return traced
            names = frozenset().union(*(source[1] for source in sources.values()))
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                real = _replaced((args, kwargs), lambda t: sources[id(t)][0].clone())
                try:
                    result = function(*real[0], **real[1])
                except Exception:
                    result = None
            if getattr(function, "__name__", "") in READS and result is not None:
                read.update(names)
                return result
            traced = function(*args, **kwargs)
            if isinstance(traced, torch.Tensor):
                small = isinstance(result, torch.Tensor) and result.numel() <= LARGEST
                followed[traced] = (result, names) if small else None
            return traced

    return Settings()


def _tensors(tree: Any) -> Any:
    import torch

    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        yield from _tensors(tuple(tree.values()))
    elif isinstance(tree, tuple | list):
        for part in tree:
            yield from _tensors(part)


def _replaced(tree: Any, by: Callable[[torch.Tensor], Any]) -> Any:
    import torch

    if isinstance(tree, torch.Tensor):
        return by(tree)
    if isinstance(tree, dict):
        return {name: _replaced(part, by) for name, part in tree.items()}
    if type(tree) in (tuple, list):
        return type(tree)(_replaced(part, by) for part in tree)
    return tree


def reads_numbers(program: Any) -> bool:
    """Whether a number was read of a tensor, as `.item()` does, and not used for a size."""
    import torch

    aten = torch.ops.aten
    reads = (aten.item.default, aten._local_scalar_dense.default)
    return any(node.target in reads for node in program.graph.nodes)
