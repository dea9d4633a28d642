"""Random numbers that forward draws: standard normal and uniform draws become inputs.

`torch.randn` and related functions are intercepted while the model is called, on this thread only,
in call order. So PyTorch computes with the same random numbers that the network receives as inputs.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from nbglcnn.errors import InputError, UnsupportedModel
from nbglcnn.graph import Array
from nbglcnn.inputs.arguments import labels_hint
from nbglcnn.load.draft import NOISE_SEED
from nbglcnn.load.module_keys import tensor_leaves
from nbglcnn.load.noise import DRAW_OUTSIDE_HINT, Distribution, draw_noise, resolve_noise
from nbglcnn.load.torch.isolation.process_state import (
    preserve_rng_state,
    restore_torch_on_error,
    uses_random_numbers,
)
from nbglcnn.load.torch.isolation.source_lines import line_of_call
from nbglcnn.load.torch.record.active_dropout import RECOMMENDED_DROPOUTS, active_dropout_message

# Returns the numbers for a draw, by its index, distribution and shape.
NumberSource = Callable[[int, Distribution, tuple[int, ...]], torch.Tensor]
NOISE_NAME = "noise"

_LIKE_FUNCTIONS: Mapping[Any, Distribution] = {
    torch.randn_like: "normal",
    torch.rand_like: "uniform",
}
_SIZE_FUNCTIONS: Mapping[Any, Distribution] = {torch.randn: "normal", torch.rand: "uniform"}
_IN_PLACE_METHODS: Mapping[Any, Distribution] = {
    torch.Tensor.normal_: "normal",
    torch.Tensor.uniform_: "uniform",
}
_RANDOM_FUNCTIONS = frozenset(
    (*_LIKE_FUNCTIONS, *_SIZE_FUNCTIONS, *_IN_PLACE_METHODS, torch.normal)
)


@dataclass(frozen=True, slots=True)
class Draw:
    """One call that draws random numbers."""

    distribution: Distribution
    shape: tuple[int, ...]


class DrawInterceptor(TorchFunctionMode):
    """A mode that takes this thread's random numbers from `source` and lists the calls in `draws`.

    `hidden` has the numbers of the draws made while `hide` returned True. Calls with their own
    generator, and calls other than normal or uniform floats, draw as usual.
    """

    def __init__(self, source: NumberSource, hide: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self.draws: list[Draw] = []
        self._source = source
        self._hide = hide
        self.hidden: frozenset[int] = frozenset()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func not in _RANDOM_FUNCTIONS or any(
            named.get(n) is not None for n in ("generator", "out")
        ):
            return func(*args, **named)
        if func is torch.normal:
            found = self._normal(*args, **named)
        elif func in _IN_PLACE_METHODS:
            found = self._in_place(_IN_PLACE_METHODS[func], *args, **named)
        elif func in _LIKE_FUNCTIONS:
            like = args[0] if args else named["input"]
            dtype, device = (named.get(n) or getattr(like, n) for n in ("dtype", "device"))
            found = self._draw(_LIKE_FUNCTIONS[func], like.shape, dtype, device)
        else:
            size = named.get("size", args)
            if len(size) == 1 and isinstance(size[0], tuple | list):
                size = size[0]
            dtype = named.get("dtype") or torch.get_default_dtype()
            found = self._draw(_SIZE_FUNCTIONS[func], size, dtype, named.get("device"))
        return func(*args, **named) if found is None else found

    def _draw(
        self,
        distribution: Distribution,
        size: Sequence[int],
        dtype: torch.dtype,
        device: Any = None,
    ) -> torch.Tensor | None:
        """The numbers for a draw; None for dtypes other than floats."""
        if not dtype.is_floating_point:
            return None
        shape = tuple(int(length) for length in size)
        if self._hide():
            self.hidden |= {len(self.draws)}
        self.draws.append(Draw(distribution, shape))
        # A copy: later code may write to it.
        found = self._source(len(self.draws) - 1, distribution, shape).clone()
        if device is not None and torch.device(device).type != found.device.type:
            found = found.to(device)
        return found if dtype is torch.float32 else found.to(dtype)

    def _normal(
        self, mean: Any, std: Any = 1.0, size: Sequence[int] | None = None, **named: Any
    ) -> torch.Tensor | None:
        own = [one for one in (mean, std) if isinstance(one, torch.Tensor)]
        if size is None:
            size = np.broadcast_shapes(*(tuple(one.shape) for one in own))
        dtype = own[0].dtype if own else torch.get_default_dtype()
        device = named.get("device") or (own[0].device if own else None)
        found = self._draw("normal", size, named.get("dtype") or dtype, device)
        return None if found is None else _scale_and_shift(found, std, mean)

    def _in_place(
        self, distribution: Distribution, tensor: torch.Tensor, *args: Any, **named: Any
    ) -> torch.Tensor | None:
        names = ("mean", "std") if distribution == "normal" else ("from", "to")
        own: dict[str, Any] = {names[0]: 0.0, names[1]: 1.0, **named}
        own.update(zip(names, args, strict=False))
        first, second = own[names[0]], own[names[1]]
        found = self._draw(distribution, tensor.shape, tensor.dtype, tensor.device)
        if found is None:
            return None
        scale = second if distribution == "normal" else second - first
        return tensor.copy_(_scale_and_shift(found, scale, first))


def _scale_and_shift(drawn: torch.Tensor, scale: Any, shift: Any) -> torch.Tensor:
    """Return drawn * scale + shift, without operators that have no effect."""
    if isinstance(scale, torch.Tensor) or scale != 1:
        drawn = drawn * scale
    return drawn + shift if isinstance(shift, torch.Tensor) or shift != 0 else drawn


@contextlib.contextmanager
def replay_draws(
    tensors: Sequence[torch.Tensor], is_hidden: Callable[[], bool] = lambda: False
) -> Iterator[DrawInterceptor]:
    """Make draws return these tensors in order; UnsupportedModel unless number and shapes match."""

    def source(number: int, kind: Distribution, shape: tuple[int, ...]) -> torch.Tensor:
        if number >= len(tensors) or tuple(tensors[number].shape) != shape:
            raise _changed_draws_error()
        return tensors[number]

    with DrawInterceptor(source, is_hidden) as mode:
        yield mode
    if len(mode.draws) != len(tensors):
        raise _changed_draws_error()


def _changed_draws_error() -> UnsupportedModel:
    return UnsupportedModel(
        "the number or shapes of forward's random numbers change between calls: "
        f"{DRAW_OUTSIDE_HINT}"
    )


@dataclass
class Noise:
    """The random numbers of one model, as inputs after its own.

    `user_arrays` are the user's arrays, by name or in order. `set_draws` creates `default_arrays`,
    which replace missing ones, and sets `is_detected`. `names` are the names of the noise inputs.
    """

    reserved_names: Container[str]
    user_arrays: Mapping[str, Any] | Sequence[Any] = ()
    default_arrays: list[Array] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    arrays: tuple[Array, ...] = ()
    tensors: tuple[torch.Tensor, ...] = ()  # `arrays` as tensors
    is_detected: bool = False

    @property
    def count(self) -> int | None:
        """The number of draws; None until they are detected."""
        return len(self.names) if self.is_detected else None

    def set_draws(self, draws: Sequence[Draw]) -> None:
        """Set the numbers for these draws; InputError if the user's don't fit."""
        generator = np.random.default_rng(NOISE_SEED)
        self.is_detected = True
        self.default_arrays = [draw_noise(generator, one.distribution, one.shape) for one in draws]
        self.names = _names(len(draws), self.reserved_names)
        self.arrays = resolve_noise(self.user_arrays, self.names, self.default_arrays)
        self.tensors = copy_to_tensors(self.arrays)


def copy_to_tensors(arrays: Sequence[Array]) -> tuple[torch.Tensor, ...]:
    """Copies of arrays as tensors."""
    return tuple(torch.from_numpy(np.array(array)) for array in arrays)


def _names(count: int, taken_names: Container[str]) -> list[str]:
    """One unused name per draw: noise, noise_1 and so on."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"{NOISE_NAME}_{number}" if number else NOISE_NAME
        if name not in taken_names:
            found.append(name)
        number += 1
    return found


