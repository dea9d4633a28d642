"""Meaning of "equal" in all tests: close relative to the largest value, NaN and Inf in place."""

import numpy as np

RTOL = 1e-5  # relative to max|expected|; for one operator or a whole small float32 network


def assert_all_equal(actual, expected, *, rtol=RTOL, where=""):
    """Check all given values by their keys; fail if there are none."""
    assert actual, f"no value was found{where and ' on '}{where}"
    for key, value in actual.items():
        name = f"{key} on {where}" if where else key
        assert_equal(value, expected[key], rtol=rtol, name=name)


def assert_equal(actual, expected, *, rtol=RTOL, name=""):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (
        f"{name}: shape {actual.shape}, expected {expected.shape}"
    )
    assert actual.dtype == expected.dtype, (
        f"{name}: dtype {actual.dtype}, expected {expected.dtype}"
    )
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(actual, expected, err_msg=name)
        return
    np.testing.assert_array_equal(
        np.isnan(actual), np.isnan(expected), err_msg=f"{name}: NaN elsewhere"
    )
    infinite = np.isinf(expected)
    np.testing.assert_array_equal(np.isinf(actual), infinite, err_msg=f"{name}: Inf elsewhere")
    np.testing.assert_array_equal(
        actual[infinite], expected[infinite], err_msg=f"{name}: Inf of other sign"
    )
    finite = np.isfinite(expected)
    if finite.any():
        with np.errstate(invalid="ignore"):  # matching infinities give Inf − Inf
            difference = np.where(finite, np.abs(actual.astype(np.float64) - expected), 0)
        error, limit = difference.max(), rtol * np.abs(expected[finite]).max() + 1e-6
        wrong = np.argwhere(difference > limit)
        assert error <= limit, (
            f"{name}: max |a - b| = {error:.3g}, allowed {limit:.3g}; {len(wrong)} of "
            f"{actual.size} differ, from {wrong[0].tolist()} to {wrong[-1].tolist()}"
        )
