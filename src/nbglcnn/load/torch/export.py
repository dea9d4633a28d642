"""The export of a hooked torch module to ONNX nodes, and why it failed in plain words."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedModel, UnsupportedOperator
from nbglcnn.load.arguments import Arguments
from nbglcnn.load.draft import OPSET
from nbglcnn.load.names import Call
from nbglcnn.load.noise import OUTSIDE
from nbglcnn.load.steps import begin
from nbglcnn.load.torch.adaptive import pool_adaptively
from nbglcnn.load.torch.calls import TRANSFORMED, Record, run
from nbglcnn.load.torch.cut import Substitutes
from nbglcnn.load.torch.dropout import refuse_masks, refuse_new_layers
from nbglcnn.load.torch.extra import decompositions, translations
from nbglcnn.load.torch.masks import choose_by_masks, has_masks
from nbglcnn.load.torch.passed import without_idle_names
from nbglcnn.load.torch.program import (
    attend_in_four_dimensions,
    clamp_by_one_type,
    correct_average_pools,
    name_all_dimensions,
    normalize_by_the_batch,
    refuse_wrong_translations,
    with_writable_names,
    without_idle_squeezes,
)
from nbglcnn.load.torch.settings import Settings, TooMany, reads_numbers
from nbglcnn.load.torch.source import ROOT, line_of_error, line_of_node, module_of, path_of
from nbglcnn.load.torch.tables import tables_kept
from nbglcnn.load.torch.tensor_lists import StackedLists
from nbglcnn.load.torch.thread import (
    in_float32,
    quiet,
    random_numbers_kept,
    uncollected,
    unwound,
)
from nbglcnn.load.torch.traced import keep
from nbglcnn.load.torch.unpool import unpool_by_windows
from nbglcnn.load.torch.words import note_operators
from nbglcnn.load.torch.written import written

if TYPE_CHECKING:
    import torch


def export(
    copy: Callable[[], torch.nn.Module],
    tensors: tuple[torch.Tensor, ...],
    substitutes: Substitutes,
    passed: Container[str],
    noise: int = 0,
    arguments: Arguments | None = None,
) -> tuple[torch.nn.Module, Any, Call, frozenset[str], bool]:
    """A copy, it as an onnx_ir graph whose outputs are all calls' tensors, and the tree of calls.

    Also the names of buffers and parameters whose numbers decided what is computed, and whether an
    autocast in forward was left out. Each trace has a copy of its own, for it leaves it in another
    state. What stands in for modules is further inputs, and what these read stands before the
    calls' tensors. The keys in `passed` are of tensors that were there before their calls. So many
    of the last tensors are the `noise` that forward draws.
    """
    import torch

    settings: set[str] = set()

    def traced(reading: Settings | None) -> tuple[Any, Record, bool]:
        return _traced(twin, tensors, substitutes, passed, noise, reading, arguments)

    twin = copy()
    with uncollected(), unwound(), random_numbers_kept(lambda: None), torch.no_grad():
        try:
            program, record, autocast = traced(None)
            again = reads_numbers(program)
        except UnsupportedModel:
            again = True
        if again:
            twin = copy()
            program, record, autocast = traced(Settings(twin, settings))
        assert record.root is not None
        without_idle_names(program, len(record.captured), record.root)
        renamed = with_writable_names(program)
        if has_masks(program):
            with quiet():
                program = choose_by_masks(program)
        refuse_masks(program, twin)
        refuse_new_layers(program)
        refuse_wrong_translations(program)
        pool_adaptively(program)
        correct_average_pools(program)
        normalize_by_the_batch(program)
        clamp_by_one_type(program)
        attend_in_four_dimensions(program)
        unpool_by_windows(program)
        name_all_dimensions(program)
        without_idle_squeezes(program)
        try:
            exported = _to_onnx(program)
        except Exception as error:
            refusal = _untranslated(twin, program, error)
            if not _MISSING.search(str(refusal)):
                raise refusal from error
            try:
                with quiet():
                    program = program.run_decompositions(dict(decompositions()))
                exported = _to_onnx(program)
            except Exception:
                raise refusal from error
    for name, old in renamed.items():
        if name in exported.model.graph.initializers:
            exported.model.graph.initializers[name].name = old
    return twin, exported.model.graph, record.root, frozenset(settings), autocast


def _traced(
    twin: torch.nn.Module,
    tensors: tuple[torch.Tensor, ...],
    substitutes: Substitutes,
    passed: Container[str],
    noise: int,
    reading: Settings | None,
    arguments: Arguments | None,
) -> tuple[Any, Record, bool]:
    import torch

    first = "torch.export._trace" not in sys.modules
    begin("importing PyTorch's exporter, once in a kernel" if first else "tracing it")
    tap, record = _tap(twin, substitutes, passed, noise, reading, arguments)
    try:
        with quiet(), in_float32() as mode, reading or contextlib.nullcontext():
            program = torch.export.export(tap, (*tensors, *substitutes.tensors()), strict=False)
            return program, record, mode.entered
    except Exception as error:
        refusal = UnsupportedModel(
            f"{type(twin).__name__} cannot be traced{record.where}"
            f"{line_of_error(_chain(error))}: {_plain(error, reading)}"
        )
        if record.stack and not _decides(error):
            refusal.module = record.stack[-1].path
        raise refusal from error


def _to_onnx(program: Any) -> Any:
    import torch

    begin("translating it to ONNX")
    with quiet(), tables_kept():
        # optimize=True would fold BatchNorm into Conv and merge equal parameters.
        made: Any = torch.onnx.export(
            program,
            dynamo=True,
            optimize=False,
            opset_version=OPSET,
            verbose=False,
            custom_translation_table=dict(translations()),
        )
    keep(made.exported_program)
    note_operators(made.exported_program, made.model.graph)
    return made


_MISSING = re.compile(r"operator (aten|prims)\.\w+ has no ONNX form")


class _InForward(Exception):
    """An error in the model's own code, while it is traced."""


