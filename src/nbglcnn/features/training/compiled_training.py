"""The Plan of a network that trains in a page, and the weights that the page sends back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nbglcnn import load
from nbglcnn.contribution import Contribution
from nbglcnn.errors import InputError, NbglcnnError
from nbglcnn.features.training import packed_dataset
from nbglcnn.features.training.data import BatchSource
from nbglcnn.features.training.messages import StepReport
from nbglcnn.features.training.optimizers import Optimizer
from nbglcnn.features.training.packed_dataset import PackedDataset
from nbglcnn.features.training.records import TrainingConfig
from nbglcnn.features.training.repeated_step import RepeatedStep, StepFailure
from nbglcnn.features.training.run import TrainingRun
from nbglcnn.features.training.training_graph import TrainingGraph, build_training_graph
from nbglcnn.graph import Array, Graph
from nbglcnn.lowering import lower
from nbglcnn.plan.schema import Plan, Target, Value, content_hash
from nbglcnn.protocol import warn_once

if TYPE_CHECKING:
    from nbglcnn.widget.network import Network


@dataclass(frozen=True)
class TrainingArguments:
    """The arguments of a training that stay constant while it runs."""

    batches: BatchSource
    loss: Any
    optimizer: Optimizer
    shuffle: bool
    seed: int
    output_key: str
    data: PackedDataset


class TrainingExtension:
    """A Graph extension that adds a training; `training_graph` has the keys that it adds."""

    training_graph: TrainingGraph

    def __init__(self, run: TrainingRun) -> None:
        self._run = run

    def __call__(self, graph: Graph) -> Graph:
        """Return the Graph of the network with the training."""
        self.training_graph = build_training_graph(graph, self._run)
        return self.training_graph.graph


@dataclass
class CompiledTraining:
    """A training that pages run: the network's Plan including it, its config and its data."""

    arguments: TrainingArguments
    run: TrainingRun
    extension: TrainingExtension
    plan: Plan
    config: TrainingConfig
    config_hash: str  # hash of the TrainingConfig's blob
    blobs: Mapping[str, memoryview]
    batchnorm_batch_counts: Mapping[
        str, int
    ]  # earlier batches that BatchNorms have seen, by their buffers' names

    def __post_init__(self) -> None:
        self.step = self.config.start_step  # the step of `latest_state`
        # Layers whose edits need no new Plan: the step has an edit point for them, or can have
        # none.
        self.editable_layers = set(self.run.options.edited_keys)
        # Manual weight changes that the page doesn't have yet, in order.
        self.pending_weight_edits: list[tuple[str, Any, Any]] = []
        values = load.parameters_of(self.training_graph.graph)
        # All changing tensors, as the page last sent them. The Plan keeps the page's initial
        # weights: other weights would make a new Plan, which would replace the page's weights.
        self.latest_state: Mapping[str, Array] = {
            name: values[name] for name in self.training_graph.state_names
        }
        self.initial_state = self.latest_state  # before step 0, across all TrainingConfigs
        self.notify_pages: Callable[[], None] = lambda: None  # sends manual changes to pages

    busy_message = "the network trains in a page"
    stop_hint = "stop the training first (viewer.training.stop())"

    @property
    def training_graph(self) -> TrainingGraph:
        """The Graph of the network with the training, and its keys."""
        return self.extension.training_graph

    @property
    def contribution(self) -> Contribution:
        """The training's contribution to the network's Plan."""
        return Contribution(self.extension, self)

    def set_parameter(self, name: str, index: Any, numbers: Any) -> None:
        """Record a manual change of elements of a parameter."""
        self.pending_weight_edits.append((name, index, numbers))

    def publish_weights(self) -> None:
        """Tell pages about manual weight changes."""
        self.notify_pages()

    def trains_with_edits(self, layer: str) -> bool:
        """Whether edits of a layer affect the training."""
        return any(value.shares_edits_of == layer for value in self.plan.values)

    def pack_remote_view(self, history: bytes) -> bytes:
        """Pack what other pages show while one trains: the history and the training state."""
        graph = self.training_graph.graph
        now = load.with_parameters(graph, load.parameters_of(graph) | dict(self.latest_state))
        plan = lower.repack_weights(self.plan, now)
        changing = {carry.target for carry in plan.header.carries}
        rows = [plan.blobs[one.hash] for one in plan.header.weights if one.texture in changing]
        return history + b"".join(np.asarray(one, np.float32).tobytes() for one in rows)

    def find_failure(self, weights: Mapping[str, Array], report: StepReport) -> StepFailure | None:
        """Repeat a step that gave NaN and find the first invalid value; None if that fails.

        The repetition has neither the noise that was added to the inputs nor the edits.
        """
        run = self.run
        try:
            batch = packed_dataset.select_batch(
                self.arguments.data,
                report.failed_examples,
                class_targets=run.options.has_class_targets,
            )
            names = run.step.input_keys
            own = {names[what]: n for what, n in report.step_scalars.items() if what in names}
            fed = run.step_inputs(batch, self.step)
            fed |= {key: np.array(number, np.float32) for key, number in own.items()}
            begun = {name: weights[name] for name in run.graph.parameters if name in weights}
            return RepeatedStep(run, begun, fed).find_nonfinite()
        except NbglcnnError as error:
            warn_once(f"the first invalid value of the training is unknown: {error}")
            return None

    def state_value_records(self) -> list[Value]:
        """How each tensor of the state is read back."""
        known = {value.key: value for value in self.plan.header.parameters}
        return [known[name] for name in self.training_graph.state_names]


