"""A check that input values, read by Python unobserved, don't change the recorded graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from nbglcnn.errors import UnsupportedModel
from nbglcnn.load.torch.isolation.source_lines import describe_module, line_of_node, module_path
from nbglcnn.load.torch.record.recorder import RecordedProgram, Recorder
from nbglcnn.load.torch.record.recording import RecordedRun
from nbglcnn.load.torch.record.tensor_memory import FxNode

if TYPE_CHECKING:
    import torch

# Records a run on these inputs; with other weights if the second argument is True.
RecordFn = Callable[[tuple["torch.Tensor", ...], bool], RecordedRun]


def refuse_input_dependence(
    recorded_run: RecordedRun, tensors: Sequence[torch.Tensor], record_again: RecordFn
) -> None:
    """Raise UnsupportedModel if other inputs change the recording; note weights that change it.

    torch.FloatTensor([t]) reads t without calling an operator, and code can branch on a number's
    text. A model that does either is recorded again with other values.
    """
    recorder = recorded_run.recorder
    others = [perturb_input] if recorder.constants or recorder.has_formatted_input else []
    for change in [*others, *([_negate_input] if recorder.has_formatted_input else [])]:
        if (second := _try_record(record_again, tuple(map(change, tensors)), False)) is not None:
            _refuse_difference(recorded_run, second)
    second = (
        _try_record(record_again, tuple(tensors), True) if recorder.has_created_constants else None
    )
    if second is not None and _changed_constant(recorder, second.recorder) is not None:
        recorder.constant_reads.update(recorded_run.program.parameter_names.values())


def _try_record(
    record_again: RecordFn, inputs: tuple[torch.Tensor, ...], with_other_weights: bool
) -> RecordedRun | None:
    try:
        return record_again(inputs, with_other_weights)
    except Exception:  # the model rejects these values
        return None


def _refuse_difference(recorded_run: RecordedRun, second_run: RecordedRun) -> None:
    """Raise UnsupportedModel if a run on other inputs has another graph."""
    if (node := _changed_constant(recorded_run.recorder, second_run.recorder)) is not None:
        raise _input_read_error(
            next(iter(node.users), node),
            "it reads the values of a tensor that depends on the input, as "
            "torch.FloatTensor([t]) does; write torch.stack([t, …]), or compute with the tensor "
            "itself",
        )
    if not recorded_run.recorder.has_formatted_input:
        return
    if (other := _first_changed_call(recorded_run.program, second_run.program)) is not None:
        raise _input_read_error(
            other,
            "it depends on a string of the input's values, as str(x.mean()), or on an assert "
            "whose error forward catches, so it has no fixed graph; compute with the tensor "
            "itself, as x.mean().round(decimals=3), and choose with torch.where",
        )


def _changed_constant(recorder: Recorder, other_recorder: Recorder) -> FxNode | None:
    """The first constant whose values differ in another run."""
    import torch

    for (node, a), (_, b) in zip(recorder.constants, other_recorder.constants, strict=False):
        same = a.shape == b.shape and a.dtype == b.dtype
        if not (same and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)):
            return node
    return None


def _first_changed_call(program: RecordedProgram, other_program: RecordedProgram) -> FxNode | None:
    """The first operator call that is missing in another run, or has other arguments there."""
    found = [_call_texts(one) for one in (program, other_program)]
    for (node, call), (_, same) in zip_longest(*found, fillvalue=(program.graph.output_node(), "")):
        if call != same:
            return node
    return None


def _call_texts(program: RecordedProgram) -> list[tuple[FxNode, str]]:
    """Each operator call as text, with the indices of nodes in place of nodes."""
    from torch import fx

    at = {node: number for number, node in enumerate(program.graph.nodes)}
    return [
        (node, f"{node.target} {fx.map_arg((node.args, node.kwargs), lambda one: at[one])}")
        for node in program.graph.nodes
        if node.op == "call_function"
    ]


def _input_read_error(node: FxNode, message: str) -> UnsupportedModel:
    refusal = UnsupportedModel(f"{describe_module(node)}{line_of_node(node)}: {message}")
    refusal.module = module_path(node)
    return refusal


def perturb_input(tensor: torch.Tensor) -> torch.Tensor:
    """Return an input with other values of a similar magnitude."""
    import torch

    if tensor.is_floating_point():
        random = torch.Generator().manual_seed(0)
        size = float(tensor.abs().nan_to_num(0, 0, 0).max()) if tensor.numel() else 0.0
        noise = torch.randn(tensor.shape, generator=random).to(tensor.dtype)
        return tensor / 2 + (size or 1.0) * noise
    return tensor.flip([*range(tensor.ndim)])


def _negate_input(tensor: torch.Tensor) -> torch.Tensor:
    return -tensor if tensor.is_floating_point() else tensor.flip([*range(tensor.ndim)])
