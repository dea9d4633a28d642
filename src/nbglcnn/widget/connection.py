"""The kernel's end of the comms: which pages are there, what each lacks, whose reply is whose."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from nbglcnn import protocol
from nbglcnn.errors import CLOSED, ContextLost, DeviceError, NbglcnnError, PageError, PageTimeout
from nbglcnn.plan.schema import Float32, Patch, Precision, Target
from nbglcnn.protocol import (
    QUIET_S,
    Assembly,
    Done,
    Failed,
    Fed,
    Health,
    Hello,
    Messages,
    Need,
    Pace,
    Part,
    Patches,
    Pointed,
    Probed,
    Progress,
    Ran,
    Read,
    Refuse,
    Reply,
    SetPrecision,
    Spot,
    State,
)
from nbglcnn.widget.asset_manifest import Offer

LATELY_S = 0.5  # a page asks again while Python is busy: what was just sent is not sent twice
LOADING_S = 10.0  # in which a page that loads the front-end's code asks again, or says hello
FAILURES: dict[str, type[PageError]] = {"lost": ContextLost, "device": DeviceError}

Send = Callable[[Any, list[memoryview]], None]


@dataclass
class Page:
    """One page that said hello. `problem` is why it cannot run the network, "" when it can."""

    id: str
    renderer: str
    target: Target | None
    problem: str
    refused: bool
    has: set[str]
    seen: float
    browser: str = ""
    host: str = ""
    stage: Progress | None = None
    ran: Ran | None = None
    pace: Pace | None = None
    health: Health | None = None
    error: str = ""
    # What the parity check asked it for samples of: the revision, and what was edited.
    sampled: tuple[int, str] = (-1, "")
    probed: str = ""  # the Plan of the Probe that it has
    arriving: Assembly | None = None  # samples of which parts are still to come
    samples: tuple[Probed, Float32] | None = None
    told: object = None  # the verdict of the parity check that it has been told of
    fed: Fed | None = None  # what its source said last, and when
    fed_at: float = 0.0


@dataclass
class Request:
    """A read under way: an Assembly for each key, filled by the first page that replies."""

    id: str
    keys: tuple[str, ...]
    revision: int
    parts: list[Assembly]
    heard: float
    page: str | None = None
    computed: int = 0  # the revision that the answer is of
    repeated: bool = False
    failures: dict[str, Failed] = field(default_factory=dict)
    screen: bool = False  # of the view, whose size nobody knows before it comes
    unbent: bool = False  # of values before their own edits
    asked: str = ""  # the page that shall answer; "" for any

    @property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """(index of the key, part) of everything that has not come yet."""
        return tuple((k, part) for k, a in enumerate(self.parts) for part in sorted(a.missing))

    def may_be_of(self, page: Page) -> bool:
        """Whether this page is among those that were asked, and no other has begun to answer."""
        return self.asked in ("", page.id) and self.page in (None, page.id)

    def arrays(self) -> list[Float32]:
        """The flat float32 elements of each key."""
        return [np.frombuffer(assembly.data, np.float32) for assembly in self.parts]


class Connection:
    """Talks to every page that shows one Viewer. `receive` may be called on any thread."""

    def __init__(
        self,
        version: str,
        messages: Messages,
        send: Send,
        fit: Callable[[Target], Offer | None],
        changed: Callable[[], None],
        code: Mapping[str, memoryview] | None = None,
        blocks: Callable[[str], memoryview | None] = lambda _: None,
        showing: AbstractContextManager[Any] = nullcontext(),  # noqa: B008 - it has no state
    ) -> None:
        self._version = version
        self._messages = messages
        self._code = code or {}  # the front-end's, by name
        self._blocks = blocks  # what pages ask for when they look at it, by name
        self._showing = showing  # in which nothing but this changes what pages are to show
        self._send_raw = send
        self._fit = fit
        self._changed = changed
        self._lock = threading.RLock()
        self._offer: Offer | None = None
        self._requests: dict[str, Request] = {}
        self.revision = 0
        self.pages: dict[str, Page] = {}
        self.asked_again = 0  # questions that a page did not answer in time
        self.sent_again = 0  # blobs, or parts of them, that a page missed
        self.last_error = ""
        self.pointed: Spot | None = None  # in the page whose pointer moved last
        self.owner = ""  # the page whose source feeds the network: it alone knows the values
        # Messages for the Viewer's features, with their buffers; whoever follows takes them.
        self.inbox: list[tuple[msgspec.Struct, tuple[bytes, ...]]] = []
        self.precision: Precision | None = None  # that a page has asked for
        self.closed = False  # nothing comes any more
        self.loading_until = 0.0  # when a page that has no code yet is given up
        self._loaded = -LATELY_S  # when a loader was sent its code

    @property
    def usable(self) -> list[Page]:
        """Pages that can run the network, the one heard last in front."""
        pages = [p for p in self.pages.values() if not p.problem or p.refused]
        return sorted(pages, key=lambda page: -page.seen)

    @property
    def page(self) -> Page | None:
        """The page heard last: one that can run the network if there is any."""
        pages = self.usable or sorted(self.pages.values(), key=lambda page: -page.seen)
        return pages[0] if pages else None

    def show(self, offer: Offer) -> int:
        """Make this what the pages show, and send the blobs any of them lacks; its revision."""
        with self._lock:
            self._offer = offer
            self.revision += 1
            if self.pages:
                self._send_state()
            return self.revision

    def patch(self, patches: Sequence[Patch]) -> bool:
        """Bring the pages up to date by patches alone; whether they fit into one message.

        The offer stays the old one: a page that says hello later is to be shown a new one.
        """
        data = np.concatenate([patch.data.reshape(-1) for patch in patches], dtype=np.float32)
        if data.nbytes > protocol.CHUNK:
            return False
        rectangles = tuple((p.texture, p.layer, *p.rectangle) for p in patches)
        with self._lock:
            base, self.revision = self.revision, self.revision + 1
            if self.pages:
                self.send(Patches(base, self.revision, rectangles), data.view(np.uint8).data)
        return True

    def advance(
        self, messages: Callable[[int, int], Iterable[tuple[msgspec.Struct, memoryview]]]
    ) -> int:
        """Send messages, each with its buffer, that make one revision the next; the new one.

        `messages` is called with both. As with `patch` the offer stays the old one.
        """
        with self._lock:
            base, self.revision = self.revision, self.revision + 1
            for message, buffer in messages(base, self.revision):
                self.send(message, buffer)
            return self.revision

    def behind(self, revision: int) -> tuple[list[Page], list[Page]]:
        """The pages that have not run a revision yet, of those that can; and those that have."""
        with self._lock:
            late = [p for p in self.usable if p.ran is None or p.ran.revision < revision]
            return late, [p for p in self.usable if p not in late]

    def send(self, message: msgspec.Struct, *buffers: memoryview) -> None:
        """Send one message to every page."""
        self._send_raw(msgspec.to_builtins(message), list(buffers))

    def _send_state(self) -> None:
        offer = self._offer
        if offer is None:
            return
        sizes = {name: blob.nbytes for name, blob in offer.blobs.items()}
        self.send(
            State(
                self.revision,
                offer.plan,
                offer.weights,
                offer.inputs,
                sizes,
                offer.snapshot,
                offer.classes,
                offer.injected,
            )
        )
        for name in offer.blobs:
            # A page that cannot draw gets no weights, but the layer table and a snapshot.
            still = name in (offer.plan, offer.snapshot)
            wanting = [p for p in self.pages.values() if not p.problem or still]
            if any(name not in page.has for page in wanting):
                self._send_blob(name)
                for page in wanting:
                    page.has.add(name)

    def _send_blob(self, name: str, parts: Sequence[int] = (), *, again: bool = False) -> None:
        offered = self._offer.blobs if self._offer else {}
        data = self._code.get(name, offered.get(name))
        if data is None:
            data = self._blocks(name)
        else:
            self.sent_again += again
        if data is None:
            return  # of an earlier state
        data = data.cast("B") if data.nbytes else data
        for part, piece in protocol.split(data, parts):
            self.send(Part(name, part, protocol.parts_of(len(data)), len(data)), piece)

    def ask(
        self, keys: Sequence[str], sizes: Sequence[int], *, unbent: bool = False, page: str = ""
    ) -> Request:
        """Send a Read of values of these sizes in bytes; to this page, or the one that knows."""
        with self._lock:
            parts = [Assembly(size) for size in sizes]
            name = uuid.uuid4().hex
            request = Request(name, tuple(keys), self.revision, parts, _now(), unbent=unbent)
            asked = page or self.owner
            request.asked = asked if any(one.id == asked for one in self.usable) else ""
            self._requests[request.id] = request
            self.send(_question(request))
            return request

    def ask_screen(self) -> Request:
        """Send a Read of the view as it is on screen."""
        with self._lock:
            request = Request(
                uuid.uuid4().hex, (), self.revision, [Assembly(0)], _now(), screen=True
            )
            self._requests[request.id] = request
            self.send(_question(request))
            return request

    def drop(self, request: Request) -> None:
        """Forget a request: it was answered, or nobody waits for it any more."""
        with self._lock:
            if self._requests.pop(request.id, None) is not None:
                self.send(Done(request.id))

    def disconnect(self) -> None:
        """One page closed the Viewer: the others, which Python cannot hear any more, say so."""
        for page in list(self.pages.values()):
            self.send(Refuse(page.id, "This Viewer was closed", "Run the cell again."))

    def answered(self, request: Request, timeout: float) -> bool:
        """Whether a request's answer is there; PageError when it failed or nothing is heard."""
        with self._lock:
            if not request.missing:
                return True
            if self.closed:
                raise PageError(CLOSED)
            # A second tab may yet answer: wait for all that were heard since the question.
            failure = next(iter(request.failures.values()), None)
            asked = [p for p in self.usable if request.asked in ("", p.id)]
            alive = {p.id for p in asked if p.seen >= request.heard}
            if failure and alive <= set(request.failures):
                raise FAILURES.get(failure.kind, PageError)(failure.text)
            seen = [p.seen for p in asked if request.page in (None, p.id)]
            quiet = _now() - max([request.heard, *seen])
            if request.asked and quiet > min(QUIET_S, timeout / 3) and len(self.usable) > 1:
                # Its tab was closed or reloaded: whoever is there shows what it fed last.
                if self.owner == request.asked:
                    self.owner = ""
                request.asked, request.heard = "", _now()
                self.send(_question(request))
                return False
            if quiet > min(QUIET_S, timeout / 3) and not request.repeated:
                request.repeated = True
                self.asked_again += 1
                partly = len(request.missing) < sum(
                    protocol.parts_of(len(a.data)) for a in request.parts
                )
                self.send(_question(request, request.missing if partly else ()))
            if quiet > timeout:
                page = self.page
                if page is not None and page.health is not None and page.health.lost:
                    raise ContextLost(
                        "the browser took the graphics context away from the page that shows this "
                        f"Viewer and has not given it back for {timeout:g} s: ask again, or reload "
                        "the page; timeout=… waits longer"
                    )
                raise PageTimeout(self._silence(request, timeout))
            return False

    def _silence(self, request: Request, timeout: float) -> str:
        page = self.page
        total = sum(protocol.parts_of(len(a.data)) for a in request.parts)
        came = total - len(request.missing)
        names = request.keys[0] if len(request.keys) == 1 else f"{len(request.keys)} values"
        if request.screen:
            names = "a picture of it"
        if threading.current_thread() is not threading.main_thread():
            doing = (
                "it was asked in a thread, and the kernel hears no page while its main thread "
                "waits for that (join, result(), the end of `with ThreadPoolExecutor`): let the "
                "cell end, or await asyncio.to_thread(…)"
            )
        elif page is not None and page.error:
            doing = f"its last message was: {page.error}"
        elif came:
            doing = f"{came} of {total} parts came, the others not even when asked for again"
        elif page is not None and page.stage is not None:
            doing = f"it was last {page.stage.stage} ({page.stage.done} of {page.stage.total})"
        else:
            doing = "its tab may be closed, reloading or asleep"
        return (
            f"the page that shows this Viewer did not answer for {timeout:g} s when asked for "
            f"{names}: {doing}. Bring the notebook's tab to the front or reload it, and ask again; "
            "timeout=… gives it longer, and a new Viewer that no page has shown computes in Python"
        )

    def receive(self, content: Any, buffers: list[memoryview]) -> None:
        """Take one message of a page; what doesn't fit its record is ignored."""
        message = self._messages.decode(content)
        if message is None:
            return
        if isinstance(message, Hello):
            self._greet(message)
        else:
            with self._lock:
                told = self._take(message, buffers)
            if not told:
                return
        self._changed()

    def _take(self, message: Any, buffers: list[memoryview]) -> bool:
        """Whether there is anything to tell: not of each part of a reply."""
        now = _now()
        page = self.pages.get(message.page)
        if page is None or isinstance(message, Hello):
            self._take_of_loader(message)
            return False
        page.seen = now
        match message:
            case Need():
                self._send_blob(message.blob, message.parts, again=True)
            case Progress():
                page.stage = message
            case Ran():
                page.ran, page.stage, page.error = message, None, ""
                if not message.again:
                    page.sampled = (-1, "")
            case Health():
                page.health = message
            case Pace():
                page.pace = message
            case Fed():
                page.fed, page.fed_at = message, now
            case Pointed():
                self.pointed = message.at
            case Probed():
                if len(buffers) == 1 and message.bytes % 4 == 0:
                    return _take_samples(page, message, buffers[0])
            case Failed(id="", kind="edit"):
                protocol.warn_once(f"the page could not take an edit: {message.text}")
                self.last_error = message.text
            case SetPrecision():
                self.precision = message.precision
            case Failed(id=""):
                page.error = self.last_error = message.text
            case Failed():
                self.last_error = message.text
                request = self._requests.get(message.id)
                if request is not None and request.may_be_of(page):
                    request.failures[page.id] = message
            case Reply():
                return self._take_reply(message, page, buffers, now)
            case _:
                self.inbox.append((message, tuple(map(bytes, buffers))))
        return True

    def _take_of_loader(self, message: Any) -> None:
        """A page without a name has no code yet; one with a name said its Hello elsewhere."""
        if message.page or not isinstance(message, Need | Progress):
            return
        now = _now()
        self.loading_until = now + LOADING_S
        if not isinstance(message, Need) or message.blob not in self._code:
            return
        if message.parts or now - self._loaded > LATELY_S:
            self._loaded = now
            self._send_blob(message.blob, message.parts)

    def _take_reply(self, reply: Reply, page: Page, buffers: list[memoryview], now: float) -> bool:
        """Whether it was the last part of an answer, so that the page is done with it."""
        request = self._requests.get(reply.id)
        if request is None or reply.revision < request.revision or len(buffers) != 1:
            return False
        if request.asked not in ("", page.id):
            return False
        if reply.key >= len(request.parts):
            protocol.warn_once(f"ignored a reply to key {reply.key} of {len(request.parts)}")
            return False
        if (request.page, request.computed) != (page.id, reply.revision):
            # The first page to reply wins; another one takes over when that one has fallen silent.
            if request.page is not None and request.page != page.id:
                if now - self.pages[request.page].seen < QUIET_S / 2:
                    return False
            # An answer that a page makes anew may be of a later revision: parts never mix.
            elif reply.revision < request.computed:
                return False
            request.page, request.computed = page.id, reply.revision
            request.parts = [Assembly(len(a.data)) for a in request.parts]
        if request.screen and len(request.parts[0].data) != reply.bytes <= protocol.MAX_SCREEN:
            request.parts = [Assembly(reply.bytes)]
        if not request.parts[reply.key].add(reply.part, reply.count, reply.bytes, buffers[0]):
            return False
        request.heard = now
        if request.missing:
            request.repeated = False  # it is sending: what gets lost from here on can be asked for
            return False
        page.stage = None
        return True

    def _greet(self, hello: Hello) -> None:
        refused = hello.protocol != self._messages.digest
        problem = hello.problem or ("" if hello.target else "its device is unknown")
        if refused:
            problem = (
                f"the page runs the front-end of nbglcnn {hello.version}, which does not speak the "
                f"language of the {self._version} in this kernel. Reload the page; if that doesn't "
                "help, install nbglcnn again (in a checkout: make setup)"
            )
        title, offer = "The page and the kernel differ", None
        with self._showing:
            if hello.target and not problem:
                try:
                    offer = self._fit(hello.target)
                except NbglcnnError as error:
                    title, problem = "This device is too small for the network", str(error)
            self._welcome(hello, title, problem, refused, offer)

    def _welcome(
        self, hello: Hello, title: str, problem: str, refused: bool, offer: Offer | None
    ) -> None:
        with self._lock:
            known = self.pages.get(hello.page)  # it says so again when our State was lost
            page = Page(
                hello.page,
                hello.renderer,
                hello.target,
                problem,
                refused,
                {*hello.have, *(known.has if known else ())},
                _now(),
                hello.browser,
                hello.host,
            )
            if known is not None:
                # A repeated Hello may come by another way, and after what followed it.
                page.ran, page.pace, page.health = known.ran, known.pace, known.health
                page.fed, page.fed_at = known.fed, known.fed_at
            self.pages[hello.page] = page
            if problem and not hello.problem and hello.target:
                self.send(Refuse(hello.page, title, problem))
                return
            if offer is None:
                self._send_state()
            else:
                self.show(offer)
            for request in self._requests.values():  # the page that was asked may be gone
                self.send(_question(request))

    def __len__(self) -> int:
        return len(self._requests)


def _take_samples(page: Page, message: Probed, buffer: memoryview) -> bool:
    """Whether it was the last part of them."""
    if message.part == 0:
        page.arriving = protocol.Assembly(message.bytes)
    found = page.arriving
    if found is None or not found.add(message.part, message.count, message.bytes, buffer):
        return False
    if found.missing:
        return False
    page.samples, page.arriving = (message, np.frombuffer(found.data, np.float32)), None
    return True


def _question(request: Request, missing: tuple[tuple[int, int], ...] = ()) -> Read:
    return Read(
        request.id,
        request.keys,
        request.revision,
        missing,
        request.screen,
        request.unbent,
        request.asked,
    )


def _now() -> float:
    return time.monotonic()
