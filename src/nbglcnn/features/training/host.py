"""A Viewer's training: begun here, run by a page, followed and steered from both."""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import traitlets

from nbglcnn.errors import (
    DeviceError,
    InputError,
    NbglcnnError,
    PageError,
    PageTimeout,
    users_line,
)
from nbglcnn.features.training import columns, live_training
from nbglcnn.features.training.data import Data
from nbglcnn.features.training.live_training import LiveTraining
from nbglcnn.features.training.local import compiled, step_count
from nbglcnn.features.training.loop import Loop
from nbglcnn.features.training.optimizers import Adam, Optimizer
from nbglcnn.features.training.plan_swap import HandsOver
from nbglcnn.features.training.records import TrainingRecord
from nbglcnn.features.training.run import Run
from nbglcnn.features.training.training_plan import Trained, end_of, first
from nbglcnn.widget import protocol
from nbglcnn.widget.hosts import blocking
from nbglcnn.widget.reading import Reader

TRAINING = "_training"  # what pages and Python tell each other
# What a page changes of a training that goes on.
STEERED = ("state", "lr", "noise", "until", "batch", "frozen")
MOST_TURNS = 100  # of which a page's answer may still be on its way


class TrainingTrait(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the trait holds, in a record's words."""

    training: TrainingRecord | None
    turn: int | None = None


class Trains(HandsOver):
    """Mixin: the training of a Viewer in its page or on local OpenGL."""

    _reader: Reader

    _training: traitlets.Dict[str, Any] = traitlets.Dict({"training": None, "turn": 0}).tag(
        sync=True
    )

    def _check_open(self) -> None:
        raise NotImplementedError

    def _check_trainable(self) -> None:
        """InputError where something else trains it."""

    def _begin_training(self) -> None:
        """Before the traits are there."""
        self._begin_handing_over()
        self._training_turn = 0
        self._turns: dict[int, TrainingRecord] = {}  # the last record of each turn
        self._set_at: dict[str, int] = {}  # the turn at which Python changed each field last
        self._telling_training = False
        self._failed: tuple[protocol.Stepped, str] | None = None  # of which training
        # That BatchNorms have seen, by the names of their buffers.
        self._batches: dict[str, int] = {}
        self._saving: tuple[tuple[str, int, int], dict[int, bytes]] = ("", 0, 0), {}
        self._trained_by: dict[str, Any] | None = None  # arguments of `train`, for `to_html`

    def train(
        self,
        data: Any,
        loss: Any = "mse",
        optimizer: Optimizer = Adam(1e-3),  # noqa: B008 - it cannot change
        batch_size: int | None = None,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        held_out: float = 0.1,
        parameters: str | Sequence[str] = "all",
        shuffle: bool = True,
        seed: int = 0,
        output: str = "output",
    ) -> LiveTraining:
        """Train the network in the page, from its weights of now, and watch.

        The data goes to the page once, and the loop runs there: Python is free meanwhile, and what
        this returns, `viewer.training`, says how it goes. `output`, `activations` and `state_dict`
        are those of the weights of the moment. Where no page shows the Viewer it is trained here,
        as by `nbglcnn.train`, and is done when this returns.

        Args:
            data, loss, optimizer, batch_size, parameters, shuffle, output: as in `nbglcnn.train`.
            epochs, steps: how long; without both until it is stopped.
            held_out: the share of the examples that are not learned from; their loss is computed
                now and then.
            seed: of the order, of which examples are held out, and of Dropout's masks.

        Raises:
            InputError, KeyError, UnsupportedModel, UnsupportedOperator: as `nbglcnn.train`.
            DeviceError: the page's device draws no 32-bit floats: gradients would be lost.
        """
        self._check_open()
        self._check_trainable()
        if self.training is not None and self.training.state != "stopped":
            self.training.stop()
        network = self.network
        if not network.plan.header.target.float32_render or network.plan.precision != "float32":
            raise DeviceError(
                "training needs 32-bit floats: of 16 bits most gradients would be 0. "
                + (
                    'Make the Viewer with precision="float32"'
                    if network.plan.header.target.float32_render
                    else "This page's device draws 16-bit floats only; nbglcnn.train trains here"
                )
            )
        run, batches = compiled(
            network.model, data, loss, optimizer, batch_size, parameters=parameters,
            shuffle=shuffle, seed=seed, output=output, weights=network.weights(),
            bent=sorted(self._bent_layers()),
        )  # fmt: skip
        end_of(epochs, steps)  # what is no end is refused before a page is waited for
        self._trained_by = asked = {
            "data": data, "loss": loss, "optimizer": optimizer, "batch_size": batch_size,
            "epochs": epochs, "steps": steps, "held_out": held_out, "parameters": parameters,
            "shuffle": shuffle, "seed": seed, "output": output,
        }  # fmt: skip
        for done in self._reader.greeted():
            blocking.wait(done)
        if not self._reader.page_answers():
            return self._train_here(run, batches, optimizer, epochs, steps)
        if network.latent is not None:
            raise InputError("a latent skips a part of the network: set viewer.source = None first")
        norms = run.request.mode.norms or {}
        names = {f"{path}.num_batches_tracked": norm.batches for path, norm in norms.items()}
        seen = {name: self._batches.get(name, count) for name, count in names.items()}
        made = first(network, run, asked, batches, seen, network.plan.header.target)
        network.train(made)
        self._begin_bends(made)
        rate = optimizer.rate(0)
        self.training = LiveTraining(rate, run.size, self._steer, self._stop)
        self._show()
        self._tell_training(TrainingRecord(secrets.token_hex(8), made.name, "running", rate))
        return self.training

    def _train_here(
        self, run: Run, batches: Data, optimizer: Optimizer, epochs: int | None, steps: int | None
    ) -> LiveTraining:
        """Without a page; done when it returns."""
        if epochs is None and steps is None:
            raise InputError(
                "no page shows this Viewer, so that it is trained here and needs an end: give "
                "epochs=… or steps=…"
            )
        found = Loop(run).run(batches.batches(0), 0, step_count(batches, epochs, steps), True)
        made = LiveTraining(optimizer.rate(0), run.size, self._steer, self._stop)
        self.training = made
        live_training.took(made, 0, np.stack([found.losses, np.full_like(found.losses, np.nan)], 1))
        made.set_trait("message", found.stopped)
        made.set_trait("state", "stopped")
        self.load_state_dict(found.state_dict())
        return made

    def state_dict(self) -> dict[str, Any]:
        """The weights and buffers of now: of a torch module tensors that it loads, else arrays.

        While the network trains in a page those of the moment, all of one step; while a loop is
        mirrored those that were mirrored last.
        """
        self._take_weights()
        state = super().state_dict()
        for name, count in self._batches.items():
            if name in state:
                state[name] = state[name] * 0 + count
        return state

    def to_onnx(self, path: str | os.PathLike[str]) -> Path:
        """Write an ONNX file of the model with the weights of now, while it trains too.

        Of an ONNX model its own file, each weight in its own type; of a PyTorch model what
        `torch.onnx.export` makes of it, in eval mode and float32, for inputs of the Viewer's
        shapes, with the parameters under their names. Bends are no weights: the file has none.

        Raises:
            ModelError: PyTorch's exporter refuses the model, or the file can't be written.
        """
        self._take_weights()
        return super().to_onnx(path)

    def _take_weights(self) -> None:
        """Have the weights of now, of the page that trains."""
        trained = self.network.trained
        if trained is None or not self._connection.usable:
            return
        found = self._reader.parameters(trained.records())
        self.network.take_state(dict(zip(trained.joined.state, found, strict=True)))
        assert self.training is not None
        self._count_batches(trained, self.training.step_count)

    # Steering

    def _steer(self, **changes: Any) -> None:
        record = self._told_training
        if record is None or record.state == "stopped" or record.mirrored:
            raise PageError("this training has ended: viewer.train(…) begins another one")
        new = msgspec.structs.replace(record, **changes)
        if new.id != record.id:
            new = msgspec.structs.replace(new, marks=())
        if new.id != record.id and self._begins_again(new):
            return
        if trained := self.network.trained:
            self._check_wants(trained.course, new)
        self._tell_training(new)

    def _stop(self, timeout: float | None) -> None:
        record = self._told_training
        if record is None or record.state == "stopped" or self.training is None:
            return
        self._steer(state="stopped")
        patience = self._reader.patience if timeout is None else timeout
        if self._connection.usable:
            until = time.monotonic() + patience
            blocking.wait(lambda: self.network.trained is None or time.monotonic() > until)
        if self.network.trained is not None:
            self._end_training()
            raise PageTimeout(
                f"the page did not send its weights for {patience:g} s: those of the Viewer are "
                "the last that it sent"
            )

    def _tell_training(self, record: TrainingRecord | None) -> None:
        trained = self.network.trained
        known = self._steered(self._told_training)
        if record is not None and trained is not None and record.state in ("running", "paused"):
            self._goes_on_as = record.state
            if self._wants_another(trained, record):
                record = msgspec.structs.replace(record, state="handing")
        self._training_turn += 1
        self._told_training = record
        for name, value in self._steered(record).items():
            if value != known.get(name, value):
                self._set_at[name] = self._training_turn
        self._keep_turn(record)
        if self.training is not None and record is not None:
            live_training.follow(self.training, record)
            if record.state == "handing":
                self.training.set_trait("state", self._goes_on_as)
        self._tell_training_again()

    def _keep_turn(self, record: TrainingRecord | None) -> None:
        """Keep the record that pages have at this turn."""
        self._turns.pop(self._training_turn - MOST_TURNS, None)
        if record is not None:
            wanted = self._steered(record)
            self._turns[self._training_turn] = msgspec.structs.replace(record, **wanted)

    def _steered(self, record: TrainingRecord | None) -> dict[str, Any]:
        """What a page can change of it; during a hand-over the state behind that."""
        if record is None:
            return {}
        fields = {name: getattr(record, name) for name in STEERED}
        return fields | ({"state": self._goes_on_as} if record.state == "handing" else {})

    def _merged(self, turn: int, new: TrainingRecord) -> TrainingRecord | None:
        """The current record with what a page has changed in that of an older turn.

        What Python has changed since that turn stays.
        """
        now, before = self._told_training, self._turns.get(turn)
        if now is None or before is None or not now.id == before.id == new.id:
            return now
        changes = {
            name: getattr(new, name)
            for name in STEERED
            if getattr(new, name) not in (getattr(before, name), "handing")
            and self._set_at.get(name, 0) <= turn
        }
        self._turns[turn] = msgspec.structs.replace(before, **changes)
        return msgspec.structs.replace(now, **changes)

    def _tell_training_again(self) -> None:
        with self._quietly():
            self._training = {
                "training": None if self._told_training is None
                else msgspec.to_builtins(self._told_training),
                "turn": self._training_turn,
            }  # fmt: skip

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        before, self._telling_training = self._telling_training, True
        try:
            yield
        finally:
            self._telling_training = before

    # The page's side

    @traitlets.observe(TRAINING)
    def _take_training(self, _: Any) -> None:
        """Follow a page that pauses, goes on, or changes a number."""
        if self._telling_training:
            return
        now = self._told_training
        try:
            told = msgspec.convert(self._training, TrainingTrait)
        except (msgspec.ValidationError, ValueError, TypeError, RecursionError) as error:
            protocol.warn_once(f"ignored the page's training: {error}")
            self._tell_training_again()
            return
        new = told.training
        is_late = False  # whether it was sent before the page had Python's newest record
        if told.turn is not None and told.turn < self._training_turn and new is not None:
            is_late, new = True, self._merged(told.turn, new)
        if (
            now is None or new is None or new.course != now.course
            or now.state == "stopped" or now.mirrored or (is_late and new == now)
        ):  # fmt: skip
            self._tell_training_again()
            return
        self._told_training = new
        if not is_late:
            self._keep_turn(new)
        if new.id != now.id and self._begins_again(new):
            return
        trained = self.network.trained
        wants_another = trained is not None and self._wants_another(trained, new)
        if trained is not None and wants_another:
            try:
                self._check_wants(trained.course, new)
            except InputError as error:
                self._as_before(trained.course, new, error)
                return
        if wants_another or is_late:
            self._tell_training(new)
        if self.training is not None:
            live_training.follow(self.training, new)

    def _take_trained(self, message: protocol.Stepped, data: bytes) -> None:
        """Losses that a page tells."""
        record, training = self._told_training, self.training
        if record is None or training is None or message.training != record.id:
            return
        if record.owner not in ("", message.page):
            self._offered_to_run(message.page, record)
            return
        if message.elsewhere:  # it hasn't heard yet that it is the one
            return
        rows = np.frombuffer(data, np.float32).reshape(-1, 2)
        if not live_training.took(training, message.first, rows, message.held_out):
            return
        if message.paused and 0 <= record.until <= training.step_count:
            paused = msgspec.structs.replace(record, state="paused", until=-1)
            if record.state == "running":
                self._told_training = paused
                live_training.follow(training, paused)
        if message.failed:
            self._failed = message, record.id
            training.set_trait("message", message.message)
        elif message.message and message.message != training.message:
            training.set_trait("message", message.message)
            warnings.warn(message.message, UserWarning, stacklevel=users_line())

    def _take_saved(self, message: protocol.Saved, part: bytes) -> None:
        """A part of the weights and the optimizer's state of a step."""
        trained, record = self.network.trained, self._told_training
        if trained is None or record is None or message.training != record.id:
            return
        if record.owner not in ("", message.page):
            return
        name = message.training, message.step, message.bytes
        if self._saving[0] != name:
            self._saving = name, {}
        parts = self._saving[1]
        parts[message.part] = part
        if len(parts) < protocol.parts_of(message.bytes):
            return
        data = memoryview(b"".join(parts[k] for k in sorted(parts)))
        try:
            state = columns.joined(trained.course.state, data, trained.last)
        except (NbglcnnError, ValueError) as error:
            protocol.warn_once(f"ignored the page's weights: {error}")
            return
        self.network.take_state(state)
        trained.step = message.step
        self._count_batches(trained, message.step)
        if message.last:
            self._end_training(self._first_wrong(trained, record))
        elif message.handing and record.state == "handing":
            self._hand_over(trained, record)

    def _first_wrong(self, trained: Trained, record: TrainingRecord) -> str:
        """Where a step gave NaN: do it once more here, to say where; the layer, or ""."""
        failed, self._failed = self._failed, None
        if failed is None or failed[1] != record.id or self.training is None:
            return ""
        wrong = trained.wrong(self.network.weights(), failed[0])
        if wrong is not None:
            words = f"training stopped at step {trained.step}: {wrong.words}"
            self.training.set_trait("message", f"{words}. The weights are those before it")
        warnings.warn(self.training.message, UserWarning, stacklevel=users_line())
        return "" if wrong is None else wrong.layer

    def _count_batches(self, trained: Trained, steps: int) -> None:
        for path in trained.run.request.mode.norms or {}:
            name = f"{path}.num_batches_tracked"
            self._batches[name] = trained.seen.get(name, 0) + steps

    def _end_training(self, wrong: str = "") -> None:
        """The Viewer shows the network with what it has learned, and no training."""
        self.network.train(None)
        record = self._told_training
        if record is not None and (record.state != "stopped" or wrong):
            self._tell_training(msgspec.structs.replace(record, state="stopped", wrong=wrong))
        elif self.training is not None:
            self.training.set_trait("state", "stopped")
        self._show()

    def _follow_training(self) -> None:
        """Take what pages have told."""
        said, self._connection.trained = self._connection.trained, []
        for message, data in said:
            if isinstance(message, protocol.Stepped):
                self._take_trained(message, data)
            else:
                self._take_saved(message, data)

    def _training_blob(self, name: str) -> memoryview | None:
        """What pages ask for of a training."""
        trained = self.network.trained
        return None if trained is None else trained.blobs.get(name)
