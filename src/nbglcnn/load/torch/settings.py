"""Numbers of a module that Python reads: `if self.flag:`, `range(int(self.steps))`, `k.item()`.

While a module is traced its buffers and parameters have no numbers. They don't depend on the input,
nor does what forward makes itself, as by torch.arange. So what Python reads of small ones, and of
what follows from them alone, is computed beside the trace: with the same views and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.weak import WeakTensorKeyDictionary

LARGEST = 1024  # numbers of a tensor that is followed
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
READS = frozenset(
    (
        *("__bool__", "__int__", "__float__", "__index__", "__contains__"),
        *("item", "tolist", "is_nonzero", "equal", "allclose"),
    )
)
# The others make random numbers, or any.
FACTORIES = frozenset(
    (
        *(torch.arange, torch.range, torch.linspace, torch.logspace, torch.eye),
        *(torch.zeros, torch.ones, torch.full, torch.tensor, torch.as_tensor, torch.asarray),
        *(torch.scalar_tensor, torch.tril_indices, torch.triu_indices),
        *(torch.bartlett_window, torch.blackman_window, torch.hamming_window),
        *(torch.hann_window, torch.kaiser_window, torch.fft.fftfreq, torch.fft.rfftfreq),
    )
)
# Functions that take no numbers of this argument, only its shape or type.
SHAPED = dict.fromkeys(
    (
        *(torch.Tensor.new_zeros, torch.Tensor.new_ones, torch.Tensor.new_full),
        *(torch.Tensor.new_tensor, torch.zeros_like, torch.ones_like, torch.full_like),
    ),
    0,
) | dict.fromkeys(
    (
        *(torch.Tensor.to, torch.Tensor.type_as, torch.Tensor.view_as),
        *(torch.Tensor.reshape_as, torch.Tensor.expand_as),
    ),
    1,
)
ANYTHING = frozenset(
    (
        *(torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted),
        *(torch.Tensor.new_empty, torch.Tensor.new_empty_strided, torch.Tensor.resize_),
    )
)
REPLACED = frozenset((torch.Tensor.set_, torch.Tensor.data.__set__))  # type: ignore[attr-defined]


class TooMany(Exception):
    """Python reads of a tensor that doesn't depend on the input, but has too many numbers."""


@dataclass(frozen=True, slots=True)
class _Constant:
    """What is known of a traced tensor that doesn't depend on the input.

    `real` has its numbers, and shares them with other tensors as the traced one does; None where
    they are too many: then `large` says of what. `names` are the buffers and parameters that they
    come from. It holds for one `version` of the tensor, with its traced numbers in `storage`.
    """

    real: torch.Tensor | None
    names: frozenset[str]
    version: int | None
    storage: int | None
    large: str = ""


