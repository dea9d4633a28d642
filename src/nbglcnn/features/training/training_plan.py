"""A network that trains in pages: what this adds to its Plan, and the weights that pages send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nbglcnn import load
from nbglcnn.contribution import Contribution
from nbglcnn.errors import InputError, NbglcnnError
from nbglcnn.features.training import columns
from nbglcnn.features.training.columns import DataSet
from nbglcnn.features.training.data import Data
from nbglcnn.features.training.joined import Joined, join
from nbglcnn.features.training.messages import Stepped
from nbglcnn.features.training.optimizers import Optimizer
from nbglcnn.features.training.records import Course
from nbglcnn.features.training.repeated_step import Rerun, StepFailure
from nbglcnn.features.training.run import Run
from nbglcnn.graph import Array, Graph
from nbglcnn.lowering import lower
from nbglcnn.plan.schema import Plan, Target, Value, content_hash
from nbglcnn.protocol import warn_once

if TYPE_CHECKING:
    from nbglcnn.widget.network import Network


@dataclass(frozen=True)
class TrainingArguments:
    """What a training was asked for, as far as it stays so."""

    batches: Data
    loss: Any
    optimizer: Optimizer
    shuffle: bool
    seed: int
    output: str
    data: DataSet


class TrainingStep:
    """Adds a training to the network's Graph; `joined` has the keys of what it has added."""

    joined: Joined

    def __init__(self, run: Run) -> None:
        self._run = run

    def __call__(self, graph: Graph) -> Graph:
        """The Graph of both."""
        self.joined = join(graph, self._run)
        return self.joined.graph


@dataclass
class Trained:
    """A training: the network's Plan with it, which pages run, and its data."""

    asked: TrainingArguments
    run: Run
    added: TrainingStep
    plan: Plan
    course: Course
    name: str  # of the Course's blob
    blobs: Mapping[str, memoryview]
    seen: Mapping[str, int]  # batches that BatchNorms have seen before, by their buffers' names

    def __post_init__(self) -> None:
        self.step = self.course.begin  # that `last` is behind
        # Layers for whose bends there is a place in the step, or cannot be one.
        self.bent = set(self.run.request.bent)
        # Numbers that were set by hand and aren't in the page yet, in their order.
        self.edits: list[tuple[str, Any, Any]] = []
        values = load.parameters_of(self.joined.graph)
        # All that changes, as the page has sent it last. The Plan keeps the weights that the page
        # began with: with others it would be a new one, which pages put in the place of theirs.
        self.last: Mapping[str, Array] = {name: values[name] for name in self.joined.state}
        self.first = self.last  # of the beginning, whatever Course it was
        self.told: Callable[[], None] = lambda: None  # pages are to be told of what was set

    busy = "the network trains in a page"
    how_to_end = "stop the training first (viewer.training.stop())"

    @property
    def joined(self) -> Joined:
        """The Graph of network and training, and its keys."""
        return self.added.joined

    @property
    def contribution(self) -> Contribution:
        """What it adds to the network's Plan."""
        return Contribution(self.added, self)

    def parameter_set(self, name: str, index: Any, numbers: Any) -> None:
        """Numbers of a parameter were set by hand."""
        self.edits.append((name, index, numbers))

    def weights_set(self) -> None:
        """Tell pages of what was set."""
        self.told()

    def learns(self, layer: str) -> bool:
        """Whether bends of a layer act on what is learned."""
        return any(value.edited_as == layer for value in self.plan.values)

    def seen_by_others(self, past: bytes) -> bytes:
        """What pages show where another one trains: `live.past`, and the state as it is packed."""
        graph = self.joined.graph
        now = load.with_parameters(graph, load.parameters_of(graph) | dict(self.last))
        plan = lower.repack(self.plan, now)
        changing = {carry.target for carry in plan.header.carries}
        rows = [plan.blobs[one.hash] for one in plan.header.weights if one.texture in changing]
        return past + b"".join(np.asarray(one, np.float32).tobytes() for one in rows)

    def wrong(self, weights: Mapping[str, Array], failed: Stepped) -> StepFailure | None:
        """What went wrong first in a step that gave NaN; None where that cannot be seen here.

        Noise that was added to the inputs, and bends, aren't there when it is done again.
        """
        run = self.run
        try:
            batch = columns.batch_of(self.asked.data, failed.failed, index=run.request.index)
            names = run.step.inputs
            own = {names[what]: n for what, n in failed.numbers.items() if what in names}
            fed = run.inputs(batch, self.step)
            fed |= {key: np.array(number, np.float32) for key, number in own.items()}
            begun = {name: weights[name] for name in run.graph.parameters if name in weights}
            return Rerun(run, begun, fed).first_wrong()
        except NbglcnnError as error:
            warn_once(f"what went wrong first in a training isn't known: {error}")
            return None

    def records(self) -> list[Value]:
        """How each part of the state is read."""
        known = {value.key: value for value in self.plan.header.parameters}
        return [known[name] for name in self.joined.state]


