"""`nbglcnn.apply_bends`: a PyTorch model that gives what the bent network gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbglcnn.bending import bent_graph
from nbglcnn.edits.bends import Bends
from nbglcnn.edits.records import Edit, active, from_dict
from nbglcnn.edits.replay import bending, check_replayed
from nbglcnn.errors import InputError
from nbglcnn.graph import Array, Graph
from nbglcnn.load import is_module
from nbglcnn.lowering.lower import lower
from nbglcnn.partly import load_mixed
from nbglcnn.plan import Plan

if TYPE_CHECKING:
    import torch


def apply_bends(model: Any, bends: Any) -> torch.nn.Module:
    """A torch.nn.Module, called like the model, whose output is that of the bent network.

    Args:
        model: a torch.nn.Module in eval mode, the one that was bent or one like it. It stays as it
            is, and its weights of now count at each call.
        bends: a Viewer's or Session's `bends` as they are now, with what is injected and frozen;
            the dict of a `to_dict()`, or a list of its entries.

    Layers are bent by hooks that are there during a call only. Where an operator of forward itself
    is bent (`block: relu`), the graph that PyTorch's exporter traces of the model is run in its
    place. The first call with inputs of a shape takes as long as `nbglcnn.compile`, unless they
    have the shape of the Viewer's own and layers alone are bent. Gradients pass ablate, invert,
    multiply, add, contrast, flip_h and flip_v; of others `backward` says that they have none.
    Calls of several threads wait for each other.

    Raises:
        InputError: `model` is no module, or a bend cannot be replayed: a text in GLSL, an array
            that isn't here. What depends on the input's shape (channels, steps inside PyTorch's
            operators) is refused by the first call, before the model runs.
        KeyError: from a call, a layer isn't there.
    """
    if not is_module(model):
        raise InputError(
            f"apply_bends takes a torch.nn.Module, not {type(model).__name__}; how an ONNX model "
            "compares with its bends is what verify() says"
        )
    edits, arrays, plan = _given(bends)
    check_replayed(edits, arrays)
    from nbglcnn.load.torch.replay import BentModule

    def compiled(twin: Any, inputs: Sequence[Array]) -> tuple[Graph, Plan]:
        graph, _ = load_mixed(twin, tuple(inputs))
        made = lower(graph)
        bent_graph(graph, bending(made, edits, arrays))  # InputError for what is behind in Python
        return graph, made

    return BentModule(model, edits, arrays, plan, compiled)


def _given(bends: Any) -> tuple[list[Edit], Mapping[str, Array], Plan | None]:
    """The active edits, the arrays that are there for them, and their Plan if they have one."""
    if isinstance(bends, Bends):
        store = bends.store
        return active(store.edits), dict(store.arrays), store.plan
    if isinstance(bends, Mapping):
        if set(bends) != {"bends"}:
            raise InputError('apply_bends: the dict of a to_dict is needed, {"bends": [...]}')
        bends = bends["bends"]
    if not isinstance(bends, Iterable) or isinstance(bends, str):
        raise InputError(
            f"apply_bends: a Viewer's bends or their to_dict() are needed, not {bends!r}"
        )
    rows = list(bends)
    plain = all(isinstance(row, Edit) for row in rows)
    return active(rows if plain else from_dict(rows)), {}, None