@dataclass(eq=False)
class Settings(TorchFunctionMode):
    """A mode for tracing `twin` in which Python can read what doesn't depend on the input.

    `read` receives the names, in the state_dict, of the buffers and parameters that were read.
    `missed` are symbols of numbers that were read of tensors that have too many, and what to say.
    """

    twin: torch.nn.Module
    read: set[str]
    missed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._known: Any = WeakTensorKeyDictionary()  # None: not known any more
        self._outside: set[int | None] = set()  # real storages of tensors from before the trace
        first: dict[int, torch.Tensor | None] = {}
        self._given = {}
        for name, tensor in self._named():
            small = tensor.numel() <= LARGEST
            if id(tensor) not in first:  # clones, as the trace must not alter them
                first[id(tensor)] = tensor.detach().clone() if small else None
            self._given[name] = first[id(tensor)]

    def _named(self) -> Iterator[tuple[str, torch.Tensor]]:
        twin = self.twin
        return chain(
            twin.named_buffers(remove_duplicate=False),
            twin.named_parameters(remove_duplicate=False),
        )

    def begin(self) -> None:
        """The trace has put its own tensors in the places of the module's."""
        with torch._C.DisableTorchFunction():
            for name, tensor in self._named():
                if name in self._given and tensor not in self._known:
                    real = self._given[name]
                    large = "" if real is not None else f"{name} ({tensor.numel():,} numbers)"
                    self._keep(tensor, real, frozenset([name]), large)

    def _keep(
        self, tensor: torch.Tensor, real: torch.Tensor | None, names: frozenset[str], large: str
    ) -> None:
        storage = _storage(tensor)
        one = _Constant(real, names, _version(tensor), storage, large)
        self._known[tensor] = None if storage is None else one

    def _constant(self, tensor: torch.Tensor) -> _Constant | None:
        """What is known of a tensor; None where it depends on the input."""
        if tensor not in self._known and type(tensor) in (torch.Tensor, torch.nn.Parameter):
            # No traced one: an attribute of the model or a global, from before the trace.
            small = tensor.numel() <= LARGEST
            large = "" if small else f"a tensor of the model ({tensor.numel():,} numbers)"
            with _disable_current_modes():
                real = tensor.detach().clone() if small else None
            self._keep(tensor, real, frozenset(), large)
            if real is not None:
                self._outside.add(_storage(real))
        found: _Constant | None = self._known.get(tensor)
        if found is not None and found.version != _version(tensor):
            found = self._known[tensor] = None  # written, by what no mode sees
        return found

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.Tensor.__iter__ and args[0].dim():
            with self:
                return iter(args[0].unbind(0))
        with torch._C.DisableTorchFunction():
            tensors = list({id(t): t for t in _tensors((args, kwargs))}.values())
            found = {id(t): self._constant(t) for t in tensors}
            before = [_version(t) for t in tensors]
            given = self._stand_in(function, args, kwargs, found)
        known = {key: one for key, one in found.items() if one is not None}
        name = getattr(function, "__name__", "")
        if name in READS and tensors and given is not None:
            return self._answer(function, args, kwargs, given, known)
        traced = function(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            versions = zip(tensors, before, strict=True)
            written = [t for t, was in versions if was is None or was != _version(t)]
            if function in REPLACED:
                given, written = None, list(args[:1])
            made = list(_tensors(traced))
            if made or written:
                self._follow(function, given, known, made, written)
        return traced

    def _answer(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        given: Any,
        known: Mapping[int, _Constant],
    ) -> Any:
        """A number that Python reads of constants."""
        large = _first_large(known)
        if not large:
            result = self._really(function, given, known)
            if result is None:
                return function(*args, **kwargs)
            self.read.update(_names(known))
            return result[0]
        why = (
            f"Python reads a number that follows from {large}. It does not depend on the input, "
            f"but of constants that are read while a model is traced each may have {LARGEST:,} "
            "numbers at most: read it in __init__, and keep it as a number of Python's"
        )
        try:
            traced = function(*args, **kwargs)
        except Exception as error:
            raise TooMany(why) from error
        if isinstance(traced, SYMBOLS):  # fine as long as nothing is decided by it
            self.missed[str(traced)] = why
        return traced

    def _follow(
        self,
        function: Any,
        given: Any,
        known: Mapping[int, _Constant],
        made: Sequence[torch.Tensor],
        written: Sequence[torch.Tensor],
    ) -> None:
        """A function has `made` and `written` tensors: note what they are, if known.

        `given` is what to compute them with, None where that depends on the input.
        """
        large, names, result = _first_large(known), _names(known), None
        sizes = [size for t in made if (size := _numel(t)) is not None]
        if given is not None and not large and max(sizes, default=0) > LARGEST:
            large = f"what {function.__name__} gives ({max(sizes):,} numbers)"
        if given is not None and not large:
            result = self._really(function, given, known)
            given = None if result is None else given
        self._settle(written, known, given is not None, large)
        reals = list(_tensors(result))
        if given is None:
            if any(t.is_inference() or t._is_view() for t in made):
                self._lose_outside(known)
        elif large:
            for tensor in made:
                self._keep(tensor, None, names, large)
        elif len(reals) == len(made) and all(map(_alike, made, reals)):
            for tensor, real in zip(made, reals, strict=True):
                self._keep(tensor, real, names, "")
        else:
            for tensor in made:
                self._known[tensor] = None

    def _stand_in(
        self, function: Any, args: Any, kwargs: Mapping[str, Any], found: Mapping[int, Any]
    ) -> Any:
        """The arguments to compute with, where none depends on the input; None where one may."""
        symbols = any(isinstance(one, SYMBOLS) for one in _leaves((args, kwargs)))
        if symbols or function in ANYTHING or not (found or function in FACTORIES):
            return None
        unknown = {key for key, one in found.items() if one is None}
        at = SHAPED.get(function)
        if at is None:
            return None if unknown else (args, kwargs)
        shown: Any = args[at] if at < len(args) else kwargs.get("other" if at else "input")
        if unknown - {id(shown)}:
            return None
        if not unknown:
            return args, kwargs
        # Any tensor will do. Only what is small is computed, and new_zeros asks for no shape.
        lengths = () if function.__name__.startswith("new_") else tuple(shown.shape)
        if not all(type(length) is int for length in lengths):
            return None
        with _disable_current_modes():
            one = torch.zeros((), dtype=shown.dtype, device=shown.device).expand(lengths)
        return _replaced((args, kwargs), lambda t: one if t is shown else t)

    def _really(
        self, function: Any, given: Any, known: Mapping[int, _Constant]
    ) -> tuple[Any] | None:
        """What a function gives for the numbers themselves; None where that fails or is random."""
        with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
            args, kwargs = _replaced(given, lambda t: known[id(t)].real if id(t) in known else t)
            try:
                with cast(Any, _Repeatable)():
                    return (function(*args, **kwargs),)
            except Exception:
                return None

    def _settle(
        self,
        written: Sequence[torch.Tensor],
        known: Mapping[int, _Constant],
        constant: bool,
        large: str,
    ) -> None:
        """These were written: what shares their numbers has new ones too, or isn't known any more.

        Where what was written is a `constant`, the real numbers of all of them are up to date.
        """
        if not written:
            return
        traced = {_storage(t) for t in written}
        reals = [one.real for t in written if (one := known.get(id(t))) is not None]
        real = {_storage(t) for t in reals if t is not None}
        names = _names(known)
        for tensor, one in list(self._known.items()):
            if one is None:
                continue
            beside = one.storage in traced
            shared = one.real is not None and _storage(one.real) in real
            if not beside and not shared:
                continue
            if constant and (large or one.real is None):
                self._keep(tensor, None, one.names | names, large or one.large)
            elif constant and beside and shared:
                self._keep(tensor, one.real, one.names | names, "")
            else:
                self._known[tensor] = None

    def _lose_outside(self, known: Mapping[int, _Constant]) -> None:
        """There is a view, perhaps of these, that will be written by what depends on the input.

        Those from before the trace don't share their numbers with their traced views.
        """
        real = {_storage(one.real) for one in known.values() if one.real is not None}
        real &= self._outside
        for tensor, one in list(self._known.items()):
            if one is not None and one.real is not None and _storage(one.real) in real:
                self._known[tensor] = None


def _first_large(known: Mapping[int, _Constant]) -> str:
    return next((one.large for one in known.values() if one.large), "")


def _names(known: Mapping[int, _Constant]) -> frozenset[str]:
    return frozenset().union(*(one.names for one in known.values()))


class _Repeatable(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode in which what draws random numbers fails, before it has drawn any."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise RuntimeError(f"{func} draws random numbers")
        return func(*args, **(kwargs or {}))


def _version(tensor: torch.Tensor) -> int | None:
    """A number that each write to it or its views changes; nobody counts them in inference mode."""
    return None if tensor.is_inference() else tensor._version


def _storage(tensor: torch.Tensor) -> int | None:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a sparse one
        return None


def _numel(tensor: torch.Tensor) -> int | None:
    """None where it depends on numbers."""
    lengths = tuple(tensor.shape)
    return prod(lengths) if all(type(length) is int for length in lengths) else None


def _alike(traced: torch.Tensor, real: torch.Tensor) -> bool:
    lengths = zip(traced.shape, real.shape, strict=False)
    return (
        traced.dim() == real.dim()
        and traced.dtype is real.dtype
        and real.numel() <= LARGEST
        and all(type(a) is not int or a == b for a, b in lengths)
    )


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    elif isinstance(tree, slice):
        tree = (tree.start, tree.stop, tree.step)
    if isinstance(tree, tuple | list):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in _leaves(tree) if isinstance(leaf, torch.Tensor))


def _replaced(tree: Any, by: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(tree, torch.Tensor):
        return by(tree)
    if isinstance(tree, dict):
        return {name: _replaced(part, by) for name, part in tree.items()}
    if isinstance(tree, slice):
        return slice(*(_replaced(part, by) for part in (tree.start, tree.stop, tree.step)))
    if type(tree) in (tuple, list):
        return type(tree)(_replaced(part, by) for part in tree)
    return tree


def reads_numbers(program: Any) -> bool:
    """Whether a number was read of a tensor, as `.item()` does, and not used for a size."""
    aten = torch.ops.aten
    reads = (aten.item.default, aten._local_scalar_dense.default)
    return any(node.target in reads for node in program.graph.nodes)
