"""A mirror as a callback of Lightning and of Hugging Face's Trainer, where these are installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import InputError

if TYPE_CHECKING:
    from nbglcnn.features.mirror.mirror import Mirror

VALIDATION_LOSS = "val_loss"  # what Lightning's modules call it by custom


def lightning_callback(mirror: Mirror) -> Any:
    """A callback of whichever Lightning is installed."""
    base: Any = _import_first("lightning.pytorch", "pytorch_lightning").Callback

    class MirrorCallback(base):  # type: ignore[misc]
        """Tells a mirror of each batch, and of what validation gives."""

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            mirror(loss=loss)

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            # At first Lightning tries the validation, before any step.
            if not trainer.sanity_checking and mirror.step_count:
                mirror.note(held_out_loss=trainer.callback_metrics.get(VALIDATION_LOSS))

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            mirror.flush()

    return MirrorCallback()


def transformers_callback(mirror: Mirror) -> Any:
    """A callback of Hugging Face's Trainer."""
    base: Any = _import_first("transformers").TrainerCallback

    class MirrorCallback(base):  # type: ignore[misc]
        """Tells a mirror of each step, and of what the Trainer logs of it."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step = state.global_step - 1
            # A second training of the same Trainer begins at 0 again.
            mirror(step=step if step >= mirror.step_count else None)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if logs and mirror.step_count:
                mirror.note(loss=logs.get("loss"), held_out_loss=logs.get("eval_loss"))

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            mirror.flush()

    return MirrorCallback()


def _import_first(*modules: str) -> Any:
    """The first of these that is installed."""
    for module in modules:
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # it is there, and lacks something itself
    package = modules[0].partition(".")[0]
    raise InputError(
        f"{package} is not installed: `pip install {package}`, or call the mirror in your own "
        "loop, mirror(loss=loss)"
    )
