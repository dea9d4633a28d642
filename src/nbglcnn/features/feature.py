"""What a feature offers a Viewer, and what a Viewer hands its features."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import traitlets

from nbglcnn.errors import VIEWER_CLOSED_MESSAGE, InputError, PageError
from nbglcnn.graph import Array
from nbglcnn.notebook import lifetime
from nbglcnn.plan.schema import Patch
from nbglcnn.protocol import Messages

if TYPE_CHECKING:
    from nbglcnn.widget.connection import Connection
    from nbglcnn.widget.network import Network
    from nbglcnn.widget.reader import Reader


def _no_op(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Feature:
    """What one feature offers; its host has it as `feature`.

    Args:
        name: of the feature, in Python and in pages.
        traits: that the Viewer gets, by name.
        page_writable: the names of those that pages may set, all at once; `traits_changed` follows
            them.
        messages: what is done with each kind of a page's messages, given one and its buffers.
        blob: a blob that pages ask for, by its name; None where it isn't of this feature.
        after_message: is called after each message of a page.
        edits_changed, weights_changed: are called when the reader's edits, or the weights, have
            changed.
        weights_replaced: is called when other weights were loaded, before pages are shown them.
        plan_changed: is called before pages are shown anything: the Plan may be another one.
        batch_reduced: is called when the network was compiled again for the first example of a
            batch of so many.
        views: the views of this feature by name, each with why it isn't there yet, "" where it is.
        lock_reason: why no other feature may change the weights now; "" where they may.
        fetch_weights: fetches the current weights from the page or the loop that changes them.
        close: frees what it holds.
    """

    name: str
    traits: Mapping[str, traitlets.TraitType[Any, Any]] = field(default_factory=dict)
    page_writable: tuple[str, ...] = ()
    traits_changed: Callable[[], None] = _no_op
    messages: Mapping[type, Callable[[Any, Sequence[bytes]], None]] = field(default_factory=dict)
    blob: Callable[[str], memoryview | None] = _no_op
    after_message: Callable[[], None] = _no_op
    edits_changed: Callable[[], None] = _no_op
    weights_changed: Callable[[], None] = _no_op
    weights_replaced: Callable[[], None] = _no_op
    plan_changed: Callable[[], None] = _no_op
    batch_reduced: Callable[[int], None] = _no_op
    views: Callable[[], Mapping[str, str]] = dict
    lock_reason: Callable[[], str] = str
    fetch_weights: Callable[[], None] = _no_op
    close: Callable[[], None] = _no_op


class FeatureHost(Protocol):
    """The host of a feature: one of the Viewer's FEATURES.

    `messages` is the feature's part of the protocol.
    """

    messages: Messages
    feature: Feature

    def __init__(self, host: ViewerHost) -> None: ...


class ViewerHost:
    """A Viewer as its features see it: its network, connection and reader, and its traits.

    It holds no reference to the Viewer, which goes when its last user has gone.
    """

    reader: Reader

    def __init__(self, viewer: Any, network: Network, connection: Connection) -> None:
        self._viewer = weakref.ref(viewer)
        self.network = network
        self.connection = connection
        self.feature_hosts: list[Any] = []
        self._traits_being_set: list[str] = []  # traits that Python sets at this moment

    def add_feature(self, feature: Any) -> None:
        """Take the host of a feature, which has its Feature as `feature`."""
        self.feature_hosts.append(feature)

    def find_host(self, name: str) -> Any:
        """The host of the feature of this name; None in a Viewer without it."""
        return next((one for one in self.feature_hosts if one.feature.name == name), None)

    def require_host(self, name: str) -> Any:
        """The same; InputError in a Viewer without it."""
        found = self.find_host(name)
        if found is None:
            raise InputError(
                f"this needs the feature {name!r}, which this Viewer was created without"
            )
        return found

    def all_features(self) -> Iterator[Feature]:
        """What all features offer, in their order."""
        for one in self.feature_hosts:
            yield one.feature

    # The Viewer

    def update_pages(self) -> int:
        """Bring the pages up to date; the revision that they are shown."""
        found: int | None = lifetime.call_weak(self._viewer, "_update_pages")
        return self.connection.revision if found is None else found

    def send_patches(self, patches: Sequence[Patch]) -> None:
        """The same by what has changed in the weights; all of it where that is ()."""
        lifetime.call_weak(self._viewer, "_send_patches", patches)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load other weights, as `Viewer.load_state_dict`."""
        lifetime.call_weak(self._viewer, "load_state_dict", weights)

    def read_before_edits(self, layer: str) -> Array:
        """A layer's value before its own edits."""
        self.check_open()
        found: Array = self.reader.read([layer], before_edits=True).arrays[0]
        return found

    def check_open(self) -> None:
        """PageError where the Viewer was closed."""
        if self.connection.is_closed or self._viewer() is None:
            raise PageError(VIEWER_CLOSED_MESSAGE)

    def get(self, name: str) -> Any:
        """A trait's value."""
        return getattr(self._viewer(), name, None)

    def set(self, **values: Any) -> None:
        """Set traits, in one message to pages; `traits_changed` isn't called for these."""
        viewer = self._viewer()
        if viewer is None:
            return
        before, self._traits_being_set = self._traits_being_set, [*self._traits_being_set, *values]
        try:
            with viewer.hold_sync():
                for name, value in values.items():
                    setattr(viewer, name, value)
        finally:
            self._traits_being_set = before

    def is_setting_trait(self, name: str) -> bool:
        """Whether Python sets this trait at the moment, and not a page or a linked Viewer."""
        return name in self._traits_being_set

    # What has changed, for all features

    def edits_changed(self) -> None:
        """The reader's edits are others."""
        for one in self.all_features():
            one.edits_changed()
        lifetime.call_weak(self._viewer, "_on_edits_changed")

    def weights_changed(self) -> None:
        """The weights are others."""
        for one in self.all_features():
            one.weights_changed()

    def weights_replaced(self) -> None:
        """Other weights were loaded; pages don't have them yet."""
        for one in self.all_features():
            one.weights_replaced()

    def plan_changed(self) -> None:
        """Pages are going to be shown the network, whose Plan may be another one."""
        for one in self.all_features():
            one.plan_changed()

    def fetch_weights(self) -> None:
        """Fetch the current weights from the page or the loop that changes them."""
        for one in self.all_features():
            one.fetch_weights()

    def views(self) -> dict[str, str]:
        """All features' views, each with why it isn't there yet, "" where it is."""
        found: dict[str, str] = {}
        for one in self.all_features():
            for name, why in one.views().items():
                found[name] = "" if found.get(name) == "" else why
        return found

    def close(self) -> None:
        """Free what features hold."""
        for one in self.all_features():
            one.close()

    def batch_reduced(self, batch: int) -> None:
        """The network was compiled again for the first example of a batch."""
        for one in self.all_features():
            one.batch_reduced(batch)
        self.set(example=0)

    # Who may change the weights

    def check_weights_unlocked(self, name: str) -> None:
        """InputError where a feature other than this one claims the weights."""
        for one in self.all_features():
            if one.name != name and (why := one.lock_reason()):
                raise InputError(why)
