"""Selections of channels for `viewer.bend(layer, transform, channels=…)`.

Each function returns a `Channels`, which becomes a list of channel numbers when it is applied to a
layer; that list is stored. Functions that depend on values use the layer's current value before its
own edits, over all examples and positions.
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
MAX_KMEANS_ITERATIONS = 50  # the most iterations of one k-means run
KMEANS_STARTS = 8  # k-means runs, each from other initial centres
MAX_MAP_ELEMENTS = 1024  # elements of a map that are compared

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
    """A rule that selects channels of a layer.

    Args:
        text: The rule as text, for its repr: `"top(3, "mean")"`.
        choose: A function of the number of channels and of a function that returns the value (n, c,
            h, w). It returns channel numbers.
    """

    text: str
    choose: Callable[[int, Callable[[], Array]], list[int]]

    def numbers(self, count: int, values: Callable[[], Array]) -> list[int]:
        """Select from a number of channels.

        Args:
            count: The number of channels.
            values: Returns the layer's value, shape (n, c, h, w). It is called only by rules that
                depend on values.

        Returns:
            The selected channel numbers in ascending order.
        """
        return sorted(int(one) for one in self.choose(count, values))

    def __repr__(self) -> str:
        return f"channels.{self.text}"


def every(k: int, start: int = 0) -> Channels:
    """Select every k-th channel.

    Args:
        k: The step, an integer of at least 1.
        start: The first channel. Default: 0.

    Returns:
        The rule.

    Raises:
        InputError: If `k` or `start` is not an integer in its range.
    """
    k, start = _validate_integer("every: k", k, 1), _validate_integer("every: start", start, 0)
    return Channels(f"every({k}, {start})", lambda count, _: list(range(start, count, k)))


def random(share: float, seed: int = 0) -> Channels:
    """Select a random share of the channels.

    Args:
        share: The share, from 0 (none) to 1 (all).
        seed: The seed of the random order, an integer of at least 0. Default: 0.

    Returns:
        The rule. It selects the same channels for the same seed.

    Raises:
        InputError: If `share` or `seed` is out of range.
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InputError(f"random: share={share!r}; expected a number from 0 (none) to 1 (all)")
    seed = _validate_integer("random: seed", seed, 0)

    def choose(count: int, _: Any) -> list[int]:
        order: list[int] = np.random.default_rng(seed).permutation(count).tolist()
        return order[: round(share * count)]

    return Channels(f"random({share:g}, {seed})", choose)


def top(n: int, by: Statistic = "mean") -> Channels:
    """Select the n channels with the largest statistic.

    Among equal channels the first ones are selected. Channels with NaN come last.

    Args:
        n: The number of channels, at least 1.
        by: The statistic over all examples and positions: `"mean"` (default), `"max"`, `"min"`,
            `"std"` or `"mean_abs"`.

    Returns:
        The rule.

    Raises:
        InputError: If `n` or `by` is not valid; when it is applied, if the layer has fewer than `n`
            channels.
    """
    return _make_ranking_rule("top", n, by, -1)


def bottom(n: int, by: Statistic = "mean") -> Channels:
    """Select the n channels with the smallest statistic.

    Among equal channels the first ones are selected. Channels with NaN come last.

    Args:
        n: The number of channels, at least 1.
        by: The statistic over all examples and positions: `"mean"` (default), `"max"`, `"min"`,
            `"std"` or `"mean_abs"`.

    Returns:
        The rule.

    Raises:
        InputError: If `n` or `by` is not valid; when it is applied, if the layer has fewer than `n`
            channels.
    """
    return _make_ranking_rule("bottom", n, by, 1)