def make_compiled_training(
    network: Network,
    arguments: TrainingArguments,
    run: TrainingRun,
    batch_counts: Mapping[str, int],
    *,
    end: int,
    target: Target | None = None,
    learning_rates: bytes = b"",
    start_step: int = 0,
    frozen: Sequence[str] = (),
) -> CompiledTraining:
    """Build the TrainingPlan of a network; `learning_rates` has one rate per step, as bytes.

    `start_step` and `end` are step numbers; `frozen` names parameters that were trained before.
    `target` is the device, by default the network's current one.
    """
    added = TrainingExtension(run)
    plan = network.compile_with(added, target, "float32")
    joined, found = added.training_graph, arguments.data
    config = TrainingConfig(
        plan=plan.hash, loss=getattr(run.options.loss, "name", str(run.options.loss)),
        optimizer=type(arguments.optimizer).__name__, batch_size=run.batch_size,
        example_count=found.example_count, held_out_count=found.held_out_count,
        start_step=start_step, end_step=end, shuffle=arguments.shuffle,
        seed=arguments.seed,
        has_accuracy=run.options.has_class_targets,
        learning_rates=content_hash(learning_rates) if learning_rates else "",
        betas=tuple(getattr(arguments.optimizer, "betas", ())), columns=found.columns,
        inputs=dict(joined.input_keys), held_out_inputs=dict(joined.held_out_input_keys),
        loss_key=joined.loss_value_key, held_out_key=joined.held_out_loss_key,
        prediction_key=joined.prediction_key,
        update_ratios_key=joined.update_ratios_key, dead_units_key=joined.dead_units_key,
        trained_parameters=joined.trained_parameters, relu_layers=joined.relu_layers,
        gradients=dict(joined.gradient_keys), state_names=joined.state_names, frozen=tuple(frozen),
    )  # fmt: skip
    words = msgspec.json.encode(config)
    blobs = {**found.blobs, content_hash(words): memoryview(words)}
    if learning_rates:
        blobs[config.learning_rates] = memoryview(learning_rates)
    return CompiledTraining(
        arguments, run, added, plan, config, content_hash(words), blobs, batch_counts
    )


def compile_initial_training(
    network: Network,
    run: TrainingRun,
    train_arguments: Mapping[str, Any],
    batches: BatchSource,
    batch_counts: Mapping[str, int],
    target: Target | None = None,
) -> CompiledTraining:
    """Build the TrainingPlan of a training from its first step.

    `train_arguments` are the arguments of `viewer.train`. `batch_counts` counts the batches that
    BatchNorms have seen before, by their buffers' names. Raise InputError if `held_out` is invalid
    or the data exceed a page's limit.
    """
    optimizer, seed, shuffle = (
        train_arguments["optimizer"],
        train_arguments["seed"],
        train_arguments["shuffle"],
    )
    end = end_step(train_arguments["epochs"], train_arguments["steps"])
    data = packed_dataset.pack_dataset(
        run, batches, train_arguments["held_out"], shuffled=shuffle, seed=seed
    )
    if train_arguments["epochs"] is not None:
        end = train_arguments["epochs"] * -(-data.example_count // run.batch_size)
    arguments = TrainingArguments(
        batches, train_arguments["loss"], optimizer, shuffle, seed, train_arguments["output"], data
    )
    rates = pack_learning_rates(optimizer, 0, end)
    return make_compiled_training(
        network, arguments, run, batch_counts, end=end, target=target, learning_rates=rates
    )


def with_state(run: TrainingRun, state: Mapping[str, Array]) -> TrainingRun:
    """Return the training with a saved state: parameters and optimizer tensors."""
    graph = run.step.graph
    fitting = {
        name: state[name] if name in state and state[name].shape == data.shape else data
        for name, data in load.parameters_of(graph).items()
    }
    return replace(run, step=replace(run.step, graph=load.with_parameters(graph, fitting)))


def end_step(epochs: int | None, steps: int | None) -> int:
    """The step to stop at; -1 if there is none, or if the training is counted in epochs."""
    for name, value in (("epochs", epochs), ("steps", steps)):
        if value is not None and (not isinstance(value, int) or value < 0):
            raise InputError(f"{name}={value!r}; expected a number ≥ 0")
    if epochs is not None and steps is not None:
        raise InputError("both epochs and steps were given: give epochs=… or steps=…")
    return -1 if steps is None else steps


def pack_learning_rates(optimizer: Optimizer, begin: int, end: int) -> bytes:
    """Pack the learning rate of each step from `begin` on; empty if `lr` is a number."""
    if not callable(optimizer.lr):
        return b""
    if end < 0:
        raise InputError(
            f"{type(optimizer).__name__}: lr is a function of the step, so the page needs the "
            "number of steps: give epochs=… or steps=…"
        )
    steps = range(begin, max(begin + 1, end))
    return np.array([optimizer.learning_rate_at(step) for step in steps], np.float32).tobytes()


def apply_page_state(
    network: Network, compiled_training: CompiledTraining, state: Mapping[str, Array]
) -> None:
    """Apply weights that a page has trained, and the manual changes made since, to a network."""
    compiled_training.latest_state = state
    own = network.weights()
    graph = load.with_parameters(network.graph, own | {n: state[n] for n in own if n in state})
    for edit in compiled_training.pending_weight_edits:
        graph = load.replace_elements(graph, *edit)
    network.replace_graph(graph)
