"""A repeated training step, for values that the first run did not keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from nbglcnn.features.training.run import TrainingRun
from nbglcnn.features.training.step import GRADIENT_PREFIX, LOSS, build_step
from nbglcnn.features.training.trainable import TRAIN_SECTION
from nbglcnn.graph import Array, Graph
from nbglcnn.lowering.lower import lower
from nbglcnn.runtime.session import Session


class RepeatedStep:
    """Runs the last step again from its initial weights, to read more of its values."""

    def __init__(
        self, run: TrainingRun, weights: Mapping[str, Array], step_inputs: Mapping[str, Array]
    ) -> None:
        self._run, self._weights, self._step_inputs = run, weights, step_inputs

    def _run_observed(
        self, gradient_names: Sequence[str], observe: Sequence[str]
    ) -> dict[str, Array]:
        run = self._run
        values = dict(run.graph.values)
        for name, array in self._weights.items():
            value = run.graph.parameters[name]
            values[value] = replace(values[value], data=np.asarray(array))
        graph = replace(run.graph, values=MappingProxyType(values))
        step = build_step(graph, run.options, gradient_names, observe)
        plan = lower(step.graph, observe=(LOSS, *observe))
        with Session(plan) as session:
            for record in plan.header.inputs:
                session.write(record.key, self._step_inputs[record.key])
            return session.run(section=TRAIN_SECTION)

    def value(self, name: str) -> Array:
        """The value of a layer."""
        return self._run_observed((), (name,))[name]

    def gradient(self, name: str) -> Array:
        """The gradient of an input, layer or parameter; zeros if the loss doesn't depend on it."""
        self._check_gradient(name)
        found = self._run_observed((name,), ()).get(f"{GRADIENT_PREFIX}{name}")
        if found is not None:
            return found
        graph = self._run.graph
        value = next((key.value_name for key in graph.keys if key.name == name), "")
        return np.zeros(graph.shape(value or graph.parameters[name]), np.float32)

    def _check_gradient(self, name: str) -> None:
        """Raise UnsupportedModel if the model changes a gradient that training didn't check."""
        graph, mode = self._run.graph, self._run.options.mode
        if mode.module is None or name in self._run.step.parameter_names.values():
            return
        keys = {key.name: key.value_name for key in graph.keys}
        own = [
            key
            for key in graph.keys
            if key.kind == "input" and key.value_name not in graph.noise_defaults
        ]
        x = tuple(self._step_inputs[key.name] for key in own)
        wrt = {keys[name] if name in keys else graph.parameters[name]}
        self._run.model.check_gradients(x, graph, wrt)

    def find_nonfinite(self) -> StepFailure:
        """Find the first value with NaN, or else the first with infinity."""
        graph = self._run.graph
        layers = [
            key.name for key in graph.keys if graph.values[key.value_name].dtype.kind == "f"
        ]  # fmt: skip
        found = self._run_observed(layers, layers)
        forward = [name for name in layers if name in found]
        backward = [f"{GRADIENT_PREFIX}{name}" for name in reversed(layers)]
        backward += [
            name for name in found if name.startswith(GRADIENT_PREFIX) and name not in backward
        ]
        order = [*forward, LOSS, *(name for name in backward if name in found)]
        for wrong, word in ((np.isnan, "NaN"), (np.isinf, "infinite values")):
            for name in order:
                array = found[name][:1] if name == LOSS else found[name]
                if wrong(array).any():
                    kind = (
                        "the input " if name in forward and name in graph_input_keys(graph) else ""
                    )
                    what = "the loss" if name == LOSS else name
                    own = int(wrong(array).sum())
                    return StepFailure(
                        _layer_key(name, layers),
                        f"{kind}{what} has {word} ({own} of {array.size}), the first of all values",
                    )
        return StepFailure(
            "",
            "the update made a parameter NaN or infinite; lower lr, or give the optimizer a "
            "clip_norm",
        )


@dataclass(frozen=True, slots=True)
class StepFailure:
    """The failure of a step: a message, and the first layer that failed ("" if none)."""

    layer: str
    message: str


def _layer_key(name: str, layers: Sequence[str]) -> str:
    """The key of the layer that a value or a gradient belongs to."""
    own = name.removeprefix(GRADIENT_PREFIX)
    while own and own not in layers:
        own = own.rpartition(".")[0]
    return own


def graph_input_keys(graph: Graph) -> set[str]:
    """The keys of a network's inputs."""
    return {key.name for key in graph.keys if key.kind == "input"}