def split_noise(model: torch.nn.Module, x: Any) -> tuple[Any, Noise]:
    """Split an example input into forward's own inputs and the noise.

    In a tuple, noise follows all positional parameters of forward. In a dict, noise has names such
    as noise_1 that forward does not have.
    """
    parameters = inspect.signature(model.forward).parameters.values()
    by_position = [
        one.name
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    taken = frozenset(one.name for one in parameters)
    if isinstance(x, Mapping):
        mine = {n for n in x if n not in taken and re.fullmatch(rf"{NOISE_NAME}(_\d+)?", str(n))}
        own = {name: one for name, one in x.items() if name not in mine}
        return own, Noise(taken, {name: x[name] for name in x if name in mine})
    some = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if isinstance(x, tuple) and not some and len(x) > len(by_position) > 0:
        if len(by_position) == 1 and (advice := labels_hint(x)):
            raise InputError(
                f"{type(model).__name__}.forward takes 1 input; {len(x)} were given. {advice}"
            )
        return x[: len(by_position)], Noise(taken, x[len(by_position) :])
    return x, Noise(taken)


@contextlib.contextmanager
def modify_draws(
    names: Sequence[str], change: Callable[[str, torch.Tensor], torch.Tensor]
) -> Iterator[list[tuple[Draw, torch.Tensor]]]:
    """A context in which draws use PyTorch's generator as usual, and `change` modifies them.

    `change` receives the name of the noise input and the drawn tensor. The yielded list has the
    draws before the change.
    """
    drawn: list[tuple[Draw, torch.Tensor]] = []

    def source(number: int, kind: Distribution, shape: tuple[int, ...]) -> torch.Tensor:
        found = redraw(Draw(kind, shape))
        drawn.append((Draw(kind, shape), found))
        return change(names[number], found) if number < len(names) else found

    with DrawInterceptor(source):
        yield drawn


def redraw(draw: Draw) -> torch.Tensor:
    """Repeat a draw with new numbers from PyTorch's generator."""
    return torch.randn(draw.shape) if draw.distribution == "normal" else torch.rand(draw.shape)


# Methods that return a tensor's values to Python.
_TO_PYTHON_METHODS = frozenset(
    ("item", "tolist", "numpy", "__array__", "__bool__", "__float__", "__int__")
)


class _DropoutTracker(TorchFunctionMode):
    """A mode for a first run that tracks values computed from dropouts that eval() leaves active.

    `refuse_dropout_results` raises an error if the results of the run include such a value.
    """

    def __init__(
        self, draws: DrawInterceptor, where: Callable[[], str], model: torch.nn.Module
    ) -> None:
        super().__init__()
        self._draws = draws
        self._where = where
        self._model = model
        # By storage address; the tensors are kept alive, so that no other tensor reuses the
        # address.
        self._dropped: dict[int, tuple[torch.Tensor, str]] = {}
        self._state = torch.get_rng_state()
        self._seen = {_digest(self._state)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.check_generator("")
        found = self._draws.__torch_function__(func, types, args, kwargs)
        hidden = isinstance(func, torch.jit.ScriptFunction)
        name = "" if hidden else str(getattr(func, "__name__", ""))
        given = _tensors((args, kwargs or {}))
        words = self.check_generator(name.strip("_")) or self._dropout_message(given)
        if words and name in _TO_PYTHON_METHODS:
            raise UnsupportedModel(words)
        if words:
            in_place = name == "__setitem__" or re.search(r"[^_]_$", name)
            for one in (*_tensors((found, (kwargs or {}).get("out"))), *given[: bool(in_place)]):
                self._dropped[_address(one)] = one, words
        return found

    def _dropout_message(self, tensors: Sequence[torch.Tensor]) -> str:
        """The error message for the first tensor that depends on a dropout; "" if there is none."""
        found = (self._dropped.get(_address(one)) for one in tensors)
        return next((words for _, words in filter(None, found)), "")

    def refuse_dropout_results(self, tensors: Sequence[torch.Tensor]) -> None:
        """Raise UnsupportedModel if one of these tensors depends on a dropout."""
        if words := self._dropout_message(tensors):
            raise UnsupportedModel(words)

    def check_generator(self, name: str) -> str:
        """The error message if a dropout has drawn; UnsupportedModel if hidden code has drawn.

        "" if nothing, or nothing that drops, has drawn.
        """
        state = torch.get_rng_state()
        if torch.equal(state, self._state):
            return ""
        self._state = state
        before, digest = len(self._seen), _digest(state)
        self._seen.add(digest)
        # torch.manual_seed and fork_rng change the generator's state without a draw.
        if len(self._seen) == before or digest == _digest(_seeded_state()):
            return ""
        place = f"{self._where()}{line_of_call()}"
        if not name:
            raise UnsupportedModel(
                f"{place}: code that PyTorch cannot inspect, as TorchScript, samples random "
                f"numbers; {DRAW_OUTSIDE_HINT}"
            )
        # Other draws are refused where they run.
        return (
            active_dropout_message(place, name, self._model) if name in RECOMMENDED_DROPOUTS else ""
        )


def _tensors(value: Any) -> list[torch.Tensor]:
    return [one for _, one in tensor_leaves(value, lambda one: isinstance(one, torch.Tensor))]


def _address(tensor: torch.Tensor) -> int:
    """A key that is equal for tensors that share a storage."""
    try:
        return tensor.untyped_storage().data_ptr() or -id(tensor)
    except (NotImplementedError, RuntimeError):  # sparse, or inside torch.vmap
        return -id(tensor)


def _digest(state: torch.Tensor) -> bytes:
    return hashlib.sha256(state.numpy().tobytes()).digest()


def _seeded_state() -> torch.Tensor:
    """The state of a generator with the current seed and no draws yet."""
    return torch.Generator().manual_seed(torch.initial_seed()).get_state()


def find_draws(
    run_model: Callable[[], Sequence[torch.Tensor]],
    describe_location: Callable[[], str],
    model: torch.nn.Module,
) -> list[Draw]:
    """List the draws while `run_model` calls a model; `describe_location` names the running module.

    Raises:
        UnsupportedModel: If a result of `run_model` depends on a dropout or similar that eval()
            does not switch off.
    """
    generator = np.random.default_rng(NOISE_SEED)

    def source(_: int, kind: Distribution, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.from_numpy(draw_noise(generator, kind, shape))

    found = DrawInterceptor(source)
    with (
        restore_torch_on_error(),
        preserve_rng_state(lambda: uses_random_numbers(run_model)),
        torch.no_grad(),
    ):
        mode = _DropoutTracker(found, describe_location, model)
        with mode:
            values = run_model()
        mode.check_generator("")
        mode.refuse_dropout_results(values)
    return found.draws
