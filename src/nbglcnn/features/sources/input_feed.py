"""What pages feed a Viewer's network: read when somebody asks, and made Python's input."""

from __future__ import annotations

import math
import time
import warnings
from typing import TYPE_CHECKING

from nbglcnn import protocol
from nbglcnn.errors import NbglcnnError, PageError, users_line
from nbglcnn.features.feature import Host
from nbglcnn.features.sources.records import SourceRecord
from nbglcnn.graph import Array
from nbglcnn.inputs.arrays import finished
from nbglcnn.protocol import QUIET_S

if TYPE_CHECKING:
    from nbglcnn.widget.connection import Page, Request

NEVER = -math.inf
ADOPTED_S = 0.2  # at least, between two live pictures of one page that others are shown


class InputFeed:
    """Reads from pages what their source has fed, and makes it the network's input here.

    A page tells when its source has fed it. What it was fed is *adopted*, that is read and made the
    network's input here, when it stays, and while others need it: pages that show the Viewer, too,
    and layers that Python computes. What follows from an input follows then: other pages, the
    parity check, exported pages. `wire` is the record of the source that is on, None for none.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._network = host.network
        self._connection = host.connection
        self.wire: SourceRecord | None = None
        self._adoption: tuple[Request, str] | None = None
        self._asked_at = NEVER  # when the page was asked for it, and for how long it isn't again
        self._pause = ADOPTED_S
        self._adopted: tuple[str, float] = ("", NEVER)  # of which page's last words

    def keys(self) -> list[str]:
        """The input that pages feed, where they may have fed another than Python has."""
        wire, pages = self.wire, self._connection.usable
        if wire is None or not pages or wire.input not in self._network.inputs:
            return []
        if wire.of_one_page and not any(page.id == wire.owner for page in pages):
            return []  # nobody has started it: the last tensor stays
        return [wire.input]

    def _feeding_page(self) -> Page | None:
        """The page whose words about what it was fed count."""
        wire = self.wire
        if wire is None or wire.input not in self._network.inputs:
            return None
        if wire.of_one_page:
            return self._connection.pages.get(wire.owner)
        pages = [page for page in self._connection.usable if page.fed is not None]
        return max(pages, key=lambda page: page.fed_at, default=None)

    def follow(self) -> None:
        """Take what a page was fed, where somebody else needs it; asks for it without waiting."""
        self._take_adopted()
        wire, page = self.wire, self._feeding_page()
        if wire is None or page is None or page.fed is None or self._adoption is not None:
            return
        if self._adopted == (page.id, page.fed_at):
            return
        self._connection.owner = wire.owner  # also where it was silent for a while
        others = len(self._connection.usable) > 1 and wire.of_one_page
        needed = others or bool(self._network.plan.in_python)
        rested = time.monotonic() - self._asked_at >= self._pause
        if page.fed.still or (needed and rested):
            self._adopted = page.id, page.fed_at
            self._ask_page(page.id, wire.input)

    def _ask_page(self, page: str, key: str) -> None:
        [value] = self._network.values([key])
        self._asked_at = time.monotonic()
        size = 4 * value.read.count
        self._adoption = self._connection.ask([key], [size], unbent=True, page=page), key

    def ask_last(self, wire: SourceRecord | None) -> None:
        """A page has ended its source: what was fed last stays the input, if nothing else comes."""
        now = self.wire
        goes_on = wire is not None and (not wire.of_one_page or wire.is_like(now))
        if now is not None and not goes_on and self.keys():
            self.drop()
            self._ask_page(now.owner, now.input)

    def _take_adopted(self) -> None:
        """Make what has come the input; what doesn't come is asked for again with the next."""
        if self._adoption is None:
            return
        request, key = self._adoption
        silent = time.monotonic() - request.heard > QUIET_S
        if request.failures or (request.missing and silent):
            self.drop()
            self._adopted = "", NEVER
        elif not request.missing:
            self.drop()
            self._adopt(key, request.arrays()[0])

    def drop(self) -> None:
        """Forget what a page was asked for."""
        if self._adoption is not None:
            self._connection.drop(self._adoption[0])
            self._adoption = None

    def adopt_now(self) -> None:
        """Make what pages were fed the input; waits. Without an answer the last one stays."""
        if not (fed := self.keys()):
            return
        self.drop()
        try:
            [array] = self._host.reader.read([], fed=fed).fed
        except PageError as error:
            warnings.warn(
                f"the page did not say what its source gave last, and what Python has stays: "
                f"{error}",
                UserWarning,
                stacklevel=users_line(),
            )
            return
        if page := self._feeding_page():
            self._adopted = page.id, page.fed_at
        self._adopt(fed[0], array)

    def _adopt(self, key: str, flat: Array) -> None:
        begun = time.monotonic()
        record = next((each for each in self._network.plan.inputs if each.key == key), None)
        if record is None or flat.size != math.prod(record.shape):
            return  # of an earlier network
        [value] = self._network.values([key])
        array = finished(value, flat)
        if is_equal(array, self._network.inputs[key]):
            return
        try:
            self._network.adopt(list(self._network.inputs).index(key), array)
        except NbglcnnError as error:
            protocol.warn_once(f"what the page was fed cannot be the input: {error}")
            return
        self._host.show()
        # Where Python computes layers, that takes its time: pages wait, and cells as little.
        self._pause = max(ADOPTED_S, 2 * (time.monotonic() - begun))


def is_equal(one: Array, other: Array) -> bool:
    """Whether two inputs are the same to the bit."""
    return one.shape == other.shape and one.tobytes() == other.tobytes()
