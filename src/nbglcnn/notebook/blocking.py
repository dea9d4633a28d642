"""Waiting for a page inside a running cell; the only file that knows ipykernel's private names.

While a cell runs, the page's messages lie in the kernel's queue. A `MessagePump` takes those meant
for a Viewer out of it, and what a reloaded page asks to show its widgets again, and puts every
other one back in order: cells that were queued meanwhile run afterwards, other widgets' callbacks
too. It reads the stream of the calling thread's own (sub)shell, so it also works in widget
callbacks. Tried on ipykernel 6.30, 7.0, 7.3 and 7.4, with JupyterLab's `commsOverSubshells` on and
off; where the names are missing, waiting is what's left.
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
from nbglcnn.notebook.inbox import inboxes_by_comm

POLLOUT = 2  # zmq.POLLOUT; where there is no kernel there may be no zmq
POLL_MS = 2  # also how late an answer is seen that another thread delivers
AWAIT_INTERVAL_S = 0.002  # between two looks at the queue while an `await` lets other tasks run
WIDGET_CONTROL_TARGET = (
    "jupyter.widget.control"  # target of the comm on which a page asks for widgets' states
)

IsDone = Callable[[], bool]


_replay_tasks: set[asyncio.Future[Any]] = set()  # messages put back, until their handlers have run
_thread_state = threading.local()  # .hold: the pump at work in this thread


class MessagePump(Protocol):
    """What takes a page's messages out of a host's queue; a context while it does."""

    def __enter__(self) -> MessagePump: ...
    def __exit__(self, *_: object) -> None: ...
    def deliver_one(self, ms: int) -> bool:
        """Take one message if one comes within `ms` milliseconds; whether one came."""


def running_kernel() -> Any:
    """The running ipykernel, or None in a script or another host."""
    module = sys.modules.get("ipykernel.kernelbase")
    if module is None or not module.Kernel.initialized():
        return None
    return module.Kernel.instance()


def current_cell() -> tuple[str, str] | None:
    """(id of the cell that is running, id of this execution of it), where the host says so."""
    try:
        parent = running_kernel().get_parent("shell")
        cell, execution = parent["metadata"]["cellId"], parent["header"]["msg_id"]
    except (AttributeError, KeyError, TypeError, LookupError):
        return None
    return (cell, execution) if isinstance(cell, str) else None


def wait_until(done: IsDone) -> None:
    """Block until `done()` is true (or raises), delivering the page's messages meanwhile."""
    with _shared_pump() as pump:
        while not done():
            if pump is None:
                time.sleep(POLL_MS / 1000)
            else:
                _deliver_one(pump, POLL_MS)


def deliver_pending() -> None:
    """Deliver what pages have said by now; nothing on a thread to which nobody speaks."""
    with _shared_pump() as pump:
        while pump is not None and _deliver_one(pump, 0):
            pass


async def wait_until_async(done: IsDone) -> None:
    """Wait until `done()` is true (or raises); other tasks go on.

    The pump stays at work all the while: a message that ipykernel 7.0 to 7.3 took itself between
    two looks would wait for the end of the cell. 7.4 delivers by itself while a cell awaits.
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
    """A thread's pump at work: all that wait there share it, and the last one undoes it."""

    pump: MessagePump
    exit_stack: ExitStack
    interrupts: list[tuple[int, FrameType | None]]
    users: int = 0


def _deliver_one(pump: MessagePump, ms: int) -> bool:
    hold: _SharedPump = _thread_state.hold
    if hold.interrupts:
        raise Interrupted
    return pump.deliver_one(ms)


@contextmanager
def _shared_pump(*, awaiting: bool = False) -> Iterator[MessagePump | None]:
    # An observer that a message calls may read again, and several tasks may await: all share one.
    hold: _SharedPump | None = getattr(_thread_state, "hold", None) or _start_pump(awaiting)
    if hold is None:
        yield None
        return
    _thread_state.hold = hold
    hold.users += 1
    try:
        yield hold.pump
    except Interrupted:
        pass  # `exit_stack` says so; or here, when others go on waiting
    finally:
        hold.users -= 1
        if hold.users == 0:
            _thread_state.hold = None
            hold.exit_stack.close()
    if hold.interrupts:
        hold.interrupts.clear()
        raise KeyboardInterrupt


