"""A Viewer's training: begun here, run by a page, followed and steered from both."""

from __future__ import annotations

import secrets
import time
import warnings
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import traitlets

from nbglcnn import protocol
from nbglcnn.errors import (
    DeviceError,
    InputError,
    NbglcnnError,
    PageError,
    PageTimeout,
    users_line,
)
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.feature import Feature, Host
from nbglcnn.features.training import columns, live_training
from nbglcnn.features.training.data import Data
from nbglcnn.features.training.live_training import LiveTraining
from nbglcnn.features.training.local import compiled, of_batches, step_count
from nbglcnn.features.training.loop import Loop
from nbglcnn.features.training.messages import MESSAGES, Saved, Stepped
from nbglcnn.features.training.optimizers import Adam, Optimizer
from nbglcnn.features.training.records import (
    MOST_MARKS,
    ONE_TOUCH,
    Course,
    Mark,
    State,
    TrainingRecord,
)
from nbglcnn.features.training.run import Run
from nbglcnn.features.training.training_plan import (
    Trained,
    begun,
    end_of,
    first,
    going_on,
    rates_of,
    take_state,
)
from nbglcnn.notebook import blocking
from nbglcnn.plan.schema import content_hash

TRAINING = "_training"  # what pages and Python tell each other
OTHERS = "_others"  # what pages show where another one trains
NO_TRAINING = (
    "there is no view 'train' before viewer.train(…) has begun a training, or "
    "nbglcnn.mirror(viewer, model) follows one"
)
SILENT_S = 4.0  # a page that says nothing for so long, while another sees the training, is gone
# What a page changes of a training that goes on.
STEERED = ("state", "lr", "noise", "until", "batch", "frozen")
MOST_TURNS = 100  # of which a page's answer may still be on its way


