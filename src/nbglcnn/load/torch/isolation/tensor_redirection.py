"""Redirection of a copy's reads of the original model, from closures, globals and hooks.

`copy.deepcopy` doesn't copy functions, so after `m.forward = lambda x: f(2 * x)` a copy of `m`
still runs the original's layers. While a copy runs, this thread's accesses to the original are
redirected to the copy: attributes and calls of its modules, and its parameters and buffers as
arguments of PyTorch functions. Other threads see the original.
"""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.lib.array_utils import byte_bounds
from torch._C._dynamo import eval_frame
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from nbglcnn.errors import UnsupportedModel
from nbglcnn.load.size_limits import quote_name

# Types of tensors that a recording has not created.
PLAIN_TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
READ_IN_FORWARD_HINT = (
    "read it from the module in forward, as self.conv.weight, and compute the view there, so "
    "that it uses new weights"
)


# Operators that branch on values, and what to use instead.
CONTROL_FLOW_OPERATORS = {
    "while_loop": "use a Python `for` of a fixed length, or load only the part before it",
    "cond": "compute both branches and choose with torch.where",
}


class ControlFlowError(Exception):
    """A plain run has called one of CONTROL_FLOW_OPERATORS."""


@dataclass(frozen=True, slots=True)
class _MemorySpan:
    """The memory of a parameter at the time of the copy.

    `alias` keeps that memory allocated; else another tensor could get its address.
    """

    name: str
    alias: torch.Tensor

    def overlaps(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of the same storage overlaps the parameter."""
        begin, end = _byte_range(tensor)
        own_begin, own_end = _byte_range(self.alias)
        return begin < own_end and own_begin < end

    def view_of_current(self, tensor: torch.Tensor, current: torch.Tensor) -> torch.Tensor:
        """Return the view of `current` that matches `tensor`, or raise UnsupportedModel."""
        old = self.alias
        offset = tensor.storage_offset() - old.storage_offset()
        shape, steps = tuple(tensor.shape), tensor.stride()
        if (
            tensor.dtype is old.dtype
            and offset == 0
            and (shape, steps) == (old.shape, old.stride())
        ):
            return current.detach()
        begin, end = _byte_range(tensor)
        own_begin, own_end = _byte_range(old)
        inside = own_begin <= begin and end <= own_end
        if not inside or tensor.dtype is not old.dtype or not old.is_contiguous():
            raise UnsupportedModel(
                f"forward uses a tensor of shape {list(shape)} that shares memory with "
                f"{quote_name(self.name)} in a way that a copy of the model cannot reproduce; "
                f"{READ_IN_FORWARD_HINT}"
            )
        return current.detach().as_strided(shape, steps, offset)


@dataclass(slots=True)
class OriginalModel:
    """The modules and tensors that a copy replaces, by id, with their names."""

    module_names: dict[int, str] = field(default_factory=dict)
    tensor_names: dict[int, str] = field(default_factory=dict)
    spans: dict[int, list[_MemorySpan]] = field(default_factory=dict)
    keep_alive: list[Any] = field(default_factory=list)  # ids are valid only while objects live

    def add(self, model: torch.nn.Module) -> None:
        """Register a model's modules and tensors as originals."""
        for path, module in model.named_modules():
            self.module_names.setdefault(id(module), path)
            self.keep_alive.append(module)
        self.add_tensors(model)

    def add_tensors(self, model: torch.nn.Module) -> None:
        """Register a model's parameters and buffers as originals."""
        for name, tensor in _named_tensors(model):
            if is_lazy(tensor):
                continue
            self.tensor_names.setdefault(id(tensor), name)
            self.keep_alive.append(tensor)
            if (storage := _storage(tensor)) is not None:
                self.spans.setdefault(storage, []).append(_MemorySpan(name, tensor.detach()))

    def update(self, other: OriginalModel) -> None:
        """Add the originals that another copy knows, since copied models are copied again."""
        self.module_names = {**other.module_names, **self.module_names}
        self.tensor_names = {**other.tensor_names, **self.tensor_names}
        for storage, spans in other.spans.items():
            self.spans.setdefault(storage, []).extend(spans)
        self.keep_alive += other.keep_alive

    def find_span(self, tensor: torch.Tensor) -> _MemorySpan | None:
        """The span of the parameter or buffer that a tensor shares memory with."""
        storage = _storage(tensor)
        spans = self.spans.get(storage, ()) if storage is not None else ()
        return next((one for one in spans if one.overlaps(tensor)), None)


_ORIGINALS: WeakKeyDictionary[torch.nn.Module, OriginalModel] = WeakKeyDictionary()


def register_copy(copy: torch.nn.Module, original: torch.nn.Module) -> None:
    """Register the original of a copy, before the copy is used."""
    known = OriginalModel()
    if copy is original:  # the model's own __deepcopy__ returned the model itself
        return
    known.add(original)
    known.add_tensors(copy)
    if original in _ORIGINALS:
        known.update(_ORIGINALS[original])
    _ORIGINALS[copy] = known


def original_of(copy: torch.nn.Module) -> OriginalModel:
    """The OriginalModel of a copy; empty if the copy is not registered."""
    return _ORIGINALS.get(copy, OriginalModel())


def shared_with_numpy(model: torch.nn.Module) -> set[str]:
    """Names of the parameters and buffers that share memory with a NumPy array of the model.

    A recording reads such tensors as constants: values computed from them ignore new weights.
    """
    held = [byte_bounds(one) for one in _numpy_attributes(model) if one.size]
    if not held:
        return set()
    found = set()
    for name, tensor in chain(
        model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)
    ):
        storage = _storage(tensor)
        if storage is not None:
            begin, end = (storage + place for place in _byte_range(tensor))
            if any(begin < last and first < end for first, last in held):
                found.add(name)
    return found


