"""Onnxscript's table of functions by ATen operator, of which most are never used.

It knows operators, not models. The names are torch's own: what a torch lacks is not put off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import get_ident
from types import SimpleNamespace
from typing import Any

_Pending = dict[int, Callable[[Any], None]]


def build_table(build: Callable[..., Any], opset_version: int) -> tuple[Any, _Pending]:
    """The whole table, and what is still to be read of its functions when one is used: by id.

    That are their parameters, from type annotations, which is most of the time.
    """
    pending: _Pending = {}
    with ExitStack() as undo:
        try:
            for replaced in _defer_parsing(pending):
                undo.enter_context(replaced)
        except (ImportError, AttributeError, KeyError):
            undo.close()  # this torch or onnxscript has other names: all of it now
        return build(opset_version=opset_version), pending


def _defer_parsing(pending: _Pending) -> Iterator[AbstractContextManager[None]]:
    """What makes this thread leave to `pending` what a table of translations reads of functions."""
    from onnxscript.values import TracedOnnxFunction
    from torch.onnx._internal.exporter._registration import OnnxDecompMeta

    # PyTorch's own are few and the process's, so they are read whole.
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
        """Only its domain is asked for, and not used."""
        return parsed.fget(self) if get_ident() != mine else SimpleNamespace(domain="")

    yield _patched(OnnxDecompMeta, "__post_init__", later)
    yield _patched(TracedOnnxFunction, "function_ir", property(unparsed))


@contextmanager
def _patched(owner: Any, name: str, value: object) -> Iterator[None]:
    original = vars(owner)[name]  # a static method as such
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
