"""Weights that follow a loop in Python: the newest ones, and what pages lack of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbglcnn import load
from nbglcnn.graph import Array, Graph
from nbglcnn.lowering.weights import packed
from nbglcnn.plan.schema import Float32
from nbglcnn.widget.network import Network, changed_values

if TYPE_CHECKING:
    from nbglcnn.load.torch.copied import Copied

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
        # What pages were offered, and what they have since; with the hash of its Plan.
        self._offered: tuple[Graph, str] | None = None
        self._told: tuple[Graph, str] | None = None
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
        offered = self._network.offered
        if offered is not self._offered:
            self._offered = self._told = offered
        return self._told

    def frame(self) -> Frame | None:
        """What pages don't have; None where they are to be offered the Plan anew.

        The caller holds the lock, and sends it.
        """
        graph, plan = self._network.graph, self._network.plan
        told = self._pages_have()
        if told is None or told[1] != plan.hash:
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
        self._told = graph, plan.hash
        flat = [np.asarray(one, np.float32).reshape(-1) for one in contents]
        return Frame([weight.texture for weight in weights], np.concatenate([_NONE, *flat]))


_NONE = np.zeros(0, np.float32)
