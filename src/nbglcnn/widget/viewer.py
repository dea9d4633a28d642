"""Viewer: a network's layers, live in a notebook page and back in numpy."""

from __future__ import annotations

import base64
import json
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from weakref import WeakSet

import traitlets
from comm import DummyComm

from nbglcnn import __version__
from nbglcnn.errors import NbglcnnError, PageError
from nbglcnn.features.edits.host import TOLD
from nbglcnn.features.edits.records import active, to_dict
from nbglcnn.features.mirror.host import Mirrors, kept_still
from nbglcnn.features.sources.host import SOURCE
from nbglcnn.features.teaching.host import Teaches
from nbglcnn.features.training.host import TRAINING
from nbglcnn.load import prepared
from nbglcnn.plan.schema import Patch, Precision, Target
from nbglcnn.report import Match, Report
from nbglcnn.widget import code, protocol
from nbglcnn.widget.activations import Activations, as_asked, names_of
from nbglcnn.widget.asset_manifest import Offer
from nbglcnn.widget.connection import CLOSED, Connection
from nbglcnn.widget.diagnosis import diagnosis
from nbglcnn.widget.hosts import blocking, lifetime, marimo
from nbglcnn.widget.hosts.comm_hooks import handle_without_hooks
from nbglcnn.widget.hosts.inbox import inboxes
from nbglcnn.widget.load_progress import steps_shown
from nbglcnn.widget.network import Network
from nbglcnn.widget.parity import ParityCheck, verified, verify
from nbglcnn.widget.reading import Reader, seconds, shaped
from nbglcnn.widget.traits import OF_THE_PAGE, as_json, hovered, status_of