def _numpy_attributes(model: torch.nn.Module) -> Iterator[np.ndarray[Any, Any]]:
    """The NumPy arrays in module attributes, and in their containers and closures."""
    seen: set[int] = set()
    waiting = [one for module in model.modules() for one in vars(module).values()]
    while waiting:
        one = waiting.pop()
        if isinstance(one, np.ndarray):
            yield one
        elif id(one) not in seen:
            seen.add(id(one))
            if isinstance(one, dict):
                waiting += one.values()
            elif isinstance(one, list | tuple):
                waiting += one
            elif isinstance(one, types.FunctionType):
                for cell in one.__closure__ or ():
                    with contextlib.suppress(ValueError):  # not assigned yet
                        waiting.append(cell.cell_contents)


@contextlib.contextmanager
def redirect_to_copy(
    copy: torch.nn.Module, called_module: torch.nn.Module | None = None, *, traced: bool = False
) -> Iterator[None]:
    """Redirect this thread's accesses to the original to its copy, inside the context.

    `called_module` is the module that is called, if it isn't `copy`. `traced`: operators are being
    recorded, or PyTorch exports the model.
    """
    original = original_of(copy)
    called_module = copy if called_module is None else called_module
    tensors = _TensorRedirector(called_module, original)
    mode: Any = _RedirectFunctionMode(tensors) if traced else _RedirectDispatchMode(tensors)
    paths, found = dict(original.module_names), dict[int, Any]()
    thread = threading.get_ident()
    kind: Any = torch.nn.Module

    def target(module: Any) -> Any:
        """The copy's module for a module of the original; None for other modules."""
        number = id(module)
        if number not in paths or threading.get_ident() != thread:
            return None
        if number not in found:
            found[number] = called_module.get_submodule(paths[number])
        return found[number]

    def rerouted(name: str, before: Callable[..., Any], instead: Callable[..., Any]) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            # Every attribute access of any module comes here, so other modules are handled first.
            if id(self) not in paths or (other := target(self)) is None:
                return before(self, *args, **kwargs)
            return instead(other, *args, **kwargs)

        method.__name__ = name
        return method

    instead: Mapping[str, Callable[..., Any]] = {
        "__getattribute__": getattr,
        "__setattr__": setattr,
        "__delattr__": delattr,
        "__call__": lambda module, *args, **kwargs: module(*args, **kwargs),
    }
    own = {name: vars(kind).get(name) for name in instead}
    with mode:
        try:
            for name, change in instead.items():
                setattr(kind, name, rerouted(name, getattr(kind, name), change))
            yield
        finally:
            paths.clear()  # first, because an interrupt may leave a method patched
            for name, before in own.items():
                if before is None:
                    delattr(kind, name)
                else:
                    setattr(kind, name, before)


