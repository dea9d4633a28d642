"""Recording a run of a copy: its operators, the tree of its calls and what it gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedModel
from nbglcnn.load.arguments import Arguments
from nbglcnn.load.names import Call
from nbglcnn.load.steps import begin
from nbglcnn.load.torch.isolation.process_state import (
    in_float32,
    quiet,
    random_numbers_kept,
    unwound,
)
from nbglcnn.load.torch.isolation.source_lines import line_of_error
from nbglcnn.load.torch.record.aliasing import renamed
from nbglcnn.load.torch.record.memory import FxNode
from nbglcnn.load.torch.record.module_calls import Record, TooLarge, run
from nbglcnn.load.torch.record.module_substitution import CutCalls
from nbglcnn.load.torch.record.recorder import Program, ReadsInput, Recorder, Rule, unrecorded
from nbglcnn.load.torch.record.tensor_lists import StackedLists

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Recorded:
    """A run of a module that was recorded.

    `twin` is the copy that ran and `root` the tree of its calls; `returned` are what it gave, in
    the order of `root.outputs`. The program's outputs are what the modules in `cut` read, and all
    calls' tensors. `autocast` says whether one was left out, `drew` whether random numbers were
    drawn.
    """

    twin: torch.nn.Module
    recorder: Recorder
    program: Program
    cut: CutCalls
    root: Call
    returned: Sequence[torch.Tensor]
    autocast: bool
    drew: bool


class _Calls:
    """What a recorder does with the calls of modules."""

    def __init__(self, recorder: Recorder, cut: CutCalls) -> None:
        self.returned: list[torch.Tensor] = []
        self._recorder = recorder
        self._cut = cut

    def begin(self, call: Call, is_cut: bool, given: Sequence[torch.Tensor]) -> None:
        with _own_questions():
            if is_cut:
                self._cut.begin(call, given)

    def end(self, call: Call, is_cut: bool, given: Any, output: Any) -> Any:
        with _own_questions():
            if is_cut:
                output = self._cut.end(output)
            return renamed(given, output, self._recorder.rename) if call.path else output

    def look(self, call: Call, tensor: torch.Tensor) -> FxNode:
        with _own_questions():
            if not call.path:
                with unrecorded():
                    self.returned.append(tensor.detach().clone())
            return self._recorder.node(tensor)


def _own_questions() -> Any:
    """What is asked of tensors meanwhile does not pass by the modes that watch forward."""
    import torch

    return torch._C.DisableTorchFunction()


def record(
    twin: torch.nn.Module,
    tensors: tuple[torch.Tensor, ...],
    rule: Callable[[Any], Rule | None],
    reasons: Mapping[str, str],
    noise: int = 0,
    arguments: Arguments | None = None,
) -> Recorded:
    """Run a copy of a module once and record it; its attributes may be others afterwards.

    `rule` says how an operator is taken apart meanwhile. Python computes the modules that there are
    `reasons` for. So many of the last tensors are the `noise` that forward draws.

    Raises:
        UnsupportedModel: it fails, or cannot be one fixed graph.
    """
    import torch

    record = Record(cut=reasons)

    def modules() -> dict[str, tuple[str, str]]:
        return {call.name: (call.path, call.module_type) for call in record.stack}

    recorder = Recorder(modules, rule)
    cut = CutCalls(reasons, recorder)
    record.recording = calls = _Calls(recorder, cut)
    record.look = calls.look
    named = list(twin.named_modules())
    inputs = [tensor.clone() for tensor in tensors]  # which forward may write into
    for number, tensor in enumerate(inputs):
        recorder.add_input(f"input_{number}", tensor)
    begin("recording it")
    with unwound(), random_numbers_kept(lambda: recorder.drew), torch.no_grad():
        state = torch.get_rng_state()
        try:
            with (
                quiet(), in_float32() as mode, recorder.keeping(twin), StackedLists(),
            ):  # fmt: skip
                run(twin, named, inputs, record, noise, arguments)
            if recorder.refused is not None:  # forward has caught it
                raise recorder.refused
            assert not recorder.paused
            program = recorder.program([*chain.from_iterable(cut.reads), *record.captured])
        except UnsupportedModel as error:
            if not isinstance(error, TooLarge) and not error.module and record.stack:
                call = record.stack[-1]
                place = f"{call.name or 'the model itself'} ({call.module_type})"
                refusal = type(error)(f"{place}{line_of_error([error])}: {error}")
                refusal.module = call.path
                raise refusal from error
            raise
        except Exception as error:
            refusal = UnsupportedModel(
                f"{type(twin).__name__} cannot be traced{record.where}"
                f"{line_of_error(error_chain(error))}: {_plain(error)}"
            )
            if record.stack and not any(
                isinstance(one, ReadsInput) and one.decides for one in error_chain(error)
            ):
                refusal.module = record.stack[-1].path
            raise refusal from error
        drew = not torch.equal(torch.get_rng_state(), state)
    assert record.root is not None
    return Recorded(
        twin, recorder, program, cut, record.root, calls.returned, mode.entered, drew
    )  # fmt: skip


def error_chain(error: BaseException) -> list[BaseException]:
    """An error and those that it followed from."""
    found = [error]
    while (inner := found[-1].__cause__ or found[-1].__context__) and inner not in found:
        found.append(inner)
    return found


def _plain(error: BaseException) -> str:
    """Why recording failed, in a sentence or two."""
    for one in error_chain(error):
        if isinstance(one, ReadsInput):
            return one.words
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """What it says, without what follows; its class where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
