"""A Viewer that mirrors a training in PyTorch: `nbglcnn.mirror`."""

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
    """Have a Viewer follow a training in PyTorch, whose loop calls what this returns.

    ```
    with nbglcnn.mirror(viewer, model) as mirror:
        for x, y in loader:
            loss = step(model, x, y)
            mirror(loss=loss)
    ```

    The Viewer shows the network in eval mode with the weights of then; the loop's model, its mode,
    hooks and random numbers are not touched, and its forward is never called. Pages get what has
    changed, as fast as they can draw it: states between are left out, and the last one always
    comes. Works in the cell that the page waits for, on a thread, and without any page.

    Args:
        viewer: a Viewer of this model, or of one with the same parameters. Its `classes`, edits
            and sources stay.
        model: the module that is trained; it may be wrapped by torch.compile or DataParallel, be on
            a GPU, or hold the Viewer's network as a part, as a LightningModule does.
        every: the weights are copied at each so-many-th call, losses at all of them.

    Raises:
        InputError: the model has other parameters; the Viewer compares two models, trains in the
            page, mirrors another loop, or has layers that Python computes.
    """
    host = getattr(viewer, "_host", None)
    if not isinstance(host, ViewerHost):
        raise InputError(
            f"mirror: {type(viewer).__name__} is not a Viewer; make one of the model that is "
            "trained, nbglcnn.Viewer(model, x)"
        )
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise InputError(f"mirror(every={every!r}): a whole number of at least 1 is needed")
    own: MirrorHost = host.require_host("mirror")
    return own.begin(model, every)


class MirrorHost:
    """The loop of Python that a Viewer follows; pages show it in the views of a training."""

    messages = MESSAGES

    def __init__(self, host: ViewerHost) -> None:
        self._host = host
        self._network = host.network
        self._mirror: Mirror | None = None
        self._follower: WeightFollower | None = None
        self.feature = Feature(
            "mirror",
            blob=self._blob,
            after_message=self._after_message,
            lock_reason=self._lock_reason,
            fetch_weights=host.network.pull_weights,
            views=lambda: {} if self._mirror is None else {"train": ""},
        )

    @property
    def _training_host(self) -> TrainingHost:
        found: TrainingHost = self._host.require_host("training")
        return found

    def begin(self, model: Any, every: int) -> Mirror:
        """Follow a model from now on; as `mirror`."""
        self._host.check_open()
        network = self._network
        if not load.is_module(model):
            raise InputError(
                f"mirror: {type(model).__name__} is no torch.nn.Module; give the model that the "
                "loop trains"
            )
        if network.graph.comparison:
            raise InputError(
                "mirror: this Viewer compares two models; give a Viewer of the one that is trained"
            )
        if network.plan.in_python:
            layer = next(one.name for one in network.plan.layers if one.python)
            raise InputError(
                f"mirror: {layer} is computed in Python, which would have to call the model at "
                "each state; viewer.layers says why it is"
            )
        self._host.check_weights_unlocked("")
        tensors = load.find_tensors(model, network.graph)
        load.with_parameters(network.graph, tensors.snapshot(0).arrays())  # InputError
        self._host.weights_replaced()
        self._training_host.training = None
        record = TrainingRecord(secrets.token_hex(8), "", "running", 0.0, mirrored=True)
        following = WeightFollower(network)

        def frames(news: Callable[[int], LossUpdate]) -> FrameSender:
            return FrameSender(
                record.id, network, following, self._host.connection, news, self._host.update_pages
            )

        self._follower = following
        self._training_host.publish(record)
        made = Mirror(tensors, every, frames, following.set_newest, lambda: self._end(record))
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
        self._host.weights_changed()

    def _lock_reason(self) -> str:
        if self._follower is None:
            return ""
        return (
            "this Viewer mirrors a loop in Python: mirror.close() ends that, and a second "
            "Viewer can do the other"
        )

    def _after_message(self) -> None:
        if self._mirror is not None:
            self._mirror.after_message()

    def _blob(self, name: str) -> memoryview | None:
        if self._mirror is None:
            return None
        record, made = self._training_host.record, self._mirror
        if record is not None and record.mirrored and name == record.id:
            return memoryview(made.packed_history)
        return None
