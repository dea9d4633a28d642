"""Adaptive pools: nodes of our own domain, because ONNX has no such operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbglcnn.graph import Array, Node, attribute_values

if TYPE_CHECKING:
    import numpy as np

ADAPTIVE_POOLS = {
    "AdaptiveAveragePool": "adaptive_avg_pool",
    "AdaptiveMaxPool": "adaptive_max_pool",
}


def output_size(node: Node) -> tuple[int, ...]:
    """The output size along each spatial axis."""
    return tuple(int(str(n)) for n in attribute_values(node.attributes["output_size"]))


def output_types(node: Node, dtype: np.dtype[Any]) -> Sequence[np.dtype[Any]]:
    """The types of the outputs: the values, and optionally the indices of the maxima."""
    import numpy as np

    return [dtype, np.dtype(np.int64)][: len(node.outputs)]


def compute_pool(node: Node, x: Array) -> Sequence[Array]:
    """Compute the node with PyTorch, in the dtype of x."""
    import torch
    from torch.nn import functional

    sizes = output_size(node)
    run: Any = getattr(functional, f"{ADAPTIVE_POOLS[node.op]}{len(sizes)}d")
    with torch.inference_mode():
        tensor = torch.tensor(x)
        if len(node.outputs) > 1:
            return [found.numpy() for found in run(tensor, sizes, return_indices=True)]
        return [run(tensor, sizes).numpy()]
