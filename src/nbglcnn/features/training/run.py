"""The compiled training, before its first step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.training.data import Batch, as_input
from nbglcnn.features.training.step import TARGET, StepOptions, TrainStep
from nbglcnn.features.training.trainable import EXAMPLE_WEIGHTS, SEED, STEPS
from nbglcnn.graph import Array, Graph
from nbglcnn.load import Model
from nbglcnn.load.noise import redraw_noise
from nbglcnn.losses import Loss, check_target, has_class_indices, target_shape
from nbglcnn.plan.schema import Plan

SEED_RANGE = 2**24  # float32 represents all integers below it


@dataclass(frozen=True)
class TrainingRun:
    """A compiled training: `graph` is the graph of `model`; batches have `batch_size` examples."""

    model: Model
    graph: Graph
    options: StepOptions
    seed: int
    batch_size: int
    step: TrainStep
    plan: Plan

    def step_inputs(self, batch: Batch, step_number: int) -> dict[str, Array]:
        """Return all inputs of a step (counted from 0), by key."""
        names = self.step.input_keys
        generator = np.random.default_rng((self.seed, step_number))
        whole = batch.padded(self.batch_size)
        keys = {key.name: key.value_name for key in self.graph.keys if key.kind == "input"}
        noise = {name: value for name, value in keys.items() if value in self.graph.noise_defaults}
        own = [name for name in keys if name not in noise]
        if len(own) != len(whole.inputs):
            raise InputError(
                f"data: {len(whole.inputs)} inputs in a batch; the model takes {', '.join(own)}"
            )
        fed = dict(zip(own, whole.inputs, strict=True))
        for name, value in noise.items():
            first = self.graph.values[self.graph.noise_defaults[value]].data
            assert first is not None
            fed[name] = redraw_noise(generator, first)
        numbers = self.options.optimizer.step_scalars(step_number)
        numbers |= {SEED: float(generator.integers(SEED_RANGE)), STEPS: float(step_number + 1)}
        fed |= {
            names[kind]: np.array(n, np.float32) for kind, n in numbers.items() if kind in names
        }
        if TARGET in names:
            assert isinstance(self.options.loss, Loss)
            fed[names[TARGET]] = validate_targets(
                self.options.loss, whole.target, self.graph, self.options.output_key
            )
        if EXAMPLE_WEIGHTS in names:
            fed[names[EXAMPLE_WEIGHTS]] = (np.arange(self.batch_size) < batch.example_count).astype(
                np.float32
            )
        return fed


def validate_targets(loss: Loss, target: Array | None, graph: Graph, output: str) -> Array:
    """Check the targets of a batch and return them as float32."""
    assert target is not None
    index = has_class_indices(loss, target)
    shape = graph.shape(graph.key(output).value_name)
    wanted = target_shape(loss, shape, has_class_indices=index)
    if not index:
        target = np.asarray(as_input(target), np.float32)
    if target.shape[1:] != wanted[1:]:
        hint = ""
        if target.size == np.prod((len(target), *wanted[1:])):
            hint = f"; reshape the targets to ({', '.join(map(str, ('-1', *wanted[1:])))},)"
        elif loss.name == "cross_entropy" and not index:
            hint = "; class indices are integers"
        raise InputError(
            f"{loss.name}: targets of shape {target.shape} for an output of shape {shape}; "
            f"expected {wanted}{hint}"
        )
    check_target(loss, target, shape)
    return np.asarray(target, np.float32)
