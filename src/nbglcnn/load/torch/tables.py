"""The exporter's tables, made once: it makes each anew for every export, which is most of its time.

They know operators, not models. The names are torch's own: what a torch lacks is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from nbglcnn.load.draft import OPSET

_registries: dict[int, Any] = {}
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
    """It would parse 500 functions."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    build = ONNXRegistry.from_torchlib

    def kept(opset_version: int = OPSET) -> Any:
        if opset_version not in _registries:
            _registries[opset_version] = build(opset_version=opset_version)
        table = ONNXRegistry()
        vars(table).update(vars(_registries[opset_version]))
        table.functions = {name: list(found) for name, found in table.functions.items()}
        return table

    return _replaced(ONNXRegistry, "from_torchlib", staticmethod(kept))


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

    def kept() -> None:
        registered = _registered()
        if registered not in _looked_up:
            look_up()
            _looked_up.clear()
            _looked_up.add(registered)

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
