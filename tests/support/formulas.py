"""Operators' formulas, computed by NumPy in double precision."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from nbglcnn.graph import Array


def normal_cdf(x: Array) -> Array:
    return torch.special.ndtr(torch.from_numpy(x)).numpy()


def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


FUNCTIONS: Mapping[str, Any] = {
    **{name: getattr(np, name) for name in ("abs", "exp", "log", "sqrt", "sign", "floor", "ceil")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asinh", "acosh", "atanh")},
    "max": np.maximum, "min": np.minimum, "where": np.where, "round": np.round, "clip": np.clip,
    "Phi": normal_cdf, "softplus": softplus, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: torch.special.erf(torch.from_numpy(x)).numpy(), "inf": np.inf,
}  # fmt: skip


def evaluate_formula(formula: str, x: Array, **values: Array) -> Array:
    """Evaluate a formula in double precision with NumPy."""
    with np.errstate(all="ignore"):
        names = {"__builtins__": {}, **FUNCTIONS, "x": x.astype(np.float64), **values}
        return np.asarray(eval(formula, names)) + 0 * names["x"]
