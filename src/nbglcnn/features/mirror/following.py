"""A network that follows a loop in Python: the newest weights, and what pages lack of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbglcnn import load
from nbglcnn.errors import InputError
from nbglcnn.graph import Graph
from nbglcnn.lowering import lower
from nbglcnn.lowering.weights import packed
from nbglcnn.plan.schema import Float32, Plan, Target

if TYPE_CHECKING:
    from nbglcnn.features.edits.records import Edit
    from nbglcnn.features.training.training_plan import Trained
    from nbglcnn.load.torch.copied import Copied

COUNTS = ".num_batches_tracked"


@dataclass(frozen=True)
class Frame:
    """Weight textures that have changed, and their contents one after the other."""

    textures: Sequence[int]
    contents: Float32


class Following:
    """What a Network has of that.

    `coming` are the newest numbers; whoever looks at `graph` has them in it. Of one moment is only
    what is read within `still`. `lock` is held while weights change and pages are told of them.
    """

    plan: Plan
    revision: int
    latent: Edit | None
    trained: Trained | None
    _unhashed: set[str]

    def _compile(self, target: Target | None) -> None:
        raise NotImplementedError

    def hash_weights(self) -> bool:
        """Make what has changed a part of the Plan's weights."""
        raise NotImplementedError

    def _begin_following(self) -> None:
        self.lock = threading.RLock()
        self.follows = False
        self.coming: deque[Copied] = deque(maxlen=1)
        self.is_here = True  # nobody waits for a GPU who asks for the newest
        self.step = 0  # that the weights are behind
        self.counts: dict[str, int] = {}  # that BatchNorms have seen, by the names of their buffers
        # Have pages told of the newest weights at once, and as soon as they can take them.
        self.tell_now: Callable[[], None] = lambda: None
        self.tell_soon: Callable[[], None] = lambda: None
        self._keep_still = 0
        # What pages were offered, and what they have since; with the hash of its Plan.
        self.offered: Graph | None = None
        self._told: tuple[Graph, str] | None = None

    @property
    def graph(self) -> Graph:
        """The network with its weights of now."""
        if self.coming:
            self.catch_up()
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph

    def follow(self) -> None:
        """Follow a loop from here on."""
        with self.lock:
            self.hash_weights()
            self.follows = True

    def take_copy(self, copied: Copied) -> None:
        """These are the newest numbers."""
        self.is_here = copied.is_here
        self.coming.append(copied)

    def check_numbers(self, copied: Copied) -> None:
        """InputError where these cannot be its weights."""
        load.with_parameters(self.graph, copied.arrays())

    def leave(self) -> None:
        """Follow it no more; the weights stay."""
        with self.lock:
            self.catch_up()
            self.follows = False
            self.hash_weights()

    def check_free(self) -> None:
        """InputError while weights are those of a loop."""
        if self.follows:
            raise InputError(
                "these weights follow a loop in Python (nbglcnn.mirror): change those of the model "
                "that it trains, or call mirror.close() first"
            )

    def catch_up(self) -> None:
        """Take the newest numbers, unless somebody keeps the weights still."""
        with self.lock:
            if not self.coming or self._keep_still:
                return
            copied = self.coming.pop()
            arrays = copied.arrays()
            self.step = copied.step
            self.counts.update(
                (name, int(array)) for name, array in arrays.items() if name.endswith(COUNTS)
            )
            old = self._graph
            self._graph = load.with_parameters(old, arrays)
            changed = _changed(old, self._graph)
            if not changed:
                return
            self.revision += 1
            if lower.fits(self.plan, self._graph, changed):
                self._unhashed |= changed
            else:
                self._compile(self.plan.header.target)

    @contextmanager
    def still(self) -> Iterator[None]:
        """The newest weights of now, here and in pages, until it ends."""
        with self.lock:
            self.catch_up()
            self._keep_still += 1
        try:
            self.tell_now()
            yield
        finally:
            with self.lock:
                self._keep_still -= 1
            if not self._keep_still:
                self.tell_soon()

    @property
    def is_kept_still(self) -> bool:
        """Whether the weights are being read."""
        return self._keep_still > 0

    @property
    def has_news(self) -> bool:
        """Whether pages lack something; looked at without a lock."""
        return bool(self.coming) or self._told is None or self._told[0] is not self._graph

    def _pack(self) -> None:
        """Where others than the patches have changed, the Plan's weights are made of them."""
        if self.follows:
            self.hash_weights()

    @property
    def is_another_each_time(self) -> bool:
        """Whether its weights, or what is skipped, change all the time."""
        return self.latent is not None or self.trained is not None or self.follows

    def offers(self) -> None:
        """Pages are offered the Plan of now."""
        self.offered = self.graph
        self._told = self.offered, self.plan.hash

    def frame(self) -> Frame | None:
        """What pages don't have; None where they are to be offered the Plan anew.

        The caller holds the lock, and sends it.
        """
        graph = self.graph
        if self._told is None or self._told[1] != self.plan.hash:
            return None
        changed = _changed(self._told[0], graph)
        weights = [
            weight
            for weight in self.plan.header.weights
            if not changed.isdisjoint(weight.recipe.sources)
        ]
        contents = [
            packed(weight.recipe, [graph.values[name].data for name in weight.recipe.sources])
            for weight in weights
        ]
        self._told = graph, self.plan.hash
        flat = [np.asarray(one, np.float32).reshape(-1) for one in contents]
        return Frame([weight.texture for weight in weights], np.concatenate([_NONE, *flat]))


_NONE = np.zeros(0, np.float32)


def _changed(old: Graph, new: Graph) -> set[str]:
    """The names of values with other numbers: see `with_parameters`."""
    before = old.values
    return {name for name, value in new.values.items() if before.get(name) is not value}
