"""Whether other inputs make a recorded run another network: numbers that Python reads unseen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from nbglcnn.errors import UnsupportedModel
from nbglcnn.load.torch.isolation.source_lines import line_of_node, module_of, path_of
from nbglcnn.load.torch.record.memory import FxNode
from nbglcnn.load.torch.record.recorder import Program, Recorder
from nbglcnn.load.torch.record.recording import Recorded

if TYPE_CHECKING:
    import torch

# Records a run on other inputs, and with other weights if that is True.
Again = Callable[[tuple["torch.Tensor", ...], bool], Recorded]


def refuse_input_dependence(
    recorded: Recorded, tensors: Sequence[torch.Tensor], again: Again
) -> None:
    """UnsupportedModel where other inputs make it another network; notes weights that do.

    torch.FloatTensor([t]) reads t past all operators, and a text of a number may decide something.
    So the model is recorded with other numbers, if it does such things.
    """
    recorder = recorded.recorder
    others = [other_numbers] if recorder.constants or recorder.told else []
    for change in [*others, *([_negated] if recorder.told else [])]:
        if (second := _tried(again, tuple(map(change, tensors)), False)) is not None:
            _refuse_another(recorded, second)
    second = _tried(again, tuple(tensors), True) if recorder.made else None
    if second is not None and _other_constant(recorder, second.recorder) is not None:
        recorder.settings.update(recorded.program.names.values())


def _tried(again: Again, inputs: tuple[torch.Tensor, ...], others: bool) -> Recorded | None:
    try:
        return again(inputs, others)
    except Exception:  # it refuses these numbers
        return None


def _refuse_another(recorded: Recorded, second: Recorded) -> None:
    """UnsupportedModel where a run on other inputs is another network."""
    if (node := _other_constant(recorded.recorder, second.recorder)) is not None:
        raise _reading(
            next(iter(node.users), node),
            "it reads the numbers of a tensor that depends on the input, as torch.FloatTensor([t]) "
            "does of one in a list; write torch.stack([t, …]), or compute with the tensor itself",
        )
    if not recorded.recorder.told:
        return
    if (other := _first_other(recorded.program, second.program)) is not None:
        raise _reading(
            other,
            "it depends on a text of the input's numbers, as str(x.mean()), or on an assert whose "
            "error forward catches, so it has no fixed graph; compute with the tensor itself, as "
            "x.mean().round(decimals=3), and choose with torch.where",
        )


def _other_constant(recorder: Recorder, other: Recorder) -> FxNode | None:
    """The first constant that another run has other numbers for."""
    import torch

    for (node, a), (_, b) in zip(recorder.constants, other.constants, strict=False):
        same = a.shape == b.shape and a.dtype == b.dtype
        if not (same and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)):
            return node
    return None


def _first_other(program: Program, other: Program) -> FxNode | None:
    """The first call of an operator that another run has with other arguments, or has not."""
    found = [_calls(one) for one in (program, other)]
    for (node, call), (_, same) in zip_longest(*found, fillvalue=(program.graph.output_node(), "")):
        if call != same:
            return node
    return None


def _calls(program: Program) -> list[tuple[FxNode, str]]:
    """Each call of an operator, as a text in which others are their places."""
    from torch import fx

    at = {node: number for number, node in enumerate(program.graph.nodes)}
    return [
        (node, f"{node.target} {fx.map_arg((node.args, node.kwargs), lambda one: at[one])}")
        for node in program.graph.nodes
        if node.op == "call_function"
    ]


def _reading(node: FxNode, words: str) -> UnsupportedModel:
    refusal = UnsupportedModel(f"{module_of(node)}{line_of_node(node)}: {words}")
    refusal.module = path_of(node)
    return refusal


def other_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """An input with other numbers of about the same size."""
    import torch

    if tensor.is_floating_point():
        random = torch.Generator().manual_seed(0)
        size = float(tensor.abs().nan_to_num(0, 0, 0).max()) if tensor.numel() else 0.0
        noise = torch.randn(tensor.shape, generator=random).to(tensor.dtype)
        return tensor / 2 + (size or 1.0) * noise
    return tensor.flip([*range(tensor.ndim)])


def _negated(tensor: torch.Tensor) -> torch.Tensor:
    return -tensor if tensor.is_floating_point() else tensor.flip([*range(tensor.ndim)])
