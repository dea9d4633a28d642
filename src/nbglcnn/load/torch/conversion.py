"""Conversion of a recorded run to ONNX operators, with clear errors if it is impossible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.load.noise import DRAW_OUTSIDE_HINT
from nbglcnn.load.progress import report_step
from nbglcnn.load.torch.checks.input_dependence import RecordFn, refuse_input_dependence
from nbglcnn.load.torch.edits.recorded_module import record_translated_program
from nbglcnn.load.torch.isolation.process_state import restore_torch_on_error, suppress_warnings
from nbglcnn.load.torch.isolation.source_lines import describe_module, line_of_node, module_path
from nbglcnn.load.torch.record.recording import RecordedRun, error_chain, first_line
from nbglcnn.load.torch.record.tensor_memory import FxNode
from nbglcnn.load.torch.rewrite.pipeline import rewrite_program
from nbglcnn.load.torch.translate.aten_translations import OnnxNode
from nbglcnn.load.torch.translate.translation import TranslationError, translate_program

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ConvertedRun:
    """A recorded run with its ONNX operators.

    `nodes` are pairs of an ONNX node and its recorded node; `onnx_values` are the ONNX values of
    recorded nodes.
    """

    recorded_run: RecordedRun
    nodes: Sequence[tuple[OnnxNode, FxNode]]
    onnx_values: Mapping[FxNode, Any]

    @property
    def outputs(self) -> Sequence[Any]:
        """The ONNX values of the program's outputs."""
        return [self.onnx_values[node] for node in self.recorded_run.program.outputs]


def convert_run(
    recorded_run: RecordedRun,
    tensors: Sequence[torch.Tensor],
    record_again: RecordFn,
) -> ConvertedRun:
    """Convert a recorded run to ONNX operators; `record_again` records a run on other inputs.

    Raises:
        UnsupportedModel: If the model has no fixed graph, or an operator has no ONNX form.
    """
    import torch

    program = recorded_run.program
    refuse_input_dependence(recorded_run, tensors, record_again)
    with restore_torch_on_error(), torch.no_grad():
        rewrite_program(program, recorded_run.model_copy, recorded_run.root)
        report_step("translating it to ONNX")
        try:
            with suppress_warnings():
                nodes, values = translate_program(program)
        except TranslationError as error:
            raise _untranslated_error(error) from error
    record_translated_program(program)
    return ConvertedRun(recorded_run, nodes, values)


def _untranslated_error(error: TranslationError) -> UnsupportedOperator:
    """The error for an operator that can't be translated; it names the operator and its module."""
    node = error.node
    where = describe_module(node) + line_of_node(node)
    if _draws_random(node):  # Python can't compute it either: the numbers differ each time
        return UnsupportedOperator(
            f"{where}: {_operator(node)} samples random numbers; {DRAW_OUTSIDE_HINT}"
        )
    target = str(node.meta["called"] if error.missing else node.target)
    refusal = UnsupportedOperator(
        f"{where}: PyTorch's operator {target} can't be exported to ONNX; replace it with "
        "supported operators"
        if error.missing
        else f"{where}: can't be exported to ONNX: {first_line(error_chain(error)[-1])}"
    )
    refusal.module = module_path(node)
    return refusal


def _operator(node: Any) -> str:
    """The bare name of an operator, such as randn."""
    return str(node.target._schema.name).rpartition("::")[2].strip("_")


def _draws_random(node: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
