"""A mirror of a training in PyTorch: `nbglcnn.mirror(viewer, model)`, called in its loop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn import load
from nbglcnn.errors import InputError
from nbglcnn.features.mirror.frame_sender import FrameSender, LossUpdate
from nbglcnn.features.training import live_training
from nbglcnn.features.training.live_training import LossHistory
from nbglcnn.graph import Array
from nbglcnn.notebook import blocking

if TYPE_CHECKING:
    from nbglcnn.load.torch.weights.parameter_snapshots import ModelTensors, TensorSnapshot

METRIC_NAMES = ("loss", "accuracy", "held_out_loss", "held_out_accuracy")
MAX_STEPS = 10**7  # steps; pages keep a number for each
MAX_PENDING_COPIES = 100  # unread copies of losses on a GPU
# Intervals for polling messages of pages inside a cell: while a state is in flight, and otherwise.
POLL_INTERVAL_S = 0.02
IDLE_POLL_INTERVAL_S = 0.25


class Mirror:
    """Makes a Viewer follow a training in PyTorch; made by `nbglcnn.mirror`.

    Args:
        tensors: The parameters and buffers of the model.
        every: The number of calls from one copy of the weights to the next.
        make_sender: Makes the sender of frames, given a function that returns the losses of steps.
        set_newest: Called with each copy of the weights.
        on_close: Called when the mirror is closed.

    Attributes:
        closed: Whether the mirror is closed.
    """

    def __init__(
        self,
        tensors: ModelTensors,
        every: int,
        make_sender: Callable[[Callable[[int], LossUpdate]], FrameSender],
        set_newest: Callable[[TensorSnapshot], None],
        on_close: Callable[[], None],
    ) -> None:
        self._tensors: ModelTensors | None = tensors
        self._every = every
        self._set_newest, self._end = set_newest, on_close
        self._history = LossHistory()
        self._lock = threading.Lock()  # guards the history
        self._pending_copies: list[tuple[list[tuple[int, str]], TensorSnapshot]] = []
        self._on_gpu: dict[tuple[int, str], Any] = {}
        self._calls = 0
        self._step = 0  # finished steps
        self._polled_at = 0.0
        self.closed = False
        self._frames = make_sender(self._new_losses)
        set_newest(tensors.snapshot(0))
        self._frames.send_if_ready()

    def __call__(
        self,
        loss: Any = None,
        *,
        step: int | None = None,
        accuracy: Any = None,
        held_out_loss: Any = None,
        held_out_accuracy: Any = None,
        **others: Any,
    ) -> None:
        """Record a finished step, and copy the weights at every `every`-th call.

        It waits neither for a page nor for a GPU.

        Args:
            loss: The loss of the step's batch: a number, or a tensor with one element. Default:
                none.
            step: The number of the step, counted from 0 as by `enumerate`. It must increase, across
                epochs too. Default: the number after that of the last call.
            accuracy: The accuracy in the batch, from 0 to 1. Default: none.
            held_out_loss: The loss of held-out data, after an evaluation. Default: none.
            held_out_accuracy: The accuracy for held-out data, from 0 to 1. Default: none.
            **others: Not supported: other names raise an InputError.

        Raises:
            InputError: If another name is given, a value is not a single number, the step doesn't
                grow, the mirror is closed, or the model has lost a parameter.
        """
        self._check_open()
        if others:
            raise InputError(
                f"mirror({next(iter(others))}=…): the Train tab plots only "
                f"{', '.join(METRIC_NAMES)}; log other metrics elsewhere"
            )
        numbers = _parse_metrics(loss, accuracy, held_out_loss, held_out_accuracy)
        self._advance_step(step)
        self._record_metrics(numbers)
        self._calls += 1
        if self._calls % self._every == 0:
            self._copy_weights()
        self._poll_messages()
        self._frames.send_if_ready()

    def note(
        self,
        loss: Any = None,
        *,
        accuracy: Any = None,
        held_out_loss: Any = None,
        held_out_accuracy: Any = None,
    ) -> None:
        """Add numbers to the last step, for example after an epoch.

        Pages get them with the next state.

        Args:
            loss: The loss of the step's batch: a number, or a tensor with one element. Default:
                none.
            accuracy: The accuracy in the batch, from 0 to 1. Default: none.
            held_out_loss: The loss of held-out data. Default: none.
            held_out_accuracy: The accuracy for held-out data, from 0 to 1. Default: none.

        Raises:
            InputError: If there was no step yet, or a value is not a single number.

        Example:
            >>> mirror.note(held_out_loss=evaluate(model))
        """
        self._check_open()
        if not self._step:
            raise InputError("mirror.note(…): no step yet. Call mirror(loss=…) first")
        numbers = _parse_metrics(loss, accuracy, held_out_loss, held_out_accuracy)
        self._record_metrics(numbers)
        if numbers:
            self._frames.mark_losses_unsent(self._step - 1)

    def flush(self) -> None:
        """Copy the model's current weights, and send them and all losses to pages at once."""
        if self.closed:
            return
        self._copy_weights()
        self._frames.send_now()
        self._frames.send_losses()

    def close(self) -> None:
        """End the mirror.

        The Viewer keeps the last mirrored weights, and the Train tab keeps the curve.
        """
        if self.closed:
            return
        self.closed = True
        self._read_pending_copies()
        self._frames.send_now()
        self._frames.send_losses()
        self._tensors = None
        self._end()

    def __enter__(self) -> Mirror:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flush and close."""
        try:
            self.flush()
        finally:
            self.close()

    def lightning(self) -> Any:
        """Return a callback for Lightning: `Trainer(callbacks=[mirror.lightning()])`.

        It calls the mirror after each batch with the loss that `training_step` returns, adds the
        validation's `val_loss` if one is logged, and flushes at the end of the fit.

        Returns:
            The callback.

        Raises:
            InputError: If neither `lightning` nor `pytorch_lightning` is installed.
        """
        from nbglcnn.features.mirror.callbacks import lightning_callback

        return lightning_callback(self)

    def transformers(self) -> Any:
        """Return a callback for Hugging Face's Trainer: `Trainer(…, callbacks=[…])`.

        It calls the mirror after each step with the losses that the Trainer logs (every
        `logging_steps`; `eval_loss` after an evaluation), and flushes at the end of the training.

        Returns:
            The callback.

        Raises:
            InputError: If `transformers` is not installed.
        """
        from nbglcnn.features.mirror.callbacks import transformers_callback

        return transformers_callback(self)

    # Recorded values

    @property
    def step_count(self) -> int:
        """The number of steps so far."""
        return self._step

    @property
    def frames(self) -> int:
        """The number of states that were sent to pages."""
        return self._frames.sent_count

    @property
    def is_behind(self) -> bool:
        """Whether the Viewer or a page lacks the last copied weights."""
        return self._frames.has_pending

    @property
    def losses(self) -> Array:
        """The loss of each step, shape (steps,), float32; NaN for steps without one."""
        self._read_pending_copies()
        with self._lock:
            return np.array(self._history.losses, np.float32)

    @property
    def accuracies(self) -> Array:
        """The accuracy of each step, shape (steps,), float32; empty if none was given."""
        self._read_pending_copies()
        with self._lock:
            found = np.array(self._history.accuracies, np.float32)
        return found[:0] if np.isnan(found).all() else found

    @property
    def held_out_losses(self) -> Array:
        """The evaluations, shape (rows, 3), float32: steps done, held-out loss and accuracy."""
        self._read_pending_copies()
        with self._lock:
            return np.array(self._history.held_out_rows, np.float32).reshape(-1, 3)

    @property
    def packed_history(self) -> bytes:
        """The history as bytes, for a page that joins."""
        self._frames.record_new_page()
        self._read_pending_copies()
        with self._lock:
            return live_training.pack_history(self._history, self._step)

    def on_message_handled(self) -> None:
        """Continue sending after a message from a page."""
        self._frames.resend_lost_frame()
        if not self.closed:
            self._frames.send_if_ready()

    def sync_pages_now(self) -> None:
        """Send the latest state to pages at once, because a caller reads values."""
        self._frames.send_now()

    def sync_pages_soon(self) -> None:
        """Send the latest state to pages as fast as they can take it."""
        self._frames.send_if_ready()

    # Sending

    def _check_open(self) -> None:
        if self.closed:
            raise InputError(
                "this mirror was closed: nbglcnn.mirror(viewer, model) creates another"
            )
        if self._frames.error is not None:
            raise self._frames.error

    def _advance_step(self, step: int | None) -> None:
        number = self._step if step is None else step
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise InputError(f"mirror(step={number!r}): expected an integer")
        if number < self._step:
            raise InputError(
                f"mirror(step={number}): step must increase across epochs; the last was "
                f"{self._step}. Omit step to count calls"
            )
        if number >= MAX_STEPS:
            raise InputError(f"mirror(step={number}): at most {MAX_STEPS - 1:,} can be plotted")
        gap = int(number) + 1 - self._step
        with self._lock:
            self._history.losses += [math.nan] * gap
            self._history.accuracies += [math.nan] * gap
            self._step = int(number) + 1

    def _record_metrics(self, numbers: dict[str, Any]) -> None:
        """Record metrics of the current step; values on a GPU are read with the next copy."""
        with self._lock:
            for name, number in numbers.items():
                if isinstance(number, float):
                    self._set_metric(self._step, name, number)
                else:
                    self._on_gpu[self._step, name] = number

    def _set_metric(self, step: int, name: str, number: float) -> None:
        history = self._history
        if name == "loss":
            history.losses[step - 1] = number
        elif name == "accuracy":
            history.accuracies[step - 1] = number
        else:
            known = {row[0]: k for k, row in enumerate(history.held_out_rows)}
            at = known.get(step, len(known))
            row = history.held_out_rows[at] if step in known else (step, math.nan, math.nan)
            new = (step, number, row[2]) if name == "held_out_loss" else (step, row[1], number)
            history.held_out_rows[at : at + 1] = [new]

    def _copy_weights(self) -> None:
        """Copy the current weights, and the losses that are on a GPU."""
        assert self._tensors is not None
        if self._on_gpu:
            with self._lock:
                waiting, self._on_gpu = self._on_gpu, {}
                copied = load.snapshot_tensors(
                    {str(k): one for k, one in enumerate(waiting.values())}
                )
                self._pending_copies.append((list(waiting), copied))
            if len(self._pending_copies) > MAX_PENDING_COPIES:
                self._read_pending_copies(keep_count=1)
        self._set_newest(self._tensors.snapshot(self._step))

    def _read_pending_copies(self, keep_count: int = 0) -> None:
        """Read losses from the GPU; may block until it is ready."""
        while len(pending := self._pending_copies[:]) > keep_count:
            places, copied = pending[0]
            arrays = copied.arrays()
            with self._lock:
                if (
                    self._pending_copies and self._pending_copies[0][1] is copied
                ):  # otherwise another thread has resolved it
                    del self._pending_copies[0]
                    for k, (step, name) in enumerate(places):
                        self._set_metric(step, name, float(arrays[str(k)].reshape(())))

    def _new_losses(self, sent_step_count: int) -> LossUpdate:
        self._read_pending_copies()
        with self._lock:
            # The finished steps whose metrics are available.
            unread_metrics = [
                *self._on_gpu,
                *(place for places, _ in self._pending_copies for place in places),
            ]
            until = max(
                sent_step_count, min((step - 1 for step, _ in unread_metrics), default=self._step)
            )
            rows = np.array(
                [
                    self._history.losses[sent_step_count:until],
                    self._history.accuracies[sent_step_count:until],
                ],
                np.float32,
            ).T
            held_out = [
                (step, _finite_or_none(loss), _finite_or_none(share))
                for step, loss, share in self._history.held_out_rows
                if sent_step_count < step <= until
            ]
        return LossUpdate(sent_step_count, np.ascontiguousarray(rows).reshape(-1, 2), held_out)

    def _poll_messages(self) -> None:
        """Handle messages of pages while a cell runs the loop."""
        now = time.monotonic()
        if now - self._polled_at > (
            POLL_INTERVAL_S if self._frames.is_in_flight else IDLE_POLL_INTERVAL_S
        ):
            blocking.deliver_pending()
            self._polled_at = time.monotonic()

    def __repr__(self) -> str:
        loss = self._history.losses[-1] if self._history.losses else math.nan
        ends = "" if math.isnan(loss) else f", loss {loss:.4g}"
        return f"Mirror({'closed' if self.closed else 'open'}, {self._step} steps{ends})"


def _parse_metrics(*given: Any) -> dict[str, Any]:
    """Return the metrics that aren't None, by name."""
    return {
        n: _parse_metric(n, v) for n, v in zip(METRIC_NAMES, given, strict=True) if v is not None
    }


def _parse_metric(name: str, value: Any) -> Any:
    """Return a float, or for a GPU tensor a copy, because reading it would block the loop."""
    if hasattr(value, "detach"):
        if value.numel() != 1:
            raise InputError(
                f"mirror({name}=…): a tensor of {value.numel()} values; expected one value, as "
                f"{name}.mean()"
            )
        value = value.detach()
        if value.device.type != "cpu":
            return value.clone().reshape(())
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(
            f"mirror({name}={value!r:.60}): expected a number or a tensor of one value"
        ) from None


def _finite_or_none(number: float) -> float | None:
    return number if math.isfinite(number) else None
