"""Hooks that replay edits while a torch module is called, at the module calls that keys name."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import InputError
from nbglcnn.features.edits.replay import EditReplay
from nbglcnn.load.module_keys import ModuleCall, map_tensors
from nbglcnn.load.torch.edits.tensor_edits import bend_tensor

if TYPE_CHECKING:
    import torch

BendFn = Callable[[str, Any], Any]


@contextlib.contextmanager
def bend_hooks(
    model: torch.nn.Module,
    inputs: Sequence[str],
    bends: EditReplay,
    python_modules: Container[str] = (),
    bend: BendFn | None = None,
) -> Iterator[set[str]]:
    """Edit this thread's calls of the model inside the context; yield the keys that were edited.

    Existing forward hooks run first. `inputs` are the keys of the model's inputs. Modules inside
    those in `python_modules` have no keys. `bend` edits the tensor of a key; by default it applies
    the edits.
    """
    import torch

    handles: list[Any] = []
    done: set[str] = set()
    if not bends:
        yield done
        return
    thread = threading.get_ident()
    calls: list[ModuleCall] = []
    counts: dict[str, int] = {}
    inside = 0  # number of open calls below a module in `python_modules`

    def is_tensor(one: Any) -> bool:
        return isinstance(one, torch.Tensor)

    def changed(key: str, tensor: Any) -> Any:
        if key not in bends:
            return tensor
        done.add(key)
        return bend_tensor(bends, key, tensor) if bend is None else bend(key, tensor)

    def before(path: str) -> Callable[..., Any]:
        def hook(*_: Any) -> None:
            nonlocal inside
            if threading.get_ident() != thread:
                return
            if not path:  # a new run; the previous one may have been interrupted
                calls.clear()
                counts.clear()
                inside = 0
            if calls and calls[-1].path in python_modules:
                inside += 1
                return
            calls.append(ModuleCall(path, counts.get(path, 0), True, "", ""))
            counts[path] = calls[-1].call_index + 1

        return hook

    def after(_: Any, __: Any, output: Any) -> Any:
        nonlocal inside
        if threading.get_ident() != thread:
            return None
        if inside:
            inside -= 1
            return None
        call = calls.pop()
        name = call.name if call.path else "output"
        return map_tensors(output, is_tensor, lambda suffix, t: changed(name + suffix, t))

    def enter(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if threading.get_ident() != thread:
            return None
        names = iter(inputs)  # in the order of the arguments, including nested ones
        return map_tensors((given, named), is_tensor, lambda _, one: changed(next(names, ""), one))

    try:
        # Before the user's hooks: an input's value is the argument of the call.
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(before(path), prepend=True))
            handles.append(module.register_forward_hook(after))
        handles.append(model.register_forward_pre_hook(enter, prepend=True, with_kwargs=True))
        yield done
    finally:
        for handle in handles:
            handle.remove()


def check_edits_applied(
    bends: EditReplay, edited_keys: Container[str], model: torch.nn.Module
) -> None:
    """Raise InputError for an edit of a value that the model didn't compute."""
    for key in bends.edits:
        if key not in edited_keys:
            raise InputError(
                f"{type(model).__name__} did not compute {key!r}, which is bent: give the model "
                "that the bends were made for"
            )
