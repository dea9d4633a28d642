"""The public object of a training in a page: `viewer.training`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import traitlets

from nbglcnn.errors import InputError
from nbglcnn.features.training.records import TrainingRecord
from nbglcnn.graph import Array
from nbglcnn.notebook import blocking


@dataclass
class LossHistory:
    """The results of a training so far: one row per step, and one per evaluation."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    held_out_rows: list[tuple[int, float, float]] = field(default_factory=list)

    def store_from_step(self, first_step: int, metric_rows: Array) -> bool:
        """Store losses and accuracies from a step on. Return False if earlier steps are missing."""
        if first_step > len(self.losses):
            return False
        self.losses[first_step:] = [float(n) for n in metric_rows[:, 0]]
        self.accuracies[first_step:] = [float(n) for n in metric_rows[:, 1]]
        return True


class LiveTraining(traitlets.HasTraits):
    """A training in the page, as `viewer.train` returns it.

    Args:
        lr: The learning rate at the start.
        batch_size: The number of examples per step.
        request_change: Sends a change to the page.
        stop: Ends the training.

    Attributes:
        state: Read-only trait. `"running"`, `"paused"` or `"stopped"`.
        step_count: Read-only trait. The number of steps so far.
        loss: Read-only trait. The loss of the last step; NaN before the first.
        message: Read-only trait. Why the training stopped by itself, or the step from which another
            page continued; `""` otherwise.
        lr: Trait. The learning rate.
        noise: Trait. The standard deviation of noise that is added to the inputs.
        batch_size: Trait. The number of examples per step. After a change the page gets another
            Plan and continues from its step.
        frozen: Trait. A tuple of the names of parameters that don't change. After a change the page
            gets another Plan and continues from its step.

    Example:
        >>> training = viewer.train(images, epochs=5)
        >>> training.lr = 1e-4
    """

    state = traitlets.Unicode("running", read_only=True)
    step_count = traitlets.Int(0, read_only=True)
    loss = traitlets.Float(float("nan"), read_only=True)
    message = traitlets.Unicode("", read_only=True)
    lr = traitlets.Float()
    noise = traitlets.Float(0.0)
    batch_size = traitlets.Int()
    frozen = traitlets.Tuple(())

    def __init__(
        self,
        lr: float,
        batch_size: int,
        request_change: Callable[..., None],
        stop: Callable[[float | None], None],
    ) -> None:
        self._request_change, self._stop, self._history = request_change, stop, LossHistory()
        self._is_syncing = True
        super().__init__(lr=lr, batch_size=batch_size)
        self._is_syncing = False

    @property
    def losses(self) -> Array:
        """The loss of each step, shape (steps,), float32."""
        return np.array(self._history.losses, np.float32)

    @property
    def accuracies(self) -> Array:
        """The accuracy in each step's batch, shape (steps,), float32; empty without classes."""
        found = np.array(self._history.accuracies, np.float32)
        return found[:0] if np.isnan(found).all() else found

    @property
    def held_out_losses(self) -> Array:
        """The evaluations, shape (rows, 3), float32: steps done, held-out loss and accuracy."""
        return np.array(self._history.held_out_rows, np.float32).reshape(-1, 3)

    @property
    def history(self) -> dict[str, Array]:
        """A dict of all results: "losses", "accuracies" and "held_out_losses"."""
        return {
            "losses": self.losses,
            "accuracies": self.accuracies,
            "held_out_losses": self.held_out_losses,
        }

    def pause(self) -> None:
        """Pause after the current step."""
        self._request_change(state="paused")

    def resume(self) -> None:
        """Continue after `pause`."""
        self._request_change(state="running", pause_at=-1)

    def step(self, count: int = 1) -> None:
        """Do a number of steps, then pause.

        Args:
            count: The number of steps, at least 1. Default: 1.

        Raises:
            InputError: If `count` is not an integer of at least 1.
        """
        if not isinstance(count, int) or count < 1:
            raise InputError(f"step({count!r}): expected an integer ≥ 1")
        self._request_change(state="running", pause_at=self.step_count + count)

    def reset(self) -> None:
        """Restart with the first weights and optimizer state, paused."""
        self._request_change(state="paused", pause_at=-1, id=secrets.token_hex(8))

    def stop(self, *, timeout: float | None = None) -> None:
        """End the training and wait for the weights. The Viewer keeps them.

        Args:
            timeout: The time in seconds without a message from the page after which this fails.
                Default: the Viewer's own.

        Raises:
            PageTimeout: If the page doesn't send the weights in time. The Viewer then keeps the
                last weights that it sent.
        """
        self._stop(timeout)

    @property
    def done(self) -> StopAwaitable:
        """An awaitable that resolves when the training has stopped: `await training.done`."""
        return StopAwaitable(self)

    @traitlets.validate("lr", "noise")
    def _validate_rate(self, proposal: Any) -> float:
        value, name = proposal["value"], proposal["trait"].name
        if not np.isfinite(value) or value < 0:
            raise InputError(f"training.{name} = {value!r}; expected a finite number ≥ 0")
        return float(value)

    @traitlets.validate("batch_size")
    def _validate_batch_size(self, proposal: Any) -> int:
        if proposal["value"] < 1:
            raise InputError(f"training.batch_size = {proposal['value']}; expected an integer ≥ 1")
        return int(proposal["value"])

    @traitlets.observe("lr", "noise", "batch_size", "frozen")
    def _handle_change(self, change: Any) -> None:
        if self._is_syncing:
            return
        try:
            self._request_change(**{change["name"]: change["new"]})
        except BaseException:
            self._is_syncing = True
            self.set_trait(change["name"], change["old"])
            self._is_syncing = False
            raise

    def __repr__(self) -> str:
        ends = f", loss {self.loss:.4g}" if self.step_count else ""
        why = f": {self.message}" if self.message else ""
        return f"LiveTraining({self.state}, {self.step_count} steps{ends}{why})"


