"""Viewer: a network's layers, live in a notebook page and back in numpy."""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import anywidget
import msgspec
import numpy as np
import traitlets
from comm import DummyComm

from nbglcnn import __version__, load
from nbglcnn.errors import DeviceError, NbglcnnError, PageError, unknown, users_line
from nbglcnn.graph import Array
from nbglcnn.inputs import as_arrays
from nbglcnn.lowering import lower
from nbglcnn.plan import Layers, Precision, Target, Value, content_hash, pack_file
from nbglcnn.reference import cacheable
from nbglcnn.report import Match, Report, compared
from nbglcnn.session import stored
from nbglcnn.viewer import blocking, lifetime, marimo, poster, protocol
from nbglcnn.viewer.activations import Activations, as_asked, names_of
from nbglcnn.viewer.connection import CLOSED, Connection, Offer, Request
from nbglcnn.viewer.diagnosis import diagnosis
from nbglcnn.viewer.inbox import inboxes
from nbglcnn.viewer.local import Local, on
from nbglcnn.viewer.protocol import COLORMAPS, NORMALIZATIONS
from nbglcnn.viewer.selftest import SelfTest, verified
from nbglcnn.viewer.traits import (
    OF_THE_PAGE,
    as_json,
    checked_index,
    checked_selection,
    checked_view,
    hovered,
)

STATIC = Path(__file__).parent.parent / "static"
BUNDLE, LOADER = STATIC / "widget.js", STATIC / "loader.js"
HELLO_S = 2.0  # in which a page says hello if there is one; measured: 0.05 to 0.1 s
HELLO_AGAIN_S = 0.5  # the same, once a Viewer of this kernel has waited in vain
QUEUED_S = 0.05  # for messages that came while Python was busy

if not (LOADER.exists() and BUNDLE.exists()):
    raise ImportError(
        f"nbglcnn's front-end is missing ({STATIC}): install the package again; "
        "in a checkout, run `make setup`"
    )


