"""A torch module with edits replayed; its output is that of the edited network in a page."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import torch

from nbglcnn.errors import InputError
from nbglcnn.features.edits.records import Edit, validate_edits
from nbglcnn.features.edits.replay import EditReplay, edit_replay
from nbglcnn.features.edits.transforms import INJECT
from nbglcnn.graph import Array, Graph
from nbglcnn.load.module_keys import map_tensors
from nbglcnn.load.torch.edits.hooks import bend_hooks, check_edits_applied
from nbglcnn.load.torch.edits.recorded_module import RecordedModule, bend_operator, collect_programs
from nbglcnn.load.torch.edits.tensor_edits import bend_tensor
from nbglcnn.load.torch.isolation.copies import detached_copy
from nbglcnn.load.torch.isolation.module_checks import check_eval_mode
from nbglcnn.load.torch.isolation.process_state import load_lock
from nbglcnn.load.torch.record.random_draws import Draw, modify_draws, redraw
from nbglcnn.plan.schema import Plan, Value

CompileFn = Callable[[Any, Sequence[Array]], tuple[Graph, Plan]]
TOLERANCE = 1e-4  # of the largest value: tolerance between a recorded run and the module


@dataclass(frozen=True)
class PreparedCall:
    """A call prepared for input shapes.

    `recorded_module` is set if operators called in forward are edited. `key_by_node` maps names of
    recorded nodes to keys; `output_template` is the output with empty tensors. `noise_keys` are the
    keys of forward's random numbers; `draws` are their calls, if recorded.
    """

    bends: EditReplay
    input_keys: tuple[str, ...]
    noise_keys: tuple[str, ...] = ()
    draws: tuple[Draw, ...] = ()
    recorded_module: RecordedModule | None = None
    key_by_node: Mapping[str, str] | None = None
    output_template: Any = None


class EditedModule(torch.nn.Module):
    """A model with edits; called like the model and with its current weights, without changing it.

    `model` is already the module inside torch.compile and DataParallel wrappers.

    `plan` is an existing Plan of the model, or None. `compiled` compiles a Plan when inputs of
    other shapes first occur.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        edits: Sequence[Edit],
        arrays: Mapping[str, Array],
        plan: Plan | None,
        compiled: CompileFn,
    ) -> None:
        super().__init__()
        self.model = model
        self.training = self.model.training
        self.edits = tuple(edits)
        self._arrays = dict(arrays)
        self._plan = plan
        self._compiled = compiled
        self._ready: dict[tuple[Any, ...], PreparedCall] = {}

    def extra_repr(self) -> str:
        """The edits, in their order."""
        return "\n".join(f"{one.name}: {one.transform} of {one.layer}" for one in self.edits)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model with its values edited."""
        given = _positional_tensors(self.model, args, kwargs)
        with load_lock():
            check_eval_mode(self.model)
            kind = tuple((tuple(one.shape), one.dtype) for one in given)
            if kind not in self._ready:
                self._ready[kind] = self._prepare_call(given)
            ready = self._ready[kind]
            if ready.recorded_module is not None:
                return self._run_recorded(ready, ready.recorded_module, given)
            hooks = bend_hooks(self.model, ready.input_keys, ready.bends)
            with hooks as done, self._noise_context(ready, done):
                found = self.model(*given)
            check_edits_applied(ready.bends, done, self.model)
            return found

    def _noise_context(self, prepared: PreparedCall, edited_keys: set[str]) -> Any:
        """A context that edits forward's random numbers, if any of these are edited."""

        def change(key: str, tensor: torch.Tensor) -> torch.Tensor:
            edited_keys.add(key)
            return bend_tensor(prepared.bends, key, tensor) if key in prepared.bends else tensor

        if any(key in prepared.bends for key in prepared.noise_keys):
            return modify_draws(prepared.noise_keys, change)
        return contextlib.nullcontext()

    def _run_recorded(
        self,
        prepared: PreparedCall,
        recorded_module: RecordedModule,
        inputs: Sequence[torch.Tensor],
    ) -> Any:
        device = next((one.device for one in inputs), torch.device("cpu"))
        drawn = [redraw(one).to(device) for one in prepared.draws]
        for at, key in enumerate(prepared.noise_keys):
            if key in prepared.bends:
                drawn[at] = bend_tensor(prepared.bends, key, drawn[at])
        outputs, _ = recorded_module.run(
            self.model,
            (*inputs, *drawn),
            lambda key, tensor: bend_tensor(prepared.bends, key, tensor),
            prepared.key_by_node or {},
        )
        kind = _dtype(self.model)
        each = iter(one.to(kind) if one.is_floating_point() else one for one in outputs)
        return map_tensors(prepared.output_template, _is_tensor, lambda *_: next(each))

    def _prepare_call(self, tensors: Sequence[torch.Tensor]) -> PreparedCall:
        arrays = [one.detach().cpu().numpy() for one in map(_to_numpy_dtype, tensors)]
        plan = self._plan
        if plan is None or not _matches_plan(plan, arrays) or plan.in_python:
            plan = self._compiled(self._copy(), arrays)[1]
        records = {value.key: value for value in plan.values}
        edits, own = _fit_to_batch(validate_edits(self.edits, plan), records, self._arrays)
        bends = edit_replay(plan, edits, own)
        inputs = tuple(one.key for one in plan.inputs if one.key not in plan.noise)
        noise = tuple(one.key for one in plan.inputs if one.key in plan.noise)
        functional_keys = _functional_keys(plan, bends)
        if not functional_keys:
            return PreparedCall(bends, inputs, noise)
        return self._prepare_recorded(tensors, arrays, bends, inputs, noise, functional_keys)

    def _copy(self) -> torch.nn.Module:
        return detached_copy(self.model)[0].cpu()

    def _prepare_recorded(
        self,
        tensors: Sequence[torch.Tensor],
        arrays: Sequence[Array],
        bends: EditReplay,
        inputs: tuple[str, ...],
        noise: tuple[str, ...],
        functional_keys: Sequence[str],
    ) -> PreparedCall:
        """Prepare a recorded run, for edits of operators called in forward itself."""
        twin, operator = self._copy(), bend_operator()
        with collect_programs() as kept, bend_hooks(
            twin, inputs, bends, bend=lambda key, tensor: operator(tensor, key)
        ):  # fmt: skip
            graph, _ = self._compiled(twin, arrays)
        state = torch.get_rng_state()
        with torch.no_grad(), modify_draws(noise, lambda _, tensor: tensor) as drawn:
            true = self.model(*tensors)
        if noise:
            torch.set_rng_state(state)  # this call must not change the user's random state
        outputs: list[torch.Tensor] = []

        def emptied(_: str, tensor: torch.Tensor) -> torch.Tensor:
            outputs.append(tensor)
            return tensor.new_empty(0)

        template = map_tensors(true, _is_tensor, emptied)
        program = kept[-1]
        every = len(program.graph.output_node().args[0])
        recorded = RecordedModule(program, range(every - len(outputs), every))
        keys = _keys_by_node_name(graph, recorded, functional_keys)
        check_edits_applied(
            bends, recorded.bent_keys() | set(functional_keys) | set(noise), self.model
        )
        numbers = [tensor for _, tensor in drawn]
        with torch.no_grad():
            found, _ = recorded.run(self.model, (*tensors, *numbers), lambda _, tensor: tensor, {})
        if any(node.python_fallback for node in graph.nodes) or not _are_close(found, outputs):
            raise InputError(
                f"{functional_keys[0]} cannot be replayed in PyTorch: the recording of "
                f"{type(self.model).__name__} computes different values than the module itself"
            )
        draws = tuple(draw for draw, _ in drawn)
        return PreparedCall(bends, inputs, noise, draws, recorded, keys, template)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _to_numpy_dtype(tensor: torch.Tensor) -> torch.Tensor:
    """Convert to a dtype that NumPy and the compiler support."""
    wide = (torch.float16, torch.bfloat16, torch.float64)
    return tensor.float() if tensor.dtype in wide else tensor


