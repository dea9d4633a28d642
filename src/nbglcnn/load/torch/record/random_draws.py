"""Random numbers that forward draws: standard normal or uniform ones come from inputs instead.

`torch.randn` and its kin are replaced while the model is called, for this thread alone, in the
order of their calls: PyTorch then computes with the very numbers that the network has as inputs.
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
from nbglcnn.inputs.arguments import labels_advice
from nbglcnn.load.draft import SEED
from nbglcnn.load.names import parts
from nbglcnn.load.noise import OUTSIDE, Kind, chosen, seeded
from nbglcnn.load.torch.isolation.process_state import draws, random_numbers_kept, unwound
from nbglcnn.load.torch.isolation.source_lines import line_of_call
from nbglcnn.load.torch.record.active_dropout import MASKS, left_on

# What a call gets: by its number, what it draws and of which shape.
Source = Callable[[int, Kind, tuple[int, ...]], torch.Tensor]
NAME = "noise"

_LIKE: Mapping[Any, Kind] = {torch.randn_like: "normal", torch.rand_like: "uniform"}
_OF_SIZE: Mapping[Any, Kind] = {torch.randn: "normal", torch.rand: "uniform"}
_IN_PLACE: Mapping[Any, Kind] = {
    torch.Tensor.normal_: "normal",
    torch.Tensor.uniform_: "uniform",
}
_DRAWS = frozenset((*_LIKE, *_OF_SIZE, *_IN_PLACE, torch.normal))


@dataclass(frozen=True, slots=True)
class Draw:
    """One call that drew numbers."""

    kind: Kind
    shape: tuple[int, ...]


class Draws(TorchFunctionMode):
    """While entered, this thread's random numbers come from a source; `draws` are the calls.

    `hidden` are the numbers of those that came while `hide` said so.
    Calls with a generator of their own, and others than of standard normal, normal or uniform
    floats, draw as ever.
    """

    def __init__(self, source: Source, hide: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self.draws: list[Draw] = []
        self._source = source
        self._hide = hide
        self.hidden: frozenset[int] = frozenset()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func not in _DRAWS or any(named.get(n) is not None for n in ("generator", "out")):
            return func(*args, **named)
        if func is torch.normal:
            found = self._normal(*args, **named)
        elif func in _IN_PLACE:
            found = self._in_place(_IN_PLACE[func], *args, **named)
        elif func in _LIKE:
            like = args[0] if args else named["input"]
            dtype, device = (named.get(n) or getattr(like, n) for n in ("dtype", "device"))
            found = self._draw(_LIKE[func], like.shape, dtype, device)
        else:
            size = named.get("size", args)
            if len(size) == 1 and isinstance(size[0], tuple | list):
                size = size[0]
            dtype = named.get("dtype") or torch.get_default_dtype()
            found = self._draw(_OF_SIZE[func], size, dtype, named.get("device"))
        return func(*args, **named) if found is None else found

    def _draw(
        self, kind: Kind, size: Sequence[int], dtype: torch.dtype, device: Any = None
    ) -> torch.Tensor | None:
        """What a call gets, None where it draws no floats."""
        if not dtype.is_floating_point:
            return None
        shape = tuple(int(length) for length in size)
        if self._hide():
            self.hidden |= {len(self.draws)}
        self.draws.append(Draw(kind, shape))
        # A copy: what comes after may write into it.
        found = self._source(len(self.draws) - 1, kind, shape).clone()
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
        return None if found is None else _scaled(found, std, mean)

    def _in_place(
        self, kind: Kind, tensor: torch.Tensor, *args: Any, **named: Any
    ) -> torch.Tensor | None:
        names = ("mean", "std") if kind == "normal" else ("from", "to")
        own: dict[str, Any] = {names[0]: 0.0, names[1]: 1.0, **named}
        own.update(zip(names, args, strict=False))
        first, second = own[names[0]], own[names[1]]
        found = self._draw(kind, tensor.shape, tensor.dtype, tensor.device)
        if found is None:
            return None
        scale = second if kind == "normal" else second - first
        return tensor.copy_(_scaled(found, scale, first))


def _scaled(drawn: torch.Tensor, scale: Any, shift: Any) -> torch.Tensor:
    """Drawn * scale + shift, without operators that change nothing."""
    if isinstance(scale, torch.Tensor) or scale != 1:
        drawn = drawn * scale
    return drawn + shift if isinstance(shift, torch.Tensor) or shift != 0 else drawn


@contextlib.contextmanager
def replayed(
    tensors: Sequence[torch.Tensor], hide: Callable[[], bool] = lambda: False
) -> Iterator[Draws]:
    """While entered, the calls get these tensors; UnsupportedModel unless there is one for each."""

    def source(number: int, kind: Kind, shape: tuple[int, ...]) -> torch.Tensor:
        if number >= len(tensors) or tuple(tensors[number].shape) != shape:
            raise _another()
        return tensors[number]

    with Draws(source, hide) as mode:
        yield mode
    if len(mode.draws) != len(tensors):
        raise _another()


def _another() -> UnsupportedModel:
    return UnsupportedModel(
        "forward draws other random numbers each time it is called (more of them, or of other "
        f"shapes): {OUTSIDE}"
    )


@dataclass
class Noise:
    """The random numbers of one model, as further inputs behind its own.

    `given` are those that the user gave, by name or in order. `seeded` are found by `look`, and
    stand for what is not given; until then nobody has looked. `names` are the inputs' names.
    """

    taken: Container[str]
    given: Mapping[str, Any] | Sequence[Any] = ()
    seeded: list[Array] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    arrays: tuple[Array, ...] = ()
    tensors: tuple[torch.Tensor, ...] = ()  # `arrays` for PyTorch
    looked: bool = False

    @property
    def count(self) -> int | None:
        """How many calls draw; None where nobody has looked."""
        return len(self.names) if self.looked else None

    def look(self, draws: Sequence[Draw]) -> None:
        """Make the numbers of these calls; InputError where others were given that don't fit."""
        generator = np.random.default_rng(SEED)
        self.looked = True
        self.seeded = [seeded(generator, one.kind, one.shape) for one in draws]
        self.names = _names(len(draws), self.taken)
        self.arrays = chosen(self.given, self.names, self.seeded)
        self.tensors = tensors_of(self.arrays)


