"""Reading a Viewer's values: from the page that shows it, else from what computes in Python."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from nbglcnn.errors import CLOSED, InputError, PageError, PageNotConnected, users_line
from nbglcnn.graph import Array
from nbglcnn.inputs.arrays import finished
from nbglcnn.local import on
from nbglcnn.notebook import blocking
from nbglcnn.plan.schema import DERIVED, Value
from nbglcnn.widget.connection import Connection
from nbglcnn.widget.network import Network

HELLO_S = 2.0  # in which a page says hello if there is one; measured: 0.05 to 0.1 s
HELLO_AGAIN_S = 0.5  # the same, once a Viewer of this kernel has waited in vain
QUEUED_S = 0.05  # for messages that came while Python was busy
BEFORE = f"before{DERIVED}"  # the value before its own edits

UNFIT = object()  # what is no tuple and no dict

Done = Callable[[], bool]


@dataclass(frozen=True)
class Answer:
    """Values, and the connection's revision that they were computed from.

    `fed` are the inputs that were asked for with them, as they were before their own edits.
    """

    arrays: list[Array]
    revision: int
    fed: tuple[Array, ...] = ()


def seconds(timeout: Any) -> float:
    """How long a page may be silent; InputError for what is no time."""
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not float(timeout) > 0:
        raise InputError(f"timeout={timeout!r}; a number of seconds above 0 is needed")
    return float(timeout)


class Reader:
    """Reads values of one Viewer; each way of waiting takes the same steps.

    `reachable` says whether a page could be listening at all: not in a script. `timeout` is how
    many seconds a page that is there may say nothing.
    """

    pageless: ClassVar[bool] = False  # some Viewer waited in vain, and no page was seen since

    def __init__(
        self, network: Network, connection: Connection, *, reachable: bool, timeout: float
    ) -> None:
        self._network = network
        self._connection = connection
        self._reachable = reachable
        self.patience = timeout
        self._warned = False
        self._waited = False

    def read(
        self,
        keys: Sequence[str],
        timeout: float | None = None,
        *,
        unbent: bool = False,
        fed: Sequence[str] = (),
    ) -> Answer:
        """The values under `keys`; blocks, and delivers the page's messages meanwhile.

        With `unbent` each as it is before its own edits. `fed` are inputs that the values are of.
        """
        steps = self._read(keys, timeout, unbent, fed)
        try:
            while True:
                blocking.wait(next(steps))
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        finally:
            steps.close()

    async def read_async(self, keys: Sequence[str], timeout: float | None = None) -> Answer:
        """The same; lets other tasks go on meanwhile."""
        steps = self._read(keys, timeout, False)
        try:
            while True:
                await blocking.wait_async(next(steps))
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        finally:
            steps.close()

    def screen(self, timeout: float | None) -> bytes:
        """The view as it is on screen, a PNG; PageNotConnected where no page has it."""
        for done in self.greeted():
            blocking.wait(done)
        if self._connection.closed:
            raise PageError(CLOSED)
        if not self._connection.pages:
            raise PageNotConnected(
                "no page shows this Viewer, so that there is nothing to take a picture of: display "
                "it first. viewer.picture(key) draws a layer's maps without a page"
            )
        patience = self.patience if timeout is None else seconds(timeout)
        request = self._connection.ask_screen()
        try:
            blocking.wait(lambda: self._connection.answered(request, patience))
        finally:
            self._connection.drop(request)
        return bytes(request.parts[0].data)

    def source(self) -> str:
        """Who computes what is read."""
        for done in self.greeted():
            blocking.wait(done)
        if not self.page_answers():
            return self._network.source
        page = self._connection.page
        assert page is not None
        return f"page (WebGL2: {on(page.renderer, self._network.plan)})"

    def _read(
        self, keys: Sequence[str], timeout: float | None, unbent: bool, fed: Sequence[str] = ()
    ) -> Generator[Done, None, Answer]:
        """The steps of a read: gives what is to be waited for, one after the other."""
        with self._network.still():
            return (yield from self._read_still(keys, timeout, unbent, fed))

    def _read_still(
        self, keys: Sequence[str], timeout: float | None, unbent: bool, fed: Sequence[str]
    ) -> Generator[Done, None, Answer]:
        values = self._network.values([*keys, *fed])
        yield from self.greeted()
        self._network.check_computed(keys)
        if not self.page_answers():
            revision = self._connection.revision
            own = [self._network.inputs[key].copy() for key in fed]
            return Answer(self._network.computed(keys, unbent=unbent), revision, tuple(own))
        patience = self.patience if timeout is None else seconds(timeout)
        before = "" if unbent else BEFORE
        request = self._connection.ask(
            [*keys, *(before + key for key in fed)],
            [4 * value.read.count for value in values],
            unbent=unbent,
        )
        try:
            yield lambda: self._connection.answered(request, patience)
        finally:
            self._connection.drop(request)
        arrays = [finished(v, a) for v, a in zip(values, request.arrays(), strict=True)]
        return Answer(arrays[: len(keys)], request.computed, tuple(arrays[len(keys) :]))

    def parameters(self, records: Sequence[Value]) -> list[Array]:
        """Parameters as the page that answers has them, all of one moment; blocks."""
        request = self._connection.ask(
            [value.key for value in records], [4 * value.read.count for value in records]
        )
        try:
            blocking.wait(lambda: self._connection.answered(request, self.patience))
        finally:
            self._connection.drop(request)
        return [finished(v, a) for v, a in zip(records, request.arrays(), strict=True)]

    def greeted(self) -> Generator[Done, None, None]:
        """The wait for a first hello, where one may come."""
        if self._connection.pages or self._connection.closed or not self._reachable:
            return
        patience = HELLO_AGAIN_S if Reader.pageless else HELLO_S
        until = time.monotonic() + (QUEUED_S if self._waited else patience)

        def done() -> bool:
            if self._connection.pages or self._connection.closed:
                return True
            if time.monotonic() < max(until, self._connection.loading_until):
                return False
            self._waited = Reader.pageless = True
            return True

        yield done

    def page_answers(self) -> bool:
        """Whether values come from a page; warns once when they don't where one was expected."""
        if self._connection.closed:
            raise PageError(CLOSED)
        page = self._connection.page
        if page is not None and page.refused:
            raise PageError(page.problem)
        if self._connection.usable:
            return True
        if self._reachable and not self._warned:
            self._warned = True
            if page is not None:
                why = f"the page cannot run this Viewer ({page.problem})"
            else:
                why = f"no page has shown this Viewer in {HELLO_S} s"
            where = self._network.source.removeprefix("local ").replace(": ", ", ")
            where = where[1:-1] if where.startswith("(") else where
            advice = "Display it, or reload and trust the notebook, to have them from the page."
            warnings.warn(
                f"{why}; values are computed in Python ({where}). {advice}",
                UserWarning,
                stacklevel=users_line(),
            )
        return False


