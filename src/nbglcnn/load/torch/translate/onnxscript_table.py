"""onnxscript's function table by ATen operator, with parsing deferred, as most are unused.

The table depends on operators, not on models. It patches internal names of torch and onnxscript; if
a version lacks them, parsing is not deferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import get_ident
from types import SimpleNamespace
from typing import Any

_DeferredParsers = dict[int, Callable[[Any], None]]


def build_table(build: Callable[..., Any], opset_version: int) -> tuple[Any, _DeferredParsers]:
    """Return the table, and its deferred parsing steps by the id of their entry.

    The parsing of function parameters from type annotations takes most of the time.
    """
    pending: _DeferredParsers = {}
    with ExitStack() as undo:
        try:
            for replaced in _defer_parsing(pending):
                undo.enter_context(replaced)
        except (ImportError, AttributeError, KeyError):
            undo.close()  # this torch or onnxscript has other names: parse everything now
        return build(opset_version=opset_version), pending


def _defer_parsing(pending: _DeferredParsers) -> Iterator[AbstractContextManager[None]]:
    """Patches that make this thread defer the parsing of functions to `pending`."""
    from onnxscript.values import TracedOnnxFunction
    from torch.onnx._internal.exporter._registration import OnnxDecompMeta

    # PyTorch's own functions are few and shared by the process, so they are parsed now.
    from torch.onnx._internal.exporter._torchlib import ops  # noqa: F401

    infer: Callable[[Any], None] = vars(OnnxDecompMeta)["__post_init__"]
    parsed: Any = vars(TracedOnnxFunction)["function_ir"]
    mine = get_ident()

    def later(self: Any) -> None:
        if get_ident() != mine or self.is_custom:
            infer(self)
        else:
            pending[id(self)] = infer

    def unparsed(self: Any) -> Any:
        """A stub: registration only reads the domain, which is not used."""
        return parsed.fget(self) if get_ident() != mine else SimpleNamespace(domain="")

    yield _patched(OnnxDecompMeta, "__post_init__", later)
    yield _patched(TracedOnnxFunction, "function_ir", property(unparsed))


@contextmanager
def _patched(owner: Any, name: str, value: object) -> Iterator[None]:
    original = vars(owner)[name]  # keeps a static method wrapped
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
