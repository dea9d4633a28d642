"""Detection of module code that changes gradients, which a recording doesn't keep."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as torch_module
from torch.overrides import TorchFunctionMode

from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import Array
from nbglcnn.load.arguments import ForwardArguments
from nbglcnn.load.module_keys import tensor_leaves
from nbglcnn.load.size_limits import quote_name
from nbglcnn.load.torch.isolation.copies import detached_copy
from nbglcnn.load.torch.isolation.process_state import load_lock
from nbglcnn.load.torch.isolation.source_lines import line_of_call, line_of_error
from nbglcnn.load.torch.isolation.tensor_redirection import original_of, redirect_to_copy
from nbglcnn.load.torch.record.module_calls import call_model

TENSOR_DATA: Any = torch.Tensor.data
REQUIRES_GRAD: Any = torch.Tensor.requires_grad
# Labels of functions that stop a gradient; other functions are reported by name.
FUNCTION_LABELS: dict[Any, str] = {
    torch.Tensor.detach: "detach()",
    torch.Tensor.detach_: "detach_()",
    TENSOR_DATA.__get__: ".data",
    torch.tensor: "torch.tensor(…)",
}
# Functions that read only the shape or dtype of one argument, by its index.
SHAPE_ONLY_ARGUMENT_INDEX = dict.fromkeys(
    (
        *(torch.Tensor.new_zeros, torch.Tensor.new_ones, torch.Tensor.new_full),
        *(torch.Tensor.new_tensor, torch.zeros_like, torch.ones_like, torch.full_like),
    ),
    0,
) | dict.fromkeys(
    (
        *(torch.Tensor.to, torch.Tensor.type_as, torch.Tensor.view_as),
        *(torch.Tensor.reshape_as, torch.Tensor.expand_as),
    ),
    1,
)
UNINITIALIZED_FUNCTIONS = frozenset(
    (
        *(torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted),
        *(torch.Tensor.new_empty, torch.Tensor.new_empty_strided, torch.Tensor.resize_),
    )
)
# Embeddings, with the index of their argument scale_grad_by_freq.
EMBEDDING_SCALE_INDEX: dict[Any, int] = {
    **{F.embedding: 5, torch.embedding: 3},
    **{F.embedding_bag: 5, torch.embedding_bag: 3},
}
RANDOM_LIKE_FUNCTIONS = (torch.rand_like, torch.randn_like, torch.randint_like)
NO_GRAD = "torch.no_grad"
BACKWARD_HOOK = "a backward hook"


def refuse_overrides(
    model: nn.Module,
    arrays: Sequence[Array],
    wrt: Collection[str],
    *,
    inputs: Collection[int] = (),
    arguments: ForwardArguments | None = None,
) -> None:
    """Raise UnsupportedModel if the module's code changes a requested gradient.

    A copy runs once with gradients enabled. `wrt` are names of parameters and `inputs` are
    positions of inputs whose gradients are requested; values that depend on neither may be
    detached.
    """
    _refuse_hooks(model, wrt)
    with load_lock():
        twin, _ = detached_copy(model)
        twin.requires_grad_(False)
        for name, one in twin.named_parameters(remove_duplicate=False):
            if name in wrt and one.is_floating_point():
                one.requires_grad_()
        tensors = [torch.from_numpy(array.copy()) for array in arrays]
        for at in inputs:
            if tensors[at].is_floating_point():
                # Not a leaf, so that forward can modify it in place.
                tensors[at] = tensors[at].requires_grad_().clone()
        leaves = {id(one) for one in twin.parameters() if one.requires_grad}
        leaves |= {number for number, name in original_of(twin).tensor_names.items() if name in wrt}
        overrides = _OverrideDetector(leaves)
        for path, part in twin.named_modules():
            if type(part).__module__.startswith("torch."):
                # PyTorch's own modules have the gradients of their operators.
                if not getattr(part, "scale_grad_by_freq", False):
                    continue
                overrides.pytorchs.add(path)
            part.register_forward_pre_hook(lambda *_, path=path: overrides.open.append(path))
            part.register_forward_hook(
                lambda *_: return_none(overrides.open.pop()), always_call=True
            )
        with (
            torch.enable_grad(),
            torch.random.fork_rng(devices=[]),
            redirect_to_copy(twin),
            overrides,
        ):
            try:
                outputs = [*_output_tensors(call_model(twin, tensors, arguments))]
            except Exception as error:
                if overrides.found is None:
                    raise UnsupportedModel(
                        f"{type(model).__name__} cannot be run with gradients enabled"
                        f"{line_of_error([error])}: {type(error).__name__}: {error}"
                    ) from error
                outputs = []
    if overrides.found is None and (own := _find_user_function([one.grad_fn for one in outputs])):
        overrides.found = "", _describe_function(own), ""
    if overrides.found is not None:
        path, word, line = overrides.found
        raise _gradient_hook_error(path, f"calls {word} in forward{line}")


def return_none(_: object) -> None:
    """Return None: a hook's result that keeps the output."""


def _refuse_hooks(model: nn.Module, wrt: Collection[str]) -> None:
    """Raise UnsupportedModel for backward hooks, because they may change gradients."""
    table: Any = torch_module
    if table._global_backward_hooks or table._global_backward_pre_hooks:
        raise _gradient_hook_error("", f"has {BACKWARD_HOOK} (register_module_full_backward_hook)")
    for path, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise _gradient_hook_error(path, f"has {BACKWARD_HOOK}")
    for name, one in model.named_parameters(remove_duplicate=False):
        own: Any = one
        if name in wrt and (own._backward_hooks or own._post_accumulate_grad_hooks):
            raise _gradient_hook_error(name, f"has {BACKWARD_HOOK}")


