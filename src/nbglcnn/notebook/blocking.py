"""Waiting for a page inside a running cell; the only file that uses ipykernel's private names.

While a cell runs, the page's messages wait in the kernel's queue. A `MessagePump` takes two kinds
of messages out of the queue: those for a Viewer, and the requests with which a reloaded page
restores its widgets. It puts all other messages back in order, so queued cells and other widgets'
callbacks run after the cell. It reads the stream of the calling thread's own (sub)shell, so it also
works in widget callbacks. Tested with ipykernel 6.30, 7.0, 7.3 and 7.4, with JupyterLab's
`commsOverSubshells` on and off. If a private name is missing, the fallback is to wait without
delivering messages.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from nbglcnn.notebook import marimo
from nbglcnn.notebook.message_receivers import receivers_by_comm_id

POLLOUT = 2  # zmq.POLLOUT; zmq may be missing where there is no kernel
POLL_MS = 2  # also the latency for replies that another thread delivers
AWAIT_INTERVAL_S = 0.002  # between two polls of the queue, while an `await` lets other tasks run
WIDGET_CONTROL_TARGET = (
    "jupyter.widget.control"  # comm target through which a page requests widget states
)

IsDone = Callable[[], bool]


_replay_tasks: set[asyncio.Future[Any]] = set()  # messages put back, until their handlers are done
_thread_state = threading.local()  # .hold: the active pump of this thread


class MessagePump(Protocol):
    """A context manager that takes a page's messages out of a host's queue while it is active."""

    def __enter__(self) -> MessagePump: ...
    def __exit__(self, *_: object) -> None: ...
    def deliver_one(self, timeout_ms: int) -> bool:
        """Take one message if one arrives within `timeout_ms`; return whether one did."""


def running_kernel() -> Any:
    """The running ipykernel, or None in a script or another host."""
    module = sys.modules.get("ipykernel.kernelbase")
    if module is None or not module.Kernel.initialized():
        return None
    return module.Kernel.instance()


def current_cell() -> tuple[str, str] | None:
    """(id of the running cell, id of this execution), or None if the host doesn't provide them."""
    try:
        parent = running_kernel().get_parent("shell")
        cell, execution = parent["metadata"]["cellId"], parent["header"]["msg_id"]
    except (AttributeError, KeyError, TypeError, LookupError):
        return None
    return (cell, execution) if isinstance(cell, str) else None


def wait_until(done: IsDone) -> None:
    """Block until `done()` is true (or raises), and deliver the page's messages meanwhile."""
    with _shared_pump() as pump:
        while not done():
            if pump is None:
                time.sleep(POLL_MS / 1000)
            else:
                _deliver_one(pump, POLL_MS)


def deliver_pending() -> None:
    """Deliver all messages that pages have sent so far; no-op on a thread without a pump."""
    with _shared_pump() as pump:
        while pump is not None and _deliver_one(pump, 0):
            pass


async def wait_until_async(done: IsDone) -> None:
    """Wait until `done()` is true (or raises), and let other tasks run meanwhile.

    The pump stays active throughout. Otherwise ipykernel 7.0 to 7.3 could take a message between
    two polls and hold it until the cell ends. ipykernel 7.4 delivers messages itself while a cell
    awaits.
    """
    while True:
        with _shared_pump(awaiting=True) as pump:
            while True:
                while pump is not None and _deliver_one(pump, 0):
                    pass
                if done():
                    return
                await asyncio.sleep(AWAIT_INTERVAL_S)
                if pump is None:
                    break


@dataclass
class _SharedPump:
    """A thread's active pump, shared by all waiters; the last waiter closes it."""

    pump: MessagePump
    exit_stack: ExitStack
    interrupts: list[tuple[int, FrameType | None]]
    user_count: int = 0


def _deliver_one(pump: MessagePump, timeout_ms: int) -> bool:
    shared_pump: _SharedPump = _thread_state.hold
    if shared_pump.interrupts:
        raise Interrupted
    return pump.deliver_one(timeout_ms)


@contextmanager
def _shared_pump(*, awaiting: bool = False) -> Iterator[MessagePump | None]:
    # An observer that a message triggers may read again, and several tasks may await: they share
    # one.
    shared_pump: _SharedPump | None = getattr(_thread_state, "hold", None) or _start_pump(awaiting)
    if shared_pump is None:
        yield None
        return
    _thread_state.hold = shared_pump
    shared_pump.user_count += 1
    try:
        yield shared_pump.pump
    except Interrupted:
        pass  # the exit stack raises, or the code below if other waiters remain
    finally:
        shared_pump.user_count -= 1
        if shared_pump.user_count == 0:
            _thread_state.hold = None
            shared_pump.exit_stack.close()
    if shared_pump.interrupts:
        shared_pump.interrupts.clear()
        raise KeyboardInterrupt


