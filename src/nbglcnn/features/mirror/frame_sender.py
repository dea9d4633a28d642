"""Sends pages the states of a loop: never more than they take, and the last one always."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbglcnn.errors import NbglcnnError
from nbglcnn.features.mirror.messages import split_frame
from nbglcnn.features.mirror.weight_follower import WeightFollower
from nbglcnn.plan.schema import Float32

if TYPE_CHECKING:
    from nbglcnn.widget.connection import Connection, Page
    from nbglcnn.widget.network import Network

# A page that has not run a frame for so long holds up no other; one that is there and has nothing
# to do has lost the frame.
SILENCE_LIMIT_S = 2.0
# Weights of more bytes are packed beside the loop, on a thread: that takes a call too long.
MAX_INLINE_BYTES = 2**17


@dataclass(frozen=True)
class LossUpdate:
    """Losses that pages don't have: from step `first_step` on, as in `MirrorFrame`."""

    first_step: int
    rows: Float32
    held_out: Sequence[tuple[int, float | None, float | None]]


class FrameSender:
    """States on their way to pages, one at a time; `push` may be called on any thread.

    `news` gives the losses behind so many steps that pages have, `show` offers the Plan anew.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        following: WeightFollower,
        connection: Connection,
        news: Callable[[int], LossUpdate],
        show: Callable[[], int],
    ) -> None:
        self._name = name
        self._network = network
        self._follower = following
        self._connection = connection
        self._get_losses = news
        self._update_pages = show
        size = sum(array.nbytes for array in network.weights().values())
        self._is_small = size <= MAX_INLINE_BYTES
        self._revision = -1  # of the last one that was sent
        self._sent_at = 0.0
        self._sent_steps = 0  # steps whose losses pages have
        self._silent_pages: set[str] = set()
        self._has_new_page = False
        self._send_lock = threading.Lock()
        self.sent_count = 0
        self.error: NbglcnnError | None = None  # why weights could not be taken

    @property
    def in_flight(self) -> bool:
        """Whether a page has not shown yet what it was sent."""
        return self._revision >= 0 and bool(self._late_pages())

    @property
    def has_pending(self) -> bool:
        """Whether the Viewer or a page lacks the weights that were copied last."""
        return self._follower.has_pending

    def push(self) -> None:
        """Send what there is, if pages have taken what was sent before."""
        if (
            not self._follower.has_pending
            or self._network.is_holding_weights
            or not self._can_send()
        ):
            return
        if not self._send_lock.acquire(blocking=False):
            return  # another thread is at it, and looks once more when it is done
        if self._is_small and self._follower.is_on_cpu:
            self._send_and_repeat()
        else:
            # Not a daemon: the process would end in the middle of PyTorch's code.
            threading.Thread(target=self._send_and_repeat, name="nbglcnn mirror").start()

    def send_now(self) -> None:
        """Send what there is, whatever is in flight; done when this returns."""
        if self._follower.has_pending and self._connection.usable_pages:
            self._send()

    def send_losses(self) -> None:
        """Send losses alone where pages have the weights already."""
        if self._connection.usable_pages and len(self._get_losses(self._sent_steps).rows):
            self._send()

    def resend_losses(self, step: int) -> None:
        """Numbers of this step and of what follows have become known since."""
        self._sent_steps = min(self._sent_steps, step)

    def _send_and_repeat(self) -> None:
        try:
            self._try_to_send()
        finally:
            self._send_lock.release()
        if self.error is None:
            self.push()  # pages may have taken it meanwhile

    def _try_to_send(self) -> None:
        try:
            self._send()
        except NbglcnnError as error:
            self.error = error  # the next call of the mirror raises it

    def _send(self) -> None:
        network, connection = self._network, self._connection
        with network.lock:
            frame = self._follower.next_frame()
            if frame is None:
                self._update_pages()
                frame = self._follower.next_frame()
            if frame is None:
                return  # the Viewer is gone
            news = self._get_losses(self._sent_steps)
            self._revision = connection.send_update(
                split_frame(
                    self._name, frame.textures, frame.contents, self._follower.step,
                    news.first_step, news.rows, news.held_out,
                )
            )  # fmt: skip
            self._sent_steps = news.first_step + len(news.rows)
            self._sent_at = time.monotonic()
            self.sent_count += 1

    def _can_send(self) -> bool:
        """Whether pages have taken the last one, those that are awake at least."""
        if not self._connection.usable_pages:
            return False
        if self._revision < 0:
            return True
        late, done = self._connection.split_by_revision(self._revision)
        self._silent_pages -= {page.id for page in done}
        late = [page for page in late if page.id not in self._silent_pages]
        if not late:
            return bool(done)
        if time.monotonic() - self._sent_at < SILENCE_LIMIT_S:
            return False
        if done:
            self._silent_pages |= {page.id for page in late}
            return True
        return False

    def page_joined(self) -> None:
        """A page follows only now, and has not heard what it was sent before."""
        self._has_new_page = True

    def resend_lost(self) -> None:
        """Where a page is there, has nothing to do and yet not what it was sent, send it anew."""
        begins, self._has_new_page = self._has_new_page, False
        now = time.monotonic()
        if self._revision < 0 or (now - self._sent_at < SILENCE_LIMIT_S and not begins):
            return
        if any(
            begins
            or (page.last_message_time > self._sent_at + SILENCE_LIMIT_S and page.progress is None)
            for page in self._late_pages()
            if not page.error
        ):
            self._sent_steps = 0
            self._update_pages()
            self._try_to_send()

    def _late_pages(self) -> Sequence[Page]:
        return self._connection.split_by_revision(self._revision)[0]
