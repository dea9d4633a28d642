"""A network that trains in pages: the Plan that these are offered, and the weights they send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbglcnn import load
from nbglcnn.graph import Array, Graph
from nbglcnn.lowering import lower
from nbglcnn.plan import Plan, Target, Value, pack_file
from nbglcnn.training.joined import Joined
from nbglcnn.training.records import Course
from nbglcnn.training.run import Run


@dataclass
class Trained:
    """A training: its Plan, which pages are shown in place of the network's, and its data."""

    run: Run
    joined: Joined
    plan: Plan
    course: Course
    blobs: Mapping[str, memoryview]
    seen: Mapping[str, int]  # batches that BatchNorms have seen before, by their buffers' names

    def __post_init__(self) -> None:
        graph = self.joined.graph
        values = {name: graph.values[graph.parameters[name]].data for name in self.joined.state}
        # All that changes, as the page has sent it last. The Plan keeps the weights that the page
        # began with: with others it would be a new one, which pages put in the place of theirs.
        self.last: Mapping[str, Array] = {n: a for n, a in values.items() if a is not None}
        self.file = memoryview(pack_file(self.plan, {}))

    def records(self) -> list[Value]:
        """How each part of the state is read."""
        known = {value.key: value for value in self.plan.header.parameters}
        return [known[name] for name in self.joined.state]


class Training:
    """What a Network has of that; `trained` is None while nothing trains."""

    graph: Graph
    plan: Plan
    revision: int

    def _compile(self, target: Target | None) -> None:
        raise NotImplementedError

    def _forget_patches(self) -> None:
        raise NotImplementedError

    def _begin_training(self) -> None:
        self.trained: Trained | None = None

    def train(self, trained: Trained | None) -> None:
        """Offer pages a training's Plan from now on; None: the network's own again."""
        self.trained = trained
        self.revision += 1

    def take_state(self, state: Mapping[str, Array]) -> None:
        """Take the weights that a page has learned."""
        assert self.trained is not None
        self.trained.last = state
        own = self.weights()
        graph = load.with_parameters(self.graph, own | {n: state[n] for n in own if n in state})
        self.graph = graph
        if lower.fits(self.plan, graph):
            self.plan = lower.repack(self.plan, graph)
            self._forget_patches()
        else:
            self._compile(self.plan.header.target)
        self.revision += 1

    def weights(self) -> dict[str, Array]:
        """All parameters and buffers of now, by name."""
        found = {}
        for name, value in self.graph.parameters.items():
            data = self.graph.values[value].data
            assert data is not None
            found[name] = data
        return found