class TrainingTrait(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the trait holds, in a record's words."""

    training: TrainingRecord | None
    turn: int | None = None


class TrainingHost:
    """The training of a Viewer in its page, or on local OpenGL where there is none.

    The page trains with a Plan of its own, a Course; what needs another one in the middle of a
    training is a swap: the page sends its weights, is offered the other Plan, and goes on.
    """

    messages = MESSAGES

    def __init__(self, host: Host) -> None:
        self._host = host
        self._network = host.network
        self._connection = host.connection
        self.training: LiveTraining | None = None
        self.arguments: dict[str, Any] | None = None  # of `train`, for an exported page
        self.record: TrainingRecord | None = None  # what pages were told last
        self._goes_on_as: State = "running"  # behind a swap
        self._known_edits: tuple[Edit, ...] = ()
        self._training_turn = 0
        self._turns: dict[int, TrainingRecord] = {}  # the last record of each turn
        self._set_at: dict[str, int] = {}  # the turn at which Python changed each field last
        self._failed: tuple[Stepped, str] | None = None  # of which training
        self._saving: tuple[tuple[str, int, int], dict[int, bytes]] = ("", 0, 0), {}
        self.offers = Feature(
            "training",
            traits={
                TRAINING: traitlets.Dict({"training": None, "turn": 0}).tag(sync=True),
                # What pages show where another one trains: a training's id, round and step, a blob.
                OTHERS: traitlets.Dict({}).tag(sync=True),
            },
            shared=(TRAINING,),
            take=self._take_training,
            messages={Stepped: self._take_trained, Saved: self._take_saved},
            blob=self._blob,
            edits_changed=self._edits_changed,
            claim=self._claim,
            take_weights=self.take_weights,
            views=lambda: {"train": "" if self.training is not None else NO_TRAINING},
        )

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
        self._host.check_open()
        self._host.check_free("training")
        if self.training is not None and self.training.state != "stopped":
            self.training.stop()
        network = self._network
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
        self.arguments = asked = {
            "data": data, "loss": loss, "optimizer": optimizer, "batch_size": batch_size,
            "epochs": epochs, "steps": steps, "held_out": held_out, "parameters": parameters,
            "shuffle": shuffle, "seed": seed, "output": output,
        }  # fmt: skip
        for done in self._host.reader.greeted():
            blocking.wait(done)
        if not self._host.reader.page_answers():
            return self._train_here(run, batches, optimizer, epochs, steps)
        if network.latent is not None:
            raise InputError("a latent skips a part of the network: set viewer.source = None first")
        norms = run.request.mode.norms or {}
        names = {f"{path}.num_batches_tracked": norm.batches for path, norm in norms.items()}
        seen = {name: self._network.batch_counts.get(name, count) for name, count in names.items()}
        made = first(network, run, asked, batches, seen)
        self._contribute(made)
        self._begin_bends(made)
        rate = optimizer.rate(0)
        self.training = LiveTraining(rate, run.size, self._steer, self._stop)
        self._host.show()
        self.tell(TrainingRecord(secrets.token_hex(8), made.name, "running", rate))
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
        self._host.load_weights(found.state_dict())
        return made

    @property
    def _trained(self) -> Trained | None:
        """The training that goes on: its Plan, and its weights."""
        found = self._network.carried_weights
        return found if isinstance(found, Trained) else None

    def _contribute(self, made: Trained) -> None:
        """Have pages run the network's Plan with the training."""
        made.told = self._weights_set
        self._network.contribute(self.offers.name, made.contribution, made.plan)

    def _claim(self) -> str:
        if self.training is None or self.training.state == "stopped":
            return ""
        return "the network is being trained in its page: call viewer.training.stop() first"

    def take_weights(self) -> None:
        """Have the weights of now, of the page that trains."""
        trained = self._trained
        if trained is None or not self._connection.usable:
            return
        found = self._host.reader.parameters(trained.records())
        take_state(self._network, trained, dict(zip(trained.joined.state, found, strict=True)))
        assert self.training is not None
        self._count_batches(trained, self.training.step_count)

    # Steering

    def _steer(self, **changes: Any) -> None:
        record = self.record
        if record is None or record.state == "stopped" or record.mirrored:
            raise PageError("this training has ended: viewer.train(…) begins another one")
        new = msgspec.structs.replace(record, **changes)
        if new.id != record.id:
            new = msgspec.structs.replace(new, marks=())
        if new.id != record.id and self._begins_again(new):
            return
        if trained := self._trained:
            self._check_wants(trained.course, new)
        self.tell(new)

    def _stop(self, timeout: float | None) -> None:
        record = self.record
        if record is None or record.state == "stopped" or self.training is None:
            return
        self._steer(state="stopped")
        patience = self._host.reader.patience if timeout is None else timeout
        if self._connection.usable:
            until = time.monotonic() + patience
            blocking.wait(lambda: self._trained is None or time.monotonic() > until)
        if self._trained is not None:
            self._end_training()
            raise PageTimeout(
                f"the page did not send its weights for {patience:g} s: those of the Viewer are "
                "the last that it sent"
            )

    def tell(self, record: TrainingRecord | None) -> None:
        """Tell pages of what Python wants of a training; None: there is none."""
        trained = self._trained
        known = self._steered(self.record)
        if record is not None and trained is not None and record.state in ("running", "paused"):
            self._goes_on_as = record.state
            if self._wants_another(trained, record):
                record = msgspec.structs.replace(record, state="handing")
        self._training_turn += 1
        self.record = record
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
        now, before = self.record, self._turns.get(turn)
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
        record = self.record
        words = None if record is None else msgspec.to_builtins(record)
        self._host.set(_training={"training": words, "turn": self._training_turn})

    # The page's side

    def _take_training(self) -> None:
        """Follow a page that pauses, goes on, or changes a number."""
        now = self.record
        try:
            told = msgspec.convert(self._host.get(TRAINING), TrainingTrait)
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
        self.record = new
        if not is_late:
            self._keep_turn(new)
        if new.id != now.id and self._begins_again(new):
            return
        trained = self._trained
        wants_another = trained is not None and self._wants_another(trained, new)
        if trained is not None and wants_another:
            try:
                self._check_wants(trained.course, new)
            except InputError as error:
                self._as_before(trained.course, new, error)
                return
        if wants_another or is_late:
            self.tell(new)
        if self.training is not None:
            live_training.follow(self.training, new)

    def _take_trained(self, message: Stepped, buffers: Sequence[bytes]) -> None:
        """Losses that a page tells."""
        record, training = self.record, self.training
        if len(buffers) != 1 or len(buffers[0]) % 8:
            return
        if record is None or training is None or message.training != record.id:
            return
        if record.owner not in ("", message.page):
            self._offered_to_run(message.page, record)
            return
        if message.elsewhere:  # it hasn't heard yet that it is the one
            return
        rows = np.frombuffer(buffers[0], np.float32).reshape(-1, 2)
        if not live_training.took(training, message.first, rows, message.held_out):
            return
        if message.paused and 0 <= record.until <= training.step_count:
            paused = msgspec.structs.replace(record, state="paused", until=-1)
            if record.state == "running":
                self.record = paused
                live_training.follow(training, paused)
        if message.failed:
            self._failed = message, record.id
            training.set_trait("message", message.message)
        elif message.message and message.message != training.message:
            training.set_trait("message", message.message)
            warnings.warn(message.message, UserWarning, stacklevel=users_line())

    def _take_saved(self, message: Saved, buffers: Sequence[bytes]) -> None:
        """A part of the weights and the optimizer's state of a step."""
        if len(buffers) != 1:
            return
        trained, record = self._trained, self.record
        if trained is None or record is None or message.training != record.id:
            return
        if record.owner not in ("", message.page):
            return
        name = message.training, message.step, message.bytes
        if self._saving[0] != name:
            self._saving = name, {}
        parts = self._saving[1]
        parts[message.part] = buffers[0]
        if len(parts) < protocol.parts_of(message.bytes):
            return
        data = memoryview(b"".join(parts[k] for k in sorted(parts)))
        try:
            state = columns.joined(trained.course.state, data, trained.last)
        except (NbglcnnError, ValueError) as error:
            protocol.warn_once(f"ignored the page's weights: {error}")
            return
        take_state(self._network, trained, state)
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
        wrong = trained.wrong(self._network.weights(), failed[0])
        if wrong is not None:
            words = f"training stopped at step {trained.step}: {wrong.words}"
            self.training.set_trait("message", f"{words}. The weights are those before it")
        warnings.warn(self.training.message, UserWarning, stacklevel=users_line())
        return "" if wrong is None else wrong.layer

    def _count_batches(self, trained: Trained, steps: int) -> None:
        for path in trained.run.request.mode.norms or {}:
            name = f"{path}.num_batches_tracked"
            self._network.batch_counts[name] = trained.seen.get(name, 0) + steps

    def _end_training(self, wrong: str = "") -> None:
        """The Viewer shows the network with what it has learned, and no training."""
        self._network.contribute(self.offers.name, None)
        record = self.record
        if record is not None and (record.state != "stopped" or wrong):
            self.tell(msgspec.structs.replace(record, state="stopped", wrong=wrong))
        elif self.training is not None:
            self.training.set_trait("state", "stopped")
        self._host.show()

    def _blob(self, name: str) -> memoryview | None:
        """What pages ask for of a training."""
        trained = self._trained
        return None if trained is None else trained.blobs.get(name)

    # Another Plan

    def _check_wants(self, course: Course, record: TrainingRecord) -> None:
        if unknown := set(record.frozen) - {*course.trained, *course.frozen}:
            raise InputError(
                f"frozen: {sorted(unknown)[0]} isn't trained; these are: "
                f"{', '.join([*course.trained, *course.frozen])}"
            )
        if not {*course.trained, *course.frozen} - set(record.frozen):
            raise InputError("frozen: all parameters; leave at least one to be trained")
        if record.batch > course.count:
            raise InputError(f"batch_size={record.batch}; there are {course.count} examples")

    def _as_before(self, course: Course, record: TrainingRecord, error: Exception) -> None:
        """What was wanted can't be: it goes on as it was."""
        warnings.warn(f"the training goes on as before: {error}", UserWarning, users_line())
        kept = {"batch": course.batch, "frozen": course.frozen, "state": self._goes_on_as}
        self.tell(msgspec.structs.replace(record, **kept))

    def _hand_over(self, old: Trained, record: TrainingRecord, owner: str | None = None) -> None:
        """Go on from the weights that the page has sent, with what is wanted now."""
        network, asked, course = self._network, old.asked, old.course
        edits, bent = len(old.edits), old.bent | self._bent_layers()
        size = record.batch or course.batch
        names = [n for n in (*course.trained, *course.frozen) if n not in record.frozen]
        begin, end = min(course.begin, old.step), course.end
        if size != course.batch:
            begin = old.step
            if end >= 0:  # the same number of examples
                end = old.step + -(-(end - old.step) * course.batch // size)
        try:
            run = of_batches(
                asked.batches.resized(size), network.model, asked.loss, asked.optimizer, names,
                asked.seed, asked.output, None, network.weights(), sorted(bent),
            )  # fmt: skip
            own = {n: a for n, a in network.weights().items() if n in old.last}
            made = begun(
                network, asked, going_on(run, {**old.last, **own}), old.seen, end=end, begin=begin,
                rates=rates_of(asked.optimizer, begin, end), frozen=record.frozen,
            )  # fmt: skip
        except NbglcnnError as error:
            old.edits.clear()
            old.bent = bent
            self._as_before(course, record, error)
            return
        # Messages may come on another thread than a cell's: more may be wanted by now.
        now = self.record
        if now is None or now.id != record.id or now.state == "stopped":
            return
        marks, record = _marks(old, record), now
        assert self.training is not None
        past = live_training.past(self.training, old.step)
        made.step, made.first, made.edits = old.step, old.first, old.edits[edits:]
        made.blobs = {**made.blobs, content_hash(past): memoryview(past)}
        self._contribute(made)
        self._host.show()
        self._warn_of_bends(made, made.bent - old.bent)
        changes = {
            "course": made.name, "round": record.round + 1, "at": old.step,
            "past": content_hash(past), "state": self._goes_on_as,
            "batch": record.batch or run.size,
            "marks": (*record.marks, *marks)[-MOST_MARKS:],
        }  # fmt: skip
        if owner is not None:
            changes["owner"] = owner
        self.tell(msgspec.structs.replace(record, **changes))

    def _begins_again(self, record: TrainingRecord) -> bool:
        """Forget what was told; whether the page needs another Plan for the weights of then."""
        trained = self._trained
        assert self.training is not None
        live_training.forget(self.training)
        if trained is None or record.round == 0:
            return False
        trained.edits.clear()
        begin = {n: trained.first.get(n, a) for n, a in trained.last.items()}
        take_state(self._network, trained, begin)
        trained.step = 0
        self._goes_on_as = "paused"
        self.record = msgspec.structs.replace(record, marks=(), state="handing")
        self._hand_over(trained, self.record)
        return True

    def _offered_to_run(self, page: str, record: TrainingRecord) -> None:
        """Another page sees the training; it takes over where the owner is silent."""
        owner, trained = self._connection.pages.get(record.owner), self._trained
        if trained is None or record.owner == "" or record.state == "stopped":
            return
        if owner is not None and time.monotonic() - owner.seen < SILENT_S:
            self._show_others(trained, record)
            return
        assert self.training is not None
        if record.state in ("running", "paused"):
            self._goes_on_as = record.state
        lost = self.training.step_count - trained.step
        self._hand_over(trained, record, owner=page)
        if lost > 0:
            message = (
                f"the page that trained is gone: another one goes on from step {trained.step}, "
                f"the {lost} steps behind it are lost"
            )
            self.training.set_trait("message", message)
            warnings.warn(message, UserWarning, stacklevel=users_line())

    def _bent_layers(self) -> set[str]:
        """Layers with bends; what is put in a layer's place is of the examples that are shown."""
        return {edit.layer for edit in self._network.edits if not edit.array}

    def _wants_another(self, trained: Trained, record: TrainingRecord) -> bool:
        """Whether the page needs another Course for what is wanted."""
        return bool(
            trained.edits or changes(trained.course, record) or self._bent_layers() - trained.bent
        )

    def _begin_bends(self, trained: Trained) -> None:
        """A training begins with the bends that there are."""
        self._known_edits = self._network.edits
        self._warn_of_bends(trained, trained.bent)

    def _warn_of_bends(self, trained: Trained, layers: set[str]) -> None:
        for layer in sorted(layers):
            if not trained.learns(layer):
                warnings.warn(
                    f"bends of {layer} act on what is shown, and not on what is learned: in a "
                    "training step it has other channels, or none that could be bent",
                    UserWarning,
                    stacklevel=users_line(),
                )

    def _edits_changed(self) -> None:
        """What is bent while the network trains acts on what it learns from here on."""
        record, trained = self.record, self._trained
        if record is None or trained is None or self.training is None or record.state == "stopped":
            return
        before, self._known_edits = self._known_edits, self._network.edits
        marks = list(record.marks)
        for mark in _marks_of_bends(before, self._known_edits, self.training.step_count):
            last = marks[-1] if marks else None
            if last is None or last.text != mark.text or mark.step - last.step >= ONE_TOUCH:
                marks.append(mark)
        if len(marks) > len(record.marks) or self._bent_layers() - trained.bent:
            self.tell(msgspec.structs.replace(record, marks=tuple(marks[-MOST_MARKS:])))

    def _show_others(self, trained: Trained, record: TrainingRecord) -> None:
        """Pages where another one trains show the weights that this one has sent last."""
        now = {"training": record.id, "round": record.round, "step": trained.step}
        others = self._host.get(OTHERS)
        if now == {name: others.get(name) for name in now}:
            return
        assert self.training is not None
        data = trained.seen_by_others(live_training.past(self.training, trained.step))
        own = {n: blob for n, blob in trained.blobs.items() if n != others.get("blob")}
        trained.blobs = {**own, content_hash(data): memoryview(data)}
        self._host.set(_others={**now, "blob": content_hash(data)})

    def _weights_set(self) -> None:
        """Weights were set by hand: the page is given them."""
        if self.record is not None:
            self.tell(self.record)


def changes(course: Course, record: TrainingRecord) -> bool:
    """Whether something else is wanted than the Course has."""
    size = record.batch or course.batch
    return size != course.batch or set(record.frozen) != set(course.frozen)


def _marks(old: Trained, record: TrainingRecord) -> list[Mark]:
    """What is changed by hand behind a training's last step."""
    course = old.course
    found = []
    if record.batch not in (0, course.batch):
        found.append(f"batch size {record.batch}")
    for names, what in (
        ([edit[0] for edit in old.edits], "changed by hand"),
        ([name for name in record.frozen if name not in course.frozen], "frozen"),
        ([name for name in course.frozen if name not in record.frozen], "trained again"),
    ):
        if names:  # one tick for all that was done at once
            own = [*dict.fromkeys(names)]
            more = f" and {len(own) - 2} more" if len(own) > 3 else ""
            found.append(f"{', '.join(own[:2] if more else own)}{more} {what}")
    return [Mark(old.step, text) for text in found]


def _marks_of_bends(before: Sequence[Edit], now: Sequence[Edit], step: int) -> list[Mark]:
    """How bends were changed."""
    old, new = ({edit.name: edit for edit in edits if not edit.array} for edits in (before, now))
    found = []
    for name in dict.fromkeys([*old, *new]):
        was, edit = old.get(name), new.get(name)
        if was == edit:
            continue
        if was is None:
            how = ""
        elif edit is None:
            how = " removed"
        elif was.enabled != edit.enabled:
            how = " on" if edit.enabled else " off"
        else:
            how = " changed"
        known = edit or was
        assert known is not None
        found.append(Mark(step, f"{known.layer}: {known.transform}{how}"))
    return found