def _dtype(model: torch.nn.Module) -> torch.dtype:
    own = (one.dtype for one in model.parameters() if one.is_floating_point())
    return next(own, torch.float32)


def _positional_tensors(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Bind a call's arguments by position; InputError unless all are tensors."""
    bound = inspect.signature(model.forward).bind(*args, **kwargs)
    given = list(bound.args)
    while given and given[-1] is None:
        given.pop()
    for one in (*given, *bound.kwargs.values()):
        if not isinstance(one, torch.Tensor) or bound.kwargs:
            raise InputError(
                f"a bent {type(model).__name__} takes tensors by position, as in a Viewer; not "
                f"{type(one).__name__}"
            )
    return given


def _matches_plan(plan: Plan, arrays: Sequence[Array]) -> bool:
    """Whether a Plan has the shapes of these inputs."""
    shapes = {value.key: value.shape for value in plan.values}
    own = [shapes.get(one.key) for one in plan.inputs if one.key not in plan.noise]
    return own == [array.shape for array in arrays]


def _functional_keys(plan: Plan, bends: EditReplay) -> list[str]:
    """Edited keys of operators called in forward itself, which hooks don't see."""
    own = {layer.name for layer in plan.layers if not layer.module}
    return [v.key for v in plan.values if v.key in bends and v.kind == "layer" and v.key in own]


def _fit_to_batch(
    edits: Sequence[Edit], records: Mapping[str, Value], arrays: Mapping[str, Array]
) -> tuple[list[Edit], dict[str, Array]]:
    """Return the edits with injected arrays broadcast to the number of examples.

    An array whose examples are all equal fits any number of examples; others fit only their own
    number.
    """
    found, own = [], dict(arrays)
    for edit in edits:
        array = own.get(edit.array_hash)
        if edit.transform == INJECT and array is not None:
            n, c, h, w = records[edit.layer].nchw
            wanted = (n, c if edit.channels is None else len(edit.channels), h, w)
            if array.shape != wanted:
                if array.shape[1:] != wanted[1:] or not (array == array[:1]).all():
                    raise InputError(
                        f"{edit.layer}: the injected array is {array.shape}; for this input, "
                        f"expected {wanted}"
                    )
                name = f"{edit.array_hash} of {n}"
                own[name] = np.ascontiguousarray(np.broadcast_to(array[:1], wanted))
                edit = msgspec.structs.replace(edit, array_hash=name)
        found.append(edit)
    return found, own


def _keys_by_node_name(
    graph: Graph, recorded_module: RecordedModule, functional_keys: Sequence[str]
) -> dict[str, str]:
    """Map names of recorded nodes to these keys; InputError for a key without a recorded node."""
    nodes, values = recorded_module.nodes(), {key.name: key.value_name for key in graph.keys}
    found = {}
    for key in functional_keys:
        # If an input has the operator's name, draft.free_name has appended a number to it.
        name = re.sub(r"\.\d+$", "", values.get(key, ""))
        node = nodes.get(name)
        made = None if node is None else node.meta.get("val")
        if made is None or tuple(made.shape) != graph.shape(values[key]):
            raise InputError(
                f"{key} cannot be replayed in PyTorch: it is a step inside one of its operators. "
                "Bend a layer before or after it"
            )
        found[name] = key
    return found


def _are_close(actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    if len(actual) != len(expected):
        return False
    for a, b in zip(actual, expected, strict=True):
        if a.shape != b.shape:
            return False
        size = b.float().abs().nan_to_num(0, 0, 0).max() if b.numel() else 0
        near = 2e-2 if b.dtype in (torch.float16, torch.bfloat16) else TOLERANCE
        if not torch.allclose(
            a.float(), b.float(), rtol=0, atol=float(near * size + 1e-6), equal_nan=True
        ):
            return False
    return True
