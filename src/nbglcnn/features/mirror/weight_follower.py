"""The weights of a network that follow a loop in Python, and the part that pages lack."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbglcnn import load
from nbglcnn.codegen.weights import pack_weight
from nbglcnn.graph import Array, Graph, changed_value_names
from nbglcnn.plan.schema import Float32

if TYPE_CHECKING:
    from nbglcnn.load.torch.weights.parameter_snapshots import TensorSnapshot
    from nbglcnn.widget.network import Network

BATCH_COUNT_SUFFIX = ".num_batches_tracked"


@dataclass(frozen=True)
class WeightFrame:
    """Changed weight textures, and their concatenated contents."""

    texture_indices: Sequence[int]
    texture_values: Float32


class WeightFollower:
    """The weight source of a network that follows a loop, from creation until `stop`.

    `step` is the loop's step count at the network's current weights; `is_on_cpu` is whether the
    newest weights need no GPU transfer.
    """

    read_only_reason = (
        "these weights follow a loop in Python (nbglcnn.mirror): change the weights of the model "
        "that it trains, or call mirror.close() first"
    )

    def __init__(self, network: Network) -> None:
        self._network = network
        self._newest: deque[TensorSnapshot] = deque(maxlen=1)
        self.is_on_cpu = True
        self.step = 0
        # The last frame: the full update that it builds on, and the resulting Graph and Plan hash
        # of pages.
        self._sent_frame: tuple[tuple[Graph, str], tuple[Graph, str]] | None = None
        with network.lock:
            network.merge_weight_patches()
            network.weight_source = self

    def check_weights(self, snapshot: TensorSnapshot) -> None:
        """Raise InputError if these weights don't fit the network."""
        load.with_parameters(self._network.graph, snapshot.arrays())

    def set_newest(self, snapshot: TensorSnapshot) -> None:
        """Set the newest weights, dropping older ones that weren't taken."""
        self.is_on_cpu = snapshot.is_on_cpu
        self._newest.append(snapshot)

    @property
    def has_newer(self) -> bool:
        """Whether there are newer weights than the network's."""
        return bool(self._newest)

    def take_newest(self) -> Mapping[str, Array]:
        """Take the newest weights and buffers, by name."""
        snapshot = self._newest.pop()
        arrays = snapshot.arrays()
        self.step = snapshot.step
        self._network.batchnorm_counts.update(
            (name, int(array))
            for name, array in arrays.items()
            if name.endswith(BATCH_COUNT_SUFFIX)
        )
        return arrays

    def stop(self) -> None:
        """Stop following; the network keeps the weights."""
        network = self._network
        with network.lock:
            network.pull_weights()
            network.weight_source = None
            network.merge_weight_patches()

    @property
    def has_pending(self) -> bool:
        """Whether pages lack weights; reads without a lock."""
        page_version = self._page_version()
        return (
            bool(self._newest)
            or page_version is None
            or page_version[0] is not self._network.graph_snapshot
        )

    def _page_version(self) -> tuple[Graph, str] | None:
        """Return the Graph that pages have, and its Plan's hash; None before the first update."""
        sent_graph, sent = self._network.sent_graph, self._sent_frame
        return sent[1] if sent is not None and sent[0] is sent_graph else sent_graph

    def next_frame(self) -> WeightFrame | None:
        """Return the textures that pages lack; None if they need the whole Plan.

        The caller must hold the network's lock, and send the frame.
        """
        graph, plan = self._network.graph, self._network.plan
        sent_graph, page_version = self._network.sent_graph, self._page_version()
        if sent_graph is None or page_version is None or page_version[1] != plan.hash:
            return None
        changed = changed_value_names(page_version[0], graph)
        weights = [
            weight
            for weight in plan.header.weights
            if not changed.isdisjoint(weight.recipe.sources)
        ]
        contents = [
            pack_weight(weight.recipe, [graph.values[name].data for name in weight.recipe.sources])
            for weight in weights
        ]
        self._sent_frame = sent_graph, (graph, plan.hash)
        flat = [np.asarray(one, np.float32).reshape(-1) for one in contents]
        return WeightFrame([weight.texture for weight in weights], np.concatenate([_EMPTY, *flat]))


_EMPTY = np.zeros(0, np.float32)