def tensors_of(arrays: Sequence[Array]) -> tuple[torch.Tensor, ...]:
    """Copies of arrays as tensors."""
    return tuple(torch.from_numpy(np.array(array)) for array in arrays)


def _names(count: int, taken: Container[str]) -> list[str]:
    """As many names as there are calls: noise, noise_1, ... without those that are taken."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"{NAME}_{number}" if number else NAME
        if name not in taken:
            found.append(name)
        number += 1
    return found


def parted(model: torch.nn.Module, x: Any) -> tuple[Any, Noise]:
    """An example input without the noise in it, and that.

    Noise stands behind all that forward takes, or has a name in a dict that forward doesn't have.
    """
    parameters = inspect.signature(model.forward).parameters.values()
    by_position = [
        one.name
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    taken = frozenset(one.name for one in parameters)
    if isinstance(x, Mapping):
        mine = {n for n in x if n not in taken and re.fullmatch(rf"{NAME}(_\d+)?", str(n))}
        own = {name: one for name, one in x.items() if name not in mine}
        return own, Noise(taken, {name: x[name] for name in x if name in mine})
    some = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if isinstance(x, tuple) and not some and len(x) > len(by_position) > 0:
        if len(by_position) == 1 and (advice := labels_advice(x)):
            raise InputError(
                f"{type(model).__name__}.forward takes 1 input; {len(x)} were given. {advice}"
            )
        return x[: len(by_position)], Noise(taken, x[len(by_position) :])
    return x, Noise(taken)


@contextlib.contextmanager
def bent(
    names: Sequence[str], change: Callable[[str, torch.Tensor], torch.Tensor]
) -> Iterator[list[tuple[Draw, torch.Tensor]]]:
    """While entered, the calls draw from PyTorch's generator, as ever, and `change` bends it.

    It gets a number's input by name. What was drawn before that is in the list.
    """
    drawn: list[tuple[Draw, torch.Tensor]] = []

    def source(number: int, kind: Kind, shape: tuple[int, ...]) -> torch.Tensor:
        found = fresh(Draw(kind, shape))
        drawn.append((Draw(kind, shape), found))
        return change(names[number], found) if number < len(names) else found

    with Draws(source):
        yield drawn


def fresh(draw: Draw) -> torch.Tensor:
    """Other numbers for a call, from PyTorch's generator."""
    return torch.randn(draw.shape) if draw.kind == "normal" else torch.rand(draw.shape)


