"""Running a torch module under hooks, which record each module call and its output tensors."""

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
from nbglcnn.load.arguments import ForwardArguments
from nbglcnn.load.module_keys import ModuleCall, tensor_leaves, tree_leaves, walk_calls
from nbglcnn.load.size_limits import MAX_ELEMENTS
from nbglcnn.load.torch.isolation.forward_signature import image_channels
from nbglcnn.load.torch.isolation.process_state import (
    disable_autocast,
    force_eager,
    preserve_rng_state,
    restore_torch_on_error,
    uses_random_numbers,
)
from nbglcnn.load.torch.isolation.source_lines import line_of_call, line_of_error
from nbglcnn.load.torch.isolation.tensor_redirection import (
    CONTROL_FLOW_OPERATORS,
    ControlFlowError,
    redirect_to_copy,
)
from nbglcnn.load.torch.record.random_draws import replay_draws
from nbglcnn.load.torch.record.recorder import FUNC_TRANSFORM_MESSAGE

if TYPE_CHECKING:
    import torch


class ValueTooLarge(UnsupportedModel):
    """A tensor that is too large for a texture."""


# Returns what is kept of a tensor that a call returns.
CaptureFn = Callable[[ModuleCall, "torch.Tensor"], Any]


class CallRecorder(Protocol):
    """The interface by which hooks report module calls to a recorder."""

    def begin_call(
        self, call: ModuleCall, is_python: bool, arguments: Sequence[torch.Tensor]
    ) -> None:
        """Handle the start of a call whose arguments include these tensors."""

    def end_call(self, call: ModuleCall, is_python: bool, arguments: Any, output: Any) -> Any:
        """Handle the end of a call; return its output, possibly replaced."""


@dataclass(slots=True)
class HookRecord:
    """State of the hooks in one run: captured tensors in order of return, and open calls.

    `non_tensors` are the outputs of the last returned call that are neither tensors nor None. Calls
    inside the modules in `python_modules` are not recorded; `hidden_draw_indices` are the numbers
    of the random draws inside them. `capture` returns what is kept of each tensor; if None, a copy
    is kept. `call_recorder` is set if the run is recorded.
    """

    captured_tensors: list[Any] = field(default_factory=list)
    call_counts: dict[str, int] = field(default_factory=dict)
    open_calls: list[ModuleCall] = field(default_factory=list)
    root: ModuleCall | None = None
    cloned_keys: Container[str] | None = None
    non_tensors: list[tuple[str, Any]] = field(default_factory=list)
    python_modules: Container[str] = ()
    python_depth: int = 0  # open calls nested below a call of a module in `python_modules`
    hidden_draw_indices: frozenset[int] = frozenset()
    capture: CaptureFn | None = None
    call_recorder: CallRecorder | None = None

    def is_inside_python(self) -> bool:
        """Whether a call of a module in `python_modules` is open."""
        return bool(self.open_calls) and self.open_calls[-1].path in self.python_modules

    @property
    def location(self) -> str:
        """The innermost open call as in messages; empty for the model itself."""
        if not self.open_calls or not self.open_calls[-1].path:
            return ""
        return f" (in {self.open_calls[-1].name}, a {self.open_calls[-1].module_type})"


