"""`nbglcnn.apply_bends`: a PyTorch model with the outputs of the bent network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from nbglcnn.errors import InputError
from nbglcnn.features.edits.bends import Bends
from nbglcnn.features.edits.bent_graph import bent_graph
from nbglcnn.features.edits.records import Edit, active_edits, edits_from_dicts
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
    "belongs to preprocess, before the model, and apply_bends takes the model's own input: bend "
    "the last step of preprocess or a layer of the model, or remove it"
)


def apply_bends(model: Any, bends: Any) -> torch.nn.Module:
    """Build a PyTorch module whose output is that of the bent network.

    The module is called like the model. Hooks bend its layers, and exist only during a call. If an
    operator of `forward` itself is bent (`block: relu`), the recorded graph of the model runs in
    place of `forward`. The first call with inputs of a new shape takes as long as
    `nbglcnn.compile`, unless the shape is that of the Viewer and only layers are bent. Calls from
    several threads wait for each other.

    Random numbers of the model come from PyTorch's generator. Gradients pass through `ablate`,
    `invert`, `multiply`, `add`, `contrast`, `flip_h` and `flip_v`; `backward` raises an error for
    other transforms.

    Args:
        model: A `torch.nn.Module` in eval mode: the bent one, or one with the same layers. It is
            not changed; each call uses its current weights.
        bends: The `bends` of a Viewer or Session, with injected and frozen values; or the result of
            their `to_dict()`, or a list of its entries.

    Returns:
        The bent module. If the Viewer has a `preprocess`, it takes the model's own input (the
        result of the last step), not the picture.

    Raises:
        InputError: If `model` is not a module or a bend cannot be replayed: GLSL code, a missing
            array, or a bend of the picture or of an earlier step of `preprocess`. Bends that depend
            on the input's shape are checked by the first call.
        KeyError: From a call, if a layer doesn't exist.

    Example:
        >>> bent = nbglcnn.apply_bends(model, viewer.bends)
        >>> output = bent(x)
    """
    if not is_module(model):
        raise InputError(
            f"apply_bends expects a torch.nn.Module, not {type(model).__name__}; to check an "
            "ONNX model with its bends, call verify()"
        )
    edits, arrays, plan = _parse_bends(bends)
    check_replayable(edits, arrays)
    edits = _to_model_keys(edits, plan)
    if plan is not None and plan.header.preprocess:
        plan = None  # compiled for another input than the model's own
    from nbglcnn.load.torch.edits.edited_module import EditedModule
    from nbglcnn.load.torch.model import TorchModel

    def compiled(twin: Any, inputs: Sequence[Array]) -> tuple[Graph, Plan]:
        graph, _ = load_with_fallback(twin, tuple(inputs))
        made = lower(graph)
        # Raises InputError if a Python layer depends on a bend.
        bent_graph(graph, edit_replay(made, edits, arrays))
        return graph, made

    return EditedModule(TorchModel(model).module, edits, arrays, plan, compiled)


def _parse_bends(bends: Any) -> tuple[list[Edit], Mapping[str, Array], Plan | None]:
    """Return the active edits, the available arrays, and the Plan if `bends` has one."""
    if isinstance(bends, Bends):
        store = bends.store
        return active_edits(store.edits), dict(store.arrays), store.plan
    if isinstance(bends, Mapping):
        if set(bends) != {"bends"}:
            raise InputError('apply_bends: expected the dict of a to_dict(), {"bends": [...]}')
        bends = bends["bends"]
    if not isinstance(bends, Iterable) or isinstance(bends, str):
        raise InputError(
            f"apply_bends: expected a Viewer's bends or their to_dict(), not {bends!r}"
        )
    rows = list(bends)
    plain = all(isinstance(row, Edit) for row in rows)
    return active_edits(rows if plain else edits_from_dicts(rows)), {}, None


def _to_model_keys(edits: list[Edit], plan: Plan | None) -> list[Edit]:
    """Rename the edits to the model's own keys: its input is the last preprocess step's output.

    Raises InputError for an edit of a value before that.
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
