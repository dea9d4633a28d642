"""A hooked torch module as ONNX's operators, and why it is none in plain words."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedModel, UnsupportedOperator
from nbglcnn.load.arguments import Arguments
from nbglcnn.load.names import Call
from nbglcnn.load.noise import OUTSIDE
from nbglcnn.load.steps import begin
from nbglcnn.load.torch.adaptive import pool_adaptively
from nbglcnn.load.torch.calls import Record, run
from nbglcnn.load.torch.cut import Substitutes
from nbglcnn.load.torch.dropout import refuse_masks, refuse_new_layers
from nbglcnn.load.torch.extra import recorded_rule, rule_of
from nbglcnn.load.torch.masks import choose_by_masks, has_masks, refuse_by_size
from nbglcnn.load.torch.memory import FxNode
from nbglcnn.load.torch.passed import without_idle_names
from nbglcnn.load.torch.program import (
    attend_in_four_dimensions,
    clamp_by_one_type,
    correct_average_pools,
    name_all_dimensions,
    promote_types,
    without_idle_squeezes,
)
from nbglcnn.load.torch.recorder import Program, ReadsInput, Recorder
from nbglcnn.load.torch.source import line_of_error, line_of_node, module_of, path_of
from nbglcnn.load.torch.tensor_lists import StackedLists
from nbglcnn.load.torch.thread import in_float32, quiet, random_numbers_kept, unwound
from nbglcnn.load.torch.traced import keep
from nbglcnn.load.torch.translate import Untranslatable, translated
from nbglcnn.load.torch.unpool import unpool_by_windows

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Exported:
    """A module as ONNX's operators.

    `twin` is the copy that ran and `root` the tree of its calls. `nodes` are ONNX's, each with the
    recorded one that it is of, and `values` what each recorded one gives. The program's outputs are
    what `Substitutes` read, and all calls' tensors. `autocast` says whether one was left out.
    """

    twin: torch.nn.Module
    program: Program
    nodes: Sequence[tuple[Any, FxNode]]
    values: Mapping[FxNode, Any]
    root: Call
    autocast: bool

    @property
    def outputs(self) -> Sequence[Any]:
        """ONNX's values of the program's outputs."""
        return [self.values[node] for node in self.program.outputs]


def export(
    copy: Callable[[], torch.nn.Module],
    tensors: tuple[torch.Tensor, ...],
    substitutes: Substitutes,
    passed: Container[str],
    noise: int = 0,
    arguments: Arguments | None = None,
) -> Exported:
    """A copy of a module as ONNX's operators, from a run of it that is recorded.

    What stands in for modules is further inputs. The keys in `passed` are of tensors that were
    there before their calls. So many of the last tensors are the `noise` that forward draws.
    """
    import torch

    twin = copy()
    record = Record(cut=substitutes.reasons, passed=passed)

    def modules() -> dict[str, tuple[str, str]]:
        return {call.name: (call.path, call.module_type) for call in record.stack}

    recorder = Recorder(modules, recorded_rule)
    with unwound(), random_numbers_kept(lambda: recorder.drew), torch.no_grad():
        program, autocast = _recorded(
            twin, tensors, substitutes, record, recorder, noise, arguments
        )
        if recorder.constants:
            _check_constants(copy(), recorder, tensors, substitutes, record, noise, arguments)
        assert record.root is not None
        without_idle_names(program, len(record.captured), record.root)
        if has_masks(program):
            choose_by_masks(program)
        refuse_masks(program, twin)
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
    return Exported(twin, program, nodes, values, record.root, autocast)


def _recorded(
    twin: torch.nn.Module,
    tensors: tuple[torch.Tensor, ...],
    substitutes: Substitutes,
    record: Record,
    recorder: Recorder,
    noise: int,
    arguments: Arguments | None,
) -> tuple[Program, bool]:
    """A run of `twin`, whose outputs are what `substitutes` reads and all captured tensors."""
    substitutes.place(twin, record)
    hidden = substitutes.hidden  # they stand for what is computed of these
    named = list(twin.named_modules())
    for number, tensor in enumerate(tensors):
        recorder.add_input(f"input_{number}", tensor)
    stand = substitutes.tensors()
    for number, tensor in enumerate(stand):
        recorder.add_input(f"given_{number}", tensor)
    count = len(tensors)
    drawn = [x for k, x in enumerate(tensors[count - noise :]) if k not in hidden]
    inputs = (*tensors[: count - noise], *drawn)
    substitutes.begin(stand)
    begin("recording it")
    try:
        with (
            quiet(), in_float32() as mode, recorder.keeping(twin), StackedLists(),
        ):  # fmt: skip
            run(twin, named, inputs, record, len(drawn), arguments)
        if recorder.refused is not None:  # forward has caught it
            raise recorder.refused
        outputs = [*(one for reads in substitutes.reads for one in reads), *record.captured]
        return recorder.program(outputs), mode.entered
    except UnsupportedModel as error:
        if not error.module and record.stack:
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
        part = recorder.program([found])
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


def _check_constants(
    twin: torch.nn.Module,
    recorder: Recorder,
    tensors: tuple[torch.Tensor, ...],
    substitutes: Substitutes,
    record: Record,
    noise: int,
    arguments: Arguments | None,
) -> None:
    """UnsupportedModel where a constant that forward makes is another one for other inputs.

    torch.FloatTensor([t]) reads t past all operators. So the model is recorded with other numbers.
    """
    import torch

    other = Record(cut=record.cut, passed=record.passed)
    second = Recorder(dict, recorded_rule)
    others = tuple(map(_other_numbers, tensors))
    try:
        _recorded(twin, others, substitutes, other, second, noise, arguments)
    except Exception:  # it refuses these numbers
        return
    for (node, a), (_, b) in zip(recorder.constants, second.constants, strict=False):
        same = a.shape == b.shape and a.dtype == b.dtype
        if same and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True):
            continue
        user = next(iter(node.users), node)
        refusal = UnsupportedModel(
            f"{module_of(user)}{line_of_node(user)}: it reads the numbers of a tensor that depends "
            "on the input, as torch.FloatTensor([t]) does of one in a list; write "
            "torch.stack([t, …]), or compute with the tensor itself"
        )
        refusal.module = path_of(user)
        raise refusal


def _other_numbers(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    if tensor.is_floating_point():
        random = torch.Generator().manual_seed(0)
        size = float(tensor.abs().nan_to_num(0, 0, 0).max()) if tensor.numel() else 0.0
        noise = torch.randn(tensor.shape, generator=random).to(tensor.dtype)
        return tensor / 2 + (size or 1.0) * noise
    return tensor.flip([*range(tensor.ndim)])


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
