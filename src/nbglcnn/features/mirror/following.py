"""Weights that follow a loop in Python: the newest ones, and what pages lack of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbglcnn import load
from nbglcnn.codegen.weights import packed
from nbglcnn.graph import Array, Graph, changed_values
from nbglcnn.plan.schema import Float32

if TYPE_CHECKING:
    from nbglcnn.load.torch.weights.parameter_snapshots import Copied
    from nbglcnn.widget.network import Network

COUNTS = ".num_batches_tracked"


@dataclass(frozen=True)
class Frame:
    """Weight textures that have changed, and their contents one after the other."""

    textures: Sequence[int]
    contents: Float32


class Following:
    """The weights of a network while it follows a loop, from here on until `leave`.

    `step` is the step of the loop that the network's weights are behind, `is_here` whether the
    newest ones wait for no GPU.
    """

    why = (
        "these weights follow a loop in Python (nbglcnn.mirror): change those of the model "
        "that it trains, or call mirror.close() first"
    )

    def __init__(self, network: Network) -> None:
        self._network = network
        self._coming: deque[Copied] = deque(maxlen=1)
        self.is_here = True
        self.step = 0
        # The last frame: the offer that it lies on, and the Graph and Plan that pages have by it.
        self._sent: tuple[tuple[Graph, str], tuple[Graph, str]] | None = None
        with network.lock:
            network.hash_weights()
            network.weight_source = self

    def check(self, copied: Copied) -> None:
        """InputError where these cannot be the network's weights."""
        load.with_parameters(self._network.graph, copied.arrays())

    def put(self, copied: Copied) -> None:
        """These are the newest weights."""
        self.is_here = copied.is_here
        self._coming.append(copied)

    @property
    def is_ahead(self) -> bool:
        """Whether there are newer weights than the network's."""
        return bool(self._coming)

    def take(self) -> Mapping[str, Array]:
        """The newest weights and buffers, by name."""
        copied = self._coming.pop()
        arrays = copied.arrays()
        self.step = copied.step
        self._network.batch_counts.update(
            (name, int(array)) for name, array in arrays.items() if name.endswith(COUNTS)
        )
        return arrays

    def leave(self) -> None:
        """Follow it no more; the weights stay."""
        network = self._network
        with network.lock:
            network.catch_up()
            network.weight_source = None
            network.hash_weights()

    @property
    def has_news(self) -> bool:
        """Whether pages lack something; looked at without a lock."""
        told = self._pages_have()
        return bool(self._coming) or told is None or told[0] is not self._network.newest

    def _pages_have(self) -> tuple[Graph, str] | None:
        """The Graph that pages have, and the hash of its Plan; None before they are offered one."""
        offered, sent = self._network.offered, self._sent
        return sent[1] if sent is not None and sent[0] is offered else offered

    def frame(self) -> Frame | None:
        """The textures that pages lack; None if they need the whole Plan again.

        The caller holds the lock, and sends it.
        """
        graph, plan = self._network.graph, self._network.plan
        offered, told = self._network.offered, self._pages_have()
        if offered is None or told is None or told[1] != plan.hash:
            return None
        changed = changed_values(told[0], graph)
        weights = [
            weight
            for weight in plan.header.weights
            if not changed.isdisjoint(weight.recipe.sources)
        ]
        contents = [
            packed(weight.recipe, [graph.values[name].data for name in weight.recipe.sources])
            for weight in weights
        ]
        self._sent = offered, (graph, plan.hash)
        flat = [np.asarray(one, np.float32).reshape(-1) for one in contents]
        return Frame([weight.texture for weight in weights], np.concatenate([_NONE, *flat]))


_NONE = np.zeros(0, np.float32)
