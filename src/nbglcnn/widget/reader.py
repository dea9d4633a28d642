"""Reads of a Viewer's values: from a page that shows it, or else computed in Python."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from nbglcnn.errors import (
    VIEWER_CLOSED_MESSAGE,
    InputError,
    PageError,
    PageNotConnected,
    user_stacklevel,
)
from nbglcnn.graph import Array
from nbglcnn.inputs.arrays import to_value_array
from nbglcnn.local_backend import device_label
from nbglcnn.notebook import blocking
from nbglcnn.plan.schema import DERIVED_KEY_SEPARATOR, Value
from nbglcnn.widget.connection import Connection
from nbglcnn.widget.network import Network

HELLO_TIMEOUT_S = 2.0  # for a page to send Hello if there is one; measured: 0.05 to 0.1 s
HELLO_RETRY_TIMEOUT_S = 0.5  # the same, after a wait of this kernel found no page
QUEUE_DRAIN_S = 0.05  # for messages that arrived while Python was busy
BEFORE_EDITS_PREFIX = f"before{DERIVED_KEY_SEPARATOR}"  # the value before its own edits

NOT_NESTED = object()  # the result for keys that form no tuple and no dict

IsDone = Callable[[], bool]


@dataclass(frozen=True)
class ReadResult:
    """Values, and the revision of the connection that they were computed from.

    `source_inputs` are the inputs that were requested with the values, before their own edits.
    """

    arrays: list[Array]
    revision: int
    source_inputs: tuple[Array, ...] = ()


def validate_timeout(timeout: Any) -> float:
    """Check the time in seconds that a page may be silent; InputError if it is invalid."""
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not float(timeout) > 0:
        raise InputError(f"timeout={timeout!r}; expected a number of seconds > 0")
    return float(timeout)


class Reader:
    """The reader of a Viewer's values; blocking and async reads take the same steps.

    `can_reach_page` is whether a page can be connected at all: not in a script. `timeout` is the
    time in seconds that a connected page may be silent.
    """

    has_timed_out: ClassVar[bool] = False  # a wait timed out, and no page was seen since

    def __init__(
        self, network: Network, connection: Connection, *, can_reach_page: bool, timeout: float
    ) -> None:
        self._network = network
        self._connection = connection
        self._can_reach_page = can_reach_page
        self.default_timeout = timeout
        self._has_warned = False
        self._has_waited = False

    def read(
        self,
        keys: Sequence[str],
        timeout: float | None = None,
        *,
        before_edits: bool = False,
        source_input_keys: Sequence[str] = (),
    ) -> ReadResult:
        """Read values; block, and handle the page's messages meanwhile.

        With `before_edits`, values are before their own edits. `source_input_keys` are inputs to
        read with the values that follow from them.
        """
        steps = self._read(keys, timeout, before_edits, source_input_keys)
        try:
            while True:
                blocking.wait_until(next(steps))
        except StopIteration as end:
            answer: ReadResult = end.value
            return answer
        finally:
            steps.close()

    async def read_async(self, keys: Sequence[str], timeout: float | None = None) -> ReadResult:
        """Read values as `read` does, while other tasks run."""
        steps = self._read(keys, timeout, False)
        try:
            while True:
                await blocking.wait_until_async(next(steps))
        except StopIteration as end:
            answer: ReadResult = end.value
            return answer
        finally:
            steps.close()

    def screenshot(self, timeout: float | None) -> bytes:
        """A PNG of the view as it is on screen; PageNotConnected if no page shows it."""
        for done in self.wait_for_hello():
            blocking.wait_until(done)
        if self._connection.is_closed:
            raise PageError(VIEWER_CLOSED_MESSAGE)
        if not self._connection.pages:
            raise PageNotConnected(
                "no page shows this Viewer: display it first to take a screenshot. "
                "viewer.picture(key) renders a layer's maps without a page"
            )
        timeout_s = self.default_timeout if timeout is None else validate_timeout(timeout)
        request = self._connection.request_screenshot()
        try:
            blocking.wait_until(lambda: self._connection.is_answered(request, timeout_s))
        finally:
            self._connection.end_request(request)
        return bytes(request.assemblers[0].data)

    def backend_name(self) -> str:
        """The name of the backend that computes the values."""
        for done in self.wait_for_hello():
            blocking.wait_until(done)
        if not self.is_page_available():
            return self._network.backend_name
        page = self._connection.active_page
        assert page is not None
        return f"page (WebGL2: {device_label(page.renderer, self._network.plan)})"

    def _read(
        self,
        keys: Sequence[str],
        timeout: float | None,
        before_edits: bool,
        source_input_keys: Sequence[str] = (),
    ) -> Generator[IsDone, None, ReadResult]:
        """The steps of a read: a generator of conditions to wait for."""
        with self._network.hold_weights():
            return (
                yield from self._read_with_held_weights(
                    keys, timeout, before_edits, source_input_keys
                )
            )

    def _read_with_held_weights(
        self,
        keys: Sequence[str],
        timeout: float | None,
        before_edits: bool,
        source_input_keys: Sequence[str],
    ) -> Generator[IsDone, None, ReadResult]:
        values = self._network.value_records([*keys, *source_input_keys])
        yield from self.wait_for_hello()
        self._network.check_not_skipped(keys)
        if not self.is_page_available():
            revision = self._connection.revision
            own = [self._network.inputs[key].copy() for key in source_input_keys]
            return ReadResult(
                self._network.compute_values(keys, before_edits=before_edits), revision, tuple(own)
            )
        timeout_s = self.default_timeout if timeout is None else validate_timeout(timeout)
        before = "" if before_edits else BEFORE_EDITS_PREFIX
        request = self._connection.request_values(
            [*keys, *(before + key for key in source_input_keys)],
            [4 * value.readback.count for value in values],
            before_edits=before_edits,
        )
        try:
            yield lambda: self._connection.is_answered(request, timeout_s)
        finally:
            self._connection.end_request(request)
        arrays = [to_value_array(v, a) for v, a in zip(values, request.arrays(), strict=True)]
        return ReadResult(arrays[: len(keys)], request.reply_revision, tuple(arrays[len(keys) :]))

    def read_parameters(self, records: Sequence[Value]) -> list[Array]:
        """Read parameters from the page that replies, all of one moment; blocks."""
        request = self._connection.request_values(
            [value.key for value in records], [4 * value.readback.count for value in records]
        )
        try:
            blocking.wait_until(lambda: self._connection.is_answered(request, self.default_timeout))
        finally:
            self._connection.end_request(request)
        return [to_value_array(v, a) for v, a in zip(records, request.arrays(), strict=True)]

    def wait_for_hello(self) -> Generator[IsDone, None, None]:
        """Wait for a first Hello, if a page may send one."""
        if self._connection.pages or self._connection.is_closed or not self._can_reach_page:
            return
        timeout_s = HELLO_RETRY_TIMEOUT_S if Reader.has_timed_out else HELLO_TIMEOUT_S
        until = time.monotonic() + (QUEUE_DRAIN_S if self._has_waited else timeout_s)

        def done() -> bool:
            if self._connection.pages or self._connection.is_closed:
                return True
            if time.monotonic() < max(until, self._connection.code_load_deadline):
                return False
            self._has_waited = Reader.has_timed_out = True
            return True

        yield done

    def is_page_available(self) -> bool:
        """Whether values come from a page; warn once if they don't but a page was expected."""
        if self._connection.is_closed:
            raise PageError(VIEWER_CLOSED_MESSAGE)
        page = self._connection.active_page
        if page is not None and page.is_rejected:
            raise PageError(page.problem)
        if self._connection.usable_pages:
            return True
        if self._can_reach_page and not self._has_warned:
            self._has_warned = True
            if page is not None:
                why = f"the page cannot run this Viewer ({page.problem})"
            else:
                why = f"no page has shown this Viewer in {HELLO_TIMEOUT_S} s"
            where = self._network.backend_name.removeprefix("local ").replace(": ", ", ")
            where = where[1:-1] if where.startswith("(") else where
            advice = "Display the Viewer, or reload and trust the notebook, to compute in the page."
            warnings.warn(
                f"{why}; values are computed in Python ({where}). {advice}",
                UserWarning,
                stacklevel=user_stacklevel(),
            )
        return False