def _start_pump(is_awaiting: bool) -> _SharedPump | None:
    pump = marimo.MarimoPump.for_thread(awaiting=is_awaiting) or IPythonPump.for_thread()
    if pump is None:
        return None
    with ExitStack() as undo:
        interrupts = undo.enter_context(_deferred_interrupts())
        undo.enter_context(pump)
        return _SharedPump(pump, undo.pop_all(), interrupts)


class Interrupted(Exception):  # internal to this file
    """The user interrupted the kernel while the pump was active."""


@contextmanager
def _deferred_interrupts() -> Iterator[list[tuple[int, FrameType | None]]]:
    """Defer Ctrl-C until between two messages, so that no message is lost.

    The handler records the signal, and `_deliver_one` raises.
    """
    caught: list[tuple[int, FrameType | None]] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    previous = signal.getsignal(signal.SIGINT)
    if previous == signal.SIG_IGN:  # a background task: nothing to interrupt
        yield caught
        return
    signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, previous)
    if caught and callable(previous):
        previous(*caught[0])  # ipykernel's handler raises KeyboardInterrupt


def _parent_identities(kernel: Any) -> Any:
    """The routing identities for replies to the running cell."""
    since_7 = getattr(kernel, "_shell_parent_ident", None)
    return since_7.get() if since_7 is not None else kernel._parent_ident["shell"]


def _held_messages() -> list[Any]:
    """Messages that ipykernel 7 took off the stream when the cell began and holds until its end.

    They may include the restore requests of a page that was just reloaded. When the kernel later
    handles such a message again, it rejects the duplicate and logs this.
    """
    found = []
    with suppress(RuntimeError):  # no event loop in this thread
        # Task names are numbered in order of arrival.
        for task in sorted(
            asyncio.all_tasks(), key=lambda one: (len(one.get_name()), one.get_name())
        ):
            coroutine: Any = task.get_coro()
            frame = getattr(coroutine, "cr_frame", None)
            if frame is None:
                continue
            if frame.f_code.co_name == "shell_main":
                found.append(frame.f_locals.get("msg"))
            elif frame.f_code.co_name == "run_in_context":  # becomes a shell_main task
                is_new = inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
                found += [*frame.f_locals.get("args", ())][-1:] if is_new else []
    return [parts for parts in found if isinstance(parts, list)]


