"""A Viewer that mirrors a training in PyTorch: `nbglcnn.mirror`, and what reads keep still."""

from __future__ import annotations

import functools
import secrets
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import msgspec

from nbglcnn import load
from nbglcnn.errors import InputError
from nbglcnn.features.mirror.frames import Frames, News
from nbglcnn.features.mirror.mirror import Mirror
from nbglcnn.features.training.host import Trains
from nbglcnn.features.training.records import TrainingRecord
from nbglcnn.widget.hosts import lifetime

if TYPE_CHECKING:
    from nbglcnn.widget.viewer import Viewer

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V", bound="Mirrors")


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
    if not isinstance(viewer, Mirrors):
        raise InputError(
            f"mirror: {type(viewer).__name__} is not a Viewer; make one of the model that is "
            "trained, nbglcnn.Viewer(model, x)"
        )
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise InputError(f"mirror(every={every!r}): a whole number of at least 1 is needed")
    return viewer._begin_mirror(model, every)


def kept_still(method: Callable[Concatenate[V, P], R]) -> Callable[Concatenate[V, P], R]:
    """A method of a Viewer within which its weights stay those of one moment."""

    @functools.wraps(method)
    def still(self: V, *arguments: P.args, **named: P.kwargs) -> R:
        with self.network.still():
            return method(self, *arguments, **named)

    return still  # type: ignore[return-value] # the same but for the name of `self`


class Mirrors(Trains):
    """Mixin: the loop of Python that a Viewer follows."""

    _mirror: Mirror | None

    def _begin_training(self) -> None:
        super()._begin_training()
        self._mirror = None

    def _begin_mirror(self, model: Any, every: int) -> Mirror:
        self._check_open()
        network = self.network
        if not load.is_module(model):
            raise InputError(
                f"mirror: {type(model).__name__} is no torch.nn.Module; give the model that the "
                "loop trains"
            )
        if isinstance(load.bare(network.model), load.Joined):
            raise InputError(
                "mirror: this Viewer compares two models; give a Viewer of the one that is trained"
            )
        if network.plan.in_python:
            layer = next(one.name for one in network.plan.layers if one.python)
            raise InputError(
                f"mirror: {layer} is computed in Python, which would have to call the model at "
                "each state; viewer.layers says why it is"
            )
        self._check_trainable()
        if self.training is not None and self.training.state != "stopped":
            raise InputError(
                "mirror: this Viewer trains in the page; call viewer.training.stop() first"
            )
        tensors = load.tensors_in(model, network.graph)
        network.check_numbers(tensors.copied(0))
        self._forget_weights()
        self.training = None
        record = TrainingRecord(secrets.token_hex(8), "", "running", 0.0, mirrored=True)
        this = weakref.ref(self)

        def frames(news: Callable[[int], News]) -> Frames:
            return Frames(
                record.id,
                network,
                self._connection,
                news,
                lambda: lifetime.call(this, "_show"),
            )

        def end() -> None:
            lifetime.call(this, "_end_mirror", record)

        network.follow()
        self._tell_training(record)
        made = Mirror(tensors, every, frames, network.take_copy, end)
        network.tell_now, network.tell_soon = made.tell_now, made.tell_soon
        self._mirror = made
        return made

    def _end_mirror(self, record: TrainingRecord) -> None:
        network = self.network
        network.tell_now = network.tell_soon = lambda: None
        network.leave()
        self._batches.update(network.counts)
        self._tell_training(msgspec.structs.replace(record, state="stopped"))
        self._follow_weights()

    def _follow_weights(self) -> None:
        """The codes of a latent's data are those of other weights."""
        raise NotImplementedError

    def _take_weights(self) -> None:
        super()._take_weights()
        if self.network.follows:
            self.network.catch_up()
            self._batches.update(self.network.counts)

    def _check_trainable(self) -> None:
        if self.network.follows:
            raise InputError(
                "this Viewer mirrors a loop in Python: mirror.close() ends that, and a second "
                "Viewer can do the other"
            )

    def _follow_training(self) -> None:
        super()._follow_training()
        if self._mirror is not None:
            self._mirror.follow()

    def _training_blob(self, name: str) -> memoryview | None:
        record, made = self._told_training, self._mirror
        if record is not None and made is not None and record.mirrored and name == record.id:
            return memoryview(made.past)
        return super()._training_blob(name)
