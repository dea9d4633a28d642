"""A Viewer's training: started in Python, run by a page, controlled from both."""

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
    user_stacklevel,
)
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.feature import Feature, ViewerHost
from nbglcnn.features.training import live_training, packed_dataset
from nbglcnn.features.training.compiled_training import (
    CompiledTraining,
    apply_page_state,
    compile_initial_training,
    end_step,
    make_compiled_training,
    pack_learning_rates,
    with_state,
)
from nbglcnn.features.training.data import BatchSource
from nbglcnn.features.training.live_training import LiveTraining
from nbglcnn.features.training.local_training import (
    compile_on_batches,
    compile_training,
    total_steps,
)
from nbglcnn.features.training.loop import TrainingLoop
from nbglcnn.features.training.messages import MESSAGES, StateChunk, StepReport
from nbglcnn.features.training.optimizers import Adam, Optimizer
from nbglcnn.features.training.records import (
    MARK_MERGE_STEPS,
    MAX_MARKS,
    EditMark,
    TrainingConfig,
    TrainingRecord,
    TrainingState,
)
from nbglcnn.features.training.run import TrainingRun
from nbglcnn.notebook import blocking
from nbglcnn.plan.schema import content_hash

TRAINING_TRAIT = "_training"  # the training state that pages and Python share
REMOTE_VIEW_TRAIT = "_others"  # shown by pages while another page trains
NO_TRAINING_MESSAGE = (
    "the view 'train' needs a training: call viewer.train(…) or nbglcnn.mirror(viewer, model) first"
)
# An owner that is silent for longer counts as closed if another page sees the training.
OWNER_SILENCE_LIMIT_S = 4.0
# Fields of a running training that a page can change.
PAGE_WRITABLE_FIELDS = ("state", "lr", "noise", "pause_at", "batch_size", "frozen")
MAX_KEPT_RECORDS = 100  # records that a page may still reply to


class TrainingTraitValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the trait, as records."""

    training: TrainingRecord | None
    turn: int | None = None


class TrainingHost:
    """The training of a Viewer in its page, or on local OpenGL if no page is open.

    The page trains with its own Plan and a TrainingConfig. A change that needs another Plan during
    training is a swap: the page sends its weights, gets the other Plan, and continues.
    """

    message_types = MESSAGES

    def __init__(self, host: ViewerHost) -> None:
        self._host = host
        self._network = host.network
        self._connection = host.connection
        self.training: LiveTraining | None = None
        self.arguments: dict[str, Any] | None = None  # `train`'s arguments, for an exported page
        self.record: TrainingRecord | None = None  # the last record sent to pages
        self._state_after_swap: TrainingState = "running"  # the state to return to after a swap
        self._known_edits: tuple[Edit, ...] = ()
        self._sequence = 0
        self._records_by_sequence: dict[int, TrainingRecord] = {}  # the last record of each turn
        self._changed_at: dict[str, int] = {}  # the turn at which Python last changed each field
        self._failed_step: tuple[StepReport, str] | None = None  # the report, and its training's id
        self._incoming_state: tuple[tuple[str, int, int], dict[int, bytes]] = ("", 0, 0), {}
        self.feature = Feature(
            "training",
            traits={
                TRAINING_TRAIT: traitlets.Dict({"training": None, "turn": 0}).tag(sync=True),
                # Shown by pages while another page trains: the training's id, round and step, and a
                # blob.
                REMOTE_VIEW_TRAIT: traitlets.Dict({}).tag(sync=True),
            },
            page_writable_traits=(TRAINING_TRAIT,),
            on_traits_changed=self._handle_traits,
            message_handlers={
                StepReport: self._handle_step_report,
                StateChunk: self._handle_state_chunk,
            },
            find_blob=self._blob,
            on_edits_changed=self._on_edits_changed,
            weight_lock_reason=self._lock_reason,
            fetch_weights=self.fetch_weights,
            list_views=lambda: {"train": "" if self.training is not None else NO_TRAINING_MESSAGE},
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
        """Train the network in the page; see `Viewer.train`.

        Args:
            data: The examples.
            loss: The loss.
            optimizer: The optimizer.
            batch_size: The number of examples per step.
            epochs: The number of epochs.
            steps: The number of steps.
            held_out: The share of the examples that is not trained on.
            parameters: The parameters to train.
            shuffle: Whether each epoch has its own order.
            seed: The seed of the order, of the held-out examples and of Dropout's masks.
            output: The output that the loss compares with the targets.

        Returns:
            The training.

        Raises:
            InputError: As in `nbglcnn.train`.
            KeyError: As in `nbglcnn.train`.
            UnsupportedModel: As in `nbglcnn.train`.
            UnsupportedOperator: As in `nbglcnn.train`.
            DeviceError: If the page's device cannot render 32-bit floats.
        """
        self._host.check_open()
        self._host.check_weights_unlocked("training")
        if self.training is not None and self.training.state != "stopped":
            self.training.stop()
        network = self._network
        if not network.plan.header.target.float32_render or network.plan.precision != "float32":
            raise DeviceError(
                "training needs 32-bit floats: in 16 bits most gradients would be 0. "
                + (
                    'Make the Viewer with precision="float32"'
                    if network.plan.header.target.float32_render
                    else "This page's device supports only 16-bit floats; use nbglcnn.train"
                )
            )
        run, batches = compile_training(
            network.loaded_model, data, loss, optimizer, batch_size, parameters=parameters,
            shuffle=shuffle, seed=seed, output=output, weights=network.weights(),
            edited_keys=sorted(self._edited_layers()),
        )  # fmt: skip
        end_step(epochs, steps)  # reject invalid values before waiting for a page
        self.arguments = asked = {
            "data": data, "loss": loss, "optimizer": optimizer, "batch_size": batch_size,
            "epochs": epochs, "steps": steps, "held_out": held_out, "parameters": parameters,
            "shuffle": shuffle, "seed": seed, "output": output,
        }  # fmt: skip
        for done in self._host.reader.wait_for_hello():
            blocking.wait_until(done)
        if not self._host.reader.is_page_available():
            return self._train_locally(run, batches, optimizer, epochs, steps)
        if network.latent_edit is not None:
            raise InputError(
                "an active latent skips part of the network: set viewer.source = None first"
            )
        norms = run.options.mode.norms or {}
        names = {f"{path}.num_batches_tracked": norm.batch_count for path, norm in norms.items()}
        seen = {
            name: self._network.batchnorm_counts.get(name, count) for name, count in names.items()
        }
        made = compile_initial_training(network, run, asked, batches, seen)
        self.add_training_to_plan(made)
        self._track_initial_edits(made)
        rate = optimizer.learning_rate_at(0)
        self.training = LiveTraining(rate, run.batch_size, self._request_change, self._stop)
        self._host.update_pages()
        self.publish(TrainingRecord(secrets.token_hex(8), made.config_hash, "running", rate))
        return self.training

    def _train_locally(
        self,
        run: TrainingRun,
        batches: BatchSource,
        optimizer: Optimizer,
        epochs: int | None,
        steps: int | None,
    ) -> LiveTraining:
        """Train on local OpenGL, without a page; the training is complete on return."""
        if epochs is None and steps is None:
            raise InputError(
                "no page shows this Viewer, so training runs in Python. Give epochs=… or steps=…"
            )
        found = TrainingLoop(run).run(
            batches.batches(0), 0, total_steps(batches, epochs, steps), True
        )
        made = LiveTraining(
            optimizer.learning_rate_at(0), run.batch_size, self._request_change, self._stop
        )
        self.training = made
        live_training.record_steps(
            made, 0, np.stack([found.losses, np.full_like(found.losses, np.nan)], 1)
        )
        made.set_trait("message", found.stopped)
        made.set_trait("state", "stopped")
        self._host.load_weights(found.state_dict())
        return made

    @property
    def _current_training(self) -> CompiledTraining | None:
        """The Plan and weights of the running training; None if none runs."""
        found = self._network.carried_weights
        return found if isinstance(found, CompiledTraining) else None

    def add_training_to_plan(self, compiled_training: CompiledTraining) -> None:
        """Add the training to the Plan that pages run."""
        compiled_training.notify_pages = self._republish
        self._network.set_contribution(
            self.feature.name, compiled_training.contribution, compiled_training.plan
        )

    def _lock_reason(self) -> str:
        if self.training is None or self.training.state == "stopped":
            return ""
        return "the network is training in its page: call viewer.training.stop() first"

    def fetch_weights(self) -> None:
        """Fetch the current weights from the page that trains."""
        trained = self._current_training
        if trained is None or not self._connection.usable_pages:
            return
        found = self._host.reader.read_parameters(trained.state_value_records())
        apply_page_state(
            self._network,
            trained,
            dict(zip(trained.training_graph.state_names, found, strict=True)),
        )
        assert self.training is not None
        self._update_batch_counts(trained, self.training.step_count)

    # Control from Python

    def _request_change(self, **changes: Any) -> None:
        record = self.record
        if record is None or record.state == "stopped" or record.is_mirror:
            raise PageError("this training has ended: viewer.train(…) starts another")
        new = msgspec.structs.replace(record, **changes)
        if new.id != record.id:
            new = msgspec.structs.replace(new, marks=())
        if new.id != record.id and self._restart(new):
            return
        if trained := self._current_training:
            self._check_requested_settings(trained.config, new)
        self.publish(new)

    def _stop(self, timeout: float | None) -> None:
        record = self.record
        if record is None or record.state == "stopped" or self.training is None:
            return
        self._request_change(state="stopped")
        timeout_s = self._host.reader.default_timeout if timeout is None else timeout
        if self._connection.usable_pages:
            until = time.monotonic() + timeout_s
            blocking.wait_until(lambda: self._current_training is None or time.monotonic() > until)
        if self._current_training is not None:
            self._end_training()
            raise PageTimeout(
                f"the page did not send its weights for {timeout_s:g} s: the Viewer has the last "
                "weights that it sent"
            )

    def publish(self, record: TrainingRecord | None) -> None:
        """Send the requested state of the training to pages; None if there is no training."""
        trained = self._current_training
        known = self._page_writable(self.record)
        if record is not None and trained is not None and record.state in ("running", "paused"):
            self._state_after_swap = record.state
            if self._needs_new_plan(trained, record):
                record = msgspec.structs.replace(record, state="handing")
        self._sequence += 1
        self.record = record
        for name, value in self._page_writable(record).items():
            if value != known.get(name, value):
                self._changed_at[name] = self._sequence
        self._remember_record(record)
        if self.training is not None and record is not None:
            live_training.apply_record(self.training, record)
            if record.state == "handing":
                self.training.set_trait("state", self._state_after_swap)
        self._publish_trait()

    def _remember_record(self, record: TrainingRecord | None) -> None:
        """Remember the record that pages have at the current turn."""
        self._records_by_sequence.pop(self._sequence - MAX_KEPT_RECORDS, None)
        if record is not None:
            wanted = self._page_writable(record)
            self._records_by_sequence[self._sequence] = msgspec.structs.replace(record, **wanted)

    def _page_writable(self, record: TrainingRecord | None) -> dict[str, Any]:
        """The fields that a page can change; during a swap, `state` is the state after the swap."""
        if record is None:
            return {}
        fields = {name: getattr(record, name) for name in PAGE_WRITABLE_FIELDS}
        return fields | ({"state": self._state_after_swap} if record.state == "handing" else {})

    def _merge_page_changes(
        self, sequence: int, page_record: TrainingRecord
    ) -> TrainingRecord | None:
        """Merge a page's changes to the record of an earlier turn into the current record.

        Fields that Python has changed since that turn keep Python's value.
        """
        now, before = self.record, self._records_by_sequence.get(sequence)
        if now is None or before is None or not now.id == before.id == page_record.id:
            return now
        changes = {
            name: getattr(page_record, name)
            for name in PAGE_WRITABLE_FIELDS
            if getattr(page_record, name) not in (getattr(before, name), "handing")
            and self._changed_at.get(name, 0) <= sequence
        }
        self._records_by_sequence[sequence] = msgspec.structs.replace(before, **changes)
        return msgspec.structs.replace(now, **changes)

    def _publish_trait(self) -> None:
        record = self.record
        words = None if record is None else msgspec.to_builtins(record)
        self._host.set_traits(_training={"training": words, "turn": self._sequence})

    # Control from the page

    def _handle_traits(self) -> None:
        """Apply a page's change: pause, resume, or a new value."""
        now = self.record
        try:
            trait_value = msgspec.convert(self._host.get_trait(TRAINING_TRAIT), TrainingTraitValue)
        except (msgspec.ValidationError, ValueError, TypeError, RecursionError) as error:
            protocol.warn_once(f"ignored the page's training: {error}")
            self._publish_trait()
            return
        new = trait_value.training
        is_late = False  # whether the page sent it before it had Python's newest record
        if trait_value.turn is not None and trait_value.turn < self._sequence and new is not None:
            is_late, new = True, self._merge_page_changes(trait_value.turn, new)
        if (
            now is None or new is None or new.config != now.config
            or now.state == "stopped" or now.is_mirror or (is_late and new == now)
        ):  # fmt: skip
            self._publish_trait()
            return
        self.record = new
        if not is_late:
            self._remember_record(new)
        if new.id != now.id and self._restart(new):
            return
        trained = self._current_training
        wants_another = trained is not None and self._needs_new_plan(trained, new)
        if trained is not None and wants_another:
            try:
                self._check_requested_settings(trained.config, new)
            except InputError as error:
                self._reject_requested_settings(trained.config, new, error)
                return
        if wants_another or is_late:
            self.publish(new)
        if self.training is not None:
            live_training.apply_record(self.training, new)

    def _handle_step_report(self, message: StepReport, buffers: Sequence[bytes]) -> None:
        """Record the losses that a page reports."""
        record, training = self.record, self.training
        if len(buffers) != 1 or len(buffers[0]) % 8:
            return
        if record is None or training is None or message.training != record.id:
            return
        if record.owner not in ("", message.page):
            self._handle_other_page(message.page, record)
            return
        if message.is_remote:  # the page doesn't know yet that it is the owner
            return
        rows = np.frombuffer(buffers[0], np.float32).reshape(-1, 2)
        if not live_training.record_steps(training, message.first_step, rows, message.held_out):
            return
        if message.paused and 0 <= record.pause_at <= training.step_count:
            paused = msgspec.structs.replace(record, state="paused", pause_at=-1)
            if record.state == "running":
                self.record = paused
                live_training.apply_record(training, paused)
        if message.failed_examples:
            self._failed_step = message, record.id
            training.set_trait("message", message.message)
        elif message.message and message.message != training.message:
            training.set_trait("message", message.message)
            warnings.warn(message.message, UserWarning, stacklevel=user_stacklevel())

    def _handle_state_chunk(self, message: StateChunk, buffers: Sequence[bytes]) -> None:
        """Collect a chunk of the training state (weights, optimizer); apply it once complete."""
        if len(buffers) != 1:
            return
        trained, record = self._current_training, self.record
        if trained is None or record is None or message.training != record.id:
            return
        if record.owner not in ("", message.page):
            return
        name = message.training, message.step, message.total_bytes
        if self._incoming_state[0] != name:
            self._incoming_state = name, {}
        parts = self._incoming_state[1]
        parts[message.chunk_index] = buffers[0]
        if len(parts) < protocol.chunk_count(message.total_bytes):
            return
        data = memoryview(b"".join(parts[k] for k in sorted(parts)))
        try:
            state = packed_dataset.unpack_state(
                trained.config.state_names, data, trained.latest_state
            )
        except (NbglcnnError, ValueError) as error:
            protocol.warn_once(f"ignored the page's weights: {error}")
            return
        apply_page_state(self._network, trained, state)
        trained.step = message.step
        self._update_batch_counts(trained, message.step)
        if message.is_last:
            self._end_training(self._find_failed_layer(trained, record))
        elif message.awaits_swap and record.state == "handing":
            self._swap_plan(trained, record)

    def _find_failed_layer(
        self, compiled_training: CompiledTraining, record: TrainingRecord
    ) -> str:
        """Repeat a step that gave NaN to find its cause; return the layer, or "" if unknown."""
        failed, self._failed_step = self._failed_step, None
        if failed is None or failed[1] != record.id or self.training is None:
            return ""
        wrong = compiled_training.find_failure(self._network.weights(), failed[0])
        if wrong is not None:
            words = f"training stopped at step {compiled_training.step}: {wrong.message}"
            self.training.set_trait("message", f"{words}. The weights are those of the step before")
        warnings.warn(self.training.message, UserWarning, stacklevel=user_stacklevel())
        return "" if wrong is None else wrong.layer

    def _update_batch_counts(self, compiled_training: CompiledTraining, step_count: int) -> None:
        for path in compiled_training.run.options.mode.norms or {}:
            name = f"{path}.num_batches_tracked"
            self._network.batchnorm_counts[name] = (
                compiled_training.batchnorm_batch_counts.get(name, 0) + step_count
            )

    def _end_training(self, failed_layer: str = "") -> None:
        """End the training: the Viewer shows the network with the trained weights."""
        self._network.set_contribution(self.feature.name, None)
        record = self.record
        if record is not None and (record.state != "stopped" or failed_layer):
            self.publish(
                msgspec.structs.replace(record, state="stopped", failed_layer=failed_layer)
            )
        elif self.training is not None:
            self.training.set_trait("state", "stopped")
        self._host.update_pages()

    def _blob(self, name: str) -> memoryview | None:
        """Return a blob of the training by its name."""
        trained = self._current_training
        return None if trained is None else trained.blobs.get(name)

    # Swap of the Plan

    def _check_requested_settings(self, config: TrainingConfig, record: TrainingRecord) -> None:
        if unknown := set(record.frozen) - {*config.trained_parameters, *config.frozen}:
            raise InputError(
                f"frozen: {sorted(unknown)[0]} isn't trained; trained are "
                f"{', '.join([*config.trained_parameters, *config.frozen])}"
            )
        if not {*config.trained_parameters, *config.frozen} - set(record.frozen):
            raise InputError("frozen: all parameters; leave at least one to train")
        if record.batch_size > config.example_count:
            raise InputError(
                f"batch_size={record.batch_size}; there are {config.example_count} examples"
            )

    def _reject_requested_settings(
        self, config: TrainingConfig, record: TrainingRecord, error: Exception
    ) -> None:
        """Reject a requested change: warn, and continue with the current config."""
        warnings.warn(f"the training continues unchanged: {error}", UserWarning, user_stacklevel())
        kept = {
            "batch_size": config.batch_size,
            "frozen": config.frozen,
            "state": self._state_after_swap,
        }
        self.publish(msgspec.structs.replace(record, **kept))

    def _swap_plan(
        self, previous: CompiledTraining, record: TrainingRecord, new_owner: str | None = None
    ) -> None:
        """Continue from the weights that the page has sent, with a Plan for the current request."""
        network, asked, config = self._network, previous.arguments, previous.config
        edits, edited_layers = (
            len(previous.pending_weight_edits),
            previous.editable_layers | self._edited_layers(),
        )
        size = record.batch_size or config.batch_size
        names = [n for n in (*config.trained_parameters, *config.frozen) if n not in record.frozen]
        begin, end = min(config.start_step, previous.step), config.end_step
        if size != config.batch_size:
            begin = previous.step
            if end >= 0:  # so that the number of examples stays the same
                end = previous.step + -(-(end - previous.step) * config.batch_size // size)
        try:
            run = compile_on_batches(
                asked.batches.with_batch_size(size), network.loaded_model, asked.loss,
                asked.optimizer,
                names, asked.seed, asked.output_key, None, network.weights(), sorted(edited_layers),
            )  # fmt: skip
            own = {n: a for n, a in network.weights().items() if n in previous.latest_state}
            made = make_compiled_training(
                network, asked, with_state(run, {**previous.latest_state, **own}),
                previous.batchnorm_batch_counts,
                end=end, start_step=begin,
                learning_rates=pack_learning_rates(asked.optimizer, begin, end),
                frozen=record.frozen,
            )  # fmt: skip
        except NbglcnnError as error:
            previous.pending_weight_edits.clear()
            previous.editable_layers = edited_layers
            self._reject_requested_settings(config, record, error)
            return
        # Messages may arrive on another thread than the cell's: the record may have changed since.
        now = self.record
        if now is None or now.id != record.id or now.state == "stopped":
            return
        marks, record = _change_marks(previous, record), now
        assert self.training is not None
        history = live_training.pack_training_history(self.training, previous.step)
        made.step, made.initial_state, made.pending_weight_edits = (
            previous.step,
            previous.initial_state,
            previous.pending_weight_edits[edits:],
        )
        made.blobs = {**made.blobs, content_hash(history): memoryview(history)}
        self.add_training_to_plan(made)
        self._host.update_pages()
        self._warn_untrained_edits(made, made.editable_layers - previous.editable_layers)
        changes = {
            "config": made.config_hash, "swap_count": record.swap_count + 1,
            "start_step": previous.step,
            "history": content_hash(history), "state": self._state_after_swap,
            "batch_size": record.batch_size or run.batch_size,
            "marks": (*record.marks, *marks)[-MAX_MARKS:],
        }  # fmt: skip
        if new_owner is not None:
            changes["owner"] = new_owner
        self.publish(msgspec.structs.replace(record, **changes))

    def _restart(self, record: TrainingRecord) -> bool:
        """Clear the history. Return whether the page needs a Plan with the initial weights."""
        trained = self._current_training
        assert self.training is not None
        live_training.clear_history(self.training)
        if trained is None or record.swap_count == 0:
            return False
        trained.pending_weight_edits.clear()
        begin = {n: trained.initial_state.get(n, a) for n, a in trained.latest_state.items()}
        apply_page_state(self._network, trained, begin)
        trained.step = 0
        self._state_after_swap = "paused"
        self.record = msgspec.structs.replace(record, marks=(), state="handing")
        self._swap_plan(trained, self.record)
        return True

    def _handle_other_page(self, page_id: str, record: TrainingRecord) -> None:
        """Handle a report of another page: it takes over if the owner has been silent too long."""
        owner, trained = self._connection.pages.get(record.owner), self._current_training
        if trained is None or record.owner == "" or record.state == "stopped":
            return
        if owner is not None and time.monotonic() - owner.last_message_at < OWNER_SILENCE_LIMIT_S:
            self._publish_remote_view(trained, record)
            return
        assert self.training is not None
        if record.state in ("running", "paused"):
            self._state_after_swap = record.state
        lost_step_count = self.training.step_count - trained.step
        self._swap_plan(trained, record, new_owner=page_id)
        if lost_step_count > 0:
            message = (
                "the page that trained was closed: another page continues from step "
                f"{trained.step}; the {lost_step_count} steps after it are lost"
            )
            self.training.set_trait("message", message)
            warnings.warn(message, UserWarning, stacklevel=user_stacklevel())

    def _edited_layers(self) -> set[str]:
        """Names of edited layers, without injected arrays: those belong to the shown examples."""
        return {edit.layer for edit in self._network.edits if not edit.array_hash}

    def _needs_new_plan(self, compiled_training: CompiledTraining, record: TrainingRecord) -> bool:
        """Whether the requested settings need another TrainingConfig."""
        return bool(
            compiled_training.pending_weight_edits
            or needs_new_config(compiled_training.config, record)
            or self._edited_layers() - compiled_training.editable_layers
        )

    def _track_initial_edits(self, compiled_training: CompiledTraining) -> None:
        """Start tracking edits, beginning with the ones that exist now."""
        self._known_edits = self._network.edits
        self._warn_untrained_edits(compiled_training, compiled_training.editable_layers)

    def _warn_untrained_edits(self, compiled_training: CompiledTraining, layers: set[str]) -> None:
        for layer in sorted(layers):
            if not compiled_training.trains_with_edits(layer):
                warnings.warn(
                    f"bends of {layer} affect the display only, not the training: its channels "
                    "differ in a training step",
                    UserWarning,
                    stacklevel=user_stacklevel(),
                )

    def _on_edits_changed(self) -> None:
        """Handle an edit during training: it affects the training from the current step on."""
        record, trained = self.record, self._current_training
        if record is None or trained is None or self.training is None or record.state == "stopped":
            return
        before, self._known_edits = self._known_edits, self._network.edits
        marks = list(record.marks)
        for mark in _edit_marks(before, self._known_edits, self.training.step_count):
            last = marks[-1] if marks else None
            if last is None or last.text != mark.text or mark.step - last.step >= MARK_MERGE_STEPS:
                marks.append(mark)
        if len(marks) > len(record.marks) or self._edited_layers() - trained.editable_layers:
            self.publish(msgspec.structs.replace(record, marks=tuple(marks[-MAX_MARKS:])))

    def _publish_remote_view(
        self, compiled_training: CompiledTraining, record: TrainingRecord
    ) -> None:
        """Publish the last received weights, for pages that do not train themselves."""
        now = {"training": record.id, "round": record.swap_count, "step": compiled_training.step}
        others = self._host.get_trait(REMOTE_VIEW_TRAIT)
        if now == {name: others.get(name) for name in now}:
            return
        assert self.training is not None
        data = compiled_training.pack_remote_view(
            live_training.pack_training_history(self.training, compiled_training.step)
        )
        own = {n: blob for n, blob in compiled_training.blobs.items() if n != others.get("blob")}
        compiled_training.blobs = {**own, content_hash(data): memoryview(data)}
        self._host.set_traits(_others={**now, "blob": content_hash(data)})

    def _republish(self) -> None:
        """Publish the record again after weights were set by hand, so that the page gets them."""
        if self.record is not None:
            self.publish(self.record)


def needs_new_config(config: TrainingConfig, record: TrainingRecord) -> bool:
    """Whether the record requests another batch size or other frozen parameters than the config."""
    size = record.batch_size or config.batch_size
    return size != config.batch_size or set(record.frozen) != set(config.frozen)


def _change_marks(previous: CompiledTraining, record: TrainingRecord) -> list[EditMark]:
    """List the manual changes after a training's last step, as marks."""
    config = previous.config
    found = []
    if record.batch_size not in (0, config.batch_size):
        found.append(f"batch size {record.batch_size}")
    for names, what in (
        ([edit[0] for edit in previous.pending_weight_edits], "changed by hand"),
        ([name for name in record.frozen if name not in config.frozen], "frozen"),
        ([name for name in config.frozen if name not in record.frozen], "unfrozen"),
    ):
        if names:  # one mark for all changes made together
            own = [*dict.fromkeys(names)]
            more = f" and {len(own) - 2} more" if len(own) > 3 else ""
            found.append(f"{', '.join(own[:2] if more else own)}{more} {what}")
    return [EditMark(previous.step, text) for text in found]


def _edit_marks(before: Sequence[Edit], after: Sequence[Edit], step: int) -> list[EditMark]:
    """List the changes of edits, as marks."""
    old, new = (
        {edit.name: edit for edit in edits if not edit.array_hash} for edits in (before, after)
    )
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
        found.append(EditMark(step, f"{known.layer}: {known.transform}{how}"))
    return found