def _tap(
    twin: torch.nn.Module,
    substitutes: Substitutes,
    passed: Container[str],
    noise: int,
    reading: Settings | None,
    arguments: Arguments | None,
) -> tuple[torch.nn.Module, Record]:
    """The wrapper to export: its outputs are what `substitutes` reads and all captured tensors."""
    import torch

    record = Record(cut=substitutes.reasons, passed=passed)
    substitutes.place(twin, record)
    hidden = substitutes.hidden  # they stand for what is computed of these
    named = list(twin.named_modules())

    class Tap(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            count = len(given) - len(substitutes.arrays)
            drawn = [x for k, x in enumerate(given[count - noise : count]) if k not in hidden]
            inputs = (*given[: count - noise], *drawn)
            substitutes.begin(given[count:])
            if reading is not None:
                reading.begin()
            try:
                with in_float32(), written(getattr(self, ROOT)), StackedLists():
                    run(getattr(self, ROOT), named, inputs, record, len(drawn), arguments)
            except RuntimeError as error:
                # Of a RuntimeError about data the exporter prints all that it has traced.
                raise _InForward(f"{type(error).__name__}: {error}") from error
            return (*(one for reads in substitutes.reads for one in reads), *record.captured)

    tap = Tap()
    # Inside the wrapper a submodule may be called `code`: as the root's it breaks the exporter.
    tap.add_module(ROOT, twin)
    return tap.eval(), record


def _operator(node: Any) -> str:
    """The bare name of an fx node's operator: linalg_svd."""
    schema = getattr(node.target, "_schema", None)
    return _bare(str(schema.name).replace("::", ".")) if schema else ""


def _bare(name: str) -> str:
    """The exporter's own steps turn aten.linalg_svd into aten._linalg_svd."""
    return name.rpartition(".")[2].lstrip("_")


def _chain(error: BaseException) -> list[BaseException]:
    found = [error]
    while (inner := found[-1].__cause__ or found[-1].__context__) and inner not in found:
        found.append(inner)
    return found


def _depends(error: BaseException) -> bool:
    """Whether what is computed depends on numbers, by what the tracer says."""
    kind = type(error).__name__
    return "DataDependent" in kind or "DynamicOutputShape" in kind or "UserError" in kind


def _decides(error: BaseException) -> bool:
    return any(map(_depends, _chain(error)))


def _plain(error: BaseException, reading: Settings | None) -> str:
    """Why tracing failed, in a sentence or two."""
    for one in _chain(error):
        if isinstance(one, TooMany):
            return str(one)
        if _depends(one):
            for symbol, why in reading.missed.items() if reading is not None else ():
                if re.search(rf"\b{symbol}\b", str(one)):
                    return why
            if re.search(r"\bzuf\d", str(one)):  # a float that Python reads
                return (
                    "it reads a number that depends on the input's numbers, as float(t) does. "
                    "Compute with the tensor itself: x * x.mean(), and torch.sqrt(t) in the place "
                    "of math.sqrt(t)"
                )
            return (
                "what it computes depends on the input's numbers (an `if`, a loop or a size that "
                "is read from a tensor), so it has no fixed graph. Make that choice outside the "
                f"model, or with torch.where; in the place of int(t) and t.item() compute with the "
                f"tensor itself. PyTorch says: {_first_line(one)}"
            )
        if "fake tensor in the exported program constant's list" in str(one):
            return (
                "it makes numbers on the way that the tracer cannot follow, as torch.autograd.grad "
                "does; compute without gradients in forward, or draw the part before them"
            )
        if "FakeTensor.__format__" in str(one):
            return (
                "it writes a number of a tensor into a text, and tensors have none while they "
                "are traced; leave that out"
            )
        if "PreDispatchTorchFunctionMode" in str(one):
            return TRANSFORMED
        if "data is not allocated yet" in str(one):
            return (
                "it reads the numbers of a tensor that is computed, as torch.FloatTensor([t]) does "
                "of one in a list; write torch.stack([t, …])"
            )
        if ".numpy() is not supported" in str(one):
            return (
                "it calls .numpy() on a tensor, in forward or in a hook; "
                "use torch operators, or remove the hook"
            )
    return f"{type(error).__name__}: {_first_line(error)}"


def _untranslated(twin: torch.nn.Module, program: Any, error: BaseException) -> UnsupportedOperator:
    """Which operator has no ONNX form, and the module it is in."""
    text = "\n".join(str(one) for one in _chain(error))
    name = type(twin).__name__
    missing = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", text)
    at = re.search(r"translating node %(\w+)", text)
    named = _bare(missing[1]) if missing else None
    found = [
        node
        for node in program.graph.nodes
        if (at and node.name == at[1]) or (named and _operator(node) == named)
    ]
    # The exporter doesn't say at which node it meets one.
    found = found or [n for n in program.graph.nodes if n.kwargs.get("generator") is not None]
    where = module_of(found[0]) + line_of_node(found[0]) if found else name
    if found and _draws(found[0]):  # nor can Python compute it instead: other numbers each time
        drawn = _operator(found[0])
        return UnsupportedOperator(f"{where}: {drawn} draws random numbers; {OUTSIDE}")
    refusal = UnsupportedOperator(
        f"{where}: PyTorch's operator {missing[1]} has no ONNX form, so it cannot be drawn; "
        "replace it by others with the same result"
        if missing
        else f"{where}: cannot be translated to ONNX: {_first_line(_chain(error)[-1])}"
    )
    if found:
        refusal.module = path_of(found[0])
    return refusal


def _draws(node: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