def shaped(keys: Sequence[str], arrays: Sequence[Array | None]) -> object:
    """Outputs as forward returns them, by their keys: `output`, `output[0]`, `output['a'][1]`.

    Lists and tuples are tuples. Where forward gives other things between its tensors, or a file has
    outputs of other names, it is a dict by the keys.
    """
    paths = [_path(key) for key in keys]
    if len(keys) == 1 and "[" not in keys[0]:
        return arrays[0]
    found = _nested(dict(zip(paths, arrays, strict=True))) if None not in paths else UNFIT
    return dict(zip(keys, arrays, strict=True)) if found is UNFIT else found


def _path(key: str) -> tuple[int | str, ...] | None:
    """What stands in the brackets behind `output`; None for another key."""
    if not re.fullmatch(r"output(\[\d+\]|\['[^']*'\])+", key):
        return None
    steps = re.findall(r"\[(?:(\d+)|'([^']*)')\]", key)
    return tuple(int(number) if number else name for number, name in steps)


def _nested(given: Mapping[Any, Array | None]) -> object:
    """Arrays by paths as tuples and dicts; UNFIT where the numbers of a tuple are not all there."""
    if () in given:
        return given[()] if len(given) == 1 else UNFIT
    parts: dict[int | str, dict[tuple[int | str, ...], Array | None]] = {}
    for (first, *rest), array in given.items():
        parts.setdefault(first, {})[tuple(rest)] = array
    made = {step: _nested(part) for step, part in parts.items()}
    if any(one is UNFIT for one in made.values()):
        return UNFIT
    if all(isinstance(step, str) for step in made):
        return made
    return tuple(made.values()) if list(made) == list(range(len(made))) else UNFIT