class IPythonPump:
    """Takes over this thread's request stream and delivers the messages for a Viewer."""

    def __init__(self, kernel: Any, stream: Any, reply_socket: Any) -> None:
        self._kernel = kernel
        self._stream = stream
        self._replies = reply_socket  # socket for replies to requests
        self._socket = stream.socket
        self._callback = stream._recv_callback
        self._deferred: list[Any] = []

    @staticmethod
    def for_thread() -> IPythonPump | None:
        """Return a pump for this thread, or None if there is no stream to read."""
        instance = running_kernel()
        try:
            manager = getattr(getattr(instance, "shell_channel_thread", None), "manager", None)
            if manager is not None:  # ipykernel 7: the inproc stream of this thread's (sub)shell
                shell = manager.subshell_id_from_thread_id(threading.get_ident())
                stream = manager.get_shell_channel_to_subshell_pair(shell).to_stream
                replies = manager.get_subshell_to_shell_channel_socket(shell)
            elif threading.current_thread() is threading.main_thread():  # ipykernel 6
                stream = replies = instance.shell_stream
            else:
                return None
            return (
                IPythonPump(instance, stream, replies) if callable(stream._recv_callback) else None
            )
        except (AttributeError, RuntimeError, KeyError):
            return None  # a user's thread, or a changed ipykernel

    def __enter__(self) -> IPythonPump:
        self._stream.stop_on_recv()
        self._drain_queue()
        for parts in _held_messages():
            self._deliver_if_for_viewer(parts)
        return self

    def __exit__(self, *_: object) -> None:
        # Without this the next cell would hang for ever.
        self._stream.on_recv(self._callback, copy=False)
        for parts in self._deferred:
            result = self._callback(parts)
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(result)
                _replay_tasks.add(task)  # asyncio keeps only weak references
                task.add_done_callback(_replay_tasks.discard)

    def deliver_one(self, timeout_ms: int) -> bool:
        """Take one message if one arrives within `timeout_ms`; return whether one did."""
        if not self._socket.poll(timeout_ms):
            return False
        parts = self._socket.recv_multipart(copy=False)
        if not self._deliver_if_for_viewer(parts):
            self._deferred.append(parts)
        return True

    def _deliver_if_for_viewer(self, frames: list[Any]) -> bool:
        """Deliver a Viewer's message; return False and do nothing for any other message."""
        session = self._kernel.session
        try:
            identities, message = session.feed_identities(frames, copy=False)
            kind = json.loads(bytes(message[1].buffer))["msg_type"]
            if not kind.startswith("comm_"):
                return False
            content = json.loads(bytes(message[4].buffer))
            if self._is_restore_request(kind, content):
                message = session.deserialize(message, content=True, copy=False)
                self._reply_to_restore_request(kind, identities, message)
                self._publish_idle_status(message)
                return True
            if kind not in ("comm_msg", "comm_close"):
                return False
            inbox = receivers_by_comm_id.get(content["comm_id"])
            if inbox is None:
                return False
            if kind == "comm_close":  # no later message would end the wait
                message = session.deserialize(message, content=True, copy=False)
                self._kernel.comm_manager.comm_close(self._stream, identities, message)
                self._publish_idle_status(message)
                return True
            # Trait changes call users' observers: leave them until the cell is done.
            if content["data"].get("method") != "custom":
                return False
            # A duplicate frame raises ValueError here, and the kernel also rejects it in its log.
            message = session.deserialize(message, content=True, copy=False)
        except (ValueError, LookupError, TypeError, AttributeError):
            return False
        # Don't call Comm.handle_msg: it runs IPython's post_execute hooks, and matplotlib's hook
        # would show a figure that the cell is still drawing.
        inbox.receive(message["content"]["data"].get("content"), message["buffers"])
        self._publish_idle_status(message)
        return True

    def _is_restore_request(self, message_type: str, content: dict[str, Any]) -> bool:
        """Whether a page requests the existing widgets, as a reloaded page does.

        The page sends its hello only after the reply, so without a reply a waiting cell would block
        for ever.
        """
        if message_type == "comm_info_request":
            return True
        if message_type == "comm_open":
            return bool(content["target_name"] == WIDGET_CONTROL_TARGET)
        if message_type != "comm_msg" or content["comm_id"] not in self._kernel.comm_manager.comms:
            return False
        return content["data"].get("method") in ("request_state", "request_states")

    def _reply_to_restore_request(
        self, message_type: str, identities: list[bytes], message: dict[str, Any]
    ) -> None:
        """Reply to this message rather than to the running cell; no user code runs."""
        kernel, manager = self._kernel, self._kernel.comm_manager
        cell = _parent_identities(kernel), kernel.get_parent("shell")
        kernel.set_parent(identities, message)
        try:
            if message_type == "comm_info_request":
                answer = kernel.comm_info_request(self._replies, identities, message)
                if inspect.iscoroutine(answer):  # it never suspends
                    with suppress(StopIteration):
                        answer.send(None)
                if self._replies is self._stream:  # else its loop would send only after the cell
                    self._stream.flush(POLLOUT)
            elif message_type == "comm_open":
                manager.comm_open(self._stream, identities, message)
            else:  # not through Comm.handle_msg; see `_deliver_if_for_viewer`
                manager.comms[message["content"]["comm_id"]]._msg_callback(message)
        finally:
            kernel.set_parent(*cell)

    def _publish_idle_status(self, message: Any) -> None:
        """Tell the page that a message was handled; until then JupyterLab keeps it and its bytes.

        "busy" follows because the kernel is still busy. Its parent is the message, not the cell,
        whose recorded start time would move.
        """
        with suppress(AttributeError, TypeError):  # a changed ipykernel
            for state in ("idle", "busy"):
                self._kernel._publish_status(state, "shell", message)

    def _drain_queue(self) -> None:
        """Deliver from ipykernel 6's second queue behind the stream, filled while a cell awaits."""
        queue = getattr(self._kernel, "msg_queue", None)
        if queue is None or threading.current_thread() is not threading.main_thread():
            return
        kept = []
        while not queue.empty():
            item = queue.get_nowait()
            parts = item[-1][0] if item[-1] else None
            if not isinstance(parts, list) or not self._deliver_if_for_viewer(parts):
                kept.append(item)
        for item in kept:
            queue.put_nowait(item)
