"""Rewriting adaptive pools as custom operators, since PyTorch would turn them into gathers.

Global pools, and pools with adjacent windows of one size, become ordinary pools.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from nbglcnn.load.passes.linear_algebra import CUSTOM_DOMAIN
from nbglcnn.load.torch.translate.decompositions import MAX_WINDOW_AREA
from nbglcnn.load.torch.translate.functional_names import REPLACED_OPERATOR_KEY

FLOAT, INT64 = 1, 7  # TensorProto types


def rewrite_adaptive_pools(program: Any) -> None:
    """Rewrite adaptive pools that have overlapping windows or no ONNX equivalent."""
    import torch

    aten = torch.ops.aten
    means = {
        aten.adaptive_avg_pool1d.default: 1,
        aten.adaptive_avg_pool2d.default: 2,
        aten.adaptive_avg_pool3d.default: 3,
    }
    largest = {
        aten.adaptive_max_pool1d.default: 1,
        aten.adaptive_max_pool2d.default: 2,
        aten.adaptive_max_pool3d.default: 3,
    }
    for node in list(program.graph.nodes):
        rank = means.get(node.target) or largest.get(node.target)
        if node.op != "call_function" or rank is None:
            continue
        if node.args[0].meta["val"].dtype != torch.float32:
            continue
        graph = program.graph
        with graph.inserting_before(node):
            pool = _PoolRewriter(graph, node, rank)
            if node.target in means:
                pool.rewrite_mean()
            else:
                pool.rewrite_max()


def expand_adaptive_pools(program: Any) -> Any:
    """Expand adaptive pools into slices; None if there are none or indices are used."""
    import torch

    aten = torch.ops.aten
    largest = {
        aten.adaptive_max_pool1d.default,
        aten.adaptive_max_pool2d.default,
        aten.adaptive_max_pool3d.default,
    }
    volumes = {aten.adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d.default}
    found = [node for node in program.graph.nodes if node.target in largest | volumes]
    places = [user for node in found if node.target in largest for user in node.users]
    if not found or any(user.args[1] == 1 and user.users for user in places):
        return None

    def means(x: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
        found: torch.Tensor = _by_slices(x, output_size, torch.mean)
        return found

    def maxima(x: torch.Tensor, output_size: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        values = _by_slices(x, output_size, torch.amax)
        return values, torch.full_like(values, -1, dtype=torch.int64)

    rules = {**dict.fromkeys(largest, maxima), **dict.fromkeys(volumes, means)}
    return program.run_decompositions(rules)


def _by_slices(x: Any, output_size: Sequence[int], reduce_window: Callable[..., Any]) -> Any:
    """Pool windows from floor(i·n/m) to ceil((i+1)·n/m), one dimension at a time."""
    import torch

    first = x.ndim - len(output_size)
    for dim, parts in enumerate(output_size, first):
        size = x.shape[dim]
        windows = [
            x.narrow(dim, i * size // parts, -(-(i + 1) * size // parts) - i * size // parts)
            for i in range(parts)
        ]
        x = torch.cat([reduce_window(window, dim, keepdim=True) for window in windows], dim)
    return x


class _PoolRewriter:
    """Rewrites one pool: inserts its replacement before the node and removes the node."""

    def __init__(self, graph: Any, node: Any, rank: int) -> None:
        self.graph, self.node, self.rank = graph, node, rank
        self.x = node.args[0]
        self.shape = [int(n) for n in self.x.meta["val"].shape]
        found = node.meta["val"]
        self.values = found[0] if isinstance(found, (tuple, list)) else found
        self.output_size = [int(n) for n in self.values.shape][-rank:]
        self.spatial = self.shape[-rank:]

    @property
    def is_global(self) -> bool:
        """Whether the output has size 1: each window is the whole map."""
        return set(self.output_size) == {1}

    @property
    def has_equal_windows(self) -> bool:
        """Whether equal adjacent windows of at most MAX_WINDOW_AREA pixels tile the map."""
        pairs = list(zip(self.spatial, self.output_size, strict=True))
        return (
            all(n % m == 0 for n, m in pairs) and prod(n // m for n, m in pairs) <= MAX_WINDOW_AREA
        )

    def rewrite_mean(self) -> None:
        """Rewrite an average pool; even ones only in 3-D (as avg_pool3d)."""
        import torch

        if self.is_global or (self.has_equal_windows and self.rank < 3):
            return
        if self.has_equal_windows:
            sizes = [n // m for n, m in zip(self.spatial, self.output_size, strict=True)]
            made = self.graph.call_function(
                torch.ops.aten.avg_pool3d.default, (self.x, sizes, sizes)
            )
            self._replace_node(self.node, made, self.values)
            return
        self._replace_node(
            self.node, self._add_adaptive_pool("AdaptiveAveragePool", 1)[0], self.values
        )

    def rewrite_max(self) -> None:
        """Rewrite a max pool; it returns indices only if they are used."""
        read = {user.args[1] for user in self.node.users if user.users}
        if 1 in read:
            made = self._add_adaptive_pool("AdaptiveMaxPool", 2)
        elif self.is_global:
            made = self._add_pool("", "GlobalMaxPool", {}, [FLOAT], (1,) * self.rank)
        elif self.has_equal_windows:
            sizes = [n // m for n, m in zip(self.spatial, self.output_size, strict=True)]
            window = {"kernel_shape": sizes, "strides": sizes}
            made = self._add_pool("", "MaxPool", window, [FLOAT], self.output_size)
        else:
            made = self._add_adaptive_pool("AdaptiveMaxPool", 1)
        for user in list(self.node.users):
            if user.args[1] < len(made):
                self._replace_node(user, made[user.args[1]], user.meta["val"])
            else:
                self.graph.erase_node(user)
        self.graph.erase_node(self.node)

    def _add_adaptive_pool(self, name: str, output_count: int) -> list[Any]:
        given = {"output_size": self.output_size}
        return self._add_pool(
            CUSTOM_DOMAIN, name, given, [FLOAT, INT64][:output_count], self.output_size
        )

    def _add_pool(
        self,
        domain: str,
        name: str,
        attributes: dict[str, list[int]],
        types: list[int],
        output_size: Sequence[int],
    ) -> list[Any]:
        """The outputs of an ONNX or custom pool node, with a batch axis added if missing."""
        import torch

        aten, x, shape = torch.ops.aten, self.x, self.shape
        alone = len(shape) == self.rank + 1
        if alone:
            x = self._call(aten.unsqueeze.default, (x, 0), [1, *shape], x.meta["val"].dtype)
            shape = [1, *shape]
        made_shape = [*shape[:2], *output_size]
        made = insert_symbolic_node(
            self.graph, domain, name, [x], attributes, types, [made_shape] * len(types),
            node=self.node,
        )  # fmt: skip
        kinds = [torch.float32, torch.int64]
        empty = [self._empty(made_shape, kind) for kind in kinds[: len(types)]]
        made.meta = {**self.node.meta, "val": empty if len(types) > 1 else empty[0]}
        found = []
        for number, one in enumerate(empty):
            output = made
            if len(types) > 1:
                output = self.graph.call_function(operator.getitem, (made, number))
                output.meta = {**self.node.meta, "val": one}
            if alone:
                output = self._call(aten.squeeze.dim, (output, 0), made_shape[1:], one.dtype)
            found.append(output)
        return found

    def _call(self, target: Callable[..., Any], args: Any, shape: Any, dtype: Any) -> Any:
        made = self.graph.call_function(target, args)
        made.meta = {**self.node.meta, "val": self._empty(shape, dtype)}
        return made

    def _empty(self, shape: Sequence[int], dtype: Any) -> Any:
        return self.values.new_empty(tuple(shape), dtype=dtype)

    def _replace_node(self, node: Any, replacement: Any, value: Any) -> None:
        replacement.meta = {**node.meta, "val": value}
        node.replace_all_uses_with(replacement)
        self.graph.erase_node(node)


def insert_symbolic_node(
    graph: Any,
    domain: str,
    name: str,
    inputs: list[Any],
    attributes: dict[str, list[int]],
    types: list[int],
    shapes: list[list[int]],
    *,
    node: Any,
    version: int = 18,
) -> Any:
    """Create a node in place of `node`, as torch.onnx.ops.symbolic and symbolic_multi_out do."""
    import torch
    from torch.onnx.ops import _symbolic_impl

    encoded = _symbolic_impl.EncodedAttrs.from_dict({**attributes})
    several = len(types) > 1
    options: dict[str, Any] = {
        **({"shapes": shapes} if several else {"shape": shapes[0]}),
        "metadata_props_keys": [REPLACED_OPERATOR_KEY],
        "metadata_props_values": [node.target._schema.name.rpartition("::")[2]],
        "domain": domain,
        "version": 1 if domain else version,
    }
    for field in ("keys", "types", "pos", "ints", "floats", "strs"):
        options[f"attr_{field}"] = getattr(encoded, f"attr_{field}")
    known = torch.ops.onnx_symbolic
    target = known._symbolic_multi_out.default if several else known._symbolic.default
    arguments = (inputs, name, types if several else types[0])
    return graph.call_function(target, arguments, options)
