"""The exporter's tables, made once: it makes each anew for every export, which is most of its time.

They know operators, not models. The names are torch's own: what a torch lacks is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import get_ident
from types import SimpleNamespace
from typing import Any

from nbglcnn.load.draft import OPSET

_Pending = dict[int, Callable[[Any], None]]
_registries: dict[int, tuple[Any, _Pending]] = {}
_decompositions: dict[object, dict[Any, Any]] = {}
_looked_up: set[object] = set()


@contextmanager
def tables_kept() -> Iterator[None]:
    """The exporter looks its tables up while this lasts."""
    with ExitStack() as undo:
        for keep in (_keep_translations, _keep_decompositions, _keep_operators, _quick_registering):
            try:
                undo.enter_context(keep())
            except (ImportError, AttributeError, KeyError):
                continue
        yield


def _keep_translations() -> AbstractContextManager[None]:
    """It would parse 500 functions, of which a network uses ten."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    build = ONNXRegistry.from_torchlib

    class Kept(ONNXRegistry):
        """A copy of a table, as an export adds translations of its own to it."""

        def __init__(self, opset_version: int) -> None:
            super().__init__()
            whole, self._pending = _registries[opset_version]
            vars(self).update(vars(whole))
            self.functions = {name: list(found) for name, found in whole.functions.items()}

        def get_decomps(self, target: Any) -> Any:
            found = super().get_decomps(target)
            for meta in found:
                if (infer := self._pending.pop(id(meta), None)) is not None:
                    infer(meta)
            return found

    def kept(opset_version: int = OPSET) -> Any:
        if opset_version not in _registries:
            _registries[opset_version] = built(build, opset_version)
        return Kept(opset_version)

    return _replaced(ONNXRegistry, "from_torchlib", staticmethod(kept))


def built(build: Callable[..., Any], opset_version: int) -> tuple[Any, _Pending]:
    """The whole table, and what is still to be read of its functions when one is used: by id.

    That are their parameters, from type annotations, which is most of the time.
    """
    pending: _Pending = {}
    with ExitStack() as undo:
        try:
            for replaced in _put_off(pending):
                undo.enter_context(replaced)
        except (ImportError, AttributeError, KeyError):
            undo.close()  # this torch or onnxscript has other names: all of it now
        return build(opset_version=opset_version), pending


def _put_off(pending: _Pending) -> Iterator[AbstractContextManager[None]]:
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

    yield _replaced(OnnxDecompMeta, "__post_init__", later)
    yield _replaced(TracedOnnxFunction, "function_ir", property(unparsed))


def _keep_decompositions() -> AbstractContextManager[None]:
    """What it takes apart before it translates: of 2,000 operators those without translation."""
    from torch.onnx._internal.exporter import _decomp

    build: Callable[[set[Any]], dict[Any, Any]] = _decomp.create_onnx_friendly_decomposition_table

    def kept(translated: set[Any]) -> dict[Any, Any]:
        key = (_registered(), frozenset(translated))
        if key not in _decompositions:
            _decompositions.clear()
            _decompositions[key] = build(translated)
        return dict(_decompositions[key])

    return _replaced(_decomp, "create_onnx_friendly_decomposition_table", kept)


def _keep_operators() -> AbstractContextManager[None]:
    """It would look up each composite operator by name; those that were, are there."""
    from torch._export import utils

    look_up = utils._materialize_cpp_cia_ops
    there = False  # in this export: it asks anew for each of 30 namespaces

    def kept() -> None:
        nonlocal there
        if there:
            return
        registered = _registered()
        if registered not in _looked_up:
            look_up()
            _looked_up.clear()
            _looked_up.add(registered)
        there = True

    return _replaced(utils, "_materialize_cpp_cia_ops", kept)


def _quick_registering() -> AbstractContextManager[None]:
    """It registers eleven kernels for each of 500 operators, twice: most of it type annotations."""
    from torch._C import DispatchKey
    from torch._ops import OperatorBase

    register = OperatorBase.py_impl

    def py_impl(self: Any, key: Any) -> Callable[[Any], Any]:
        if type(key) is not DispatchKey or key == DispatchKey.Python or key in self.py_kernels:
            return register(self, key)  # other kinds of keys, and the errors

        def registered(kernel: Any) -> Any:
            self.py_kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return registered

    return _replaced(OperatorBase, "py_impl", py_impl)


@contextmanager
def _replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    original = vars(owner)[name]  # a static method as such
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _registered() -> object:
    """What other packages can add to: composite operators, and ways to take operators apart."""
    import torch

    composite = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    return tuple(composite), len(torch._decomp.decomposition_table)
