"""The interface between a Viewer and its features."""

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
    """The callbacks, traits and views of one feature; its host has it as the attribute `feature`.

    Args:
        name: The name of the feature, in Python and in pages.
        traits: The traits that the Viewer gets, by name.
        page_writable_traits: The names of the traits that pages may set, all in one message;
            `on_traits_changed` is called afterwards.
        message_handlers: The handlers of a page's messages by type, called with the message and
            its buffers.
        find_blob: Returns the blob of a name that a page requests; None if it belongs to another
            feature.
        on_message_handled: Called after each message of a page.
        on_edits_changed, on_weights_changed: Called after a change of the user's edits, or of the
            weights.
        on_weights_replaced: Called when other weights were loaded, before they are sent to pages.
        on_plan_changed: Called before an update is sent to pages: the Plan may have changed.
        on_batch_reduced: Called with the old batch size when the network was recompiled for the
            first example of a batch.
        list_views: Returns the views of this feature by name, each with the reason why it isn't
            available yet, or "".
        weight_lock_reason: Returns the reason why other features must not change the weights now,
            or "".
        fetch_weights: Fetches the current weights from the page or the loop that changes them.
        close: Frees the feature's resources.
    """

    name: str
    traits: Mapping[str, traitlets.TraitType[Any, Any]] = field(default_factory=dict)
    page_writable_traits: tuple[str, ...] = ()
    on_traits_changed: Callable[[], None] = _no_op
    message_handlers: Mapping[type, Callable[[Any, Sequence[bytes]], None]] = field(
        default_factory=dict
    )
    find_blob: Callable[[str], memoryview | None] = _no_op
    on_message_handled: Callable[[], None] = _no_op
    on_edits_changed: Callable[[], None] = _no_op
    on_weights_changed: Callable[[], None] = _no_op
    on_weights_replaced: Callable[[], None] = _no_op
    on_plan_changed: Callable[[], None] = _no_op
    on_batch_reduced: Callable[[int], None] = _no_op
    list_views: Callable[[], Mapping[str, str]] = dict
    weight_lock_reason: Callable[[], str] = str
    fetch_weights: Callable[[], None] = _no_op
    close: Callable[[], None] = _no_op


class FeatureHost(Protocol):
    """The host of a feature: one of the Viewer's FEATURE_HOST_TYPES.

    `message_types` is the feature's part of the protocol.
    """

    message_types: Messages
    feature: Feature

    def __init__(self, host: ViewerHost) -> None: ...


class ViewerHost:
    """The Viewer's interface for features: its network, connection and reader, and its traits.

    It has no strong reference to the Viewer, so it doesn't prolong the Viewer's lifetime.
    """

    reader: Reader

    def __init__(self, viewer: Any, network: Network, connection: Connection) -> None:
        self._viewer = weakref.ref(viewer)
        self.network = network
        self.connection = connection
        self.feature_hosts: list[Any] = []
        self._traits_being_set: list[str] = []  # traits that Python is setting now

    def add_feature(self, feature: Any) -> None:
        """Add the host of a feature, which has its Feature as `feature`."""
        self.feature_hosts.append(feature)

    def find_host(self, name: str) -> Any:
        """Return the host of the feature of this name, or None."""
        return next((one for one in self.feature_hosts if one.feature.name == name), None)

    def require_host(self, name: str) -> Any:
        """Return the host of the feature of this name; InputError if the Viewer has none."""
        found = self.find_host(name)
        if found is None:
            raise InputError(
                f"this needs the feature {name!r}, which this Viewer was created without"
            )
        return found

    def all_features(self) -> Iterator[Feature]:
        """Iterate over all features in order."""
        for one in self.feature_hosts:
            yield one.feature

    # The Viewer

    def update_pages(self) -> int:
        """Send the current network to the pages; return the revision of the update."""
        found: int | None = lifetime.call_weak(self._viewer, "_update_pages")
        return self.connection.revision if found is None else found

    def send_patches(self, patches: Sequence[Patch]) -> None:
        """Send patches of weights to the pages; () sends all weights."""
        lifetime.call_weak(self._viewer, "_send_patches", patches)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load other weights, like `Viewer.load_state_dict`."""
        lifetime.call_weak(self._viewer, "load_state_dict", weights)

    def read_before_edits(self, layer: str) -> Array:
        """Return a layer's value before its own edits."""
        self.check_open()
        found: Array = self.reader.read([layer], before_edits=True).arrays[0]
        return found

    def check_open(self) -> None:
        """Raise PageError if the Viewer is closed."""
        if self.connection.is_closed or self._viewer() is None:
            raise PageError(VIEWER_CLOSED_MESSAGE)

    def get_trait(self, name: str) -> Any:
        """Return a trait's value."""
        return getattr(self._viewer(), name, None)

    def set_traits(self, **values: Any) -> None:
        """Set traits in one message to pages, without calling `on_traits_changed`."""
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
        """Whether Python is setting this trait now, rather than a page or a linked Viewer."""
        return name in self._traits_being_set

    # Notifications to all features

    def notify_edits_changed(self) -> None:
        """Notify all features that the user's edits have changed."""
        for one in self.all_features():
            one.on_edits_changed()
        lifetime.call_weak(self._viewer, "_on_edits_changed")

    def notify_weights_changed(self) -> None:
        """Notify all features that the weights have changed."""
        for one in self.all_features():
            one.on_weights_changed()

    def notify_weights_replaced(self) -> None:
        """Notify all features that other weights were loaded, which pages don't have yet."""
        for one in self.all_features():
            one.on_weights_replaced()

    def notify_plan_changed(self) -> None:
        """Notify all features that an update will be sent to pages, whose Plan may have changed."""
        for one in self.all_features():
            one.on_plan_changed()

    def fetch_weights(self) -> None:
        """Fetch the current weights from the page or the loop that changes them."""
        for one in self.all_features():
            one.fetch_weights()

    def list_views(self) -> dict[str, str]:
        """Return all features' views, each with the reason why it isn't available yet, or ""."""
        found: dict[str, str] = {}
        for one in self.all_features():
            for name, why in one.list_views().items():
                found[name] = "" if found.get(name) == "" else why
        return found

    def close(self) -> None:
        """Free the features' resources."""
        for one in self.all_features():
            one.close()

    def notify_batch_reduced(self, old_batch_size: int) -> None:
        """Notify all features that the network was recompiled for the first example of a batch."""
        for one in self.all_features():
            one.on_batch_reduced(old_batch_size)
        self.set_traits(example=0)

    # The lock of the weights

    def check_weights_unlocked(self, feature_name: str) -> None:
        """Raise InputError if a feature other than this one has locked the weights."""
        for one in self.all_features():
            if one.name != feature_name and (why := one.weight_lock_reason()):
                raise InputError(why)
