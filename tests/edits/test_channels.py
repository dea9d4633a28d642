"""Channel sets: by rule, by similarity of maps, and as lists that bends store."""

import numpy as np
import pytest

from nbglcnn import InputError, channels

FEATURE_MAPS = np.random.default_rng(4).normal(size=(2, 7, 5, 3)).astype(np.float32)


def channel_numbers(channel_rule: channels.Channels, maps: np.ndarray = FEATURE_MAPS) -> list[int]:
    return channel_rule.numbers(maps.shape[1], lambda: maps)


def fail_if_computed() -> np.ndarray:
    raise AssertionError("the values were asked for")


def test_every_kth_and_a_random_share_need_no_values() -> None:
    assert channels.every(3).numbers(8, fail_if_computed) == [0, 3, 6]
    assert channels.every(2, start=5).numbers(8, fail_if_computed) == [5, 7]
    assert channels.every(2, start=9).numbers(8, fail_if_computed) == []
    half = channels.random(0.5, seed=3).numbers(64, fail_if_computed)
    assert len(half) == 32 and half == sorted(set(half)) and half[-1] < 64
    assert half == channels.random(0.5, seed=3).numbers(64, fail_if_computed)
    assert half != channels.random(0.5, seed=4).numbers(64, fail_if_computed)
    assert channels.random(1).numbers(5, fail_if_computed) == [0, 1, 2, 3, 4]
    assert channels.random(0).numbers(5, fail_if_computed) == []


@pytest.mark.parametrize(
    ("by", "size"),
    [
        ("mean", lambda m: m.mean()),
        ("max", lambda m: m.max()),
        ("min", lambda m: m.min()),
        ("std", lambda m: m.std()),
        ("mean_abs", lambda m: abs(m).mean()),
    ],
)
def test_the_most_and_the_least_are_those_of_each_map_over_all_examples(by, size) -> None:
    sizes = [size(FEATURE_MAPS[:, c].astype(np.float64)) for c in range(7)]
    order = sorted(range(7), key=lambda c: sizes[c])
    assert channel_numbers(channels.bottom(3, by)) == sorted(order[:3])
    assert channel_numbers(channels.top(2, by)) == sorted(order[-2:])


def test_nan_comes_last_and_equal_ones_in_order() -> None:
    maps = np.ones((1, 4, 2, 2), np.float32)
    maps[0, 0] = np.nan
    assert (
        channel_numbers(channels.top(2), maps)
        == [1, 2]
        == channel_numbers(channels.bottom(2), maps)
    )


def test_maps_that_are_alike_are_one_group_however_bright() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(3, 2, 9, 5))
    own = [0, 1, 2, 0, 1, 0, 2, 0, 1]
    maps = np.stack([kinds[k] * (1 + c) + 10 * c for c, k in enumerate(own)], axis=1)
    maps += rng.normal(size=maps.shape) / 20
    expected = [[c for c, k in enumerate(own) if k == kind] for kind in (0, 1, 2)]
    for seed in range(5):
        assert channels.groups(maps, 3, seed) == expected
    assert channel_numbers(channels.clusters(3, 1), maps.astype(np.float32)) == expected[1]


def test_flat_and_broken_maps_and_few_channels_have_groups_too() -> None:
    maps = np.zeros((1, 4, 3, 3), np.float32)
    maps[0, 1, 0, 0] = np.nan
    maps[0, 2] = 7.3
    maps[0, 3, 1, 1] = 1
    assert channels.groups(maps, 2) == [[0, 1, 2], [3]]
    assert sum(map(len, channels.groups(maps, 9))) == 4
    assert channels.groups(maps[:, :, :1, :1], 1) == [[0, 1, 2, 3]]
    assert channels.groups(FEATURE_MAPS, 7, 1) == channels.groups(FEATURE_MAPS, 7, 1)
    assert sorted(c for one in channels.groups(FEATURE_MAPS, 4) for c in one) == [*range(7)]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: channels.every(0),
        lambda: channels.every(2.5),
        lambda: channels.random(1.5),
        lambda: channels.random(True),
        lambda: channels.top(0),
        lambda: channels.top(3, "median"),
        lambda: channels.clusters(3, 3),
        lambda: channel_numbers(channels.top(8)),
    ],
)
def test_what_makes_no_sense_is_refused(wrong) -> None:
    with pytest.raises(InputError):
        wrong()
