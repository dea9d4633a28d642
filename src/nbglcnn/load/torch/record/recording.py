"""Recording a run of a model's copy: its operators, its call tree and its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedModel
from nbglcnn.load.arguments import ForwardArguments
from nbglcnn.load.module_keys import ModuleCall
from nbglcnn.load.progress import report_step
from nbglcnn.load.torch.isolation.process_state import (
    disable_autocast,
    preserve_rng_state,
    restore_torch_on_error,
    suppress_warnings,
)
from nbglcnn.load.torch.isolation.source_lines import line_of_error
from nbglcnn.load.torch.record.aliasing import alias_outputs
from nbglcnn.load.torch.record.module_calls import HookRecord, ValueTooLarge, call_with_hooks
from nbglcnn.load.torch.record.module_substitution import PythonCalls
from nbglcnn.load.torch.record.recorder import (
    Decomposition,
    InputReadError,
    RecordedProgram,
    Recorder,
    unrecorded,
)
from nbglcnn.load.torch.record.tensor_lists import StackListsMode
from nbglcnn.load.torch.record.tensor_memory import FxNode

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run of a module.

    `model_copy` is the copy that ran and `root` its call tree. `returned_tensors` are the model's
    outputs, in the order of `root.outputs`. The program's outputs are the tensors that the modules
    in `python_calls` read, followed by all calls' tensors. `has_autocast`: an autocast was ignored.
    `has_drawn`: random numbers were drawn.
    """

    model_copy: torch.nn.Module
    recorder: Recorder
    program: RecordedProgram
    python_calls: PythonCalls
    root: ModuleCall
    returned_tensors: Sequence[torch.Tensor]
    has_autocast: bool
    has_drawn: bool


class _RecorderHooks:
    """The recorder's handlers for module calls."""

    def __init__(self, recorder: Recorder, cut: PythonCalls) -> None:
        self.returned: list[torch.Tensor] = []
        self._recorder = recorder
        self._cut = cut

    def begin_call(
        self, call: ModuleCall, is_python: bool, arguments: Sequence[torch.Tensor]
    ) -> None:
        with _bypass_modes():
            if is_python:
                self._cut.begin_call(call, arguments)

    def end_call(self, call: ModuleCall, is_python: bool, arguments: Any, output: Any) -> Any:
        with _bypass_modes():
            if is_python:
                output = self._cut.end_call(output)
            return (
                alias_outputs(arguments, output, self._recorder.note_alias) if call.path else output
            )

    def capture(self, call: ModuleCall, tensor: torch.Tensor) -> FxNode:
        with _bypass_modes():
            if not call.path:
                with unrecorded():
                    self.returned.append(tensor.detach().clone())
            return self._recorder.current_node(tensor)


def _bypass_modes() -> Any:
    """A context in which tensor methods bypass the function modes that intercept forward."""
    import torch

    return torch._C.DisableTorchFunction()


def record(
    model_copy: torch.nn.Module,
    tensors: tuple[torch.Tensor, ...],
    decomposition_of: Callable[[Any], Decomposition | None],
    python_reasons: Mapping[str, str],
    noise_count: int = 0,
    arguments: ForwardArguments | None = None,
) -> RecordedRun:
    """Run a copy of a module once and record it; the run may change the copy's attributes.

    `decomposition_of` returns the decomposition of an operator for the recording, if there is one.
    Python computes the modules in `python_reasons`. The last `noise_count` tensors are the random
    numbers that forward draws.

    Raises:
        UnsupportedModel: If the run fails or has no fixed graph.
    """
    import torch

    record = HookRecord(python_modules=python_reasons)

    def modules() -> dict[str, tuple[str, str]]:
        return {call.name: (call.path, call.module_type) for call in record.open_calls}

    recorder = Recorder(modules, decomposition_of)
    cut = PythonCalls(python_reasons, recorder)
    record.call_recorder = calls = _RecorderHooks(recorder, cut)
    record.capture = calls.capture
    named = list(model_copy.named_modules())
    inputs = [tensor.clone() for tensor in tensors]  # copies, since forward may write to them
    for number, tensor in enumerate(inputs):
        recorder.add_input(f"input_{number}", tensor)
    report_step("recording it")
    with restore_torch_on_error(), preserve_rng_state(lambda: recorder.has_drawn), torch.no_grad():
        state = torch.get_rng_state()
        try:
            with (
                suppress_warnings(), disable_autocast() as mode, recorder.record_model(model_copy),
                StackListsMode(),
            ):  # fmt: skip
                call_with_hooks(model_copy, named, inputs, record, noise_count, arguments)
            if recorder.read_error is not None:  # forward has caught the error
                raise recorder.read_error
            assert not recorder.paused
            program = recorder.make_program(
                [*chain.from_iterable(cut.argument_nodes), *record.captured_tensors]
            )
        except UnsupportedModel as error:
            if not isinstance(error, ValueTooLarge) and not error.module and record.open_calls:
                call = record.open_calls[-1]
                place = f"{call.name or 'the model itself'} ({call.module_type})"
                refusal = type(error)(f"{place}{line_of_error([error])}: {error}")
                refusal.module = call.path
                raise refusal from error
            raise
        except Exception as error:
            refusal = UnsupportedModel(
                f"{type(model_copy).__name__} cannot be traced{record.location}"
                f"{line_of_error(error_chain(error))}: {_failure_reason(error)}"
            )
            if record.open_calls and not any(
                isinstance(one, InputReadError) and one.is_control_flow
                for one in error_chain(error)
            ):
                refusal.module = record.open_calls[-1].path
            raise refusal from error
        drew = not torch.equal(torch.get_rng_state(), state)
    assert record.root is not None
    return RecordedRun(
        model_copy, recorder, program, cut, record.root, calls.returned, mode.entered, drew
    )  # fmt: skip


def error_chain(error: BaseException) -> list[BaseException]:
    """An error and its chain of causes and contexts."""
    found = [error]
    while (inner := found[-1].__cause__ or found[-1].__context__) and inner not in found:
        found.append(inner)
    return found


def _failure_reason(error: BaseException) -> str:
    """The reason why recording failed, as an error message."""
    for one in error_chain(error):
        if isinstance(one, InputReadError):
            return one.message
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message; the class name if the message is empty."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