def _start_pump(awaiting: bool) -> _SharedPump | None:
    pump = marimo.MarimoPump.for_thread(awaiting=awaiting) or IPythonPump.for_thread()
    if pump is None:
        return None
    with ExitStack() as undo:
        interrupts = undo.enter_context(_deferred_interrupts())
        undo.enter_context(pump)
        return _SharedPump(pump, undo.pop_all(), interrupts)


class Interrupted(Exception):  # never leaves this file
    """The user interrupted the kernel while the pump was at work."""


@contextmanager
def _deferred_interrupts() -> Iterator[list[tuple[int, FrameType | None]]]:
    """Ctrl-C only between two messages, so that none is lost.

    It is noted, and `_deliver_one` raises.
    """
    caught: list[tuple[int, FrameType | None]] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    previous = signal.getsignal(signal.SIGINT)
    if (
        previous == signal.SIG_IGN
    ):  # nothing runs that could be interrupted: a task in the background
        yield caught
        return
    signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, previous)
    if caught and callable(previous):
        previous(*caught[0])  # ipykernel's raises KeyboardInterrupt


def _parent_identities(kernel: Any) -> Any:
    """Whom replies to the cell that is running go to."""
    since_7 = getattr(kernel, "_shell_parent_ident", None)
    return since_7.get() if since_7 is not None else kernel._parent_ident["shell"]


def _held_messages() -> list[Any]:
    """Messages that ipykernel 7 took off the stream as the cell began, and holds until its end.

    Among them may be what a page that was just reloaded asks. A kernel that sees one of them again
    refuses it, in its log.
    """
    found = []
    with suppress(RuntimeError):  # no loop runs here
        # Their names count up: in the order in which they came.
        for task in sorted(
            asyncio.all_tasks(), key=lambda one: (len(one.get_name()), one.get_name())
        ):
            coroutine: Any = task.get_coro()
            frame = getattr(coroutine, "cr_frame", None)
            if frame is None:
                continue
            if frame.f_code.co_name == "shell_main":
                found.append(frame.f_locals.get("msg"))
            elif frame.f_code.co_name == "run_in_context":  # becomes a task of shell_main
                is_new = inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
                found += [*frame.f_locals.get("args", ())][-1:] if is_new else []
    return [parts for parts in found if isinstance(parts, list)]


