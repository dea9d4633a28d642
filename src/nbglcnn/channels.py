"""Sets of channels for `viewer.bend(layer, transform, channels=…)`, by rule or by their values.

Each function gives a `Channels`, which becomes a list of numbers when it meets a layer, and that
list is what is kept. Those by values take the layer's value of now, before its own edits, over all
examples and positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.graph import Array

__all__ = ["Channels", "bottom", "clusters", "every", "groups", "random", "top"]

Statistic = Literal["mean", "max", "min", "std", "mean_abs"]
MAX_KMEANS_ITERATIONS = 50  # of k-means, at most
KMEANS_STARTS = 8  # of it, each from other beginnings
MAX_MAP_ELEMENTS = 1024  # of a map that are compared

_STATISTICS: dict[str, Callable[[Array], Array]] = {
    "mean": lambda maps: maps.mean(1, np.float64),
    "max": lambda maps: maps.max(1),
    "min": lambda maps: maps.min(1),
    "std": lambda maps: maps.std(1, dtype=np.float64),
    "mean_abs": lambda maps: np.abs(maps).mean(1, np.float64),
}


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}{suggest_names(name, __all__)}"
    )


@dataclass(frozen=True)
class Channels:
    """A rule that chooses channels of a layer: `numbers` gives them."""

    text: str
    choose: Callable[[int, Callable[[], Array]], list[int]]

    def numbers(self, count: int, values: Callable[[], Array]) -> list[int]:
        """Those of `count` channels; `values` gives the layer's value as (n, c, h, w) if asked."""
        return sorted(int(one) for one in self.choose(count, values))

    def __repr__(self) -> str:
        return f"channels.{self.text}"


def every(k: int, start: int = 0) -> Channels:
    """Every k-th channel, from `start` on."""
    k, start = _validate_integer("every: k", k, 1), _validate_integer("every: start", start, 0)
    return Channels(f"every({k}, {start})", lambda count, _: list(range(start, count, k)))


def random(share: float, seed: int = 0) -> Channels:
    """A random share of the channels, from 0 to 1; the same for the same seed."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InputError(f"random: share={share!r}; a number from 0 (none) to 1 (all) is needed")
    seed = _validate_integer("random: seed", seed, 0)

    def choose(count: int, _: Any) -> list[int]:
        order: list[int] = np.random.default_rng(seed).permutation(count).tolist()
        return order[: round(share * count)]

    return Channels(f"random({share:g}, {seed})", choose)


def top(n: int, by: Statistic = "mean") -> Channels:
    """The n channels that have the most of a statistic; of equal ones the first.

    `by` is "mean", "max", "min", "std" or "mean_abs". Channels with NaN come last.
    """
    return _ranked("top", n, by, -1)


def bottom(n: int, by: Statistic = "mean") -> Channels:
    """The n channels that have the least of a statistic, as `top`."""
    return _ranked("bottom", n, by, 1)


def clusters(count: int, number: int = 0, seed: int = 0) -> Channels:
    """The channels of one of `count` groups of similar maps; number 0 is the largest group.

    Maps are similar where they are bright and dark in the same places, however much: they are
    compared with their mean taken away and at length 1, so that distances are those of correlation.
    Groups are found by k-means (Lloyd 1982, doi:10.1109/TIT.1982.1056489) from seeded beginnings
    far from each other (k-means++, Arthur and Vassilvitskii 2007). Broad's network bending groups
    maps by learned features instead (arXiv:2005.12420, section 4.2). `groups` gives all of them.
    """
    count, seed = (
        _validate_integer("clusters: count", count, 1),
        _validate_integer("clusters: seed", seed, 0),
    )
    number = _validate_integer("clusters: number", number, 0)
    if number >= count:
        raise InputError(f"clusters: number={number}; {count} groups have numbers 0 to {count - 1}")
    return Channels(
        f"clusters({count}, {number}, {seed})", lambda _, of: groups(of(), count, seed)[number]
    )


def groups(array: Any, count: int, seed: int = 0) -> list[list[int]]:
    """The channels of a value (n, c, h, w) in `count` groups of similar maps, the largest first.

    As `clusters`. There are fewer channels than that: the last groups are empty.
    """
    maps = _normalize_maps(_flatten_maps(np.asarray(array)))
    rng = np.random.default_rng(seed)
    found = min((_k_means(maps, count, rng) for _ in range(KMEANS_STARTS)), key=lambda one: one[0])[
        1
    ]
    own = [np.flatnonzero(found == k).tolist() for k in range(count)]
    return sorted(own, key=lambda one: (-len(one), one))


def _ranked(name: str, n: int, by: str, sign: int) -> Channels:
    n = _validate_integer(f"{name}: n", n, 1)
    if by not in _STATISTICS:
        raise InputError(f"{name}: by={by!r}; there are {', '.join(get_args(Statistic))}")

    def choose(count: int, values: Callable[[], Array]) -> list[int]:
        if n > count:
            raise InputError(f"{name}({n}): the layer has {count} channels")
        with np.errstate(all="ignore"):
            sizes = np.asarray(_STATISTICS[by](_flatten_maps(values())), np.float64)
        order: list[int] = np.argsort(sign * sizes, kind="stable").tolist()  # NaN last
        return order[:n]

    return Channels(f'{name}({n}, "{by}")', choose)


def _flatten_maps(array: Array) -> Array:
    """(channels, all examples and positions)."""
    _, c, *_ = array.shape
    return np.asarray(array, np.float32).swapaxes(0, 1).reshape(c, -1)


def _normalize_maps(maps: Array) -> Array:
    """Without mean, at length 1; flat maps, and those with NaN or infinities, are zeros."""
    step = -(-maps.shape[1] // MAX_MAP_ELEMENTS)
    thin = maps[:, ::step].astype(np.float64)
    thin[~np.isfinite(thin).all(1)] = 0
    size = np.abs(thin).max(1, keepdims=True, initial=0)
    thin -= thin.mean(1, keepdims=True)
    length = np.linalg.norm(thin, axis=1, keepdims=True)
    flat = length <= 1e-6 * size  # a float32 of it may be off by that
    return np.where(flat, 0, thin / np.where(flat, 1, length))


def _k_means(maps: Array, count: int, rng: np.random.Generator) -> tuple[float, Array]:
    """The sum of squared distances, and the group of each map."""
    centres = maps[[rng.integers(len(maps))]]
    while len(centres) < min(count, len(maps)):
        far = _distances(maps, centres).min(1)
        total = far.sum()
        chances = far / total if total > 0 else np.full(len(maps), 1 / len(maps))
        centres = np.concatenate([centres, maps[[rng.choice(len(maps), p=chances)]]])
    own = _distances(maps, centres).argmin(1)
    for _ in range(MAX_KMEANS_ITERATIONS):
        for k in np.unique(own):
            centres[k] = maps[own == k].mean(0)
        new = _distances(maps, centres).argmin(1)
        if (new == own).all():
            break
        own = new
    return float(_distances(maps, centres)[np.arange(len(maps)), own].sum()), own


def _distances(maps: Array, centres: Array) -> Array:
    """Squared distances (map, centre)."""
    lengths = (maps**2).sum(1)[:, None] + (centres**2).sum(1)
    return np.asarray(np.maximum(lengths - 2 * maps @ centres.T, 0))


def _validate_integer(what: str, number: Any, least: int) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__") or number.__index__() < least:
        raise InputError(f"{what}={number!r}; a whole number of at least {least} is needed")
    found: int = number.__index__()
    return found
