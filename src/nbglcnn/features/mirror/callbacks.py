"""Mirror callbacks for Lightning and Hugging Face's Trainer, imported if these are installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import InputError

if TYPE_CHECKING:
    from nbglcnn.features.mirror.mirror import Mirror

VALIDATION_LOSS_KEY = "val_loss"  # the name that Lightning's modules use by convention


def lightning_callback(mirror: Mirror) -> Any:
    """Return a Lightning callback, from the Lightning package that is installed."""
    base: Any = _import_first("lightning.pytorch", "pytorch_lightning").Callback

    class MirrorCallback(base):  # type: ignore[misc]
        """Notifies a mirror of each batch, and of validation metrics."""

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            mirror(loss=loss)

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            # Lightning's sanity check runs the validation before any step.
            if not trainer.sanity_checking and mirror.step_count:
                mirror.note(held_out_loss=trainer.callback_metrics.get(VALIDATION_LOSS_KEY))

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            mirror.flush()

    return MirrorCallback()


def transformers_callback(mirror: Mirror) -> Any:
    """Return a callback of Hugging Face's Trainer."""
    base: Any = _import_first("transformers").TrainerCallback

    class MirrorCallback(base):  # type: ignore[misc]
        """Notifies a mirror of each step, and of the Trainer's logs."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step = state.global_step - 1
            # A second training with the same Trainer starts at step 0.
            mirror(step=step if step >= mirror.step_count else None)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if logs and mirror.step_count:
                mirror.note(loss=logs.get("loss"), held_out_loss=logs.get("eval_loss"))

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            mirror.flush()

    return MirrorCallback()


def _import_first(*modules: str) -> Any:
    """Import the first of these modules that is installed."""
    for module in modules:
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the package exists, but lacks a dependency
    package = modules[0].partition(".")[0]
    raise InputError(
        f"{package} is not installed: `pip install {package}`, or call the mirror in your own "
        "loop, mirror(loss=loss)"
    )
