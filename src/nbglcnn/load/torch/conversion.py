"""A hooked torch module as ONNX's operators, and why it is none in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedModel, UnsupportedOperator
from nbglcnn.load.arguments import Arguments
from nbglcnn.load.names import Call
from nbglcnn.load.noise import OUTSIDE
from nbglcnn.load.steps import begin
from nbglcnn.load.torch.edits.recorded_module import keep
from nbglcnn.load.torch.isolation.process_state import (
    in_float32,
    quiet,
    random_numbers_kept,
    unwound,
)
from nbglcnn.load.torch.isolation.source_lines import (
    line_of_error,
    line_of_node,
    module_of,
    path_of,
)
from nbglcnn.load.torch.record.active_dropout import refuse_masks, refuse_new_layers
from nbglcnn.load.torch.record.aliasing import PassedTensors, without_idle_names
from nbglcnn.load.torch.record.memory import FxNode
from nbglcnn.load.torch.record.module_calls import Record, TooLarge, run
from nbglcnn.load.torch.record.module_substitution import CutCalls
from nbglcnn.load.torch.record.recorder import Program, ReadsInput, Recorder, unrecorded
from nbglcnn.load.torch.record.tensor_lists import StackedLists
from nbglcnn.load.torch.rewrite.adaptive_pools import pool_adaptively
from nbglcnn.load.torch.rewrite.masked_assignment import choose_by_masks, has_masks, refuse_by_size
from nbglcnn.load.torch.rewrite.max_unpool import unpool_by_windows
from nbglcnn.load.torch.rewrite.onnxscript_fixes import (
    attend_in_four_dimensions,
    clamp_by_one_type,
    correct_average_pools,
    name_all_dimensions,
    promote_types,
    without_idle_squeezes,
)
from nbglcnn.load.torch.translate.aten_forms import Step
from nbglcnn.load.torch.translate.decompositions import recorded_rule, rule_of
from nbglcnn.load.torch.translate.translation import Untranslatable, translated

if TYPE_CHECKING:
    import torch


# Records a run on other inputs, and with other weights if that is True.
Again = Callable[[tuple["torch.Tensor", ...], bool], "Recorded"]


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


@dataclass(frozen=True)
class Exported:
    """What was recorded as ONNX's operators.

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


class _Calls:
    """What a recorder does with the calls of modules."""

    def __init__(self, recorder: Recorder, cut: CutCalls) -> None:
        self.returned: list[torch.Tensor] = []
        self._recorder = recorder
        self._cut = cut
        self._passed = PassedTensors()

    def begin(self, call: Call, is_cut: bool, given: Sequence[torch.Tensor]) -> None:
        with _own_questions():
            if is_cut:
                self._cut.begin(call, given)
            self._passed.begin(given)

    def end(self, call: Call, is_cut: bool, given: Any, output: Any) -> Any:
        with _own_questions():
            if is_cut:
                output = self._cut.end(output)
            return self._passed.end(given, output, rename=bool(call.path))

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
    reasons: Mapping[str, str],
    noise: int = 0,
    arguments: Arguments | None = None,
) -> Recorded:
    """Run a copy of a module once and record it; its attributes may be others afterwards.

    Python computes the modules that there are `reasons` for. So many of the last tensors are the
    `noise` that forward draws.

    Raises:
        UnsupportedModel: it fails, or cannot be one fixed graph.
    """
    import torch

    record = Record(cut=reasons)

    def modules() -> dict[str, tuple[str, str]]:
        return {call.name: (call.path, call.module_type) for call in record.stack}

    recorder = Recorder(modules, recorded_rule)
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
                f"{line_of_error(_chain(error))}: {_plain(error)}"
            )
            if record.stack and not any(
                isinstance(one, ReadsInput) and one.decides for one in _chain(error)
            ):
                refusal.module = record.stack[-1].path
            raise refusal from error
        drew = not torch.equal(torch.get_rng_state(), state)
    assert record.root is not None
    return Recorded(
        twin, recorder, program, cut, record.root, calls.returned, mode.entered, drew
    )  # fmt: skip


