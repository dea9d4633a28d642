"""Linear algebra of weights: nodes of our own domain, evaluated by constant folding.

ONNX has no such operators, and the GPU needs none: `parametrizations.orthogonal`, for example,
computes a weight from a parameter, independently of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from nbglcnn.graph import Array, Node

CUSTOM_DOMAIN = "nbglcnn"


def compute_linear_algebra(node: Node, inputs: list[Array]) -> Array:
    """Compute such a node in double precision."""
    result: Array = LINEAR_ALGEBRA_EVALUATORS[node.op](
        node, *(array.astype(np.float64) for array in inputs)
    )
    return result.astype(inputs[0].dtype)


def _matrix_exp(node: Node, x: Array) -> Array:
    """Matrix exponential by scaling and squaring: the series of x / 2^k converges fast."""
    norm = float(np.abs(x).sum(-1).max(initial=0.0))
    halvings = max(0, int(np.ceil(np.log2(norm))) + 1) if np.isfinite(norm) and norm > 0 else 0
    small = x / 2.0**halvings
    total = term = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    for k in range(1, 20):  # the last term is below 0.5^19 / 19! < 1e-22
        term = term @ small / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total


def _householder_product(node: Node, x: Array, tau: Array) -> Array:
    """The first columns of the product of reflections 1 − tau v vᵀ, where v is a column of x."""
    *_, rows, columns = x.shape
    product = np.broadcast_to(np.eye(rows, columns), x.shape).copy()
    for k in reversed(range(tau.shape[-1])):
        v = x[..., :, k].copy()
        v[..., :k], v[..., k] = 0, 1
        along = np.einsum("...r,...rc->...c", v, product)
        product -= tau[..., k, None, None] * v[..., :, None] * along[..., None, :]
    return product


def _solve(node: Node, a: Array, b: Array) -> Array:
    vector = b.ndim == 1 or b.shape == a.shape[:-1]
    if not node.attributes.get("left", 1):
        turned = np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2))
        return np.asarray(turned.swapaxes(-1, -2))
    return np.linalg.solve(a, b[..., None])[..., 0] if vector else np.linalg.solve(a, b)


def _inverse(node: Node, a: Array) -> Array:
    return np.asarray(np.linalg.inv(a))


LINEAR_ALGEBRA_EVALUATORS: Mapping[str, Callable[..., Array]] = {
    "HouseholderProduct": _householder_product,
    "Inverse": _inverse,
    "MatrixExp": _matrix_exp,
    "Solve": _solve,
}