@dataclass(frozen=True, slots=True)
class HookedRun:
    """The result of a hooked run: all calls' tensors, the call tree, and caveats about them.

    `is_repeatable`: whether a second call of the model, if there was one, returned the same
    outputs. `second_run` has that call's tensors and tree, None if it did not run, failed or was
    not kept. `non_tensors` are the outputs that are neither tensors nor None, each with its path in
    the output. `has_drawn`: whether forward drew random numbers that were not known before.
    """

    captured_arrays: list[Array]
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
    noise_count: int | None = 0,
    arguments: ForwardArguments | None = None,
    capture: CaptureFn | None = None,
) -> HookedRun:
    """Run the model once and return what forward hooks see: all calls' tensors, and the call tree.

    The last `noise_count` tensors are the random numbers that forward draws; None if it is unknown
    whether forward draws any. Tensors other than the model's own outputs and those in `cloned_keys`
    are not copied and may have been modified since. `float32` disables autocast in forward. Calls
    inside the modules in `python_modules` are not recorded. With `capture`, the arrays are its
    results for each tensor, taken at the end of the tensor's call. The run changes the model's
    state. `twice`: call the model a second time on equal inputs, continuing from the state and
    random generator that the first call left.
    """
    import torch

    named = list(model.named_modules())
    record = HookRecord(cloned_keys=cloned_keys, python_modules=python_modules, capture=capture)
    second = HookRecord(cloned_keys=cloned_keys or (), python_modules=python_modules)
    count = noise_count or 0
    own = tensors[: len(tensors) - count]

    def call(record: HookRecord) -> None:
        call_with_hooks(model, named, [t.clone() for t in tensors], record, count, arguments)

    is_repeatable, drew, second_run = True, False, None
    with (
        restore_torch_on_error(),
        preserve_rng_state(
            lambda: uses_random_numbers(
                lambda: call_model(model, [t.clone() for t in own], arguments)
            )
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
            inner, name = record.open_calls[-1], str(error)
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
        arrays = (
            record.captured_tensors
            if capture
            else [_as_array(t, record) for t in record.captured_tensors]
        )
        drew = noise_count is None and not torch.equal(torch.get_rng_state(), state)
        if twice and not drew:
            try:
                call(second)
                assert record.root is not None
                assert second.root is not None
                found = [_as_array(t, second) for t in second.captured_tensors]
                ours = model_outputs(record.root, arrays)
                is_repeatable = have_equal_outputs(ours, model_outputs(second.root, found))
                if cloned_keys is not None:
                    second_run = found, second.root
            except Exception:  # e.g. the first call has emptied a list
                is_repeatable = False
    assert record.root is not None
    return HookedRun(arrays, record.root, is_repeatable, second_run, record.non_tensors, drew)


def _dtype_hint(tensors: Sequence[torch.Tensor], message: str) -> str:
    """Advice if PyTorch's error is about float or integer inputs, else ""."""
    floats = [tensor.is_floating_point() for tensor in tensors]
    if not all(floats) and re.search("Long|Bool|long|bool", message) and "loat" in message:
        return "; for float inputs: x.float(), or x.astype('float32') for an array"
    if any(floats) and re.search("scalar types: Long", message):
        return "; for integer inputs: x.long(), or x.astype('int64') for an array"
    return ""


def _batch_hint(arguments: ForwardArguments | None) -> str:
    """Advice about a list that was meant as a batch; "" if no argument is a list."""
    given = () if arguments is None else (*arguments.positional, *arguments.keyword.values())
    if any(isinstance(one, list) for one in given):
        return "; a list among several inputs stays a list; for a batch use torch.stack(items)"
    return ""


def _describe_inputs(tensors: Sequence[torch.Tensor]) -> str:
    return ", ".join(f"{list(t.shape)} {str(t.dtype).removeprefix('torch.')}" for t in tensors)


def _as_array(tensor: torch.Tensor, record: HookRecord) -> Array:
    if (found := special_tensor_kind(tensor)) is not None:
        kind, dense = found
        at = next(i for i, t in enumerate(record.captured_tensors) if t is tensor)
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
    """Return a dense tensor as an array, sharing its memory if possible."""
    import torch

    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:  # NumPy has no bfloat16
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().numpy()


def model_outputs(root: ModuleCall, arrays: Sequence[Array]) -> list[tuple[str, Array]]:
    """The model's outputs, each with its path in the returned structure."""
    return [(suffix, arrays[index]) for suffix, index in root.outputs]


def have_equal_outputs(
    ours: Sequence[tuple[str, Array]], theirs: Sequence[tuple[str, Array]]
) -> bool:
    """Whether two calls returned equal outputs, up to the summation order of threads."""
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
    """All calls of a run, each with its outputs."""
    return [(call.name, call.outputs) for call in walk_calls(root)]


def values_by_key(
    graph: Graph,
    input_arrays: Sequence[Array] | None,
    captured_arrays: Sequence[Array],
    root: ModuleCall,
) -> dict[str, Array]:
    """The values of `run_hooked` by Graph key, without those of operators between modules.

    `input_arrays` are the inputs; None leaves them out.
    """
    found = {
        c.name + s: captured_arrays[i]
        for c in walk_calls(root)
        if c is not root
        for s, i in c.outputs
    }
    for kind, numbers in (
        ("input", input_arrays),
        ("output", [captured_arrays[index] for _, index in root.outputs]),
    ):
        if numbers is not None:
            names = [key.name for key in graph.keys if key.kind == kind]
            found |= zip(names, numbers, strict=True)
    return {key.name: found[key.name] for key in graph.keys if key.name in found}


def call_with_hooks(
    model: torch.nn.Module,
    modules: Sequence[tuple[str, torch.nn.Module]],
    inputs: Sequence[torch.Tensor],
    record: HookRecord,
    noise_count: int = 0,
    arguments: ForwardArguments | None = None,
) -> None:
    """Call the model with hooks on its named modules, with or without recording.

    The last `noise_count` inputs are the random numbers that the model draws, in call order.
    """
    import torch

    def is_tensor(value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def before(path: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, given: Any, named: Any) -> None:
            if record.is_inside_python():
                record.python_depth += 1
                return
            number = record.call_counts.get(path, 0)
            record.call_counts[path] = number + 1
            leaf = path in record.python_modules or is_leaf(module)
            call = ModuleCall(path, number, leaf, type(module).__name__, _describe(module))
            if record.open_calls:
                record.open_calls[-1].children.append(call)
            record.open_calls.append(call)
            if record.call_recorder is not None:
                tensors = [one for _, one in tensor_leaves([given, named], is_tensor)]
                record.call_recorder.begin_call(call, path in record.python_modules, tensors)

        return hook

    def after(_: torch.nn.Module, given: Any, output: Any) -> Any:
        if record.python_depth:
            record.python_depth -= 1
            return None
        call = record.open_calls[-1]
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
                inner = record.open_calls[-2]
                raise _functorch_error(inner.path, f"{inner.name or 'the model itself'}"
                                       f" ({inner.module_type}){line_of_call()}")  # fmt: skip
            # Checked before copying, the second run, recording and lowering: these take a minute.
            if tensor.numel() > MAX_ELEMENTS:
                raise _too_large_error(call, tensor)
            call.outputs.append((suffix, len(record.captured_tensors)))
            if record.capture is not None:
                record.captured_tensors.append(record.capture(call, tensor))
                continue
            # Cloned, since an in-place operator after this module must not modify the captured
            # value.
            kept = (
                record.cloned_keys is None
                or not call.path
                or call.name + suffix in record.cloned_keys
            )
            record.captured_tensors.append(tensor.clone() if kept else tensor)
        record.root = record.open_calls.pop()
        return output

    handles = []
    try:
        for path, module in modules:
            handles.append(
                module.register_forward_pre_hook(before(path), prepend=True, with_kwargs=True)
            )
            handles.append(module.register_forward_hook(after))
        own, drawn = inputs[: len(inputs) - noise_count], inputs[len(inputs) - noise_count :]
        with (
            force_eager(),
            replay_draws(drawn, record.is_inside_python)
            if drawn
            else contextlib.nullcontext() as mode,
            redirect_to_copy(modules[0][1], model, traced=record.call_recorder is not None),
        ):
            call_model(model, own, arguments)
        if mode is not None:
            record.hidden_draw_indices = mode.hidden
    finally:
        for handle in handles:
            handle.remove()


def call_model(
    model: torch.nn.Module, inputs: Sequence[torch.Tensor], arguments: ForwardArguments | None
) -> Any:
    """Call the model with each input at its place among the arguments."""
    args, named = (inputs, {}) if arguments is None else arguments.bind(inputs)
    return model(*args, **named)


def _functorch_error(path: str, location: str) -> UnsupportedModel:
    """The error for a module called within torch.vmap or another function transform."""
    refusal = UnsupportedModel(f"{location}: {FUNC_TRANSFORM_MESSAGE}")
    refusal.module = path
    return refusal


def _too_large_error(call: ModuleCall, tensor: torch.Tensor) -> ValueTooLarge:
    return ValueTooLarge(
        f"{call.name or 'the model itself'} ({call.module_type}): its output of shape "
        f"{list(tensor.shape)} needs {tensor.numel() * 4:,} bytes; at most {MAX_ELEMENTS * 4:,} "
        "are supported per value. Use a smaller input or batch"
    )


def is_leaf(module: torch.nn.Module) -> bool:
    """Whether the module has no submodules except parametrizations."""
    return not any(name != "parametrizations" for name, _ in module.named_children())


def _describe(module: torch.nn.Module) -> str:
    try:
        return module.extra_repr()
    except Exception:
        return ""