def clusters(count: int, number: int = 0, seed: int = 0) -> Channels:
    """Select one of `count` groups of channels with similar maps.

    Maps are similar if they are bright and dark at the same positions, independent of brightness
    and contrast: each map is reduced by its mean and scaled to length 1, so distances correspond to
    correlation. k-means finds the groups, from eight seeded starts by k-means++. `groups` returns
    all groups.

    Args:
        count: The number of groups, at least 1.
        number: The group to select; 0 (default) is the largest.
        seed: The seed of the starts. Default: 0.

    Returns:
        The rule.

    Raises:
        InputError: If an argument is not an integer in its range.

    Source: k-means, Lloyd 1982, doi:10.1109/TIT.1982.1056489; k-means++, Arthur and Vassilvitskii
    2007. The paper "Network Bending" clusters learned features instead:
    https://arxiv.org/abs/2005.12420, section 4.2.
    """
    count, seed = (
        _validate_integer("clusters: count", count, 1),
        _validate_integer("clusters: seed", seed, 0),
    )
    number = _validate_integer("clusters: number", number, 0)
    if number >= count:
        raise InputError(
            f"clusters: number={number}; the {count} groups are numbered 0 to {count - 1}"
        )
    return Channels(
        f"clusters({count}, {number}, {seed})", lambda _, of: groups(of(), count, seed)[number]
    )


def groups(array: Any, count: int, seed: int = 0) -> list[list[int]]:
    """Group the channels of a value by similar maps, as `clusters` does.

    Args:
        array: The value, shape (n, c, h, w).
        count: The number of groups. If there are fewer channels, the last groups are empty.
        seed: The seed of the starts. Default: 0.

    Returns:
        A list of lists of channel numbers, the largest group first.
    """
    maps = _normalize_maps(_flatten_maps(np.asarray(array)))
    rng = np.random.default_rng(seed)
    found = min((_k_means(maps, count, rng) for _ in range(KMEANS_STARTS)), key=lambda one: one[0])[
        1
    ]
    own = [np.flatnonzero(found == k).tolist() for k in range(count)]
    return sorted(own, key=lambda one: (-len(one), one))


def _make_ranking_rule(name: str, n: int, by: str, sign: int) -> Channels:
    n = _validate_integer(f"{name}: n", n, 1)
    if by not in _STATISTICS:
        raise InputError(f"{name}: by={by!r}; expected one of {', '.join(get_args(Statistic))}")

    def choose(count: int, values: Callable[[], Array]) -> list[int]:
        if n > count:
            raise InputError(f"{name}({n}): the layer has {count} channels")
        with np.errstate(all="ignore"):
            sizes = np.asarray(_STATISTICS[by](_flatten_maps(values())), np.float64)
        order: list[int] = np.argsort(sign * sizes, kind="stable").tolist()  # NaN last
        return order[:n]

    return Channels(f'{name}({n}, "{by}")', choose)


def _flatten_maps(array: Array) -> Array:
    """Reshape a value to (channels, all examples and positions)."""
    _, c, *_ = array.shape
    return np.asarray(array, np.float32).swapaxes(0, 1).reshape(c, -1)


def _normalize_maps(maps: Array) -> Array:
    """Subtract the mean and scale to length 1; constant or non-finite maps become zeros."""
    step = -(-maps.shape[1] // MAX_MAP_ELEMENTS)
    thin = maps[:, ::step].astype(np.float64)
    thin[~np.isfinite(thin).all(1)] = 0
    size = np.abs(thin).max(1, keepdims=True, initial=0)
    thin -= thin.mean(1, keepdims=True)
    length = np.linalg.norm(thin, axis=1, keepdims=True)
    flat = length <= 1e-6 * size  # within float32's rounding error
    return np.where(flat, 0, thin / np.where(flat, 1, length))


def _k_means(maps: Array, count: int, rng: np.random.Generator) -> tuple[float, Array]:
    """Return the sum of squared distances, and the group of each map."""
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
    """Return the squared distances, shape (maps, centres)."""
    lengths = (maps**2).sum(1)[:, None] + (centres**2).sum(1)
    return np.asarray(np.maximum(lengths - 2 * maps @ centres.T, 0))


def _validate_integer(error_subject: str, number: Any, minimum: int) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__") or number.__index__() < minimum:
        raise InputError(f"{error_subject}={number!r}; expected an integer ≥ {minimum}")
    found: int = number.__index__()
    return found