class Viewer(Teaches, Mirrors):
    """Shows a network's layers while it runs on the page's GPU.

    `model` is a torch.nn.Module (not changed), an onnx.ModelProto or a path to an .onnx; `x` is an
    example input (a tuple for several), whose shape stays. `observe` is "all", "outputs" or a list
    of names to keep; `precision` "float16" stores values and weights in half the memory, right to
    about three digits. `height` bounds the view in CSS pixels; `timeout` is how many seconds a page
    may be silent while Python waits for it. `classes` names the values of the output: a list, a
    dict by index, or weights with `.meta["categories"]`; an ONNX file may have names itself. With
    `preprocess`, as in `compile`, `x` is the picture. Layers that cannot run on the GPU are
    computed in Python, by PyTorch or ONNX Runtime, for each input; with `strict` that is an error,
    as in `compile`.

    Traits, to observe and to link: `example`, `selected`, `view` (see `show`), `colormap`,
    `color_range`, `symmetric`, `height` and `presenting` (see `present`) follow the page and can be
    set, `classes` can be set; `source` is what feeds the input, a Webcam, Video, Images, Drawing,
    Noise or Latent, or None, and follows the page, too. Read-only are `running` (the page has a run
    under way, or had one in the last quarter of a second), `runs_per_second` (runs finished in the
    last second; 0 when idle), `hover` (the element under the pointer, or None) and `status`.
    """

    # The loader asks for the code by its name, once a page. With hot reload pages import
    # `widget.js` itself. As text: anywidget keeps widgets whose file it watches.
    _esm = code.WIDGET if os.environ.get("ANYWIDGET_HMR") else code.LOADER.read_text("utf-8")
    _code = traitlets.Dict(read_only=True).tag(sync=True)

    # For pages that have a widget's state and not its output.
    _snapshot_url = traitlets.Unicode("", read_only=True).tag(sync=True)

    running = traitlets.Bool(False, read_only=True).tag(sync=True)
    runs_per_second = traitlets.Float(0.0, read_only=True).tag(sync=True)
    hover = traitlets.Dict(default_value=None, allow_none=True, read_only=True).tag(
        sync=True, to_json=as_json
    )
    status = traitlets.Dict(read_only=True).tag(sync=True)

    @traitlets.default("_code")
    def _default_code(self) -> dict[str, str]:
        return code.names()

    _cells: ClassVar[dict[str, tuple[str, WeakSet[Viewer]]]] = {}

    def __init__(
        self,
        model: Any,
        x: Any = None,
        *,
        observe: str | Sequence[str] = "all",
        precision: Precision = "float32",
        classes: Any = None,
        height: int | None = None,
        timeout: float = 10.0,
        strict: bool = False,
        preprocess: Any = None,
    ) -> None:
        timeout = seconds(timeout)  # an error before minutes of work
        with steps_shown(model):
            model = prepared(model, preprocess)
            self.network = Network(
                model, x, observe=observe, precision=precision, classes=classes, strict=strict
            )
        self._needs_snapshot = False  # a page is there that cannot draw
        self._replaced = False
        self._mended: bool | None = None  # plain kernels: None untried, True taken, False useless
        this = weakref.ref(self)
        self._connection = Connection(
            __version__,
            send=lambda content, buffers: lifetime.call(this, "send", content, buffers),
            fit=lambda target: lifetime.call(this, "_fit", target),
            changed=lambda: lifetime.call(this, "_follow"),
            code=code.pieces(),
            blocks=lambda name: lifetime.call(this, "_given_blob", name),
            showing=self.network.lock,
        )
        self._parity = ParityCheck(
            self._connection,
            reference=self.network.local.reference,
            exact=self.network.local.exact,
            changed=lambda: lifetime.call(this, "_follow"),
        )
        self._begin()
        self._begin_sources()
        self._begin_training()
        self._show()
        super().__init__(height=height, classes=self.network.classes)
        self._reader = Reader(
            self.network,
            self._connection,
            reachable=self.comm is not None and not isinstance(self.comm, DummyComm),
            timeout=timeout,
        )
        self.activations = Activations(self.network, self._reader)
        self.unbent = Activations(self.network, self._reader, unbent=True)
        if self.comm is not None:
            handle = partial(lifetime.call, this, "_handle_msg")
            handle_without_hooks(self.comm, handle)
            inboxes[self.comm.comm_id] = self._connection
            self.comm.on_close(lambda _: lifetime.call(this, "_closed_by_page"))
        self._take_place()
        self._follow()

    # What the network is and gives

    @property
    def output(self) -> Any:
        """What the network makes of the current input, as the model returns it.

        One array; a tuple where forward returns a tuple or list (`output[0]`, …), a dict where it
        returns one (`output['name']`) or an ONNX model has several outputs. While a latent is on,
        None stands for an output that only the skipped layers lead to, as for the mean of a VAE
        that returns it beside the picture: `activations` say why.
        """
        keys = self.network.plan.header.outputs
        computed = [key for key in keys if key not in self.network.skipped]
        found = dict(zip(computed, self._reader.read(computed).arrays, strict=True))
        return shaped(keys, [found.get(key) for key in keys])

    @kept_still
    def run(self, x: Any, *, timeout: float | None = None) -> Any:
        """The output of this very input, in the form of `output`; `input` stays set to it.

        A source is off then. `timeout` is how many seconds the page may say nothing, the Viewer's
        own unless given.

        Raises:
            InputError: `x` doesn't fit; the old input stays.
            PageError: somebody else set the input or the weights before the page came to this one.
        """
        self.network.set_input(x)
        self._turn_off()
        revision, shown = self.network.revision, self._show()
        keys = self.network.plan.header.outputs
        answer = self._reader.read(keys, timeout)
        if answer.revision != shown and self.network.revision != revision:
            raise PageError(
                "the input or the weights were set again while run(x) waited for the output of "
                "this x: give each thread or callback a Viewer of its own, or run one at a time"
            )
        return shaped(keys, answer.arrays)

    async def read(self, *keys: str | Iterable[str], timeout: float | None = None) -> Any:
        """The value under a key, or a dict for several keys; lets other tasks go on meanwhile."""
        answer = await self._reader.read_async(names_of(keys), timeout)
        return as_asked(keys, answer.arrays)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take other weights of the same shapes (tensors or arrays); nothing is compiled again.

        Only where a BatchNorm's variance and epsilon have become 0: it can't be a part of the
        convolution before it then. What `set_weight` did can't be undone any more. The codes of a
        latent's data are computed again.
        """
        self._check_open()
        patches = self.network.load_state_dict(state_dict)
        self._forget_weights()
        self._show_patches(patches)
        self._follow_weights()

    @kept_still
    def verify(self, x: Any = None, *, timeout: float | None = None) -> Report[Match]:
        """Compare every layer that can be read with PyTorch (ONNX models: with ONNX Runtime).

        The values come from where `activations` come from: the page, else local OpenGL. `x` is
        another input to try, after which the Viewer shows its own one again. A row of the report
        is a layer: largest and mean absolute error, the largest relative to the layer's largest
        value, and whether max|a - b| <= 1e-5 * max|b| + 1e-6 (for float16 2e-2 * max|b| + 1e-6),
        or whether it is as near to float64 as PyTorch's or ONNX Runtime's own float32 is.
        `report.ok` is the verdict, `report.first_diverging` where to look. What is bent, injected
        or frozen is so in PyTorch, too.

        Raises:
            InputError: `x` doesn't fit, or a bend can't be replayed (a text in GLSL).
            DeviceError: nothing but the framework itself can compute here.
        """
        network, source = self.network, self.source
        own = network.graph.arguments
        arrays = network.arrays
        shown = arrays if own is None else dict(zip(own.names, arrays, strict=False))
        if x is not None:
            self.input = x
        try:
            report, framework = verify(network, self._reader, timeout, self._fed_keys())
        finally:
            if x is not None:
                self.input, self.source = shown, source
        words = json.dumps(to_dict(edits)) if (edits := active(self.network.edits)) else ""
        now = self._connection.revision  # of what the page shows again
        self._connection.send(verified(now, report, framework, edits=words))
        return report

    def report(self) -> str:
        """What a bug report needs, as text: versions, host, device, precision, memory, faults.

        Nothing of the model but its size is in it, no path and no name. Asks nobody.
        """
        plan = self.network.plan
        tested = self._parity.of(self._connection.page, plan, self.network.edits)
        local = self.network.local.opened
        return diagnosis(plan, self._connection, tested, local, self._store.now)

    def close(self) -> None:
        """Free everything here and in every page; the view goes away."""
        if getattr(self, "comm", None) is not None:
            inboxes.pop(self.comm.comm_id, None)
        if hasattr(self, "_connection"):
            self._connection.closed = True
            self._given.clear()
            self._opened = None
        if hasattr(self, "network"):
            self.network.local.close()
        super().close()

    def _check_open(self) -> None:
        if self._connection.closed:
            raise PageError(CLOSED)

    def _closed_by_page(self) -> None:
        self._connection.disconnect()
        self.close()

    # Showing

    def _given_blob(self, name: str) -> memoryview | None:
        """What pages ask for of a source or a training."""
        return self._blob(name) or self._training_blob(name)

    def _offer(self) -> Offer:
        return self.network.offer(self._snapshot() if self._needs_snapshot else b"")

    def _show(self) -> int:
        self._keep_edits()
        with self.network.lock:
            return self._connection.show(self._offer())

    def _show_patches(self, patches: Sequence[Patch]) -> None:
        if self.network.trained is not None:
            self._edited_while_training()
            return
        if not self._connection.pages:
            self._keep_edits()
            return  # those that come later are offered what there is then
        # A snapshot is drawn anew for a page that has no other picture.
        if self._needs_snapshot or not patches or not self._connection.patch(patches):
            self._show()

    def _edits_changed(self) -> None:
        super()._edits_changed()
        if self._needs_snapshot:
            self._show()
        self._follow()

    def _fit(self, target: Target) -> Offer | None:
        """What to show instead, on a page whose device can do less than the Plan asks for."""
        network = self.network
        if network.fit(target) or network.hash_weights() or network.offered is not network.graph:
            self._keep_edits()
            return self._offer()
        return None

    def _examine(self) -> str:
        """Go on with the parity check; what it has found of the page heard last, in words.

        Where values are wrong the fast kernels are left out, for good if that mends them.
        """
        network = self.network
        if network.is_another_each_time:
            return ""  # each code would be another network, and so would each step
        edits, injected = network.edits, network.injected
        self._parity.follow(network.plan, network.graph, network.arrays, edits, injected)
        verdict = self._parity.of(self._connection.page, network.plan, edits)
        if verdict is None:
            return ""
        if not verdict.wrong or self._mended is False:
            return verdict.words(network.plan, named=True)
        # False where the plain ones were wrong as well.
        self._mended = network.plan.header.target.fast_kernels
        network.swap_kernels()
        self._show()
        return ""

    def _take_precision(self) -> None:
        """Compile again with the precision that a page asks for."""
        asked, self._connection.precision = self._connection.precision, None
        if asked is None or asked == self.network.precision:
            return
        try:
            self.network.use_precision(asked)
        except NbglcnnError as error:
            protocol.warn_once(f"the page asked for precision={asked!r}, and it stays: {error}")
            return
        self._show()

    def _follow(self) -> None:
        """Bring the traits that pages tell up to date with the connection."""
        page = self._connection.page
        if page is not None:
            Reader.pageless = False
            if page.problem and not page.refused and not self._needs_snapshot:
                self._needs_snapshot = True
                self._show()
        if self._replaced and self.comm is not None:
            shown = any(p.health is None or p.health.views for p in self._connection.pages.values())
            (lifetime.hold if shown else lifetime.let_go)(self)
        self._weigh_for_pages()
        self._follow_training()
        self._follow_feeding()
        self._take_precision()
        tested, plan = self._examine(), self.network.plan
        verdict = self._parity.of(page, plan, self.network.edits)
        pace = page.pace if page else None
        self.set_trait("running", pace is not None and pace.running)
        self.set_trait("runs_per_second", pace.runs_per_second if pace else 0.0)
        self.set_trait("hover", hovered(self._connection.pointed, plan.values))
        self.set_trait("status", status_of(page, plan, tested, verdict.clock if verdict else ""))

    def _take_place(self) -> None:
        """Let an older Viewer of the same cell give its textures back: its view is gone."""
        cell = blocking.current_cell()
        if cell is None:
            return
        name, execution = cell
        earlier, viewers = Viewer._cells.get(name, ("", WeakSet()))
        if earlier != execution:
            for viewer in viewers:
                if viewer.comm is not None:
                    viewer._replaced = True
                    viewer._connection.send(protocol.Release())
                    viewer._follow()
                viewer.network.local.close()
            viewers = WeakSet()
        viewers.add(self)
        Viewer._cells[name] = execution, viewers

    # What Jupyter asks

    def _handle_custom_msg(self, content: Any, buffers: Sequence[bytes | memoryview]) -> None:
        if self.comm is None or not marimo.is_twin(self.comm.comm_id, content):
            self._connection.receive(content, [memoryview(each) for each in buffers])

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take what a page has changed: only what a page may change, and only what fits."""
        # Those of edits at once: each says what the other means.
        for names in (TOLD, (SOURCE,), (TRAINING,)):
            if told := {name: sync_data[name] for name in names if name in sync_data}:
                try:
                    super().set_state(told)
                except traitlets.TraitError as error:
                    protocol.warn_once(f"ignored the page's {names[0]}: {error}")
                    self.send_state(names)
        for name in sync_data.keys() - {*TOLD, SOURCE, TRAINING}:
            if name not in OF_THE_PAGE:
                protocol.warn_once(f"ignored the page's change of {name[:40]!r}")
                continue
            try:
                super().set_state({name: sync_data[name]})
            except traitlets.TraitError as error:
                protocol.warn_once(f"ignored the page's {name}: {error}")

    def _snapshot(self) -> bytes:
        return self.network.snapshot(self.example)

    def __repr__(self) -> str:
        return f"Viewer of {self.network.plan.header.name} ({self._state})\n{self.layers!r}"

    @property
    def _state(self) -> str:
        return "closed" if self.comm is None else self.network.plan.memory

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it talks to pages and holds "
            "textures. Pickle the Plan instead, nbglcnn.compile(model, x), or make another of the "
            "same model"
        )

    def _repr_mimebundle_(self, **_: Any) -> Any:
        if self._replaced and self.comm is not None:
            self._replaced = False
            lifetime.hold(self)
        if (bundle := super()._repr_mimebundle_()) is None or self.comm is None:
            return bundle
        data, metadata = bundle
        try:
            data["image/png"] = png = self._snapshot()
            if marimo.is_comm(self.comm):
                url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
                self.set_trait("_snapshot_url", url)
        except NbglcnnError as error:
            protocol.warn_once(f"no snapshot: {error}")
        return data, metadata
