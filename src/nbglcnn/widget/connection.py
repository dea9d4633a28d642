"""The kernel's end of the comms: its pages, the blobs that each lacks, and pending reads."""

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
from nbglcnn.errors import (
    VIEWER_CLOSED_MESSAGE,
    ContextLost,
    DeviceError,
    NbglcnnError,
    PageError,
    PageTimeout,
)
from nbglcnn.plan.schema import Float32, Patch, Precision, Target
from nbglcnn.protocol import (
    RESEND_TIMEOUT_S,
    BlobAssembler,
    BlobChunk,
    ContextHealth,
    Hello,
    HoverTarget,
    Manifest,
    Messages,
    PageFailure,
    Patches,
    PointerHover,
    ProbeReply,
    Progress,
    Read,
    ReadDone,
    RejectPage,
    Reply,
    RequestBlob,
    RunRate,
    RunReport,
    SetPrecision,
    SourceUpdate,
)
from nbglcnn.widget.asset_manifest import AssetManifest

# Pages repeat requests while Python is busy: data just sent are not sent again.
RESEND_COOLDOWN_S = 0.5
# For a page that loads the front-end's code to repeat its request, or to send Hello.
CODE_LOAD_TIMEOUT_S = 10.0
FAILURE_ERRORS: dict[str, type[PageError]] = {"lost": ContextLost, "device": DeviceError}

SendMessage = Callable[[Any, list[memoryview]], None]


@dataclass
class Page:
    """A page that has sent Hello. `problem` is why it cannot run the network, "" if it can."""

    id: str
    renderer: str
    target: Target | None
    problem: str
    is_rejected: bool
    cached_blobs: set[str]
    last_message_at: float
    browser: str = ""
    notebook_host: str = ""
    progress: Progress | None = None
    last_run: RunReport | None = None
    run_rate: RunRate | None = None
    context_health: ContextHealth | None = None
    error: str = ""
    # The state that the parity check requested samples of: the revision and the hash of the edits.
    probed_state: tuple[int, str] = (-1, "")
    probed_plan_hash: str = ""  # the Plan of the Probe that the page has
    incoming_samples: BlobAssembler | None = None  # samples with chunks still to arrive
    parity_samples: tuple[ProbeReply, Float32] | None = None
    sent_verdict: object = None  # the verdict of the parity check that was sent to it last
    source_update: SourceUpdate | None = None  # the last message of its source, and its time
    source_updated_at: float = 0.0


@dataclass
class ReadRequest:
    """A read in progress: one BlobAssembler per key, filled by the first page that replies."""

    id: str
    keys: tuple[str, ...]
    revision: int
    assemblers: list[BlobAssembler]
    last_reply_at: float
    responder_id: str | None = None
    reply_revision: int = 0  # the revision of the reply
    is_resent: bool = False
    failures: dict[str, PageFailure] = field(default_factory=dict)
    is_screenshot: bool = False  # of the view, whose size is unknown until it arrives
    is_before_edits: bool = False  # values before their own edits
    target_page_id: str = ""  # the page that must reply; "" for any

    @property
    def missing_chunks(self) -> tuple[tuple[int, int], ...]:
        """(index of the key, chunk) of every chunk that has not arrived."""
        return tuple((k, part) for k, a in enumerate(self.assemblers) for part in sorted(a.missing))

    def accepts_reply_from(self, page: Page) -> bool:
        """Whether this page was asked, and no other page has begun to reply."""
        return self.target_page_id in ("", page.id) and self.responder_id in (None, page.id)

    def arrays(self) -> list[Float32]:
        """The flat float32 elements of each key."""
        return [np.frombuffer(assembly.data, np.float32) for assembly in self.assemblers]


