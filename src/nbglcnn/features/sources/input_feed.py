"""The input that pages feed to a network: read on demand, and adopted as Python's input."""

from __future__ import annotations

import math
import time
import warnings
from typing import TYPE_CHECKING

from nbglcnn import protocol
from nbglcnn.errors import NbglcnnError, PageError, user_stacklevel
from nbglcnn.features.feature import ViewerHost
from nbglcnn.features.sources.records import SourceRecord
from nbglcnn.graph import Array
from nbglcnn.inputs.arrays import to_value_array
from nbglcnn.protocol import RESEND_TIMEOUT_S

if TYPE_CHECKING:
    from nbglcnn.widget.connection import Page, ReadRequest

NEVER = -math.inf
MIN_ADOPT_INTERVAL_S = 0.2  # shortest interval between adopted inputs of a live source


class InputFeed:
    """The reader of inputs that a page's source feeds; it makes them the network's input in Python.

    A page notifies Python when its source has fed an input. Python *adopts* an input, that is,
    reads it and makes it the network's input, if the source pauses, and repeatedly while it is
    needed: by other pages that show the Viewer, and by layers that Python computes. The change of
    input then updates other pages, the parity check and exported pages. `record` is the current
    source's record, or None.
    """

    def __init__(self, host: ViewerHost) -> None:
        self._host = host
        self._network = host.network
        self._connection = host.connection
        self.record: SourceRecord | None = None
        self._pending_read: tuple[ReadRequest, str] | None = None
        # Time of the last request; `_min_request_interval_s` is the time until the next.
        self._requested_at = NEVER
        self._min_request_interval_s = MIN_ADOPT_INTERVAL_S
        self._last_adopted_update: tuple[str, float] = ("", NEVER)  # page id and time of its report

    def fed_keys(self) -> list[str]:
        """Return the key of the input that pages feed, if Python's may be outdated, as a list."""
        wire, pages = self.record, self._connection.usable_pages
        if wire is None or not pages or wire.input not in self._network.inputs:
            return []
        if wire.page_owned and not any(page.id == wire.owner for page in pages):
            return []  # not started in any page: the input stays
        return [wire.input]

    def _feeding_page(self) -> Page | None:
        """Return the page whose reports about the fed input count."""
        wire = self.record
        if wire is None or wire.input not in self._network.inputs:
            return None
        if wire.page_owned:
            return self._connection.pages.get(wire.owner)
        pages = [page for page in self._connection.usable_pages if page.source_update is not None]
        return max(pages, key=lambda page: page.source_updated_at, default=None)

    def poll(self) -> None:
        """Request a page's fed input if it is needed, without blocking; adopt what has arrived."""
        self._finish_read()
        wire, page = self.record, self._feeding_page()
        if (
            wire is None
            or page is None
            or page.source_update is None
            or self._pending_read is not None
        ):
            return
        if self._last_adopted_update == (page.id, page.source_updated_at):
            return
        self._connection.source_page_id = wire.owner  # also after the page was silent
        others = len(self._connection.usable_pages) > 1 and wire.page_owned
        needed = others or bool(self._network.plan.in_python)
        rested = time.monotonic() - self._requested_at >= self._min_request_interval_s
        if page.source_update.is_still or (needed and rested):
            self._last_adopted_update = page.id, page.source_updated_at
            self._request_value(page.id, wire.input)

    def _request_value(self, page_id: str, key: str) -> None:
        [value] = self._network.value_records([key])
        self._requested_at = time.monotonic()
        size = 4 * value.readback.count
        self._pending_read = (
            self._connection.request_values([key], [size], before_edits=True, page_id=page_id),
            key,
        )

    def request_last(self, record: SourceRecord | None) -> None:
        """Request the last input of a stopped source, unless the new source feeds one."""
        now = self.record
        goes_on = record is not None and (not record.page_owned or record.is_same_source(now))
        if now is not None and not goes_on and self.fed_keys():
            self.cancel_read()
            self._request_value(now.owner, now.input)

    def _finish_read(self) -> None:
        """Adopt an input that has arrived; after a failure or timeout it is requested again."""
        if self._pending_read is None:
            return
        request, key = self._pending_read
        silent = time.monotonic() - request.last_reply_at > RESEND_TIMEOUT_S
        if request.failures or (request.missing_chunks and silent):
            self.cancel_read()
            self._last_adopted_update = "", NEVER
        elif not request.missing_chunks:
            self.cancel_read()
            self._adopt(key, request.arrays()[0])

    def cancel_read(self) -> None:
        """Cancel the pending request to a page."""
        if self._pending_read is not None:
            self._connection.end_request(self._pending_read[0])
            self._pending_read = None

    def adopt_now(self) -> None:
        """Adopt the input that pages feed; blocks. If no page replies, the previous input stays."""
        if not (fed_keys := self.fed_keys()):
            return
        self.cancel_read()
        try:
            [array] = self._host.reader.read([], source_input_keys=fed_keys).source_inputs
        except PageError as error:
            warnings.warn(
                "the page did not send its source's last input; Python keeps the previous one: "
                f"{error}",
                UserWarning,
                stacklevel=user_stacklevel(),
            )
            return
        if page := self._feeding_page():
            self._last_adopted_update = page.id, page.source_updated_at
        self._adopt(fed_keys[0], array)

    def _adopt(self, key: str, flat: Array) -> None:
        begun = time.monotonic()
        record = next((each for each in self._network.plan.inputs if each.key == key), None)
        if record is None or flat.size != math.prod(record.shape):
            return  # of an earlier network
        [value] = self._network.value_records([key])
        array = to_value_array(value, flat)
        if is_bit_equal(array, self._network.inputs[key]):
            return
        try:
            self._network.set_input_array(list(self._network.inputs).index(key), array)
        except NbglcnnError as error:
            protocol.warn_once(f"the page's last input is not a valid input: {error}")
            return
        self._host.update_pages()
        # If Python computes layers, an update takes time: wait twice as long, to limit the load on
        # pages and cells.
        self._min_request_interval_s = max(MIN_ADOPT_INTERVAL_S, 2 * (time.monotonic() - begun))


def is_bit_equal(one: Array, other: Array) -> bool:
    """Whether two inputs are bitwise equal."""
    return one.shape == other.shape and one.tobytes() == other.tobytes()