def begun(
    network: Network,
    asked: TrainingArguments,
    run: Run,
    seen: Mapping[str, int],
    *,
    end: int,
    target: Target | None = None,
    rates: bytes = b"",
    begin: int = 0,
    frozen: Sequence[str] = (),
) -> Trained:
    """A training of a network; `rates` is a learning rate for each step, as bytes.

    `begin` and `end` are steps, the `frozen` ones parameters that were trained before; `target` is
    the device, the network's current one by default.
    """
    added = TrainingStep(run)
    plan = network.composed(added, target, "float32")
    joined, found = added.joined, asked.data
    course = Course(
        plan=plan.hash, loss=getattr(run.request.loss, "name", str(run.request.loss)),
        optimizer=type(asked.optimizer).__name__, batch=run.size, count=found.count,
        held_out=found.held_out, begin=begin, end=end, shuffle=asked.shuffle, seed=asked.seed,
        accuracy=run.request.index, rates=content_hash(rates) if rates else "",
        betas=tuple(getattr(asked.optimizer, "betas", ())), columns=found.columns,
        inputs=dict(joined.inputs), held_out_inputs=dict(joined.held_out_inputs),
        loss_key=joined.loss, held_out_key=joined.held_out, prediction=joined.prediction,
        ratios=joined.ratios, dead=joined.dead, trained=joined.trained, flat=joined.flat,
        gradients=dict(joined.gradients), state=joined.state, frozen=tuple(frozen),
    )  # fmt: skip
    words = msgspec.json.encode(course)
    blobs = {**found.blobs, content_hash(words): memoryview(words)}
    if rates:
        blobs[course.rates] = memoryview(rates)
    return Trained(asked, run, added, plan, course, content_hash(words), blobs, seen)


def first(
    network: Network,
    run: Run,
    asked: Mapping[str, Any],
    batches: Data,
    seen: Mapping[str, int],
    target: Target | None = None,
) -> Trained:
    """A training of a network from its first step on; `asked` are the arguments of `viewer.train`.

    `seen` are batches that BatchNorms have seen before, by their buffers' names. InputError for
    `held_out`, and for more data than a page takes.
    """
    optimizer, seed, shuffle = asked["optimizer"], asked["seed"], asked["shuffle"]
    end = end_of(asked["epochs"], asked["steps"])
    data = columns.data_set(run, batches, asked["held_out"], shuffled=shuffle, seed=seed)
    if asked["epochs"] is not None:
        end = asked["epochs"] * -(-data.count // run.size)
    given = TrainingArguments(
        batches, asked["loss"], optimizer, shuffle, seed, asked["output"], data
    )
    rates = rates_of(optimizer, 0, end)
    return begun(network, given, run, seen, end=end, target=target, rates=rates)


def going_on(run: Run, state: Mapping[str, Array]) -> Run:
    """The same training, which begins with a state: parameters and what the optimizer keeps."""
    graph = run.step.graph
    fitting = {
        name: state[name] if name in state and state[name].shape == data.shape else data
        for name, data in load.parameters_of(graph).items()
    }
    return replace(run, step=replace(run.step, graph=load.with_parameters(graph, fitting)))


def end_of(epochs: int | None, steps: int | None) -> int:
    """The step to stop at, -1 for none or for what is counted in epochs."""
    for name, value in (("epochs", epochs), ("steps", steps)):
        if value is not None and (not isinstance(value, int) or value < 0):
            raise InputError(f"{name}={value!r}; a number of at least 0 is needed")
    if epochs is not None and steps is not None:
        raise InputError("both epochs and steps were given: give epochs=… or steps=…")
    return -1 if steps is None else steps


def rates_of(optimizer: Optimizer, begin: int, end: int) -> bytes:
    """The learning rate of each step from `begin` on, where it is a function of the step."""
    if not callable(optimizer.lr):
        return b""
    if end < 0:
        raise InputError(
            f"{type(optimizer).__name__}: lr is a function of the step, so that the page has to be "
            "told how many there are: give epochs=… or steps=…"
        )
    steps = range(begin, max(begin + 1, end))
    return np.array([optimizer.rate(step) for step in steps], np.float32).tobytes()


def take_state(network: Network, trained: Trained, state: Mapping[str, Array]) -> None:
    """Give a network the weights that a page has learned, and what was set by hand since."""
    trained.last = state
    own = network.weights()
    graph = load.with_parameters(network.graph, own | {n: state[n] for n in own if n in state})
    for edit in trained.edits:
        graph = load.with_numbers(graph, *edit)
    network.take_graph(graph)