def _gradient_hook_error(path: str, hook_text: str) -> UnsupportedModel:
    todo = (
        "remove it (handle.remove())"
        if BACKWARD_HOOK in hook_text
        else "remove it; to freeze parameters use requires_grad_(False)"
    )
    return UnsupportedModel(
        f"{quote_name(path or 'the model itself')} {hook_text}: it changes gradients, and the "
        f"export does not keep that. Compute this gradient with PyTorch, or {todo}"
    )


class _OverrideDetector(TorchFunctionMode):
    """Detects the first call that stops or changes a gradient: module, call and line of code."""

    def __init__(self, leaves: Collection[int]) -> None:
        super().__init__()
        self.leaves = leaves  # ids of the parameters with requested gradients
        self.open: list[str] = []
        self.found: tuple[str, str, str] | None = None
        self.pytorchs: set[str] = set()  # paths of PyTorch's own modules: no user code in them
        self.disabled = False  # set by torch.no_grad or set_grad_enabled

    def report(self, label: str) -> None:
        """Record that the running code calls `label`."""
        function = _running_function()
        if self.found is not None or (function is not None and _is_from_pytorch(function)):
            return
        if function is not None:
            label = _describe_function(function)
        elif label == NO_GRAD and not self.disabled and not torch.is_inference_mode_enabled():
            label = "an autograd.Function"
        path = self.open[-1] if self.open else ""
        self.found = path, label, "" if path in self.pytorchs else line_of_call()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch._C._set_grad_enabled:
            self.disabled = not args[0]
        given = _tensors((_value_arguments(func, args), kwargs))
        # A Parameter that forward creates is a new leaf, which isn't tracked.
        tracked = [t for t in given if t.requires_grad and (t.grad_fn or id(t) in self.leaves)]
        versions = [_version(one) for one in tracked]
        result = func(*args, **kwargs)
        if tracked and (word := _describe_override(func, args, kwargs, tracked, versions, result)):
            self.report(word)
        return result


def _describe_override(
    func: Any,
    args: Any,
    kwargs: Any,
    tracked: Sequence[torch.Tensor],
    versions: Sequence[int | None],
    result: Any,
) -> str:
    """Describe how a call stops or changes gradients of tracked tensors; "" if it doesn't."""
    if func is torch.Tensor.item:
        return "x.item()"
    if func is torch.Tensor.register_hook:
        return "register_hook(…)"
    if func is torch.Tensor.requires_grad_ or func == REQUIRES_GRAD.__set__:
        given = [*args[1:], *kwargs.values()]
        return "requires_grad_(False)" if given == [False] else ""
    if func == TENSOR_DATA.__set__:
        return ".data = …" if args[1].requires_grad else ""
    if func is F.gumbel_softmax:
        hard = kwargs.get("hard", args[2] if len(args) > 2 else False)
        return "F.gumbel_softmax(hard=True)" if hard else ""
    if func in EMBEDDING_SCALE_INDEX:
        at = EMBEDDING_SCALE_INDEX[func]
        scaled = kwargs.get("scale_grad_by_freq", len(args) > at and args[at])
        return f"{func.__name__}(scale_grad_by_freq=True)" if scaled else ""
    if func == TENSOR_DATA.__get__ or func is torch.Tensor.detach_:
        return FUNCTION_LABELS[func]
    enabled = torch.is_grad_enabled()
    if not enabled and versions != [_version(one) for one in tracked]:
        return NO_GRAD
    made = [one for one in _tensors(result) if one.is_floating_point() or one.is_complex()]
    if not made or any(one.requires_grad for one in made):
        return ""
    name = getattr(func, "__name__", "")
    return FUNCTION_LABELS.get(func) or (f"{name}(…)" if enabled else NO_GRAD)


def _value_arguments(func: Any, args: Any) -> Any:
    """The arguments whose values a function reads, rather than only their shape or dtype."""
    if func in UNINITIALIZED_FUNCTIONS or func in RANDOM_LIKE_FUNCTIONS:
        return ()
    at = SHAPE_ONLY_ARGUMENT_INDEX.get(func) if func is not torch.Tensor.new_tensor else None
    return args if at is None else (*args[:at], *args[at + 1 :])


def _output_tensors(output: Any) -> Iterator[torch.Tensor]:
    return (one for _, one in tensor_leaves(output, lambda one: isinstance(one, torch.Tensor)))


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        yield from _tensors(tuple(tree.values()))
    elif isinstance(tree, list | tuple):
        for one in tree:
            yield from _tensors(one)


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _running_function() -> Any:
    """The autograd.Function whose forward is running; None if unknown."""
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        ctx = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if isinstance(ctx, torch.autograd.function.BackwardCFunction):
            return _function_of(ctx)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _function_of(node: Any) -> Any:
    return type(node)._forward_cls


def _find_user_function(start_nodes: Sequence[Any]) -> Any:
    """Find a user-defined autograd.Function in a graph of gradients; None if there is none."""
    todo, seen = [one for one in start_nodes if one is not None], set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        own = isinstance(node, torch.autograd.function.BackwardCFunction)
        if own and not _is_from_pytorch(_function_of(node)):
            return _function_of(node)
        todo += [one for one, _ in node.next_functions if one is not None]
    return None


def _is_from_pytorch(function: Any) -> bool:
    return str(function.__module__).startswith("torch.")


def _describe_function(function: Any) -> str:
    return f"the autograd.Function {function.__name__}"