def export(
    recorded: Recorded,
    tensors: Sequence[torch.Tensor],
    again: Again,
) -> Exported:
    """A run on these inputs as ONNX's operators; `again` records one on others.

    Raises:
        UnsupportedModel: it is no fixed graph, or has operators without a form in ONNX.
    """
    import torch

    program = recorded.program
    _check_again(recorded, tensors, again)
    with unwound(), torch.no_grad():
        without_idle_names(program, recorded.root)
        if has_masks(program):
            choose_by_masks(program)
        refuse_masks(program, recorded.twin)
        refuse_new_layers(program)
        refuse_by_size(program)
        pool_adaptively(program)
        correct_average_pools(program)
        clamp_by_one_type(program)
        attend_in_four_dimensions(program)
        unpool_by_windows(program)
        _take_apart(program)
        name_all_dimensions(program)
        without_idle_squeezes(program)
        promote_types(program)
        begin("translating it to ONNX")
        try:
            with quiet():
                nodes, values = translated(program)
        except Untranslatable as error:
            raise _untranslated(error) from error
    keep(program)
    return Exported(recorded, nodes, values)


def _take_apart(program: Program) -> None:
    """Put others in the place of operators that ONNX has no form for and no pass knows."""
    from torch import fx

    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or (rule := rule_of(node.target)) is None:
            continue
        sources = node.all_input_nodes
        values = {one: one.meta["val"] for one in sources}
        recorder = Recorder(dict, rule_of)
        for one, value in values.items():
            recorder.add_input(one.name, value)
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        with recorder.recording():
            found = rule(*args, **kwargs)
        if found is NotImplemented:
            continue
        part = recorder.program([recorder.node(found)])
        same = dict(zip(part.inputs, sources, strict=True))
        for one, tensor in part.tensors.items():
            first = next(iter(graph.nodes))
            with graph.inserting_before(first):
                same[one] = graph.placeholder(one.name)
            same[one].meta = dict(one.meta)
            program.tensors[same[one]] = tensor
        with graph.inserting_before(node):
            for one in part.graph.nodes:
                if one.op == "call_function":
                    same[one] = graph.node_copy(one, same.__getitem__)
                    same[one].meta = {**node.meta, "val": one.meta["val"]}
        node.replace_all_uses_with(same[part.outputs[0]])
        graph.erase_node(node)


def _check_again(recorded: Recorded, tensors: Sequence[torch.Tensor], again: Again) -> None:
    """UnsupportedModel where other inputs make it another network; notes weights that do.

    torch.FloatTensor([t]) reads t past all operators, and a text of a number may decide something.
    So the model is recorded with other numbers, if it does such things.
    """
    recorder = recorded.recorder
    others = [_other_numbers] if recorder.constants or recorder.told else []
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


def _other_numbers(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    if tensor.is_floating_point():
        random = torch.Generator().manual_seed(0)
        size = float(tensor.abs().nan_to_num(0, 0, 0).max()) if tensor.numel() else 0.0
        noise = torch.randn(tensor.shape, generator=random).to(tensor.dtype)
        return tensor / 2 + (size or 1.0) * noise
    return tensor.flip([*range(tensor.ndim)])


def _negated(tensor: torch.Tensor) -> torch.Tensor:
    return -tensor if tensor.is_floating_point() else tensor.flip([*range(tensor.ndim)])


def _chain(error: BaseException) -> list[BaseException]:
    found = [error]
    while (inner := found[-1].__cause__ or found[-1].__context__) and inner not in found:
        found.append(inner)
    return found


def _plain(error: BaseException) -> str:
    """Why recording failed, in a sentence or two."""
    for one in _chain(error):
        if isinstance(one, ReadsInput):
            return one.words
    return f"{type(error).__name__}: {_first_line(error)}"


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
        else f"{where}: cannot be translated to ONNX: {_first_line(_chain(error)[-1])}"
    )
    refusal.module = path_of(node)
    return refusal


def _operator(node: Any) -> str:
    """The bare name of an operator: randn."""
    return str(node.target._schema.name).rpartition("::")[2].strip("_")


def _draws(node: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
