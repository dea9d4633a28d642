"""Running a torch module under hooks: each call of each module, and the tensors it gave."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nbglcnn.errors import InputError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.arguments import layout_hint, special_tensor_kind
from nbglcnn.load.arguments import Arguments
from nbglcnn.load.bounds import MAX_ELEMENTS
from nbglcnn.load.module_keys import ModuleCall, tensor_leaves, tree_leaves, walk_calls
from nbglcnn.load.torch.isolation.process_state import (
    disable_autocast,
    draws_random,
    force_eager,
    preserve_rng_state,
    restore_on_error,
)
from nbglcnn.load.torch.isolation.redirection import (
    CONTROL_FLOW_OPERATORS,
    ControlFlowError,
    redirect_to_copy,
)
from nbglcnn.load.torch.isolation.signature import image_channels
from nbglcnn.load.torch.isolation.source_lines import line_of_call, line_of_error
from nbglcnn.load.torch.record.random_draws import replay_draws
from nbglcnn.load.torch.record.recorder import FUNC_TRANSFORM_MESSAGE

if TYPE_CHECKING:
    import torch


class ValueTooLarge(UnsupportedModel):
    """A tensor that no texture holds."""


# What is kept of a tensor that a call gives.
CaptureFn = Callable[[ModuleCall, "torch.Tensor"], Any]


class CallRecorder(Protocol):
    """What a recorder does with the calls of modules."""

    def begin_call(self, call: ModuleCall, is_cut: bool, given: Sequence[torch.Tensor]) -> None:
        """A call begins, with these tensors among its arguments."""

    def end_call(self, call: ModuleCall, is_cut: bool, given: Any, output: Any) -> Any:
        """A call ends; what it shall give."""


@dataclass(slots=True)
class HookRecord:
    """What hooks have seen of one run: tensors in the order of return, and the calls still open.

    `non_tensors` is what the call that returned last gave besides tensors and None. Of the modules
    in `python_modules` nothing inside is seen, and `hidden_draws` are the numbers of what is drawn
    there. `capture` makes of each tensor what is kept of it; None: a copy. `call_recorder` is of a
    run that is recorded.
    """

    captured: list[Any] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    stack: list[ModuleCall] = field(default_factory=list)
    root: ModuleCall | None = None
    cloned_keys: Container[str] | None = None
    non_tensors: list[tuple[str, Any]] = field(default_factory=list)
    python_modules: Container[str] = ()
    python_depth: int = 0  # how many calls below one of a module in `python_modules` are open
    hidden_draws: frozenset[int] = frozenset()
    capture: CaptureFn | None = None
    call_recorder: CallRecorder | None = None

    def is_inside_python(self) -> bool:
        """Whether a call of a module in `python_modules` is open."""
        return bool(self.stack) and self.stack[-1].path in self.python_modules

    @property
    def location(self) -> str:
        """The innermost open call, as messages name it; empty for the model itself."""
        if not self.stack or not self.stack[-1].path:
            return ""
        return f" (in {self.stack[-1].name}, a {self.stack[-1].module_type})"


@dataclass(frozen=True, slots=True)
class HookedRun:
    """What hooks saw: all calls' tensors, the tree of calls, and what of it can't be relied on.

    `is_repeatable` says, where the model was called a second time, that it gave the same outputs;
    `second_run` are that call's tensors and tree, None where there was none or it failed.
    `non_tensors` is what it gave besides tensors and None, each with what picks it;
    `has_drawn` says that unknown random numbers were drawn.
    """

    arrays: list[Array]
    root: ModuleCall
    is_repeatable: bool = True
    second_run: tuple[list[Array], ModuleCall] | None = None
    non_tensors: Sequence[tuple[str, Any]] = ()
    has_drawn: bool = False


def run_hooked(
    model: torch.nn.Module,
    tensors: Sequence[torch.Tensor],
    cloned_keys: Container[str] | None = None,
    *,
    float32: bool = False,
    twice: bool = False,
    python_modules: Container[str] = (),
    noise: int | None = 0,
    arguments: Arguments | None = None,
    capture: CaptureFn | None = None,
) -> HookedRun:
    """Run once and give what forward hooks see: all calls' tensors, and the tree of calls.

    So many of the last tensors are the `noise` that forward draws; None where nobody knows whether
    it does. Tensors that are not the model's and not `cloned_keys` may have been altered since. In
    `float32` an autocast in forward changes nothing. The modules in `python_modules` are seen from
    outside alone. With `capture` the arrays are what it makes of each tensor, at the end of its
    call. The model's state is another one afterwards. `twice`: call it a second time, with the
    state and the random numbers that the first call has left, and equal inputs.
    """
    import torch

    named = list(model.named_modules())
    record = HookRecord(cloned_keys=cloned_keys, python_modules=python_modules, capture=capture)
    second = HookRecord(cloned_keys=cloned_keys or (), python_modules=python_modules)
    count = noise or 0
    own = tensors[: len(tensors) - count]

    def call(record: HookRecord) -> None:
        call_with_hooks(model, named, [t.clone() for t in tensors], record, count, arguments)

    again, drew, later = True, False, None
    with (
        restore_on_error(),
        preserve_rng_state(
            lambda: draws_random(lambda: call_model(model, [t.clone() for t in own], arguments))
        ),
        torch.no_grad(),
        disable_autocast() if float32 else contextlib.nullcontext(),
    ):
        state = torch.get_rng_state()
        try:
            call(record)
        except UnsupportedModel:
            raise
        except ControlFlowError as error:
            inner, name = record.stack[-1], str(error)
            raise UnsupportedOperator(
                f"{inner.name or 'the model itself'} "
                f"({inner.module_type}){line_of_error([error])}: torch.{name}: its control flow "
                "depends on the input's values, so it has no fixed graph; "
                f"{CONTROL_FLOW_OPERATORS[name]}"
            ) from error
        except Exception as error:
            what = f"{type(model).__name__} fails on this input ({_describe_inputs(own)})"
            channels = image_channels(model)
            hints = {layout_hint(t.shape, channels) for t in own} - {""}
            if hints and isinstance(error, RuntimeError):
                first = f"the first convolution takes {channels} channels{hints.pop()}"
                raise InputError(f"{what}{record.location}: {first}") from error
            raise InputError(
                f"{what}{record.location}: {type(error).__name__}: {str(error)[:500]}"
                f"{_dtype_hint(own, str(error))}{_batch_hint(arguments)}"
            ) from error
        arrays = record.captured if capture else [_as_array(t, record) for t in record.captured]
        drew = noise is None and not torch.equal(torch.get_rng_state(), state)
        if twice and not drew:
            try:
                call(second)
                assert record.root is not None
                assert second.root is not None
                found = [_as_array(t, second) for t in second.captured]
                ours = model_outputs(record.root, arrays)
                again = equal_outputs(ours, model_outputs(second.root, found))
                if cloned_keys is not None:
                    later = found, second.root
            except Exception:  # of a list that the first call has emptied
                again = False
    assert record.root is not None
    return HookedRun(arrays, record.root, again, later, record.non_tensors, drew)


def _dtype_hint(tensors: Sequence[torch.Tensor], message: str) -> str:
    """What to do where PyTorch says that a layer takes floats, or integers, else nothing."""
    floats = [tensor.is_floating_point() for tensor in tensors]
    if not all(floats) and re.search("Long|Bool|long|bool", message) and "loat" in message:
        return "; for float inputs: x.float(), or x.astype('float32') for an array"
    if any(floats) and re.search("scalar types: Long", message):
        return "; for integer inputs: x.long(), or x.astype('int64') for an array"
    return ""


def _batch_hint(arguments: Arguments | None) -> str:
    """What to do about a list that was meant as a batch; "" without any list."""
    given = () if arguments is None else (*arguments.by_position, *arguments.by_name.values())
    if any(isinstance(one, list) for one in given):
        return "; a list among several inputs stays a list; for a batch use torch.stack(items)"
    return ""


def _describe_inputs(tensors: Sequence[torch.Tensor]) -> str:
    return ", ".join(f"{list(t.shape)} {str(t.dtype).removeprefix('torch.')}" for t in tensors)


def _as_array(tensor: torch.Tensor, record: HookRecord) -> Array:
    if (found := special_tensor_kind(tensor)) is not None:
        kind, dense = found
        at = next(i for i, t in enumerate(record.captured) if t is tensor)
        assert record.root is not None
        where = next(c for c in walk_calls(record.root) if any(i == at for _, i in c.outputs))
        encoders = (c for c in walk_calls(record.root) if c.module_type == "TransformerEncoder")
        if kind == "nested" and (encoder := next(encoders, None)) is not None:
            raise UnsupportedModel(
                f"{encoder.name or 'the model itself'} (TransformerEncoder) computes with nested "
                "tensors if it has a src_key_padding_mask; only dense tensors are supported: "
                "create it with enable_nested_tensor=False, or set use_nested_tensor = False on "
                "it"
            )
        raise UnsupportedModel(
            f"{where.name or 'the model itself'} ({where.module_type}) returns a {kind} tensor; "
            f"only dense real tensors are supported: convert it in forward, with {dense}"
        )
    return dense_array(tensor)


def dense_array(tensor: torch.Tensor) -> Array:
    """A dense tensor as an array that shares its memory where it can."""
    import torch

    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:  # which numpy doesn't know
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().numpy()


def model_outputs(root: ModuleCall, arrays: Sequence[Array]) -> list[tuple[str, Array]]:
    """What the model gave, each with what picks it."""
    return [(suffix, arrays[index]) for suffix, index in root.outputs]


def equal_outputs(ours: Sequence[tuple[str, Array]], theirs: Sequence[tuple[str, Array]]) -> bool:
    """Whether two calls gave the same outputs, but for the order of sums in several threads."""
    if [suffix for suffix, _ in ours] != [suffix for suffix, _ in theirs]:
        return False
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.kind != "f":
            if not np.array_equal(a, b):
                return False
            continue
        sizes = np.abs(a[np.isfinite(a)])
        near = 1e-6 * float(sizes.max()) if sizes.size else 0.0
        if not np.allclose(a, b, rtol=0, atol=near, equal_nan=True):
            return False
    return True


def call_outputs(root: ModuleCall) -> list[tuple[str, list[tuple[str, int]]]]:
    """All calls of a run, each with what it gave."""
    return [(call.name, call.outputs) for call in walk_calls(root)]


def values_by_key(
    graph: Graph, arrays: Sequence[Array] | None, seen: Sequence[Array], root: ModuleCall
) -> dict[str, Array]:
    """What `run_hooked` saw, under the Graph's keys; those of operators between modules lack.

    `arrays` are the inputs, left out where they are None.
    """
    found = {c.name + s: seen[i] for c in walk_calls(root) if c is not root for s, i in c.outputs}
    for kind, numbers in ("input", arrays), ("output", [seen[index] for _, index in root.outputs]):
        if numbers is not None:
            names = [key.name for key in graph.keys if key.kind == kind]
            found |= zip(names, numbers, strict=True)
    return {key.name: found[key.name] for key in graph.keys if key.name in found}


def call_with_hooks(
    model: torch.nn.Module,
    modules: Sequence[tuple[str, torch.nn.Module]],
    inputs: Sequence[torch.Tensor],
    record: HookRecord,
    noise: int = 0,
    arguments: Arguments | None = None,
) -> None:
    """Call the model with hooks on its named modules; the same while it is recorded.

    So many of the last inputs are what it draws, in the order of the calls that do.
    """
    import torch

    def is_tensor(value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def before(path: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, given: Any, named: Any) -> None:
            if record.is_inside_python():
                record.python_depth += 1
                return
            number = record.counts.get(path, 0)
            record.counts[path] = number + 1
            leaf = path in record.python_modules or is_leaf(module)
            call = ModuleCall(path, number, leaf, type(module).__name__, _describe(module))
            if record.stack:
                record.stack[-1].children.append(call)
            record.stack.append(call)
            if record.call_recorder is not None:
                tensors = [one for _, one in tensor_leaves([given, named], is_tensor)]
                record.call_recorder.begin_call(call, path in record.python_modules, tensors)

        return hook

    def after(_: torch.nn.Module, given: Any, output: Any) -> Any:
        if record.python_depth:
            record.python_depth -= 1
            return None
        call = record.stack[-1]
        record.non_tensors = []
        if record.call_recorder is not None:
            output = record.call_recorder.end_call(
                call, call.path in record.python_modules, given, output
            )
        for suffix, tensor in tree_leaves(output, is_tensor):
            if not is_tensor(tensor):
                record.non_tensors += [(suffix, tensor)] * (tensor is not None)
                continue
            if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
                inner = record.stack[-2]
                raise _functorch_error(inner.path, f"{inner.name or 'the model itself'}"
                                       f" ({inner.module_type}){line_of_call()}")  # fmt: skip
            # Before anything is copied, run again, recorded or lowered: that takes a minute.
            if tensor.numel() > MAX_ELEMENTS:
                raise _too_large_error(call, tensor)
            call.outputs.append((suffix, len(record.captured)))
            if record.capture is not None:
                record.captured.append(record.capture(call, tensor))
                continue
            # A copy, since an in-place operator after this module must not alter what a hook sees.
            kept = (
                record.cloned_keys is None
                or not call.path
                or call.name + suffix in record.cloned_keys
            )
            record.captured.append(tensor.clone() if kept else tensor)
        record.root = record.stack.pop()
        return output

    handles = []
    try:
        for path, module in modules:
            handles.append(
                module.register_forward_pre_hook(before(path), prepend=True, with_kwargs=True)
            )
            handles.append(module.register_forward_hook(after))
        own, drawn = inputs[: len(inputs) - noise], inputs[len(inputs) - noise :]
        with (
            force_eager(),
            replay_draws(drawn, record.is_inside_python)
            if drawn
            else contextlib.nullcontext() as mode,
            redirect_to_copy(modules[0][1], model, traced=record.call_recorder is not None),
        ):
            call_model(model, own, arguments)
        if mode is not None:
            record.hidden_draws = mode.hidden
    finally:
        for handle in handles:
            handle.remove()


def call_model(
    model: torch.nn.Module, inputs: Sequence[torch.Tensor], arguments: Arguments | None
) -> Any:
    """What the model gives for its inputs, each in its place among the arguments."""
    args, named = (inputs, {}) if arguments is None else arguments.bind(inputs)
    return model(*args, **named)


def _functorch_error(path: str, place: str) -> UnsupportedModel:
    """For a module that is called within torch.vmap or another transform of functions."""
    refusal = UnsupportedModel(f"{place}: {FUNC_TRANSFORM_MESSAGE}")
    refusal.module = path
    return refusal


def _too_large_error(call: ModuleCall, tensor: torch.Tensor) -> ValueTooLarge:
    return ValueTooLarge(
        f"{call.name or 'the model itself'} ({call.module_type}): its output of shape "
        f"{list(tensor.shape)} needs {tensor.numel() * 4:,} bytes; at most {MAX_ELEMENTS * 4:,} "
        "are supported per value. Use a smaller input or batch"
    )


def is_leaf(module: torch.nn.Module) -> bool:
    """Whether nothing inside it is a layer."""
    return not any(name != "parametrizations" for name, _ in module.named_children())


def _describe(module: torch.nn.Module) -> str:
    try:
        return module.extra_repr()
    except Exception:
        return ""