class Connection:
    """The connection to all pages that show a Viewer. `receive` may be called on any thread."""

    def __init__(
        self,
        version: str,
        messages: Messages,
        send: SendMessage,
        adapt_manifest: Callable[[Target], AssetManifest | None],
        on_change: Callable[[], None],
        frontend_blobs: Mapping[str, memoryview] | None = None,
        feature_blob: Callable[[str], memoryview | None] = lambda _: None,
        weights_lock: AbstractContextManager[Any] = nullcontext(),  # noqa: B008 - it has no state
    ) -> None:
        self._version = version
        self._messages = messages
        self._frontend_blobs = frontend_blobs or {}  # blobs of the front-end, by name
        self._feature_blob = feature_blob  # blobs of features that pages request, by name
        self._weights_lock = weights_lock  # keeps the state that pages must show from changing
        self._send_raw = send
        self._adapt_manifest = adapt_manifest
        self._on_change = on_change
        self._lock = threading.RLock()
        self._manifest: AssetManifest | None = None
        self._requests: dict[str, ReadRequest] = {}
        self.revision = 0
        self.pages: dict[str, Page] = {}
        self.resent_requests = 0  # requests that were repeated after a time without a reply
        self.resent_blobs = 0  # blobs, or chunks of them, that were sent again
        self.last_error = ""
        self.hovered: HoverTarget | None = None  # in the page whose pointer moved last
        self.source_page_id = ""  # the page whose source feeds the network: only it has the values
        # Messages for the Viewer's features, with their buffers; the Viewer dispatches them.
        self.message_queue: list[tuple[msgspec.Struct, tuple[bytes, ...]]] = []
        self.requested_precision: Precision | None = None  # requested by a page
        self.is_closed = False  # no more messages arrive
        self.code_load_deadline = 0.0  # when to stop waiting for a page without code
        self._code_sent_time = -RESEND_COOLDOWN_S  # when the code was last sent to a loader

    @property
    def usable_pages(self) -> list[Page]:
        """Pages without a problem, and rejected ones; the page heard last comes first."""
        pages = [p for p in self.pages.values() if not p.problem or p.is_rejected]
        return sorted(pages, key=lambda page: -page.last_message_at)

    @property
    def active_page(self) -> Page | None:
        """The page heard most recently, preferably one that can run the network."""
        pages = self.usable_pages or sorted(
            self.pages.values(), key=lambda page: -page.last_message_at
        )
        return pages[0] if pages else None

    def send_manifest(self, manifest: AssetManifest) -> int:
        """Publish a manifest, send the blobs that a page lacks, and return the new revision."""
        with self._lock:
            self._manifest = manifest
            self.revision += 1
            if self.pages:
                self._send_manifest_and_blobs()
            return self.revision

    def send_patches(self, patches: Sequence[Patch]) -> bool:
        """Update the pages by patches; return False if they don't fit into one message.

        The manifest stays the old one: a page that sends Hello later needs a new one.
        """
        data = np.concatenate([patch.data.reshape(-1) for patch in patches], dtype=np.float32)
        if data.nbytes > protocol.CHUNK_BYTES:
            return False
        rectangles = tuple((p.texture, p.layer, *p.rectangle) for p in patches)
        with self._lock:
            base, self.revision = self.revision, self.revision + 1
            if self.pages:
                self.send(Patches(base, self.revision, rectangles), data.view(np.uint8).data)
        return True

    def send_update(
        self, make_messages: Callable[[int, int], Iterable[tuple[msgspec.Struct, memoryview]]]
    ) -> int:
        """Send messages with buffers that make one revision the next; return the new revision.

        `make_messages` is called with both revisions. As in `send_patches`, the manifest stays the
        old one.
        """
        with self._lock:
            base, self.revision = self.revision, self.revision + 1
            for message, buffer in make_messages(base, self.revision):
                self.send(message, buffer)
            return self.revision

    def split_by_revision(self, revision: int) -> tuple[list[Page], list[Page]]:
        """The pages that can run this revision but have not yet, and the pages that have."""
        with self._lock:
            outdated_pages = [
                p for p in self.usable_pages if p.last_run is None or p.last_run.revision < revision
            ]
            return outdated_pages, [p for p in self.usable_pages if p not in outdated_pages]

    def send(self, message: msgspec.Struct, *buffers: memoryview) -> None:
        """Send one message to every page."""
        self._send_raw(msgspec.to_builtins(message), list(buffers))

    def _send_manifest_and_blobs(self) -> None:
        manifest = self._manifest
        if manifest is None:
            return
        sizes = {name: blob.nbytes for name, blob in manifest.blobs.items()}
        self.send(
            Manifest(
                self.revision,
                manifest.plan_hash,
                manifest.weight_hashes,
                manifest.input_hashes,
                sizes,
                manifest.snapshot_hash,
                manifest.class_names_hash,
                manifest.injected_hashes,
            )
        )
        for name in manifest.blobs:
            # A page that cannot render gets no weights, only the layer table and a snapshot.
            is_static_blob = name in (manifest.plan_hash, manifest.snapshot_hash)
            wanting = [p for p in self.pages.values() if not p.problem or is_static_blob]
            if any(name not in page.cached_blobs for page in wanting):
                self._send_blob(name)
                for page in wanting:
                    page.cached_blobs.add(name)

    def _send_blob(self, name: str, parts: Sequence[int] = (), *, is_resend: bool = False) -> None:
        offered = self._manifest.blobs if self._manifest else {}
        data = self._frontend_blobs.get(name, offered.get(name))
        if data is None:
            data = self._feature_blob(name)
        else:
            self.resent_blobs += is_resend
        if data is None:
            return  # a blob of an earlier state
        data = data.cast("B") if data.nbytes else data
        for part, piece in protocol.split_chunks(data, parts):
            self.send(BlobChunk(name, part, protocol.chunk_count(len(data)), len(data)), piece)

    def request_values(
        self,
        keys: Sequence[str],
        byte_counts: Sequence[int],
        *,
        before_edits: bool = False,
        page_id: str = "",
    ) -> ReadRequest:
        """Request values of these sizes in bytes, from `page_id` or else the source's page."""
        with self._lock:
            parts = [BlobAssembler(size) for size in byte_counts]
            name = uuid.uuid4().hex
            request = ReadRequest(
                name, tuple(keys), self.revision, parts, _now(), is_before_edits=before_edits
            )
            target_page = page_id or self.source_page_id
            request.target_page_id = (
                target_page if any(one.id == target_page for one in self.usable_pages) else ""
            )
            self._requests[request.id] = request
            self.send(_read_message(request))
            return request

    def request_screenshot(self) -> ReadRequest:
        """Request a screenshot of the view."""
        with self._lock:
            request = ReadRequest(
                uuid.uuid4().hex, (), self.revision, [BlobAssembler(0)], _now(), is_screenshot=True
            )
            self._requests[request.id] = request
            self.send(_read_message(request))
            return request

    def end_request(self, request: ReadRequest) -> None:
        """Remove a request that is answered, or that no caller waits for any more."""
        with self._lock:
            if self._requests.pop(request.id, None) is not None:
                self.send(ReadDone(request.id))

    def notify_closed(self) -> None:
        """Tell the other pages that a page closed the Viewer; Python can't hear them any more."""
        for page in list(self.pages.values()):
            self.send(RejectPage(page.id, "This Viewer was closed", "Run the cell again."))

    def is_answered(self, request: ReadRequest, timeout_s: float) -> bool:
        """Whether a reply is complete; PageError if the request failed or no page responds."""
        with self._lock:
            if not request.missing_chunks:
                return True
            if self.is_closed:
                raise PageError(VIEWER_CLOSED_MESSAGE)
            # A second tab may still reply: wait for all pages heard since the request.
            failure = next(iter(request.failures.values()), None)
            target_page = [p for p in self.usable_pages if request.target_page_id in ("", p.id)]
            alive = {p.id for p in target_page if p.last_message_at >= request.last_reply_at}
            if failure and alive <= set(request.failures):
                raise FAILURE_ERRORS.get(failure.kind, PageError)(failure.text)
            seen = [p.last_message_at for p in target_page if request.responder_id in (None, p.id)]
            silence_s = _now() - max([request.last_reply_at, *seen])
            if (
                request.target_page_id
                and silence_s > min(RESEND_TIMEOUT_S, timeout_s / 3)
                and len(self.usable_pages) > 1
            ):
                # The page was closed or reloaded: the other pages show the last input that it fed.
                if self.source_page_id == request.target_page_id:
                    self.source_page_id = ""
                request.target_page_id, request.last_reply_at = "", _now()
                self.send(_read_message(request))
                return False
            if silence_s > min(RESEND_TIMEOUT_S, timeout_s / 3) and not request.is_resent:
                request.is_resent = True
                self.resent_requests += 1
                has_partial_reply = len(request.missing_chunks) < sum(
                    protocol.chunk_count(len(a.data)) for a in request.assemblers
                )
                self.send(
                    _read_message(request, request.missing_chunks if has_partial_reply else ())
                )
            if silence_s > timeout_s:
                page = self.active_page
                if (
                    page is not None
                    and page.context_health is not None
                    and page.context_health.lost
                ):
                    raise ContextLost(
                        "the page that shows this Viewer lost its graphics context, and the "
                        f"browser has not restored it for {timeout_s:g} s: try again, or reload "
                        "the page; timeout=… waits longer"
                    )
                raise PageTimeout(self._timeout_message(request, timeout_s))
            return False

    def _timeout_message(self, request: ReadRequest, timeout_s: float) -> str:
        page = self.active_page
        total = sum(protocol.chunk_count(len(a.data)) for a in request.assemblers)
        came = total - len(request.missing_chunks)
        names = request.keys[0] if len(request.keys) == 1 else f"{len(request.keys)} values"
        if request.is_screenshot:
            names = "a picture of it"
        if threading.current_thread() is not threading.main_thread():
            doing = (
                "called from a thread while the main thread blocks (join, result(), the end of "
                "`with ThreadPoolExecutor`), so the kernel can't receive the reply: let the cell "
                "end, or use await asyncio.to_thread(…)"
            )
        elif page is not None and page.error:
            doing = f"its last message was: {page.error}"
        elif came:
            doing = f"{came} of {total} parts arrived; the others are missing after another request"
        elif page is not None and page.progress is not None:
            doing = (
                f"it was last {page.progress.stage} ({page.progress.done} of {page.progress.total})"
            )
        else:
            doing = "its tab may be closed, reloading or suspended"
        return (
            f"no answer from the page that shows this Viewer for {timeout_s:g} s ({names}): "
            f"{doing}. Bring the notebook's tab to the front or reload it, and try again; "
            "timeout=… waits longer, and a new Viewer without a page computes in Python"
        )

    def receive(self, content: Any, buffers: list[memoryview]) -> None:
        """Handle a message of a page; ignore it if it doesn't match its record."""
        message = self._messages.decode(content)
        if message is None:
            return
        if isinstance(message, Hello):
            self._handle_hello(message)
        else:
            with self._lock:
                should_notify = self._handle_message(message, buffers)
            if not should_notify:
                return
        self._on_change()

    def _handle_message(self, message: Any, buffers: list[memoryview]) -> bool:
        """Handle a message; return whether to call `on_change`: not for each chunk of a reply."""
        now = _now()
        page = self.pages.get(message.page)
        if page is None or isinstance(message, Hello):
            self._handle_loader_message(message)
            return False
        page.last_message_at = now
        match message:
            case RequestBlob():
                self._send_blob(message.blob, message.chunks, is_resend=True)
            case Progress():
                page.progress = message
            case RunReport():
                page.last_run, page.progress, page.error = message, None, ""
                if not message.is_remeasured:
                    page.probed_state = (-1, "")
            case ContextHealth():
                page.context_health = message
            case RunRate():
                page.run_rate = message
            case SourceUpdate():
                page.source_update, page.source_updated_at = message, now
            case PointerHover():
                self.hovered = message.target
            case ProbeReply():
                if len(buffers) == 1 and message.bytes % 4 == 0:
                    return _add_samples(page, message, buffers[0])
            case PageFailure(id="", kind="edit"):
                protocol.warn_once(f"the page could not apply an edit: {message.text}")
                self.last_error = message.text
            case SetPrecision():
                self.requested_precision = message.precision
            case PageFailure(id=""):
                page.error = self.last_error = message.text
            case PageFailure():
                self.last_error = message.text
                request = self._requests.get(message.id)
                if request is not None and request.accepts_reply_from(page):
                    request.failures[page.id] = message
            case Reply():
                return self._handle_reply(message, page, buffers, now)
            case _:
                self.message_queue.append((message, tuple(map(bytes, buffers))))
        return True

    def _handle_loader_message(self, message: Any) -> None:
        """Handle a page that has no code yet, and so no name; ignore other unknown pages."""
        if message.page or not isinstance(message, RequestBlob | Progress):
            return
        now = _now()
        self.code_load_deadline = now + CODE_LOAD_TIMEOUT_S
        if not isinstance(message, RequestBlob) or message.blob not in self._frontend_blobs:
            return
        if message.chunks or now - self._code_sent_time > RESEND_COOLDOWN_S:
            self._code_sent_time = now
            self._send_blob(message.blob, message.chunks)

    def _handle_reply(
        self, reply: Reply, page: Page, buffers: list[memoryview], now: float
    ) -> bool:
        """Store a chunk of a reply; return whether the reply is complete."""
        request = self._requests.get(reply.id)
        if request is None or reply.revision < request.revision or len(buffers) != 1:
            return False
        if request.target_page_id not in ("", page.id):
            return False
        if reply.key >= len(request.assemblers):
            protocol.warn_once(f"ignored a reply to key {reply.key} of {len(request.assemblers)}")
            return False
        if (request.responder_id, request.reply_revision) != (page.id, reply.revision):
            # The first page to reply wins; another one takes over if the first falls silent.
            if request.responder_id is not None and request.responder_id != page.id:
                if now - self.pages[request.responder_id].last_message_at < RESEND_TIMEOUT_S / 2:
                    return False
            # A repeated reply may be of a later revision: chunks of two revisions are never mixed.
            elif reply.revision < request.reply_revision:
                return False
            request.responder_id, request.reply_revision = page.id, reply.revision
            request.assemblers = [BlobAssembler(len(a.data)) for a in request.assemblers]
        if (
            request.is_screenshot
            and len(request.assemblers[0].data) != reply.bytes <= protocol.MAX_SCREENSHOT_BYTES
        ):
            request.assemblers = [BlobAssembler(reply.bytes)]
        if not request.assemblers[reply.key].add(reply.chunk, reply.count, reply.bytes, buffers[0]):
            return False
        request.last_reply_at = now
        if request.missing_chunks:
            request.is_resent = False  # it is sending: later losses can be requested again
            return False
        page.progress = None
        return True

    def _handle_hello(self, hello: Hello) -> None:
        refused = hello.protocol != self._messages.digest
        problem = hello.problem or ("" if hello.target else "its device is unknown")
        if refused:
            problem = (
                f"the page runs the front-end of nbglcnn {hello.version}, but the kernel has "
                f"version {self._version}. Reload the page; if that doesn't help, reinstall "
                "nbglcnn (in a checkout: make setup)"
            )
        title, manifest = "The page and the kernel differ", None
        with self._weights_lock:
            if hello.target and not problem:
                try:
                    manifest = self._adapt_manifest(hello.target)
                except NbglcnnError as error:
                    title, problem = "This device is too small for the network", str(error)
            self._register_page(hello, title, problem, refused, manifest)

    def _register_page(
        self,
        hello: Hello,
        rejection_title: str,
        problem: str,
        is_rejected: bool,
        manifest: AssetManifest | None,
    ) -> None:
        with self._lock:
            known = self.pages.get(hello.page)  # a page repeats Hello if our Manifest is lost
            page = Page(
                hello.page,
                hello.renderer,
                hello.target,
                problem,
                is_rejected,
                {*hello.cached_blobs, *(known.cached_blobs if known else ())},
                _now(),
                hello.browser,
                hello.host,
            )
            if known is not None:
                # A repeated Hello may take another route, and arrive after messages that followed
                # it.
                page.last_run, page.run_rate, page.context_health = (
                    known.last_run,
                    known.run_rate,
                    known.context_health,
                )
                page.source_update, page.source_updated_at = (
                    known.source_update,
                    known.source_updated_at,
                )
            self.pages[hello.page] = page
            if problem and not hello.problem and hello.target:
                self.send(RejectPage(hello.page, rejection_title, problem))
                return
            if manifest is None:
                self._send_manifest_and_blobs()
            else:
                self.send_manifest(manifest)
            for request in self._requests.values():  # the requested page may be closed
                self.send(_read_message(request))

    def __len__(self) -> int:
        return len(self._requests)


def _add_samples(page: Page, message: ProbeReply, buffer: memoryview) -> bool:
    """Store a chunk of samples; return whether it was the last one."""
    if message.chunk == 0:
        page.incoming_samples = protocol.BlobAssembler(message.bytes)
    found = page.incoming_samples
    if found is None or not found.add(message.chunk, message.count, message.bytes, buffer):
        return False
    if found.missing:
        return False
    page.parity_samples, page.incoming_samples = (
        (message, np.frombuffer(found.data, np.float32)),
        None,
    )
    return True


def _read_message(request: ReadRequest, missing_chunks: tuple[tuple[int, int], ...] = ()) -> Read:
    return Read(
        request.id,
        request.keys,
        request.revision,
        missing_chunks,
        request.is_screenshot,
        request.is_before_edits,
        request.target_page_id,
    )


def _now() -> float:
    return time.monotonic()