class Viewer(anywidget.AnyWidget):
    """Shows a network's layers while it runs on the page's GPU.

    `model` is a torch.nn.Module (not changed), an onnx.ModelProto or a path to an .onnx; `x` is an
    example input (a tuple for several), whose shape stays. `observe` is "all", "outputs" or a list
    of names to keep; `precision` "float16" stores values and weights in half the memory, right to
    about three digits. `height` bounds the view in CSS pixels; `timeout` is how many seconds a page
    that is there may say nothing while Python waits for it.

    Traits, to observe and to link: `input_index`, `selected`, `view` (see `show`), `colormap`,
    `normalization`, `symmetric` and `height` follow the page and can be set. Read-only are
    `running` (the page has a run under way, or had one within the last quarter of a second), `fps`
    (runs it has finished within the last second; 0 when idle), `hover` (the element under the
    pointer, or None) and `status`.
    """

    # The loader makes a module of the first `_bundle` alone: pages keep what they import. With hot
    # reload they import the bundle itself. As text: anywidget keeps widgets whose file it watches.
    _esm = BUNDLE if os.environ.get("ANYWIDGET_HMR") else LOADER.read_text("utf-8")
    _bundle = traitlets.Unicode(BUNDLE.read_text("utf-8"), read_only=True).tag(sync=True)

    height = traitlets.Int(None, allow_none=True, min=100).tag(sync=True)
    input_index = traitlets.Int(0, min=0).tag(sync=True)
    selected = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    colormap = traitlets.Enum(COLORMAPS, "signed").tag(sync=True)
    normalization = traitlets.Enum(NORMALIZATIONS, "layer").tag(sync=True)
    symmetric = traitlets.Bool(False).tag(sync=True)
    view: traitlets.Dict[str, Any] = traitlets.Dict(
        default_value={"name": "network", "layer": None, "channels": [], "pixel": None}
    ).tag(sync=True)
    running = traitlets.Bool(False, read_only=True).tag(sync=True)
    fps = traitlets.Float(0.0, read_only=True).tag(sync=True)
    hover = traitlets.Dict(default_value=None, allow_none=True, read_only=True).tag(
        sync=True, to_json=as_json
    )
    status = traitlets.Dict(read_only=True).tag(sync=True)

    _cells: ClassVar[dict[str, tuple[str, WeakSet[Viewer]]]] = {}
    _pageless: ClassVar[bool] = False  # some Viewer waited in vain, and no page was seen since

    def __init__(
        self,
        model: Any,
        x: Any = None,
        *,
        observe: str | Sequence[str] = "all",
        precision: Precision = "float32",
        height: int | None = None,
        timeout: float = 10.0,
    ) -> None:
        known: dict[str, Array] = {}
        graph, arrays = load.load(model, x, known)
        self._graph = graph
        self._observe = observe
        self._precision = precision
        self._plan = lower.lower(graph, observe=observe, precision=precision)
        self._file = memoryview(pack_file(self._plan, {}))
        self._arrays = self._accepted(arrays)
        pictured = {value.key for value in poster.chosen(self._plan)}
        self._local = Local(model, cacheable(graph, known, pictured))
        self._revision = 0  # of input and weights
        self._picture: tuple[tuple[int, int], bytes] | None = None
        self._needs_poster = False  # a page is there that cannot draw
        self._timeout = timeout
        self._replaced = False
        self._warned = False
        self._mended: bool | None = None  # plain kernels: None untried, True taken, False useless
        self._waited = False
        this = weakref.ref(self)
        self._connection = Connection(
            __version__,
            send=lambda content, buffers: _call(this, "send", content, buffers),
            fit=lambda target: _call(this, "_fit", target),
            changed=lambda: _call(this, "_follow"),
        )
        self._selftest = SelfTest(
            self._connection,
            reference=self._local.reference,
            exact=self._local.exact,
            changed=lambda: _call(this, "_follow"),
        )
        self._show()
        self.activations = Activations(lambda: self._plan.values, self._fetch, self._source)
        super().__init__(height=height)
        if self.comm is not None:
            inboxes[self.comm.comm_id] = self._connection
            self.comm.on_close(lambda _: _call(this, "_closed_by_page"))
        self._take_place()
        self._follow()

    # What the network is and gives

    @property
    def layers(self) -> Layers:
        """The layer table, indexed by position or name."""
        return self._plan.layers

    @property
    def input(self) -> Any:
        """The current input: an array, or a tuple of them; set it to another of the same shape."""
        arrays = tuple(array.copy() for array in self._arrays)
        return arrays[0] if len(arrays) == 1 else arrays

    @input.setter
    def input(self, x: Any) -> None:
        self._put(x)

    @property
    def output(self) -> Any:
        """What the network makes of the current input, as the model returns it.

        One array; a tuple where forward returns a tuple or list (`output[0]`, …), a dict where it
        returns one (`output['name']`) or an ONNX model has several outputs.
        """
        keys = self._plan.header.outputs
        return shaped(keys, self._fetch(keys))

    def run(self, x: Any, *, timeout: float | None = None) -> Any:
        """The output of this very input, in the form of `output`; `input` stays set to it.

        `timeout` is how many seconds the page may say nothing, the Viewer's own unless given.

        Raises:
            InputError: `x` doesn't fit; the old input stays.
            PageError: somebody else set the input or the weights before the page came to this one.
        """
        revision, shown = self._put(x)
        keys = self._plan.header.outputs
        arrays, computed = self._computed(keys, timeout)
        if computed != shown and self._revision != revision:
            raise PageError(
                "the input or the weights were set again while run(x) waited for the output of "
                "this x: give each thread or callback a Viewer of its own, or run one at a time"
            )
        return shaped(keys, arrays)

    async def read(self, *keys: str | Iterable[str], timeout: float | None = None) -> Any:
        """The value under a key, or a dict for several keys; lets other tasks go on meanwhile."""
        names = names_of(keys)
        values = self._values(names)
        timeout = self._timeout if timeout is None else timeout
        if not self._connection.pages and self._reachable:
            await blocking.wait_async(self._greeted())
        if self._page_answers():
            request = self._ask(values)
            try:
                await blocking.wait_async(lambda: self._connection.answered(request, timeout))
            finally:
                self._connection.drop(request)
            arrays = [finished(v, a) for v, a in zip(values, request.arrays(), strict=True)]
        else:
            arrays = self._here(names)
        return as_asked(keys, arrays)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take other weights of the same shapes (tensors or arrays); nothing is compiled again.

        Only where a BatchNorm's variance and epsilon have become 0: it can't be a part of the
        convolution before it then.
        """
        self._graph = load.with_parameters(self._graph, state_dict)
        if lower.fits(self._plan, self._graph):
            self._plan = lower.repack(self._plan, self._graph)
        else:
            self._compile(self._plan.header.target)
        self._revision += 1
        self._show()

    def verify(self, x: Any = None, *, timeout: float | None = None) -> Report[Match]:
        """Compare every layer that can be read with PyTorch (ONNX models: with ONNX Runtime).

        The values come from where `activations` come from: the page, else local OpenGL. `x` is
        another input to try, after which the Viewer shows its own one again. A row of the report
        is a layer: largest and mean absolute error, the largest relative to the layer's largest
        value, and whether max|a - b| <= 1e-5 * max|b| + 1e-6 (for float16 2e-2 * max|b| + 1e-6),
        or whether it is as near to float64 as PyTorch's or ONNX Runtime's own float32 is.
        `report.ok` is the verdict, `report.first_diverging` where to look.

        Raises:
            InputError: `x` doesn't fit.
            DeviceError: nothing but the framework itself can compute here.
        """
        arrays = self._arrays
        if x is not None:
            self.input = x
        try:
            where = self._source()
            if where.startswith("reference"):
                raise DeviceError(
                    "there is nothing to verify: no page shows this Viewer and there is no local "
                    f"OpenGL, so that values come from the framework itself ({where})"
                )
            keys = self._plan.computed
            found = dict(zip(keys, self._fetch(keys, timeout), strict=True))
            graph, used = self._graph, self._arrays
            expected, framework = self._local.reference(graph, used)
        finally:
            if x is not None:
                self.input = arrays
        exactly = partial(self._local.exact, graph, used)
        where = f"{framework} on {where}"
        report = compared(
            self._plan, found, expected, where, exact=exactly, rounded=graph.rounded()
        )
        self._connection.send(verified(self._connection.revision, report, framework))
        return report

    def show(
        self,
        layer: str | int | None = None,
        channels: int | Sequence[int] = (),
        *,
        view: str | None = None,
        pixel: tuple[int, int] | None = None,
    ) -> None:
        """Turn the page to a layer, by name or position, or to another view.

        `channels` are those shown large, up to four beside each other; the first is selected.
        `view` is "network", "maps", "filters", "explain" or "profile"; by default "explain" for a
        `pixel` (y, x), "maps" for a layer, else "network". `selected` and `view` say later what the
        page shows, whoever turned it there.

        Raises:
            KeyError: there is no such layer.
            TraitError: the layer has no such channel or pixel, or there is no such view.
        """
        channels = [channels] if isinstance(channels, int) else [int(one) for one in channels]
        name = self.layers[layer].name if isinstance(layer, int) else layer
        if name is not None:
            self._values([name])  # KeyError
        default = "network" if name is None else "maps" if pixel is None else "explain"
        asked = {
            "name": view or default,
            "layer": name,
            "channels": channels,
            "pixel": None if pixel is None else list(pixel),
        }
        whole = checked_view(asked, self._plan)
        with self.hold_sync():
            if name is not None:
                first = channels[0] if channels else None
                self.selected = {"layer": name, "channel": first}
            self.view = whole

    def report(self) -> str:
        """What a bug report needs, as text: versions, host, device, precision, memory, faults.

        Nothing of the model but its size is in it, no path and no name. Asks nobody.
        """
        tested = self._selftest.of(self._connection.page, self._plan)
        return diagnosis(self._plan, self._connection, tested, self._local.opened)

    def close(self) -> None:
        """Free everything here and in every page; the view goes away."""
        if getattr(self, "comm", None) is not None:
            inboxes.pop(self.comm.comm_id, None)
        if hasattr(self, "_connection"):
            self._connection.closed = True
        if hasattr(self, "_local"):
            self._local.close()
        super().close()

    def _closed_by_page(self) -> None:
        self._connection.part()
        self.close()

    # Reading

    def _values(self, keys: Iterable[str]) -> list[Value]:
        known = {value.key: value for value in self._plan.values}
        for key in keys:
            if key not in known:
                raise KeyError(unknown(key, list(known)))
        return [known[key] for key in keys]

    def _fetch(self, keys: Sequence[str], timeout: float | None = None) -> list[Array]:
        return self._computed(keys, timeout)[0]

    def _computed(self, keys: Sequence[str], timeout: float | None) -> tuple[list[Array], int]:
        """Values, and the connection's revision that they were computed from."""
        values = self._values(keys)
        if not self._connection.pages and self._reachable:
            blocking.wait(self._greeted())
        if not self._page_answers():
            revision = self._connection.revision
            return self._here(keys), revision
        timeout = self._timeout if timeout is None else timeout
        request = self._ask(values)
        try:
            blocking.wait(lambda: self._connection.answered(request, timeout))
        finally:
            self._connection.drop(request)
        arrays = [finished(v, a) for v, a in zip(values, request.arrays(), strict=True)]
        return arrays, request.computed

    def _ask(self, values: Sequence[Value]) -> Request:
        return self._connection.ask([v.key for v in values], [4 * v.read.count for v in values])

    @property
    def _reachable(self) -> bool:
        """Whether a page could be listening at all: not in a script."""
        return self.comm is not None and not isinstance(self.comm, DummyComm)

    def _greeted(self) -> Callable[[], bool]:
        """Ends the wait for a first hello: `done` for blocking.wait."""
        patience = HELLO_AGAIN_S if Viewer._pageless else HELLO_S
        until = time.monotonic() + (QUEUED_S if self._waited else patience)

        def done() -> bool:
            if self._connection.pages or self._connection.closed:
                return True
            if time.monotonic() < until:
                return False
            self._waited = Viewer._pageless = True
            return True

        return done

    def _page_answers(self) -> bool:
        """Whether values come from a page; warns once when they don't where one was expected."""
        if self.comm is None:
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
            where = self._local.source(self._plan)
            where = where.removeprefix("local ").replace(": ", ", ").strip("()")
            advice = "Display it, or reload and trust the notebook, to have them from the page."
            warnings.warn(
                f"{why}; values are computed in Python ({where}). {advice}",
                UserWarning,
                stacklevel=users_line(),
            )
        return False

    def _here(self, keys: Sequence[str]) -> list[Array]:
        found = self._local.values(self._plan, self._graph, self._arrays, self._revision)
        return [found[key].copy() for key in keys]

    def _source(self) -> str:
        if not self._connection.pages and self._reachable:
            blocking.wait(self._greeted())
        if self._page_answers():
            page = self._connection.page
            assert page is not None
            return f"page (WebGL2: {on(page.renderer, self._plan)})"
        return self._local.source(self._plan)

    # Showing

    def _accepted(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        for record, array in zip(self._plan.header.inputs, arrays, strict=True):
            stored(record.key, array)  # InputError for what float32 textures cannot hold
        return tuple(np.asarray(array, order="C") for array in arrays)

    def _offer(self) -> Offer:
        blobs: dict[str, memoryview] = {self._plan.hash: self._file}
        inputs = []
        for record, array in zip(self._plan.header.inputs, self._arrays, strict=True):
            data = raw(stored(record.key, array))
            inputs.append(content_hash(data))
            blobs[inputs[-1]] = data
        weights = tuple(weight.hash for weight in self._plan.header.weights)
        for name in weights:
            blobs[name] = raw(self._plan.blobs[name])
        picture = self._poster() if self._needs_poster else b""
        name = content_hash(picture) if picture else ""
        if picture:
            blobs[name] = memoryview(picture)
        return Offer(self._plan.hash, weights, tuple(inputs), blobs, name)

    def _put(self, x: Any) -> tuple[int, int]:
        """Make `x` the input; the revisions that it is, here and of the connection."""
        self._arrays = self._accepted(as_arrays(x, load.specs_of(self._graph)))
        self._revision += 1
        return self._revision, self._show()

    def _show(self) -> int:
        return self._connection.show(self._offer())

    def _fit(self, target: Target) -> Offer | None:
        """Compile again when a page's device can do less than the Plan asks for.

        One that draws no float32 makes the Plan's precision float16, here and in all pages.
        """
        old = self._plan.header.target
        least = {
            name: min(getattr(old, name), getattr(target, name))
            for name in msgspec.structs.asdict(old)
        }
        if Target(**least) == old:
            return None
        self._compile(Target(**least))
        return self._offer()

    def _compile(self, target: Target) -> None:
        self._plan = lower.lower(
            self._graph, observe=self._observe, target=target, precision=self._precision
        )
        self._file = memoryview(pack_file(self._plan, {}))

    def _examine(self) -> str:
        """Go on with the self-test; what it has found of the page heard last, in words.

        Where values are wrong the fast kernels are left out, for good if that mends them.
        """
        self._selftest.follow(self._plan, self._graph, self._arrays)
        verdict = self._selftest.of(self._connection.page, self._plan)
        if verdict is None:
            return ""
        target = self._plan.header.target
        if not verdict.wrong or self._mended is False:
            return verdict.words(self._plan, named=True)
        self._mended = target.fast_kernels  # False: the plain ones were wrong as well
        self._compile(msgspec.structs.replace(target, fast_kernels=not target.fast_kernels))
        self._show()
        return ""

    def _follow(self) -> None:
        """Bring the traits that pages tell up to date with the connection."""
        page = self._connection.page
        ran = page.ran if page else None
        stage = page.stage if page else None
        if page is not None:
            Viewer._pageless = False
            if page.problem and not page.refused and not self._needs_poster:
                self._needs_poster = True
                self._show()
        if self._replaced and self.comm is not None:
            shown = any(p.health is None or p.health.views for p in self._connection.pages.values())
            (lifetime.hold if shown else lifetime.let_go)(self)
        tested = self._examine()
        pace = page.pace if page else None
        self.set_trait("running", pace is not None and pace.running)
        self.set_trait("fps", pace.fps if pace else 0.0)
        self.set_trait("hover", hovered(self._connection.pointed, self._plan.values))
        self.set_trait(
            "status",
            {
                "page": "none" if page is None else "unusable" if page.problem else "connected",
                "problem": page.problem or page.error if page else "",
                "renderer": page.renderer if page else "",
                "stage": stage.stage if stage else "",
                "done": stage.done if stage else 0,
                "total": stage.total if stage else 0,
                "ms": ran.ms if ran else None,
                "timing": ran.timing if ran else "",
                "precision": self._plan.precision,
                "self_test": tested,
                "gpu_bytes": self._plan.gpu_bytes,
            },
        )

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
                viewer._local.close()
            viewers = WeakSet()
        viewers.add(self)
        Viewer._cells[name] = execution, viewers

    # What Jupyter asks

    def _handle_custom_msg(self, content: Any, buffers: Sequence[bytes | memoryview]) -> None:
        if self.comm is None or not marimo.is_twin(self.comm.comm_id, content):
            self._connection.receive(content, [memoryview(each) for each in buffers])

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take what a page has changed: only what a page may change, and only what fits."""
        for name in sync_data:
            if name not in OF_THE_PAGE:
                protocol.warn_once(f"ignored the page's change of {name[:40]!r}")
                continue
            try:
                super().set_state({name: sync_data[name]})
            except traitlets.TraitError as error:
                protocol.warn_once(f"ignored the page's {name}: {error}")

    @traitlets.validate("input_index")
    def _check_index(self, proposal: Any) -> int:
        return checked_index(int(proposal["value"]), self._plan.header.batch)

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> dict[str, Any] | None:
        return checked_selection(proposal["value"], self._plan.values)

    @traitlets.validate("view")
    def _check_view(self, proposal: Any) -> dict[str, Any]:
        return checked_view(proposal["value"], self._plan)

    def _poster(self) -> bytes:
        now = self._revision, self.input_index
        if self._picture is None or self._picture[0] != now:
            names = {value.key for value in poster.chosen(self._plan)}
            values, source = self._local.pictured(
                self._plan, self._graph, self._arrays, self._revision, names
            )
            png = poster.draw(self._plan, values, self.input_index, source)
            self._picture = now, png
        return self._picture[1]

    def __repr__(self) -> str:
        return f"Viewer of {self._plan.header.name} ({self._state})\n{self.layers!r}"

    @property
    def _state(self) -> str:
        return "closed" if self.comm is None else self._plan.memory

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
        bundle = super()._repr_mimebundle_()
        if bundle is None:
            return None
        data, metadata = bundle
        try:
            data["image/png"] = self._poster()
        except NbglcnnError as error:
            protocol.warn_once(f"no still picture: {error}")
        return data, metadata


def finished(value: Value, flat: Array) -> Array:
    """A value's array out of the floats that a page sent: its own shape and type."""
    return np.array(flat, dtype=value.dtype).reshape(value.shape)


def shaped(keys: Sequence[str], arrays: Sequence[Array]) -> Any:
    """Outputs as forward returns them; their keys are `output`, `output[0]` or `output['name']`."""
    if len(keys) == 1 and "[" not in keys[0]:
        return arrays[0]
    if list(keys) == [f"output[{i}]" for i in range(len(keys))]:
        return tuple(arrays)
    names = [key.removeprefix("output['").removesuffix("']") for key in keys]
    if list(keys) == [f"output['{name}']" for name in names]:
        return dict(zip(names, arrays, strict=True))
    return dict(zip(keys, arrays, strict=True))


def raw(array: Array) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data


def _call(viewer: weakref.ref[Viewer], method: str, *arguments: Any) -> Any:
    # The connection outlives its Viewer in the kernel's tables, and must not keep it alive.
    found = viewer()
    return None if found is None else getattr(found, method)(*arguments)
