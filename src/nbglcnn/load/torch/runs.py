"""The runs of copies of a model while it is loaded: one is recorded, plain ones show its values."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nbglcnn.errors import InputError, NbglcnnError, UnsupportedModel
from nbglcnn.graph import Array, Dependence, Graph
from nbglcnn.load.arguments import Arguments
from nbglcnn.load.steps import begin
from nbglcnn.load.torch.checks.batch_dependence import dependences
from nbglcnn.load.torch.conversion import Converted, convert
from nbglcnn.load.torch.isolation.copies import detached_copy, drop_hooks
from nbglcnn.load.torch.isolation.signature import input_names
from nbglcnn.load.torch.record.module_calls import (
    Look,
    Record,
    Seen,
    TooLarge,
    calls_in,
    equal_outputs,
    numbers_of,
    outputs_of,
    run,
    run_hooked,
)
from nbglcnn.load.torch.record.random_draws import Draw, Noise, draws_of, tensors_of
from nbglcnn.load.torch.record.recording import Recorded, record
from nbglcnn.load.torch.translate.decompositions import recorded_rule

AUTOCAST = "what forward computes within torch.autocast is computed in float32"
NEAR = 0.01  # of the largest number: rounding, which some operators enlarge


@dataclass
class Runs:
    """The runs of copies of a model on its own inputs and the `noise` that it draws.

    Python computes the modules that there are `reasons` for. The `first` time the user is warned.
    `notes` say in words what is computed otherwise than the model does.
    """

    model: torch.nn.Module
    own: Sequence[Array]
    noise: Noise
    reasons: Mapping[str, str]
    first: bool
    arguments: Arguments | None
    notes: list[str] = field(default_factory=list)
    _refusal: UnsupportedModel | None = None

    def __post_init__(self) -> None:
        self._own = tensors_of(self.own)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All inputs."""
        return (*self.own, *self.noise.arrays)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All inputs for PyTorch, which each run copies."""
        return (*self._own, *self.noise.tensors)

    def begin(self) -> tuple[Recorded | None, Seen]:
        """A recorded run and what hooks see in a plain one of the same copy.

        Without the first where it fails, draws numbers that are not inputs yet, or has left a state
        with which the model gives something else: then the plain run is of a copy of its own.

        Raises:
            InputError: the model fails on these inputs.
        """
        twin, self.notes = detached_copy(self.model)
        recording: Recorded | None = None
        try:
            recording = self._recorded(self.tensors, twin)
        except TooLarge:
            raise
        except UnsupportedModel as error:
            self._refusal = error
        if recording is not None and (self.noise.looked or not recording.drew):
            if not self.noise.looked:
                self._look([])
            if (seen := self._seen_again(recording)) is not None:
                return recording, seen
        try:
            return None, self._seen()
        except InputError as error:
            if not self.notes:
                raise
            raise InputError(
                f"{error.args[0]}. Here {self.notes[0]}: where forward makes numbers of another "
                "type for them, as by .double() or .half(), leave that out"
            ) from error

    def convert(self, recording: Recorded | None, seen: Seen) -> tuple[Converted, Seen]:
        """What was recorded as ONNX's operators, and what hooks see of just that.

        Raises:
            UnsupportedModel: it cannot be recorded, or gave something else when it was.
        """
        try:
            if self._refusal is not None and not self.noise.count:
                raise self._refusal
            first = recording or self._recorded(self.tensors, self._copy())
            found = self._converted(first, hooks=True)
        except UnsupportedModel:
            # A hook that calls .numpy() breaks it. Do without hooks if they change nothing.
            twin = self._copy()
            if not drop_hooks(twin) or not _equal(seen.arrays, self._hooked(twin).arrays):
                raise
            first = self._recorded(self.tensors, self._copy(hooks=False))
            found = self._converted(first, hooks=False)
        if found.recorded.autocast:
            self.notes.append(AUTOCAST)
            if recording is None:
                seen = self._hooked(self._copy(), float32=True)
        name = type(self.model).__name__
        items = found.recorded.recorder.items
        if items and seen.again and not _near(found.recorded, seen):
            raise UnsupportedModel(
                f"{name} gives other numbers while it is recorded than when it runs. Does forward "
                "ask for the type of x.item(), which is a tensor then, or use it as a key? Compute "
                "with it alone"
            )
        if calls_in(found.recorded.root) != calls_in(seen.root):
            raise UnsupportedModel(
                f"{name} called other modules in a second run on the same input; "
                "does forward depend on something besides its input?"
            )
        return found, seen

    def dependences(
        self, graph: Graph, recording: Recorded, seen: Seen
    ) -> Mapping[str, Dependence]:
        """How the Graph's values depend on the batch, from runs without the user's hooks."""

        def again(twin: torch.nn.Module, inputs: Sequence[torch.Tensor], look: Look | None) -> Seen:
            return self._hooked(twin, inputs, float32=recording.autocast, look=look)

        beside = None if recording.recorder.wrote else recording.twin
        own_run = None if drop_hooks(recording.twin) else seen
        return dependences(
            graph, lambda: self._copy(hooks=False, beside=beside), self.tensors, own_run, again
        )

    def _copy(
        self, *, hooks: bool = True, beside: torch.nn.Module | None = None
    ) -> torch.nn.Module:
        """A copy in the state that the user gave."""
        twin = detached_copy(self.model, beside)[0]
        if not hooks:
            drop_hooks(twin)
        return twin

    def _recorded(self, inputs: tuple[torch.Tensor, ...], twin: torch.nn.Module) -> Recorded:
        count = self.noise.count or 0
        return record(twin, inputs, recorded_rule, self.reasons, count, self.arguments)

    def _converted(self, recording: Recorded, *, hooks: bool) -> Converted:
        def again(inputs: tuple[torch.Tensor, ...], with_other_weights: bool) -> Recorded:
            twin = self._copy(hooks=hooks)
            if with_other_weights:
                _disturb(twin, recording.recorder.settings)
            return self._recorded(inputs, twin)

        return convert(recording, self.tensors, again)

    def _hooked(
        self, twin: torch.nn.Module, inputs: Sequence[torch.Tensor] | None = None, **options: Any
    ) -> Seen:
        """What hooks see of a copy, on all inputs or on others."""
        options = {"noise": self.noise.count, "arguments": self.arguments, **options}
        return run_hooked(
            twin, self.tensors if inputs is None else inputs, cut=self.reasons, **options
        )

    def _seen_again(self, recording: Recorded) -> Seen | None:
        """What hooks see in another run of the copy that was recorded; None where it differs."""
        begin("running it once")
        if recording.recorder.wrote:
            return None
        try:
            seen = self._hooked(recording.twin, float32=recording.autocast)
        except NbglcnnError:
            return None
        suffixes = [suffix for suffix, _ in recording.root.outputs]
        first = [*zip(suffixes, map(numbers_of, recording.returned), strict=True)]
        same = equal_outputs(outputs_of(seen.root, seen.arrays), first)
        return seen if same and calls_in(seen.root) == calls_in(recording.root) else None

    def _seen(self) -> Seen:
        """What hooks see of a copy, called twice the first time; and what it draws, by then."""
        begin("running it once")
        if not self.noise.looked:
            seen = self._hooked(self._copy(), twice=self.first, noise=None)
            self._look(self._draws() if seen.drew else [])
            if not seen.drew:
                return seen
        return self._hooked(self._copy(), twice=self.first)

    def _look(self, draws: Sequence[Draw]) -> None:
        """Make the numbers of these calls inputs."""
        given = self.noise.given
        if not draws and given and not isinstance(given, Mapping):
            input_names(self.model, len(self.own) + len(given))  # says how many it takes
        self.noise.look(draws)

    def _draws(self) -> list[Draw]:
        """The calls that draw while a copy of the model runs."""
        twin, seen = self._copy(), Record()
        named, tensors = list(twin.named_modules()), self.tensors

        def again() -> list[torch.Tensor]:
            nonlocal seen
            seen = Record()
            run(twin, named, [tensor.clone() for tensor in tensors], seen, 0, self.arguments)
            return seen.captured

        return draws_of(again, lambda: f"{type(self.model).__name__}{seen.where}", twin)


def _equal(a: Sequence[Array], b: Sequence[Array]) -> bool:
    return len(a) == len(b) and all(
        np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(a, b, strict=True)
    )


def _near(recording: Recorded, seen: Seen) -> bool:
    """Whether both gave the same but for rounding.

    Of linear algebra that folding computes the recorded run has no numbers.
    """
    targets = [node.target for node in recording.program.graph.nodes]
    if any(str(getattr(one, "namespace", "")).startswith("onnx") for one in targets):
        return True
    ours = [array for _, array in outputs_of(seen.root, seen.arrays)]
    theirs = [numbers_of(tensor) for tensor in recording.returned]
    if [one.shape for one in ours] != [one.shape for one in theirs]:
        return True  # the comparison of calls reports it
    for a, b in zip(ours, theirs, strict=True):
        if a.dtype.kind == "f" and a.size:
            sizes = np.abs(a[np.isfinite(a)])
            near = NEAR * float(sizes.max()) if sizes.size else 0.0
            if not np.allclose(a, b, rtol=0, atol=near, equal_nan=True):
                return False
    return True


def _disturb(twin: torch.nn.Module, but: Container[str]) -> None:
    """Give parameters and buffers other numbers, floats and `but` for some."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in (*twin.named_parameters(), *twin.named_buffers()):
            if name not in but and tensor.is_floating_point() and tensor.numel():
                size = float(tensor.abs().nan_to_num(0, 0, 0).max()) or 1.0
                tensor += size * torch.rand(tensor.shape, generator=random).to(tensor.dtype)
