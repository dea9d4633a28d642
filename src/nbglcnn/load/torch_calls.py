"""Running a torch module under hooks: each call of each module, and the tensors it gave."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import InputError
from nbglcnn.graph import Array, Graph
from nbglcnn.load.names import Call, parts, walk

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class Record:
    """What hooks have seen of one run: tensors in the order of return, and the calls still open."""

    captured: list[torch.Tensor] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    stack: list[Call] = field(default_factory=list)
    root: Call | None = None
    kept: Container[str] | None = None

    @property
    def where(self) -> str:
        """The innermost open call, as messages name it; empty for the model itself."""
        if not self.stack or not self.stack[-1].path:
            return ""
        return f" (in {self.stack[-1].name}, a {self.stack[-1].module_type})"


def run_hooked(
    model: torch.nn.Module,
    tensors: Sequence[torch.Tensor],
    kept: Container[str] | None = None,
) -> tuple[list[Array], Call]:
    """Run once and give what forward hooks see: all calls' tensors, and the tree of calls.

    Tensors that are not the model's and not `kept` may have been altered since.
    """
    import torch

    record = Record(kept=kept)
    try:
        # Outside fork_rng a model that draws random numbers would move the user's generator.
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            run(model, list(model.named_modules()), [t.clone() for t in tensors], record)
    except Exception as error:
        shapes = ", ".join(
            f"{list(t.shape)} {str(t.dtype).removeprefix('torch.')}" for t in tensors
        )
        raise InputError(
            f"{type(model).__name__} fails on this input ({shapes}){record.where}: "
            f"{type(error).__name__}: {str(error)[:500]}"
        ) from error
    assert record.root is not None
    return [t.numpy() for t in record.captured], record.root


def by_key(
    graph: Graph, arrays: Sequence[Array], seen: Sequence[Array], root: Call
) -> dict[str, Array]:
    """What `run_hooked` saw, under the Graph's keys; those of operators between modules lack."""
    inputs, outputs = iter(arrays), iter([seen[index] for _, index in root.outputs])
    found = {c.name + s: seen[i] for c in walk(root) if c is not root for s, i in c.outputs}
    for key in graph.keys:
        if key.kind in ("input", "output"):
            found[key.name] = next(inputs if key.kind == "input" else outputs)
    return {key.name: found[key.name] for key in graph.keys if key.name in found}


def run(
    model: torch.nn.Module,
    modules: Sequence[tuple[str, torch.nn.Module]],
    inputs: Sequence[torch.Tensor],
    record: Record,
) -> None:
    """Call the model with hooks on its named modules; the same in eager mode and while exporting.

    The names come from outside because torch.export shows a module with two names as two modules.
    """
    import torch

    def is_tensor(value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def before(path: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, _: Any) -> None:
            number = record.counts.get(path, 0)
            record.counts[path] = number + 1
            call = Call(path, number, _is_leaf(module), type(module).__name__, _describe(module))
            if record.stack:
                record.stack[-1].children.append(call)
            record.stack.append(call)

        return hook

    def after(_: torch.nn.Module, __: Any, output: Any) -> None:
        call = record.stack.pop()
        for suffix, tensor in parts(output, is_tensor):
            call.outputs.append((suffix, len(record.captured)))
            # A copy, since an in-place operator after this module must not alter what a hook sees.
            kept = record.kept is None or not call.path or call.name + suffix in record.kept
            record.captured.append(tensor.clone() if kept else tensor)
        record.root = call

    handles = []
    try:
        for path, module in modules:
            handles.append(module.register_forward_pre_hook(before(path), prepend=True))
            handles.append(module.register_forward_hook(after))
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()


def _is_leaf(module: torch.nn.Module) -> bool:
    return not any(name != "parametrizations" for name, _ in module.named_children())


def _describe(module: torch.nn.Module) -> str:
    try:
        return module.extra_repr()
    except Exception:
        return ""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing that the exporter prints, warns of or logs reaches the notebook."""
    logger = logging.getLogger("torch")
    before = logger.level
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            logger.setLevel(logging.CRITICAL)
            yield
        finally:
            logger.setLevel(before)
