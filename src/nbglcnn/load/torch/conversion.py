"""A recorded run as ONNX's operators, and why it is none in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.load.noise import OUTSIDE
from nbglcnn.load.steps import begin
from nbglcnn.load.torch.checks.input_dependence import Again, refuse_input_dependence
from nbglcnn.load.torch.edits.recorded_module import keep
from nbglcnn.load.torch.isolation.process_state import quiet, unwound
from nbglcnn.load.torch.isolation.source_lines import line_of_node, module_of, path_of
from nbglcnn.load.torch.record.memory import FxNode
from nbglcnn.load.torch.record.recording import Recorded, error_chain, first_line
from nbglcnn.load.torch.rewrite.pipeline import rewrite
from nbglcnn.load.torch.translate.aten_forms import Step
from nbglcnn.load.torch.translate.translation import Untranslatable, translated

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Converted:
    """A recorded run as ONNX's operators.

    `nodes` are ONNX's, each with the recorded one that it is of, and `values` what each recorded
    one gives.
    """

    recorded: Recorded
    nodes: Sequence[tuple[Step, FxNode]]
    values: Mapping[FxNode, Any]

    @property
    def outputs(self) -> Sequence[Any]:
        """ONNX's values of the program's outputs."""
        return [self.values[node] for node in self.recorded.program.outputs]


def convert(
    recorded: Recorded,
    tensors: Sequence[torch.Tensor],
    again: Again,
) -> Converted:
    """A run on these inputs as ONNX's operators; `again` records one on others.

    Raises:
        UnsupportedModel: it is no fixed graph, or has operators without a form in ONNX.
    """
    import torch

    program = recorded.program
    refuse_input_dependence(recorded, tensors, again)
    with unwound(), torch.no_grad():
        rewrite(program, recorded.twin, recorded.root)
        begin("translating it to ONNX")
        try:
            with quiet():
                nodes, values = translated(program)
        except Untranslatable as error:
            raise _untranslated(error) from error
    keep(program)
    return Converted(recorded, nodes, values)


def _untranslated(error: Untranslatable) -> UnsupportedOperator:
    """Which operator has no ONNX form, and the module it is in."""
    node = error.node
    where = module_of(node) + line_of_node(node)
    if _draws(node):  # nor can Python compute it instead: other numbers each time
        return UnsupportedOperator(f"{where}: {_operator(node)} draws random numbers; {OUTSIDE}")
    target = str(node.meta["called"] if error.missing else node.target)
    refusal = UnsupportedOperator(
        f"{where}: PyTorch's operator {target} has no ONNX form, so it cannot be drawn; "
        "replace it by others with the same result"
        if error.missing
        else f"{where}: cannot be translated to ONNX: {first_line(error_chain(error)[-1])}"
    )
    refusal.module = path_of(node)
    return refusal


def _operator(node: Any) -> str:
    """The bare name of an operator: randn."""
    return str(node.target._schema.name).rpartition("::")[2].strip("_")


def _draws(node: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
