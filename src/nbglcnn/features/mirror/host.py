"""The mirror of a training in PyTorch in a Viewer: `nbglcnn.mirror`."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from nbglcnn import load
from nbglcnn.errors import InputError
from nbglcnn.features.feature import Feature, ViewerHost
from nbglcnn.features.mirror.frame_sender import FrameSender, LossUpdate
from nbglcnn.features.mirror.messages import MESSAGES
from nbglcnn.features.mirror.mirror import Mirror
from nbglcnn.features.mirror.weight_follower import WeightFollower
from nbglcnn.features.training.records import TrainingRecord

if TYPE_CHECKING:
    from nbglcnn.features.training.host import TrainingHost
    from nbglcnn.widget.viewer import Viewer


def mirror(viewer: Viewer, model: Any, *, every: int = 10) -> Mirror:
    """Make a Viewer follow a training in PyTorch.

    The loop calls the result after each step. The Viewer shows the network in eval mode with the
    latest copied weights. The mirror never calls the model's `forward`, and doesn't change its
    mode, hooks or random numbers. Pages get the changes as fast as they can draw them: intermediate
    states are dropped, the last one is always sent. It works in the cell that runs the loop, on a
    thread, and without a page.

    Args:
        viewer: A Viewer of this model, or of one with the same parameters. Its `classes`, edits and
            sources stay.
        model: The module in training. It may be wrapped by torch.compile or DataParallel, be on a
            GPU, or contain the Viewer's network as a submodule, as a LightningModule does.
        every: The number of calls from one copy of the weights to the next; losses are recorded at
            each call. Default: 10.

    Returns:
        The mirror, to be called in the loop. Use it in a `with` block, which sends the last state
        at the end.

    Raises:
        InputError: If the model has other parameters, or the Viewer compares two models, trains in
            the page, already mirrors a loop, or has layers in Python.

    Example:
        >>> with nbglcnn.mirror(viewer, model) as mirror:
        ...     for x, y in loader:
        ...         mirror(loss=train_step(model, x, y))
    """
    host = getattr(viewer, "_host", None)
    if not isinstance(host, ViewerHost):
        raise InputError(
            f"mirror: {type(viewer).__name__} is not a Viewer; create one of the model that you "
            "train, nbglcnn.Viewer(model, x)"
        )
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise InputError(f"mirror(every={every!r}): expected an integer ≥ 1")
    own: MirrorHost = host.require_host("mirror")
    return own.start_mirror(model, every)


class MirrorHost:
    """The mirror of a loop in Python, for a Viewer; pages show it in the training views."""

    message_types = MESSAGES

    def __init__(self, host: ViewerHost) -> None:
        self._host = host
        self._network = host.network
        self._mirror: Mirror | None = None
        self._follower: WeightFollower | None = None
        self.feature = Feature(
            "mirror",
            find_blob=self._blob,
            on_message_handled=self._after_message,
            weight_lock_reason=self._lock_reason,
            fetch_weights=host.network.pull_weights,
            list_views=lambda: {} if self._mirror is None else {"train": ""},
        )

    @property
    def _training_host(self) -> TrainingHost:
        found: TrainingHost = self._host.require_host("training")
        return found

    def start_mirror(self, model: Any, calls_per_copy: int) -> Mirror:
        """Follow a model from now on, as `mirror` does."""
        self._host.check_open()
        network = self._network
        if not load.is_module(model):
            raise InputError(
                f"mirror: {type(model).__name__} is not a torch.nn.Module; give the model that "
                "the loop trains"
            )
        if network.graph.comparison:
            raise InputError(
                "mirror: this Viewer compares two models; give a Viewer of the one that you train"
            )
        if network.plan.in_python:
            layer = next(one.name for one in network.plan.layers if one.python)
            raise InputError(
                f"mirror: {layer} runs in Python, which would call the model at every step; "
                "viewer.layers gives the reason"
            )
        self._host.check_weights_unlocked("")
        tensors = load.find_tensors(model, network.graph)
        load.with_parameters(network.graph, tensors.snapshot(0).arrays())  # may raise
        self._host.notify_weights_replaced()
        self._training_host.training = None
        record = TrainingRecord(secrets.token_hex(8), "", "running", 0.0, is_mirror=True)
        following = WeightFollower(network)

        def frames(news: Callable[[int], LossUpdate]) -> FrameSender:
            return FrameSender(
                record.id, network, following, self._host.connection, news, self._host.update_pages
            )

        self._follower = following
        self._training_host.publish(record)
        made = Mirror(
            tensors, calls_per_copy, frames, following.set_newest, lambda: self._end(record)
        )
        network.sync_pages_now, network.sync_pages_soon = made.sync_pages_now, made.sync_pages_soon
        self._mirror = made
        return made

    def _end(self, record: TrainingRecord) -> None:
        network = self._network
        network.sync_pages_now = network.sync_pages_soon = lambda: None
        if self._follower is not None:
            self._follower.stop()
            self._follower = None
        self._training_host.publish(msgspec.structs.replace(record, state="stopped"))
        self._host.notify_weights_changed()

    def _lock_reason(self) -> str:
        if self._follower is None:
            return ""
        return (
            "this Viewer mirrors a loop in Python: call mirror.close() first, or use a second "
            "Viewer"
        )

    def _after_message(self) -> None:
        if self._mirror is not None:
            self._mirror.on_message_handled()

    def _blob(self, name: str) -> memoryview | None:
        if self._mirror is None:
            return None
        record, made = self._training_host.record, self._mirror
        if record is not None and record.is_mirror and name == record.id:
            return memoryview(made.packed_history)
        return None
