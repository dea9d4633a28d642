"""A sender of a loop's states to pages: if pages are slow it drops states, but not the last."""

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

# After this time without a frame a page no longer holds up others; if it is idle meanwhile, it has
# lost the frame.
SILENCE_LIMIT_S = 2.0
# Weights of more bytes than this are packed on a thread, because packing would block the loop's
# call too long.
MAX_SYNC_PACK_BYTES = 2**17


@dataclass(frozen=True)
class LossUpdate:
    """Losses to send to pages: from step `first_step` on, as in `MirrorFrame`."""

    first_step: int
    loss_rows: Float32
    held_out_rows: Sequence[tuple[int, float | None, float | None]]


class FrameSender:
    """The pipeline of states to pages, one in flight at a time; `send_if_ready` is thread-safe.

    `get_losses` returns the losses after the steps that pages already have, `update_pages` sends
    the whole Plan again.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        follower: WeightFollower,
        connection: Connection,
        get_losses: Callable[[int], LossUpdate],
        update_pages: Callable[[], int],
    ) -> None:
        self._name = name
        self._network = network
        self._follower = follower
        self._connection = connection
        self._get_losses = get_losses
        self._update_pages = update_pages
        size = sum(array.nbytes for array in network.weights().values())
        self._is_small = size <= MAX_SYNC_PACK_BYTES
        self._revision = -1  # of the last state sent
        self._sent_at = 0.0
        self._sent_steps = 0  # steps whose losses pages have
        self._silent_pages: set[str] = set()
        self._has_new_page = False
        self._send_lock = threading.Lock()
        self.sent_count = 0
        self.error: NbglcnnError | None = None  # why copying weights failed

    @property
    def is_in_flight(self) -> bool:
        """Whether a page has not yet shown the last state that it was sent."""
        return self._revision >= 0 and bool(self._late_pages())

    @property
    def has_pending(self) -> bool:
        """Whether the Viewer or a page lacks the last copied weights."""
        return self._follower.has_pending

    def send_if_ready(self) -> None:
        """Send the pending state if pages have taken the last one."""
        if (
            not self._follower.has_pending
            or self._network.is_holding_weights
            or not self._can_send()
        ):
            return
        if not self._send_lock.acquire(blocking=False):
            return  # the thread that holds the lock calls push again at its end
        if self._is_small and self._follower.is_on_cpu:
            self._send_and_repeat()
        else:
            # Not a daemon: at exit the process would kill it inside PyTorch's code.
            threading.Thread(target=self._send_and_repeat, name="nbglcnn mirror").start()

    def send_now(self) -> None:
        """Send the pending state synchronously, even if another one is in flight."""
        if self._follower.has_pending and self._connection.usable_pages:
            self._send()

    def send_losses(self) -> None:
        """Send losses if pages lack some, even if they have the weights already."""
        if self._connection.usable_pages and len(self._get_losses(self._sent_steps).loss_rows):
            self._send()

    def mark_losses_unsent(self, step: int) -> None:
        """Mark the losses from this step on to be sent again, because metrics were added."""
        self._sent_steps = min(self._sent_steps, step)

    def _send_and_repeat(self) -> None:
        try:
            self._try_to_send()
        finally:
            self._send_lock.release()
        if self.error is None:
            self.send_if_ready()  # pages may have taken it in the meantime

    def _try_to_send(self) -> None:
        try:
            self._send()
        except NbglcnnError as error:
            self.error = error  # raised by the mirror's next call

    def _send(self) -> None:
        network, connection = self._network, self._connection
        with network.lock:
            frame = self._follower.next_frame()
            if frame is None:
                self._update_pages()
                frame = self._follower.next_frame()
            if frame is None:
                return  # the Viewer no longer exists
            news = self._get_losses(self._sent_steps)
            self._revision = connection.send_update(
                split_frame(
                    self._name, frame.texture_indices, frame.texture_values, self._follower.step,
                    news.first_step, news.loss_rows, news.held_out_rows,
                )
            )  # fmt: skip
            self._sent_steps = news.first_step + len(news.loss_rows)
            self._sent_at = time.monotonic()
            self.sent_count += 1

    def _can_send(self) -> bool:
        """Whether the pages that aren't silent have taken the last state."""
        if not self._connection.usable_pages:
            return False
        if self._revision < 0:
            return True
        late_pages, done = self._connection.split_by_revision(self._revision)
        self._silent_pages -= {page.id for page in done}
        late_pages = [page for page in late_pages if page.id not in self._silent_pages]
        if not late_pages:
            return bool(done)
        if time.monotonic() - self._sent_at < SILENCE_LIMIT_S:
            return False
        if done:
            self._silent_pages |= {page.id for page in late_pages}
            return True
        return False

    def record_new_page(self) -> None:
        """Record that a page has joined, which has not received earlier states."""
        self._has_new_page = True

    def resend_lost_frame(self) -> None:
        """Send the Plan and state again if an idle page has lost the last state."""
        has_new_page, self._has_new_page = self._has_new_page, False
        now = time.monotonic()
        if self._revision < 0 or (now - self._sent_at < SILENCE_LIMIT_S and not has_new_page):
            return
        if any(
            has_new_page
            or (page.last_message_at > self._sent_at + SILENCE_LIMIT_S and page.progress is None)
            for page in self._late_pages()
            if not page.error
        ):
            self._sent_steps = 0
            self._update_pages()
            self._try_to_send()

    def _late_pages(self) -> Sequence[Page]:
        return self._connection.split_by_revision(self._revision)[0]
