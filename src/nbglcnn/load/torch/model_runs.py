"""Runs of copies of a model while it is loaded: one is recorded, plain ones show its values."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nbglcnn.errors import InputError, NbglcnnError, UnsupportedModel
from nbglcnn.graph import Array, BatchDependence, Graph
from nbglcnn.load.arguments import ForwardArguments
from nbglcnn.load.progress import report_step
from nbglcnn.load.torch.checks.batch_dependence import batch_dependences
from nbglcnn.load.torch.conversion import ConvertedRun, convert_run
from nbglcnn.load.torch.isolation.copies import detached_copy, drop_hooks
from nbglcnn.load.torch.isolation.forward_signature import input_names
from nbglcnn.load.torch.record.module_calls import (
    CaptureFn,
    HookedRun,
    HookRecord,
    ValueTooLarge,
    call_outputs,
    call_with_hooks,
    dense_array,
    have_equal_outputs,
    model_outputs,
    run_hooked,
)
from nbglcnn.load.torch.record.random_draws import Draw, Noise, copy_to_tensors, find_draws
from nbglcnn.load.torch.record.recording import RecordedRun, record
from nbglcnn.load.torch.translate.decompositions import recorded_decomposition

AUTOCAST_NOTE = "operations under torch.autocast run in float32"
TOLERANCE = 0.01  # relative to the largest number: rounding, which some operators amplify


@dataclass
class ModelRuns:
    """Runs copies of a model on its own inputs and the `noise` for its random numbers.

    Python computes the modules in `python_reasons`. The user is warned only if `is_first_attempt`.
    `notes` describe computations that differ from the model's.
    """

    model: torch.nn.Module
    model_inputs: Sequence[Array]
    noise: Noise
    python_reasons: Mapping[str, str]
    is_first_attempt: bool
    arguments: ForwardArguments | None
    notes: list[str] = field(default_factory=list)
    _recording_error: UnsupportedModel | None = None

    def __post_init__(self) -> None:
        self._own = copy_to_tensors(self.model_inputs)

    @property
    def all_input_arrays(self) -> tuple[Array, ...]:
        """All inputs: the model's own, then noise."""
        return (*self.model_inputs, *self.noise.arrays)

    @property
    def all_input_tensors(self) -> tuple[torch.Tensor, ...]:
        """All inputs as tensors, which each run copies."""
        return (*self._own, *self.noise.tensors)

    def record_and_run(self) -> tuple[RecordedRun | None, HookedRun]:
        """Record a run of a copy and run the same copy plainly under hooks; return both.

        The recording is None if it fails, if it draws random numbers that are not inputs yet, or if
        it left the copy in a state with other outputs. The plain run then uses a new copy.

        Raises:
            InputError: If the model fails on these inputs.
        """
        twin, self.notes = detached_copy(self.model)
        recording: RecordedRun | None = None
        try:
            recording = self._record(self.all_input_tensors, twin)
        except ValueTooLarge:
            raise
        except UnsupportedModel as error:
            self._recording_error = error
        if recording is not None and (self.noise.is_detected or not recording.has_drawn):
            if not self.noise.is_detected:
                self._set_draws([])
            if (seen := self._rerun_recorded(recording)) is not None:
                return recording, seen
        try:
            return None, self._run_plain()
        except InputError as error:
            if not self.notes:
                raise
            raise InputError(
                f"{error.args[0]}. Here {self.notes[0]}: if forward converts values to another "
                "type, as by .double() or .half(), remove that"
            ) from error

    def convert_recording(
        self, recording: RecordedRun | None, plain_run: HookedRun
    ) -> tuple[ConvertedRun, HookedRun]:
        """Convert the recording to ONNX operators; return it with the plain run that matches it.

        Raises:
            UnsupportedModel: If the model cannot be recorded, or computes other values while
                recorded.
        """
        try:
            if self._recording_error is not None and not self.noise.count:
                raise self._recording_error
            first = recording or self._record(self.all_input_tensors, self._copy())
            found = self._convert(first, hooks=True)
        except UnsupportedModel:
            # A hook that calls .numpy() breaks recording. Record without hooks if they change
            # nothing.
            twin = self._copy()
            if not drop_hooks(twin) or not _are_equal(
                plain_run.captured_arrays, self._run_hooked(twin).captured_arrays
            ):
                raise
            first = self._record(self.all_input_tensors, self._copy(hooks=False))
            found = self._convert(first, hooks=False)
        if found.recorded_run.has_autocast:
            self.notes.append(AUTOCAST_NOTE)
            if recording is None:
                plain_run = self._run_hooked(self._copy(), float32=True)
        name = type(self.model).__name__
        items = found.recorded_run.recorder.has_item_tensors
        if items and plain_run.is_repeatable and not _are_close(found.recorded_run, plain_run):
            raise UnsupportedModel(
                f"{name} computes different values while being recorded. Does forward test the "
                "type of x.item(), or use it as a dict key? Use it only in arithmetic"
            )
        if call_outputs(found.recorded_run.root) != call_outputs(plain_run.root):
            raise UnsupportedModel(
                f"{name} called other modules in a second run on the same input; does forward "
                "depend on anything besides its input?"
            )
        return found, plain_run

    def batch_dependences(
        self, graph: Graph, recording: RecordedRun, plain_run: HookedRun
    ) -> Mapping[str, BatchDependence]:
        """Find how the Graph's values depend on the batch, by runs without the user's hooks."""

        def again(
            twin: torch.nn.Module, inputs: Sequence[torch.Tensor], look: CaptureFn | None
        ) -> HookedRun:
            return self._run_hooked(twin, inputs, float32=recording.has_autocast, capture=look)

        beside = None if recording.recorder.changed_model else recording.model_copy
        own_run = None if drop_hooks(recording.model_copy) else plain_run
        return batch_dependences(
            graph,
            lambda: self._copy(hooks=False, beside=beside),
            self.all_input_tensors,
            own_run,
            again,
        )

    def _copy(
        self, *, hooks: bool = True, beside: torch.nn.Module | None = None
    ) -> torch.nn.Module:
        """Return a new copy of the user's model."""
        twin = detached_copy(self.model, beside)[0]
        if not hooks:
            drop_hooks(twin)
        return twin

    def _record(self, inputs: tuple[torch.Tensor, ...], model_copy: torch.nn.Module) -> RecordedRun:
        count = self.noise.count or 0
        return record(
            model_copy, inputs, recorded_decomposition, self.python_reasons, count, self.arguments
        )

    def _convert(self, recording: RecordedRun, *, hooks: bool) -> ConvertedRun:
        def again(inputs: tuple[torch.Tensor, ...], with_other_weights: bool) -> RecordedRun:
            twin = self._copy(hooks=hooks)
            if with_other_weights:
                _perturb_weights(twin, recording.recorder.constant_reads)
            return self._record(inputs, twin)

        return convert_run(recording, self.all_input_tensors, again)

    def _run_hooked(
        self,
        model_copy: torch.nn.Module,
        inputs: Sequence[torch.Tensor] | None = None,
        **options: Any,
    ) -> HookedRun:
        """Run a copy under hooks, on all inputs or on others."""
        options = {"noise_count": self.noise.count, "arguments": self.arguments, **options}
        return run_hooked(
            model_copy,
            self.all_input_tensors if inputs is None else inputs,
            python_modules=self.python_reasons,
            **options,
        )

    def _rerun_recorded(self, recording: RecordedRun) -> HookedRun | None:
        """Run the recorded copy again under hooks; None if its outputs differ."""
        report_step("running it once")
        if recording.recorder.changed_model:
            return None
        try:
            seen = self._run_hooked(recording.model_copy, float32=recording.has_autocast)
        except NbglcnnError:
            return None
        suffixes = [suffix for suffix, _ in recording.root.outputs]
        first = [*zip(suffixes, map(dense_array, recording.returned_tensors), strict=True)]
        same = have_equal_outputs(model_outputs(seen.root, seen.captured_arrays), first)
        return seen if same and call_outputs(seen.root) == call_outputs(recording.root) else None

    def _run_plain(self) -> HookedRun:
        """Run a copy under hooks, twice on the first attempt; detect its random numbers first."""
        report_step("running it once")
        if not self.noise.is_detected:
            seen = self._run_hooked(self._copy(), twice=self.is_first_attempt, noise_count=None)
            self._set_draws(self._find_draws() if seen.has_drawn else [])
            if not seen.has_drawn:
                return seen
        return self._run_hooked(self._copy(), twice=self.is_first_attempt)

    def _set_draws(self, draws: Sequence[Draw]) -> None:
        """Make the random numbers of these calls inputs."""
        given = self.noise.user_arrays
        if not draws and given and not isinstance(given, Mapping):
            input_names(self.model, len(self.model_inputs) + len(given))  # raises if too many
        self.noise.set_draws(draws)

    def _find_draws(self) -> list[Draw]:
        """Find the calls that draw random numbers while a copy of the model runs."""
        twin, seen = self._copy(), HookRecord()
        named, tensors = list(twin.named_modules()), self.all_input_tensors

        def again() -> list[torch.Tensor]:
            nonlocal seen
            seen = HookRecord()
            call_with_hooks(
                twin, named, [tensor.clone() for tensor in tensors], seen, 0, self.arguments
            )
            return seen.captured_tensors

        return find_draws(again, lambda: f"{type(self.model).__name__}{seen.location}", twin)


