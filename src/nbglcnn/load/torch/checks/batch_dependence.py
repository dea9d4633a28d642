"""A check that examples of a batch are computed independently, by runs at other batch sizes.

A graph has a single batch size. It doesn't show a division by `len(x)`, and with a batch of one it
doesn't show a softmax over `x.reshape(1, -1)`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import NbglcnnError
from nbglcnn.graph import Array, BatchDependence, Graph, batch_size
from nbglcnn.load.module_keys import ModuleCall, walk_calls
from nbglcnn.load.torch.checks.input_dependence import perturb_input
from nbglcnn.load.torch.isolation.float64_reference import float64_mode
from nbglcnn.load.torch.record.module_calls import CaptureFn, HookedRun, dense_array, values_by_key

if TYPE_CHECKING:
    import torch

RunFn = Callable[["torch.nn.Module", Sequence["torch.Tensor"], "CaptureFn | None"], HookedRun]
TOLERANCE = 1e-3  # relative to the largest number: other batch sizes use other kernels
FLOAT64_TOLERANCE = 1e-7


def batch_dependences(
    graph: Graph,
    copy_model: Callable[[], torch.nn.Module],
    tensors: Sequence[torch.Tensor],
    reference_run: HookedRun | None,
    run_model: RunFn,
) -> Mapping[str, BatchDependence]:
    """Determine how hooked values depend on the batch, by key; {} if no other batch size runs.

    `tensors` are all inputs and `reference_run` is a run on them, or None if the user's hooks took
    part in it. The examples run again between two other examples, and the first of several runs by
    itself; the values must stay the same. `run_model` runs a `copy_model` of the model under our
    hooks and passes each tensor to a callback. The copy has no user hooks, because these may store
    the tensors.
    """
    batch = batch_size(tuple(tensor.shape) for tensor in tensors)
    found: dict[str, BatchDependence] = {}
    exact: HookedRun | None = None

    def run_in_float64(
        inputs: Sequence[torch.Tensor], capture: CaptureFn | None = None
    ) -> HookedRun:
        with float64_mode(twin := copy_model()):
            return run_model(twin, inputs, capture)

    for size, at in [(batch + 2, 1), (1, 0)][: min(batch, 2)]:
        sliced = _BatchSlice(batch, size, at)
        others = [sliced.slice_input(one) if one.shape[:1] == (batch,) else one for one in tensors]
        try:
            reference_run = reference_run or run_model(copy_model(), tensors, None)
            capture = _DependenceCheck(reference_run, sliced)
            new = _dependences_by_key(
                graph, reference_run, run_model(copy_model(), others, capture)
            )
            if "across" in new.values():  # may be due to rounding: check in float64
                exact = exact or run_in_float64(tensors)
                capture = _DependenceCheck(exact, sliced, FLOAT64_TOLERANCE)
                new = _dependences_by_key(graph, exact, run_in_float64(others, capture))
        except (NbglcnnError, RuntimeError, ValueError, TypeError):
            continue  # forward doesn't support this batch size, or needs the user's hooks
        found |= {name: one for name, one in new.items() if found.get(name) != "across"}
    return found


@dataclass(frozen=True, slots=True)
class _BatchSlice:
    """The examples that runs of `batch_size` and of `other_batch_size` examples share.

    They start at the first example of the smaller run and at index `start` of the larger run.
    """

    batch_size: int
    other_batch_size: int
    start: int

    def slice_input(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return an input with `other_batch_size` examples."""
        return (
            _surround_examples(tensor)
            if self.other_batch_size > self.batch_size
            else tensor[: self.other_batch_size]
        )

    def matching_examples(self, a: Array, b: Array, axis: int) -> tuple[Array, Array]:
        """Return the shared examples of `a`, of the first run, and of `b`, of the other run."""
        count = min(self.batch_size, self.other_batch_size)
        both = (
            np.moveaxis(a, axis, 0)[:count],
            np.moveaxis(b, axis, 0)[self.start : self.start + count],
        )
        return both


