"""`nbglcnn.apply_bends`: a PyTorch model that gives what the bent network gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from nbglcnn.errors import InputError
from nbglcnn.features.edits.bends import Bends
from nbglcnn.features.edits.bent_graph import bent_graph
from nbglcnn.features.edits.records import Edit, active_edits, from_dict
from nbglcnn.features.edits.replay import check_replayable, edit_replay
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.preprocess import KEY_PREFIX
from nbglcnn.load import is_module
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.schema import Plan
from nbglcnn.python_fallback import load_with_fallback

if TYPE_CHECKING:
    import torch


BEFORE_MODEL_HINT = (
    "is of what lies in front of the model, whose own input apply_bends takes: bend the last step "
    "of preprocess or a layer of the model, or remove it"
)


def apply_bends(model: Any, bends: Any) -> torch.nn.Module:
    """A torch.nn.Module, called like the model, whose output is that of the bent network.

    Args:
        model: a torch.nn.Module in eval mode, the one that was bent or one like it. It stays as it
            is, and its weights of now count at each call.
        bends: a Viewer's or Session's `bends` as they are now, with what is injected and frozen;
            the dict of a `to_dict()`, or a list of its entries.

    What the model draws it goes on drawing from PyTorch's generator; bends of `noise` act on that.
    Layers are bent by hooks that are there during a call only. Where an operator of forward itself
    is bent (`block: relu`), the graph that was recorded of the model is run in its place. The
    first call with inputs of a shape takes as long as `nbglcnn.compile`, unless they
    have the shape of the Viewer's own and layers alone are bent. Gradients pass ablate, invert,
    multiply, add, contrast, flip_h and flip_v; of others `backward` says that they have none.
    Calls of several threads wait for each other.

    Of a Viewer with a `preprocess` the module takes the model's own input, what comes behind the
    last step, not the picture.

    Raises:
        InputError: `model` is no module, or a bend cannot be replayed: a text in GLSL, an array
            that isn't here, one of the picture or of a step of `preprocess` but the last. What
            depends on the input's shape (channels, steps inside PyTorch's operators) is refused by
            the first call, before the model runs.
        KeyError: from a call, a layer isn't there.
    """
    if not is_module(model):
        raise InputError(
            f"apply_bends takes a torch.nn.Module, not {type(model).__name__}; how an ONNX model "
            "compares with its bends is what verify() says"
        )
    edits, arrays, plan = _parse_bends(bends)
    check_replayable(edits, arrays)
    edits = _to_model_keys(edits, plan)
    if plan is not None and plan.header.preprocess:
        plan = None  # of another input than the model's own
    from nbglcnn.load.torch.edits.edited_module import BentModule
    from nbglcnn.load.torch.model import TorchModel

    def compiled(twin: Any, inputs: Sequence[Array]) -> tuple[Graph, Plan]:
        graph, _ = load_with_fallback(twin, tuple(inputs))
        made = lower(graph)
        bent_graph(
            graph, edit_replay(made, edits, arrays)
        )  # InputError for what is behind in Python
        return graph, made

    return BentModule(TorchModel(model).module, edits, arrays, plan, compiled)


def _parse_bends(bends: Any) -> tuple[list[Edit], Mapping[str, Array], Plan | None]:
    """The active edits, the arrays that are there for them, and their Plan if they have one."""
    if isinstance(bends, Bends):
        store = bends.store
        return active_edits(store.edits), dict(store.arrays), store.plan
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
    return active_edits(rows if plain else from_dict(rows)), {}, None


def _to_model_keys(edits: list[Edit], plan: Plan | None) -> list[Edit]:
    """The edits under the model's own keys: the last step of a preprocess gives its input.

    InputError by name for one of what lies before that.
    """
    steps = plan.header.preprocess if plan is not None else ()
    if plan is None or not steps:
        if found := next((one for one in edits if one.layer.startswith(f"{KEY_PREFIX}.")), None):
            raise InputError(f"the bend {found.name!r} of {found.layer} {BEFORE_MODEL_HINT}")
        return edits
    picture = plan.inputs[0].key
    made = []
    for edit in edits:
        if edit.layer in (picture, *steps[:-1]):
            raise InputError(f"the bend {edit.name!r} of {edit.layer} {BEFORE_MODEL_HINT}")
        own = edit.layer == steps[-1]
        made.append(msgspec.structs.replace(edit, layer=picture) if own else edit)
    return made