def _are_equal(a: Sequence[Array], b: Sequence[Array]) -> bool:
    return len(a) == len(b) and all(
        np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(a, b, strict=True)
    )


def _are_close(recording: RecordedRun, plain_run: HookedRun) -> bool:
    """Whether both runs gave the same outputs up to rounding.

    A recording with linear algebra isn't compared: folding computes it later.
    """
    targets = [node.target for node in recording.program.graph.nodes]
    if any(str(getattr(one, "namespace", "")).startswith("onnx") for one in targets):
        return True
    ours = [array for _, array in model_outputs(plain_run.root, plain_run.captured_arrays)]
    theirs = [dense_array(tensor) for tensor in recording.returned_tensors]
    if [one.shape for one in ours] != [one.shape for one in theirs]:
        return True  # the comparison of calls reports it
    for a, b in zip(ours, theirs, strict=True):
        if a.dtype.kind == "f" and a.size:
            sizes = np.abs(a[np.isfinite(a)])
            near = TOLERANCE * float(sizes.max()) if sizes.size else 0.0
            if not np.allclose(a, b, rtol=0, atol=near, equal_nan=True):
                return False
    return True


def _perturb_weights(model_copy: torch.nn.Module, excluded_names: Container[str]) -> None:
    """Change the values of float parameters and buffers, except those in `excluded_names`."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in (*model_copy.named_parameters(), *model_copy.named_buffers()):
            if name not in excluded_names and tensor.is_floating_point() and tensor.numel():
                size = float(tensor.abs().nan_to_num(0, 0, 0).max()) or 1.0
                tensor += size * torch.rand(tensor.shape, generator=random).to(tensor.dtype)
