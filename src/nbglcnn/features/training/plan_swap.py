"""What needs another Plan in the middle of a training: the page sends its weights and goes on."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import msgspec
import traitlets

from nbglcnn.errors import InputError, NbglcnnError, users_line
from nbglcnn.features.edits.host import Edited
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.training import live_training
from nbglcnn.features.training.live_training import LiveTraining
from nbglcnn.features.training.local import of_batches
from nbglcnn.features.training.records import (
    MOST_MARKS,
    ONE_TOUCH,
    Course,
    Mark,
    State,
    TrainingRecord,
)
from nbglcnn.features.training.training_plan import Trained, begun, going_on, rates_of
from nbglcnn.plan.schema import content_hash

SILENT_S = 4.0  # a page that says nothing for so long, while another sees the training, is gone


class HandsOver(Edited):
    """The part of a Viewer that gives pages another Course for the same training."""

    # What pages show where another one trains: a training's id, round and step, and a blob.
    _others: traitlets.Dict[str, Any] = traitlets.Dict({}).tag(sync=True)

    def _show(self) -> int:
        raise NotImplementedError

    def _tell_training(self, record: TrainingRecord | None) -> None:
        raise NotImplementedError

    def _begin_handing_over(self) -> None:
        """Before the traits are there."""
        self.training: LiveTraining | None = None
        self._told_training: TrainingRecord | None = None
        self._goes_on_as: State = "running"  # behind a hand-over
        self._known_edits: tuple[Edit, ...] = ()

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
        self._tell_training(msgspec.structs.replace(record, **kept))

    def _hand_over(self, old: Trained, record: TrainingRecord, owner: str | None = None) -> None:
        """Go on from the weights that the page has sent, with what is wanted now."""
        network, asked, course = self.network, old.asked, old.course
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
                network.graph, network.observe, network.plan.header.target, asked,
                going_on(run, {**old.last, **own}), old.seen, end=end, begin=begin,
                rates=rates_of(asked.optimizer, begin, end), frozen=record.frozen,
            )  # fmt: skip
        except NbglcnnError as error:
            old.edits.clear()
            old.bent = bent
            self._as_before(course, record, error)
            return
        # Messages may come on another thread than a cell's: more may be wanted by now.
        now = self._told_training
        if now is None or now.id != record.id or now.state == "stopped":
            return
        marks, record = _marks(old, record), now
        assert self.training is not None
        past = live_training.past(self.training, old.step)
        made.step, made.first, made.edits = old.step, old.first, old.edits[edits:]
        made.blobs = {**made.blobs, content_hash(past): memoryview(past)}
        network.train(made)
        self._show()
        self._warn_of_bends(made, made.bent - old.bent)
        changes = {
            "course": made.name, "round": record.round + 1, "at": old.step,
            "past": content_hash(past), "state": self._goes_on_as,
            "batch": record.batch or run.size,
            "marks": (*record.marks, *marks)[-MOST_MARKS:],
        }  # fmt: skip
        if owner is not None:
            changes["owner"] = owner
        self._tell_training(msgspec.structs.replace(record, **changes))

    def _begins_again(self, record: TrainingRecord) -> bool:
        """Forget what was told; whether the page needs another Plan for the weights of then."""
        trained = self.network.trained
        assert self.training is not None
        live_training.forget(self.training)
        if trained is None or record.round == 0:
            return False
        trained.edits.clear()
        self.network.take_state({n: trained.first.get(n, a) for n, a in trained.last.items()})
        trained.step = 0
        self._goes_on_as = "paused"
        self._told_training = msgspec.structs.replace(record, marks=(), state="handing")
        self._hand_over(trained, self._told_training)
        return True

    def _offered_to_run(self, page: str, record: TrainingRecord) -> None:
        """Another page sees the training; it takes over where the owner is silent."""
        owner, trained = self._connection.pages.get(record.owner), self.network.trained
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
        return {edit.layer for edit in self._store.edits if not edit.array}

    def _wants_another(self, trained: Trained, record: TrainingRecord) -> bool:
        """Whether the page needs another Course for what is wanted."""
        return bool(
            trained.edits or changes(trained.course, record) or self._bent_layers() - trained.bent
        )

    def _begin_bends(self, trained: Trained) -> None:
        """A training begins with the bends that there are."""
        self._known_edits = self._store.edits
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
        record, trained = self._told_training, self.network.trained
        if record is None or trained is None or self.training is None or record.state == "stopped":
            return
        before, self._known_edits = self._known_edits, self._store.edits
        marks = list(record.marks)
        for mark in _marks_of_bends(before, self._known_edits, self.training.step_count):
            last = marks[-1] if marks else None
            if last is None or last.text != mark.text or mark.step - last.step >= ONE_TOUCH:
                marks.append(mark)
        if len(marks) > len(record.marks) or self._bent_layers() - trained.bent:
            self._tell_training(msgspec.structs.replace(record, marks=tuple(marks[-MOST_MARKS:])))

    def _show_others(self, trained: Trained, record: TrainingRecord) -> None:
        """Pages where another one trains show the weights that this one has sent last."""
        now = {"training": record.id, "round": record.round, "step": trained.step}
        if now == {name: self._others.get(name) for name in now}:
            return
        assert self.training is not None
        data = trained.seen_by_others(live_training.past(self.training, trained.step))
        own = {n: blob for n, blob in trained.blobs.items() if n != self._others.get("blob")}
        trained.blobs = {**own, content_hash(data): memoryview(data)}
        self._others = {**now, "blob": content_hash(data)}

    def _edited_while_training(self) -> None:
        """Weights were set by hand: the page is given them."""
        if self._told_training is not None:
            self._tell_training(self._told_training)


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