def nest_outputs(keys: Sequence[str], arrays: Sequence[Array | None]) -> object:
    """Nest outputs as forward returns them, by key: `output`, `output[0]`, `output['a'][1]`.

    Lists and tuples become tuples. If forward returns other objects between its tensors, or a file
    has outputs with other names, the result is a dict by key.
    """
    paths = [_output_path(key) for key in keys]
    if len(keys) == 1 and "[" not in keys[0]:
        return arrays[0]
    found = _nest(dict(zip(paths, arrays, strict=True))) if None not in paths else NOT_NESTED
    return dict(zip(keys, arrays, strict=True)) if found is NOT_NESTED else found


def _output_path(key: str) -> tuple[int | str, ...] | None:
    """The path in the brackets after `output`; None for another key."""
    if not re.fullmatch(r"output(\[\d+\]|\['[^']*'\])+", key):
        return None
    steps = re.findall(r"\[(?:(\d+)|'([^']*)')\]", key)
    return tuple(int(number) if number else name for number, name in steps)


def _nest(arrays_by_path: Mapping[Any, Array | None]) -> object:
    """Nest arrays by path to tuples and dicts; NOT_NESTED if indices of a tuple are missing."""
    if () in arrays_by_path:
        return arrays_by_path[()] if len(arrays_by_path) == 1 else NOT_NESTED
    parts: dict[int | str, dict[tuple[int | str, ...], Array | None]] = {}
    for (first, *rest), array in arrays_by_path.items():
        parts.setdefault(first, {})[tuple(rest)] = array
    made = {step: _nest(part) for step, part in parts.items()}
    if any(one is NOT_NESTED for one in made.values()):
        return NOT_NESTED
    if all(isinstance(step, str) for step in made):
        return made
    return tuple(made.values()) if list(made) == list(range(len(made))) else NOT_NESTED
