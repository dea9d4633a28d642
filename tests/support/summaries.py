"""Checks the page's statistics of a value against NumPy."""

from typing import Any

import numpy as np


def numpy_summary(array: np.ndarray) -> dict[str, float]:
    finite = array[np.isfinite(array)].astype(np.float64)
    none = [np.nan]
    return {
        "min": np.min(finite if finite.size else none),
        "max": np.max(finite if finite.size else none),
        "mean": np.mean(finite if finite.size else none),
        "std": np.std(finite if finite.size else none),
        "zeroFraction": np.mean(array == 0),
        "nan": np.isnan(array).sum(),
        "inf": np.isinf(array).sum(),
    }


def assert_summary(actual: dict[str, float], array: np.ndarray, name: str) -> None:
    scale = np.abs(array[np.isfinite(array)]).max(initial=0)
    for word, value in numpy_summary(array).items():
        tolerance = 2e-6 * scale if word in ("mean", "std") else 1e-12
        np.testing.assert_allclose(
            actual[word], value, rtol=1e-6, atol=tolerance, err_msg=f"{name}: {word}"
        )


def assert_histogram(
    found: dict[str, Any] | None, values: np.ndarray, bins: int, name: str
) -> None:
    """Compare with numpy.histogram of the finite values; exact zeros are counted separately."""
    finite = values[np.isfinite(values)].astype(np.float64)
    if finite.size == 0:
        assert found is None, name
        return
    assert found is not None, name
    low, high = finite.min(), finite.max()
    assert (found["low"], found["high"]) == (low, high), name
    assert found["zeros"] == (finite == 0).sum(), name
    counted = finite[finite != 0]
    if low < high:
        counts = np.histogram(counted, bins, (low, high))[0].tolist()
    else:
        counts = [counted.size] + [0] * (bins - 1)
    assert found["counts"] == counts, name