class StopAwaitable:
    """Awaits the end of a training; messages of pages are handled meanwhile."""

    def __init__(self, training: LiveTraining) -> None:
        self._training = training

    def __await__(self) -> Generator[Any, None, None]:
        return blocking.wait_until_async(lambda: self._training.state == "stopped").__await__()


# Internal: called by the Viewer, not by users


def apply_record(training: LiveTraining, record: TrainingRecord) -> None:
    """Apply the current record's settings to the traits."""
    training._is_syncing = True
    try:
        training.lr, training.noise, training.frozen = record.lr, record.noise, record.frozen
        training.batch_size = record.batch_size or training.batch_size
    finally:
        training._is_syncing = False
    if record.state != "handing":  # the state before a swap is also the state after it
        training.set_trait("state", record.state)


def clear_history(training: LiveTraining) -> None:
    """Clear the history after a reset."""
    training._history = LossHistory()
    training.set_trait("step_count", 0)


def pack_training_history(training: LiveTraining, step: int) -> bytes:
    """Pack the history up to a step: two counts, losses, accuracies, evaluation rows (float32)."""
    return pack_history(training._history, step)


def pack_history(history: LossHistory, step: int) -> bytes:
    """Pack a LossHistory up to a step; the format is that of `pack_training_history`."""
    held_out = [row for row in history.held_out_rows if row[0] <= step]
    losses, accuracies = history.losses[:step], history.accuracies[:step]
    parts = [[len(losses), len(held_out)], losses, accuracies, np.reshape(held_out, -1)]
    return np.concatenate([np.asarray(part, np.float32) for part in parts]).tobytes()


def record_steps(
    training: LiveTraining,
    first_step: int,
    metric_rows: Array,
    held_out_rows: Sequence[tuple[int, float | None, float | None]] = (),
) -> bool:
    """Record results from step `first_step` on. Return False if steps before it are missing."""
    history = training._history
    if not history.store_from_step(first_step, metric_rows):
        return False
    history.held_out_rows = [row for row in history.held_out_rows if row[0] <= first_step]
    for step, *values in held_out_rows:
        if not history.held_out_rows or step > history.held_out_rows[-1][0]:
            loss, share = (np.nan if one is None else one for one in values)
            history.held_out_rows.append((step, loss, share))
    training.set_trait("step_count", len(history.losses))
    if history.losses:
        training.set_trait("loss", history.losses[-1])
    return True
