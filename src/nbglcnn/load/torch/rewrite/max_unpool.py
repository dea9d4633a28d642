"""Rewriting max_unpool after a MaxPool as ONNX's MaxUnpool, which searches each window separately.

onnxscript translates it to a ScatterND, which searches all indices for each element.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from nbglcnn.load.torch.rewrite.adaptive_pools import insert_symbolic_node

FLOAT, INT64 = 1, 7  # TensorProto types


def rewrite_max_unpools(program: Any) -> None:
    """Rewrite each max_unpool whose indices come from a MaxPool with adjacent windows."""
    import torch

    aten = torch.ops.aten
    unpools = {
        aten.max_unpool2d.default: aten.max_pool2d_with_indices.default,
        aten.max_unpool3d.default: aten.max_pool3d_with_indices.default,
    }
    for node in list(program.graph.nodes):
        if node.op != "call_function" or node.target not in unpools:
            continue
        x, indices, size = node.args[:3]
        pool = indices.args[0] if indices.target is operator.getitem else None
        if pool is None or pool.target is not unpools[node.target]:
            continue
        given = dict(zip(_POOL_ARGUMENT_NAMES, pool.args, strict=False)) | dict(pool.kwargs)
        pooled = given["input"]
        window = _tiling_pool_attributes(
            given, tuple(pooled.meta["val"].shape), tuple(size), len(size)
        )
        if window is None or x.meta["val"].dtype != torch.float32:
            continue
        graph = program.graph
        with graph.inserting_before(node):
            # PyTorch's indices count within one map, ONNX's within the whole tensor.
            shapes = [list(pool.meta["val"][0].shape)] * 2
            both = insert_symbolic_node(
                graph, "", "MaxPool", [pooled], window, [FLOAT, INT64], shapes, node=pool
            )
            both.meta = {**node.meta, "val": list(pool.meta["val"])}
            places = graph.call_function(operator.getitem, (both, 1))
            places.meta = {**node.meta, "val": pool.meta["val"][1]}
            shape = [list(node.meta["val"].shape)]
            result = insert_symbolic_node(
                graph, "", "MaxUnpool", [x, places], window, [FLOAT], shape, node=node
            )
            result.meta = dict(node.meta)
        node.replace_all_uses_with(result)
        graph.erase_node(node)


_POOL_ARGUMENT_NAMES = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")


def _tiling_pool_attributes(
    arguments: Mapping[str, Any], shape: Sequence[int], spatial_size: Sequence[int], rank: int
) -> dict[str, list[int]] | None:
    """ONNX attributes of a pool; None unless its windows tile the map without overlap or gap."""

    def each(name: str, otherwise: Sequence[int]) -> list[int]:
        values = list(arguments.get(name) or otherwise)
        return values * rank if len(values) == 1 else values

    if arguments.get("ceil_mode") or set(each("dilation", [1])) != {1} or len(shape) != rank + 2:
        return None
    kernel = each("kernel_size", [])
    strides, pads = each("stride", kernel), each("padding", [0])
    if strides != kernel or any(pads) or list(shape[2:]) != list(spatial_size):
        return None
    if any(length % step for length, step in zip(spatial_size, kernel, strict=True)):
        return None
    return {"kernel_shape": kernel, "strides": strides, "pads": [0] * 2 * rank}