class _TensorRedirector:
    """Replaces the original's tensors by the copy's in the arguments of a call."""

    def __init__(self, root: torch.nn.Module, original: OriginalModel) -> None:
        self._root = root
        self._original = original
        self._first = dict(_named_tensors(root))

    def redirect(self, tree: Any) -> Any:
        """Replace tensors in nested tuples, lists and dicts by the copy's."""
        if isinstance(tree, torch.Tensor):
            return self._redirect_tensor(tree)
        if type(tree) in (tuple, list):
            return type(tree)([self.redirect(one) for one in tree])
        if type(tree) is dict:
            return {name: self.redirect(one) for name, one in tree.items()}
        return tree

    def _redirect_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        # Tensors that a recording created have other types.
        if type(tensor) not in PLAIN_TENSOR_TYPES:
            return tensor
        with torch._C.DisableTorchFunction():
            name = self._original.tensor_names.get(id(tensor))
            if name is not None:
                return self._current_tensor(name)
            span = self._original.find_span(tensor)
            if span is None:
                return tensor
            now = self._current_tensor(span.name)
            if type(now) in PLAIN_TENSOR_TYPES and _storage(now) == _storage(tensor):
                return tensor
            return span.view_of_current(tensor, now)

    def _current_tensor(self, name: str) -> torch.Tensor:
        """The copy's current parameter or buffer; during a recording, the recorder's tensor."""
        path, _, own = name.rpartition(".")
        found: torch.Tensor = getattr(self._root.get_submodule(path), own)
        # torch.func.functional_call replaces the copy's tensors by the original's.
        return self._first.get(name, found) if type(found) in PLAIN_TENSOR_TYPES else found


class _RedirectFunctionMode(TorchFunctionMode):
    """The mode for recordings and exports: it passes the tracer's tensors to operators."""

    def __init__(self, tensors: _TensorRedirector) -> None:
        super().__init__()
        self._tensors = tensors

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return function(*self._tensors.redirect(args), **self._tensors.redirect(dict(kwargs or {})))


class _RedirectDispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The mode for plain runs; it also covers TorchScript and autograd.Functions.

    Under a torch-function mode PyTorch's attention would use another implementation.
    """

    supports_higher_order_operators = True  # torch.cond and similar operators

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else dynamo would be imported, which takes seconds; see below

    def __init__(self, tensors: _TensorRedirector) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tensors = tensors

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if isinstance(function, torch._ops.HigherOrderOperator) and name in CONTROL_FLOW_OPERATORS:
            raise ControlFlowError(name)
        return function(*self._tensors.redirect(args), **self._tensors.redirect(dict(kwargs or {})))


# torch.while_loop is compiled by dynamo, which must not compile this mode.
_DYNAMO_SKIP_STRATEGY: Any = eval_frame._FrameExecStrategy(
    eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP
)
eval_frame.set_code_exec_strategy(
    _RedirectDispatchMode.__torch_dispatch__.__code__, _DYNAMO_SKIP_STRATEGY
)


def _named_tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    return chain(model.named_parameters(), model.named_buffers())


def _storage(tensor: torch.Tensor) -> int | None:
    """The address of a tensor's storage; None if it has none."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (NotImplementedError, RuntimeError):  # a sparse tensor, or one without storage
        return None


def _byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """The byte range of a tensor in its storage: start and exclusive end."""
    size = tensor.element_size()
    begin = int(tensor.storage_offset()) * size
    if tensor.numel() == 0:
        return begin, begin
    last = sum(
        (length - 1) * step for length, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return begin, begin + (int(last) + 1) * size
