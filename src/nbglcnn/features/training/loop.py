"""A loop of training steps on local OpenGL."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

import numpy as np

from nbglcnn.errors import user_stacklevel
from nbglcnn.features.training.data import Batch
from nbglcnn.features.training.repeated_step import RepeatedStep
from nbglcnn.features.training.result import LazyArrays, Training
from nbglcnn.features.training.run import TrainingRun
from nbglcnn.features.training.step import GRADIENT_PREFIX, LOSS
from nbglcnn.features.training.trainable import TRAIN_SECTION
from nbglcnn.graph import Array
from nbglcnn.runtime.session import Session


class TrainingLoop:
    """Runs training steps. Each step is atomic: it completes, or has no effect."""

    def __init__(self, run: TrainingRun) -> None:
        self._run, self._step, self._plan = run, run.step, run.plan
        self._losses: list[float] = []
        self._is_uncommitted = False  # whether the last step is computed but not yet committed
        self._current_step: tuple[dict[str, Array], int] | None = None
        self._has_failed = False  # whether the last step gave NaN or infinity
        self._step_inputs: dict[str, Array] = {}

    def run(
        self, batches: Iterator[Batch], start_step: int, step_count: int, progress: bool
    ) -> Training:
        """Run `step_count` steps and return the result."""
        from tqdm.auto import tqdm

        stopped, size = "", f"{self._plan.gpu_bytes / 1e6:.0f} MB"
        with Session(self._plan) as session:
            with tqdm(
                total=step_count, unit="step", desc=size, delay=1, disable=not progress
            ) as bar:
                try:
                    for number in range(step_count):
                        self._current_step = (
                            self._run.step_inputs(next(batches), start_step + number),
                            number,
                        )
                        self._do_step(session)
                        if self._has_failed:
                            break
                        bar.set_postfix(loss=f"{self._losses[-1]:.4g}", refresh=False)
                        bar.update()
                except KeyboardInterrupt:
                    if self._current_step:  # an interrupted step runs again and counts once
                        self._do_step(session)
                    stopped = f"interrupted after {len(self._losses)} steps"
            if self._has_failed:
                stopped = self._failure_message(session, start_step + len(self._losses))
                warnings.warn(stopped, UserWarning, stacklevel=user_stacklevel())
            return self._result(session, start_step, stopped)

    def _do_step(self, session: Session) -> None:
        """Run the current step; an interrupted step may run again."""
        assert self._current_step is not None
        inputs, number = self._current_step
        self._step_inputs = inputs
        if self._is_uncommitted:
            session.commit()  # a second commit is a no-op
        self._is_uncommitted = False
        for name, array in inputs.items():
            session.write(name, array)
        found, check = (float(one) for one in session.run(section=TRAIN_SECTION, read=LOSS)[LOSS])
        self._has_failed = not np.isfinite([found, check]).all()
        if not self._has_failed:
            self._losses[number:] = [found]
            self._is_uncommitted = True
        self._current_step = None

    # Results

    def _read_state(self, session: Session) -> dict[str, Array]:
        """Return parameters, statistics and the optimizer's tensors, as of the last commit."""
        graph = self._step.graph
        changing = {carry.initial for carry in graph.carries}
        found: dict[str, Array] = {}
        by_value: dict[str, Array] = {}
        for name, value in graph.parameters.items():
            if value in changing:
                if value not in by_value:
                    by_value[value] = session.read(name)
                found[name] = by_value[value]
        return found

    def _merge_into_weights(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """Return all weights of the network, with the changed ones replaced."""
        graph = self._run.graph
        found = {}
        for name, value in graph.parameters.items():
            if value not in self._run.options.mode.dropouts:
                data = graph.values[value].data
                assert data is not None
                found[name] = state.get(name, data)
        return found

    def _result(self, session: Session, start_step: int, stop_reason: str) -> Training:
        before = self._read_state(session)
        done = start_step + len(self._losses)
        gradients: dict[str, Array] = {}
        if self._is_uncommitted:
            for name in self._step.parameter_names.values():
                gradients[name] = session.read(f"{GRADIENT_PREFIX}{name}")
            session.commit()
        after = self._read_state(session) if self._is_uncommitted else before
        slots = self._step.optimizer_state_names.values()
        weights = self._merge_into_weights(after)
        for path, norm in (self._run.options.mode.norms or {}).items():
            weights[f"{path}.num_batches_tracked"] = np.array(norm.batch_count + done)
        graph = self._run.graph
        for (
            name
        ) in self._step.parameter_names.values():  # tied parameters also under their other names
            for other, value in graph.parameters.items():
                if name in gradients and value == graph.parameters[name]:
                    gradients[other] = gradients[name]
        repeated_step = RepeatedStep(self._run, self._merge_into_weights(before), self._step_inputs)
        some = bool(self._step_inputs)  # at least one step ran, perhaps a failed one
        layers = [key.name for key in graph.keys] if some else []
        floats = [key.name for key in graph.keys if graph.values[key.value_name].dtype.kind == "f"]
        named = [n for n, v in graph.parameters.items() if graph.values[v].dtype.kind == "f"]
        masks = [
            key.name for key in self._step.graph.keys
            if key.kind == "layer" and key.name not in layers
        ]  # fmt: skip
        return Training(
            losses=np.array(self._losses, np.float32),
            gradients=LazyArrays(
                [*dict.fromkeys([*floats, *named])] if some else [], gradients,
                repeated_step.gradient,
            ),
            activations=LazyArrays([*layers, *(masks if layers else [])], {}, repeated_step.value),
            optimizer_state={"step": np.array(done), **{name: after[name] for name in slots}},
            stopped=stop_reason,
            memory=self._plan.gpu_bytes,
            renderer=session.renderer,
            _model=self._run.model,
            _weights=weights,
        )  # fmt: skip

    def _failure_message(self, session: Session, step: int) -> str:
        """The message for a step whose result is not finite."""
        repeated_step = RepeatedStep(
            self._run, self._merge_into_weights(self._read_state(session)), self._step_inputs
        )
        what = repeated_step.find_nonfinite().message
        return f"training stopped at step {step}: {what}. The weights are those of the step before"
