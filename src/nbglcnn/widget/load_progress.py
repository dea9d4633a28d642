"""Progress in a cell while a model is loaded: the network, and the current step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nbglcnn.load import Model, is_module
from nbglcnn.load.progress import progress_listener
from nbglcnn.notebook.blocking import current_cell

MAX_LISTED_TYPES = 6  # types of layers that are listed


@contextmanager
def show_load_progress(model: Model) -> Iterator[None]:
    """Show a PyTorch model and the current step in a notebook's cell until loading ends."""
    if not is_module(model.user_model) or current_cell() is None:
        yield
        return
    from IPython.display import DisplayHandle

    # As text: it is cleared when the Viewer appears, so a saved notebook doesn't contain it.
    model_text = summarize_model(model.user_model)
    handle: Any = DisplayHandle()  # type: ignore[no-untyped-call]

    def show(text: str) -> None:
        handle.update({"text/plain": text}, raw=True)

    handle.display({"text/plain": model_text}, raw=True)
    try:
        with progress_listener(lambda step: show(f"{model_text}\n{step} …")):
            yield
    finally:
        show("")


def summarize_model(model: Any) -> str:
    """Describe a PyTorch model in two lines: its name and size, and the types of its layers."""
    leaves = [module for module in model.modules() if not any(True for _ in module.children())]
    kinds = Counter(type(leaf).__name__ for leaf in leaves)
    shown = ", ".join(
        kind if number == 1 else f"{number} {kind}"
        for kind, number in kinds.most_common(MAX_LISTED_TYPES)
    )
    # The parameters of a lazy module have no size yet.
    size = sum(p.numel() for p in model.parameters() if not hasattr(p, "materialize"))
    layers = "1 layer" if len(leaves) == 1 else f"{len(leaves):,} layers"
    return (
        f"{type(model).__name__}: {layers}, {size:,} parameters\n"
        f"{shown}{', …' if len(kinds) > MAX_LISTED_TYPES else ''}"
    )
