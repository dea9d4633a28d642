"""Sends pages the states of a loop: never more than they take, and the last one always."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbglcnn.errors import NbglcnnError
from nbglcnn.features.mirror.following import Following
from nbglcnn.features.mirror.messages import messages_of
from nbglcnn.plan.schema import Float32

if TYPE_CHECKING:
    from nbglcnn.widget.connection import Connection, Page
    from nbglcnn.widget.network import Network

# A page that has not run a frame for so long holds up no other; one that is there and has nothing
# to do has lost the frame.
SILENT_S = 2.0
# Weights of more bytes are packed beside the loop, on a thread: that takes a call too long.
INLINE_BYTES = 2**17


@dataclass(frozen=True)
class News:
    """Losses that pages don't have: from step `first` on, as `Mirrored` says it."""

    first: int
    rows: Float32
    held_out: Sequence[tuple[int, float | None, float | None]]


class Frames:
    """States on their way to pages, one at a time; `push` may be called on any thread.

    `news` gives the losses behind so many steps that pages have, `show` offers the Plan anew.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        following: Following,
        connection: Connection,
        news: Callable[[int], News],
        show: Callable[[], int],
    ) -> None:
        self._name = name
        self._network = network
        self._following = following
        self._connection = connection
        self._news = news
        self._show = show
        size = sum(array.nbytes for array in network.weights().values())
        self._small = size <= INLINE_BYTES
        self._revision = -1  # of the last one that was sent
        self._sent_at = 0.0
        self._known = 0  # steps whose losses pages have
        self._silent: set[str] = set()
        self._begins = False
        self._working = threading.Lock()
        self.sent = 0
        self.trouble: NbglcnnError | None = None  # why weights could not be taken

    @property
    def in_flight(self) -> bool:
        """Whether a page has not shown yet what it was sent."""
        return self._revision >= 0 and bool(self._late())

    @property
    def has_news(self) -> bool:
        """Whether the Viewer or a page lacks the weights that were copied last."""
        return self._following.has_news

    def push(self) -> None:
        """Send what there is, if pages have taken what was sent before."""
        if not self._following.has_news or self._network.is_kept_still or not self._may_send():
            return
        if not self._working.acquire(blocking=False):
            return  # another thread is at it, and looks once more when it is done
        if self._small and self._following.is_here:
            self._work()
        else:
            # Not a daemon: the process would end in the middle of PyTorch's code.
            threading.Thread(target=self._work, name="nbglcnn mirror").start()

    def send_now(self) -> None:
        """Send what there is, whatever is in flight; done when this returns."""
        if self._following.has_news and self._connection.usable:
            self._send()

    def all_losses(self) -> None:
        """Send losses alone where pages have the weights already."""
        if self._connection.usable and len(self._news(self._known).rows):
            self._send()

    def tell_again(self, step: int) -> None:
        """Numbers of this step and of what follows have become known since."""
        self._known = min(self._known, step)

    def _work(self) -> None:
        try:
            self._try_to_send()
        finally:
            self._working.release()
        if self.trouble is None:
            self.push()  # pages may have taken it meanwhile

    def _try_to_send(self) -> None:
        try:
            self._send()
        except NbglcnnError as error:
            self.trouble = error  # the next call of the mirror raises it

    def _send(self) -> None:
        network, connection = self._network, self._connection
        with network.lock:
            frame = self._following.frame()
            if frame is None:
                self._show()
                frame = self._following.frame()
            if frame is None:
                return  # the Viewer is gone
            news = self._news(self._known)
            self._revision = connection.advance(
                messages_of(
                    self._name, frame.textures, frame.contents, self._following.step,
                    news.first, news.rows, news.held_out,
                )
            )  # fmt: skip
            self._known = news.first + len(news.rows)
            self._sent_at = time.monotonic()
            self.sent += 1

    def _may_send(self) -> bool:
        """Whether pages have taken the last one, those that are awake at least."""
        if not self._connection.usable:
            return False
        if self._revision < 0:
            return True
        late, done = self._connection.behind(self._revision)
        self._silent -= {page.id for page in done}
        late = [page for page in late if page.id not in self._silent]
        if not late:
            return bool(done)
        if time.monotonic() - self._sent_at < SILENT_S:
            return False
        if done:
            self._silent |= {page.id for page in late}
            return True
        return False

    def begins(self) -> None:
        """A page follows only now, and has not heard what it was sent before."""
        self._begins = True

    def mend(self) -> None:
        """Where a page is there, has nothing to do and yet not what it was sent, send it anew."""
        begins, self._begins = self._begins, False
        now = time.monotonic()
        if self._revision < 0 or (now - self._sent_at < SILENT_S and not begins):
            return
        if any(
            begins or (page.seen > self._sent_at + SILENT_S and page.stage is None)
            for page in self._late()
            if not page.error
        ):
            self._known = 0
            self._show()
            self._try_to_send()

    def _late(self) -> Sequence[Page]:
        return self._connection.behind(self._revision)[0]