class IPythonPump:
    """Holds this thread's stream of requests and hands out what is for a Viewer."""

    def __init__(self, kernel: Any, stream: Any, replies: Any) -> None:
        self._kernel = kernel
        self._stream = stream
        self._replies = replies  # where answers to requests go
        self._socket = stream.socket
        self._callback = stream._recv_callback
        self._deferred: list[Any] = []

    @staticmethod
    def for_thread() -> IPythonPump | None:
        """A Pump for this thread; None where there is nothing to pump."""
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
            return None  # a user's thread, or an ipykernel that has changed

    def __enter__(self) -> IPythonPump:
        self._stream.stop_on_recv()
        self._drain_queue()
        for parts in _held_messages():
            self._deliver(parts)
        return self

    def __exit__(self, *_: object) -> None:
        # Without this the next cell would hang for ever.
        self._stream.on_recv(self._callback, copy=False)
        for parts in self._deferred:
            result = self._callback(parts)
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(result)
                _replay_tasks.add(task)  # asyncio itself keeps no reference
                task.add_done_callback(_replay_tasks.discard)

    def deliver_one(self, ms: int) -> bool:
        """Take one message if one comes within `ms` milliseconds; whether one came."""
        if not self._socket.poll(ms):
            return False
        parts = self._socket.recv_multipart(copy=False)
        if not self._deliver(parts):
            self._deferred.append(parts)
        return True

    def _deliver(self, parts: list[Any]) -> bool:
        """Hand a Viewer's custom message to it; False for any other, which is left as it is."""
        session = self._kernel.session
        try:
            identities, message = session.feed_identities(parts, copy=False)
            kind = json.loads(bytes(message[1].buffer))["msg_type"]
            if not kind.startswith("comm_"):
                return False
            content = json.loads(bytes(message[4].buffer))
            if self._is_restore_request(kind, content):
                message = session.deserialize(message, content=True, copy=False)
                self._answer_restore(kind, identities, message)
                self._publish_handled(message)
                return True
            if kind not in ("comm_msg", "comm_close"):
                return False
            inbox = inboxes_by_comm.get(content["comm_id"])
            if inbox is None:
                return False
            if kind == "comm_close":  # nothing else will come to end the wait
                message = session.deserialize(message, content=True, copy=False)
                self._kernel.comm_manager.comm_close(self._stream, identities, message)
                self._publish_handled(message)
                return True
            # Changed traits call users' observers: those wait until the cell is done.
            if content["data"].get("method") != "custom":
                return False
            # A frame that comes twice is a ValueError here: the kernel refuses it too, in its log.
            message = session.deserialize(message, content=True, copy=False)
        except (ValueError, LookupError, TypeError, AttributeError):
            return False
        # Not through Comm.handle_msg: that runs IPython's post_execute hooks, and matplotlib's
        # would show a figure that the cell is still drawing.
        inbox.receive(message["content"]["data"].get("content"), message["buffers"])
        self._publish_handled(message)
        return True

    def _is_restore_request(self, kind: str, content: dict[str, Any]) -> bool:
        """Whether a page asks for the widgets that there are, as it does when it was reloaded.

        It says hello only after the answer, so the cell that waits for it would wait in vain.
        """
        if kind == "comm_info_request":
            return True
        if kind == "comm_open":
            return bool(content["target_name"] == WIDGET_CONTROL_TARGET)
        if kind != "comm_msg" or content["comm_id"] not in self._kernel.comm_manager.comms:
            return False
        return content["data"].get("method") in ("request_state", "request_states")

    def _answer_restore(self, kind: str, identities: list[bytes], message: dict[str, Any]) -> None:
        """Answer it, as an answer to this message and not to the cell; no code of users runs."""
        kernel, manager = self._kernel, self._kernel.comm_manager
        cell = _parent_identities(kernel), kernel.get_parent("shell")
        kernel.set_parent(identities, message)
        try:
            if kind == "comm_info_request":
                answer = kernel.comm_info_request(self._replies, identities, message)
                if inspect.iscoroutine(answer):  # it waits for nothing
                    with suppress(StopIteration):
                        answer.send(None)
                if self._replies is self._stream:  # which sends when its loop runs: after the cell
                    self._stream.flush(POLLOUT)
            elif kind == "comm_open":
                manager.comm_open(self._stream, identities, message)
            else:  # not through Comm.handle_msg, as in `_deliver`
                manager.comms[message["content"]["comm_id"]]._msg_callback(message)
        finally:
            kernel.set_parent(*cell)

    def _publish_handled(self, message: Any) -> None:
        """Tell the page that a message was handled: JupyterLab keeps it and its bytes till then.

        "busy" follows, since the kernel still is; not as the cell's, whose noted start would move.
        """
        with suppress(AttributeError, TypeError):  # an ipykernel that has changed
            for state in ("idle", "busy"):
                self._kernel._publish_status(state, "shell", message)

    def _drain_queue(self) -> None:
        """Ipykernel 6 has a queue of its own behind the stream, filled while a cell awaits."""
        queue = getattr(self._kernel, "msg_queue", None)
        if queue is None or threading.current_thread() is not threading.main_thread():
            return
        kept = []
        while not queue.empty():
            item = queue.get_nowait()
            parts = item[-1][0] if item[-1] else None
            if not isinstance(parts, list) or not self._deliver(parts):
                kept.append(item)
        for item in kept:
            queue.put_nowait(item)