def _surround_examples(tensor: torch.Tensor) -> torch.Tensor:
    """Add a different example before and after the examples."""
    import torch

    ends = perturb_input(torch.cat([tensor[:1], tensor[-1:]]))
    return torch.cat([ends[:1], tensor, ends[1:]])


class _DependenceCheck:
    """Compares the tensors of a run at another batch size with those of the run `reference_run`."""

    def __init__(
        self, reference_run: HookedRun, sliced: _BatchSlice, near: float = TOLERANCE
    ) -> None:
        self._seen = reference_run
        self._sliced = sliced
        self._near = near

    def __call__(self, call: ModuleCall, tensor: torch.Tensor) -> BatchDependence | None:
        at = call.outputs[-1][1]
        outputs = self._seen.root.outputs
        if not call.path and len(call.outputs) <= len(outputs):
            at = outputs[len(call.outputs) - 1][1]
        if at >= len(self._seen.captured_arrays):
            return "across"
        return _dependence(
            self._seen.captured_arrays[at], dense_array(tensor), self._sliced, self._near
        )


def _dependences_by_key(
    graph: Graph, reference_run: HookedRun, other_run: HookedRun
) -> dict[str, BatchDependence]:
    """Map the results of a _DependenceCheck to the Graph's keys."""
    found: Mapping[str, Any] = values_by_key(graph, None, other_run.captured_arrays, other_run.root)
    if _call_signatures(reference_run.root) != _call_signatures(
        other_run.root
    ):  # a module may be called once per example
        outputs = {key.name for key in graph.keys if key.kind == "output"}
        found = {name: one for name, one in found.items() if name in outputs}
    return {name: one for name, one in found.items() if one is not None}


def _call_signatures(root: ModuleCall) -> list[tuple[str, list[str]]]:
    return [(call.name, [suffix for suffix, _ in call.outputs]) for call in walk_calls(root)]


def _dependence(
    a: Array, b: Array, batch_slice: _BatchSlice, tolerance: float
) -> BatchDependence | None:
    """How a value depends on the batch, judged by its arrays in two runs; None if not at all."""
    if a.shape == b.shape:
        return None if _is_near(a, b, tolerance) else "across"
    if a.ndim != b.ndim:
        return "across"
    grown = [k for k in range(a.ndim) if a.shape[k] != b.shape[k]]
    axis = grown[0]
    each, rest = divmod(a.shape[axis], batch_slice.batch_size)
    if len(grown) > 1 or rest or b.shape[axis] != each * batch_slice.other_batch_size:
        return "across"
    before, after = a.shape[:axis], a.shape[axis + 1 :]
    for outer in {1, each}:  # elements of one example are contiguous, or strided by the batch
        inner = each // outer
        pair = batch_slice.matching_examples(
            a.reshape(*before, outer, batch_slice.batch_size, inner, *after),
            b.reshape(*before, outer, batch_slice.other_batch_size, inner, *after),
            axis + 1,
        )
        if _is_near(*pair, tolerance):
            return "apart" if axis == 0 and each == 1 else "elsewhere"
    return "across"


def _is_near(a: Array, b: Array, tolerance: float) -> bool:
    if a.dtype.kind not in "fc":
        return np.array_equal(a, b)
    if a.size == 0:
        return True
    apart, size = _max_abs(a - b), _max_abs(a)
    if np.isfinite(apart) and np.isfinite(size):
        return bool(apart <= tolerance * size)
    finite = np.abs(a[np.isfinite(a)])
    with contextlib.suppress(ValueError):
        tolerance = tolerance * float(finite.max())
    return np.allclose(a, b, rtol=0, atol=tolerance, equal_nan=True)


def _max_abs(a: Array) -> float:
    """The largest absolute value; a real array needs no temporary copy."""
    if a.dtype.kind == "c":
        return float(np.abs(a).max())
    return max(float(a.max()), -float(a.min()))