# What gives numbers to Python.
_TO_PYTHON = frozenset(("item", "tolist", "numpy", "__array__", "__bool__", "__float__", "__int__"))


class _WithoutMasks(TorchFunctionMode):
    """Draws for a first run, which follows the values of a dropout that eval() leaves on.

    `refuse` ends it with an error where such numbers are among its values.
    """

    def __init__(self, draws: Draws, where: Callable[[], str], model: torch.nn.Module) -> None:
        super().__init__()
        self._draws = draws
        self._where = where
        self._model = model
        # By the address of their numbers; they are kept, so that no other tensor gets it.
        self._dropped: dict[int, tuple[torch.Tensor, str]] = {}
        self._state = torch.get_rng_state()
        self._seen = {_digest(self._state)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.check("")
        found = self._draws.__torch_function__(func, types, args, kwargs)
        hidden = isinstance(func, torch.jit.ScriptFunction)
        name = "" if hidden else str(getattr(func, "__name__", ""))
        given = _tensors((args, kwargs or {}))
        words = self.check(name.strip("_")) or self._of_mask(given)
        if words and name in _TO_PYTHON:
            raise UnsupportedModel(words)
        if words:
            in_place = name == "__setitem__" or re.search(r"[^_]_$", name)
            for one in (*_tensors((found, (kwargs or {}).get("out"))), *given[: bool(in_place)]):
                self._dropped[_address(one)] = one, words
        return found

    def _of_mask(self, tensors: Sequence[torch.Tensor]) -> str:
        """What to say of the first of these that follows from a dropout; "" for none."""
        found = (self._dropped.get(_address(one)) for one in tensors)
        return next((words for _, words in filter(None, found)), "")

    def refuse(self, tensors: Sequence[torch.Tensor]) -> None:
        """UnsupportedModel where one of these follows from a dropout."""
        if words := self._of_mask(tensors):
            raise UnsupportedModel(words)

    def check(self, name: str) -> str:
        """What to say where a dropout has drawn; UnsupportedModel where it was out of sight."""
        state = torch.get_rng_state()
        if torch.equal(state, self._state):
            return ""
        self._state = state
        before, digest = len(self._seen), _digest(state)
        self._seen.add(digest)
        # torch.manual_seed and fork_rng set the generator and draw nothing.
        if len(self._seen) == before or digest == _digest(_seeded_state()):
            return ""
        place = f"{self._where()}{line_of_call()}"
        if not name:
            raise UnsupportedModel(
                f"{place}: code that PyTorch cannot look into, as TorchScript, draws random "
                f"numbers; {OUTSIDE}"
            )
        # What else draws is refused where it runs.
        return left_on(place, name, self._model) if name in MASKS else ""


def _tensors(value: Any) -> list[torch.Tensor]:
    return [one for _, one in parts(value, lambda one: isinstance(one, torch.Tensor))]


def _address(tensor: torch.Tensor) -> int:
    """What tensors that share their numbers have in common."""
    try:
        return tensor.untyped_storage().data_ptr() or -id(tensor)
    except (NotImplementedError, RuntimeError):  # sparse, or within torch.vmap
        return -id(tensor)


def _digest(state: torch.Tensor) -> bytes:
    return hashlib.sha256(state.numpy().tobytes()).digest()


def _seeded_state() -> torch.Tensor:
    """The state of a generator that has drawn nothing since it got the current seed."""
    return torch.Generator().manual_seed(torch.initial_seed()).get_state()


def draws_of(
    run: Callable[[], Sequence[torch.Tensor]], where: Callable[[], str], model: torch.nn.Module
) -> list[Draw]:
    """The calls that draw while `run` calls a model; `where` names the module that is running.

    Raises:
        UnsupportedModel: a value that `run` gives follows from a dropout, or its like, that eval()
            does not switch off.
    """
    generator = np.random.default_rng(SEED)

    def source(_: int, kind: Kind, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.from_numpy(seeded(generator, kind, shape))

    found = Draws(source)
    with unwound(), random_numbers_kept(lambda: draws(run)), torch.no_grad():
        mode = _WithoutMasks(found, where, model)
        with mode:
            values = run()
        mode.check("")
        mode.refuse(values)
    return found.draws
