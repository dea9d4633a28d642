"""Viewer: a network's layers, live in a notebook page and back in numpy."""

from __future__ import annotations

import base64
import difflib
import io
import json
import os
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import anywidget
import traitlets
from comm import DummyComm
from PIL import Image

from nbglcnn import __version__, protocol
from nbglcnn.errors import VIEWER_CLOSED_MESSAGE, InputError, NbglcnnError, PageError
from nbglcnn.features.edits import weights
from nbglcnn.features.edits.bends import Bend, Bends
from nbglcnn.features.edits.host import EditsHost
from nbglcnn.features.edits.records import Edit, active_edits, to_dict
from nbglcnn.features.edits.store import EditSnapshot
from nbglcnn.features.feature import Feature, FeatureHost, ViewerHost
from nbglcnn.features.latent.host import LatentHost
from nbglcnn.features.mirror.host import MirrorHost
from nbglcnn.features.sources.host import SourcesHost
from nbglcnn.features.sources.input_source import InputSource
from nbglcnn.features.teaching.host import TeachingHost
from nbglcnn.features.teaching.teaching import Teaching
from nbglcnn.features.training.host import TrainingHost
from nbglcnn.features.training.live_training import LiveTraining
from nbglcnn.features.training.optimizers import Adam, Optimizer
from nbglcnn.graph import Array
from nbglcnn.load import model_of
from nbglcnn.notebook import blocking, lifetime, marimo
from nbglcnn.notebook.comm_hooks import handle_without_hooks
from nbglcnn.notebook.inbox import inboxes_by_comm
from nbglcnn.pictures import feature_maps
from nbglcnn.pictures.colors import COLORMAPS
from nbglcnn.plan.schema import Layers, Patch, Precision, Target
from nbglcnn.protocol import COLOR_RANGES, DEFAULT_VIEW, VIEWER_MESSAGES
from nbglcnn.report import Match, Report
from nbglcnn.transforms import Transform
from nbglcnn.widget import frontend
from nbglcnn.widget.activations import Activations, array_or_dict, flatten_keys
from nbglcnn.widget.asset_manifest import AssetManifest
from nbglcnn.widget.connection import Connection
from nbglcnn.widget.diagnostics import format_diagnostics
from nbglcnn.widget.load_progress import show_load_progress
from nbglcnn.widget.network import Network
from nbglcnn.widget.parity import ParityCheck, verify, verify_message
from nbglcnn.widget.reader import Reader, nest_outputs, validate_timeout
from nbglcnn.widget.traits import (
    PAGE_TRAITS,
    default_view,
    hover_record,
    hover_to_json,
    page_status,
    validate_example,
    validate_image_ranges,
    validate_selection,
    validate_view,
)

HostType = TypeVar("HostType")

# Each is made with a Host, in this order; what one uses of another comes before it.
FEATURES: tuple[type[FeatureHost], ...] = (
    EditsHost,
    SourcesHost,
    LatentHost,
    TrainingHost,
    MirrorHost,
    TeachingHost,
)

MESSAGES = sum((one.messages for one in FEATURES), VIEWER_MESSAGES)


class Viewer(anywidget.AnyWidget):
    """Shows a network's layers while it runs on the page's GPU.

    `model` is a torch.nn.Module (not changed), an onnx.ModelProto or a path to an .onnx; `x` is an
    example input (a tuple for several), whose shape stays. `observe` is "all", "outputs" or a list
    of names to keep; `precision` "float16" stores values and weights in half the memory,
    right to about three digits. `height` bounds the view in CSS pixels; `timeout` is how many
    seconds a page may be silent while Python waits for it. `classes` names the values of the
    output: a list, a dict by index, or weights with `.meta["categories"]`; an ONNX file may have
    names itself. With `preprocess`, as in `compile`, `x` is the picture. Layers that cannot run on
    the GPU are computed in Python, by PyTorch or ONNX Runtime, for each input; with `strict` that
    is an error, as in `compile`.

    Traits, to observe and to link: `example`, `selected`, `view` (see `show`), `colormap`,
    `color_range`, `symmetric`, `height` and `presenting` (see `present`) follow the page and can be
    set, `classes` can be set; `source` is what feeds the input, a Webcam, Video, Images, Drawing,
    Noise or Latent, or None, and follows the page, too. Read-only are `running` (the page has a run
    under way, or had one in the last quarter of a second), `runs_per_second` (runs finished in the
    last second; 0 when idle), `hover` (the element under the pointer, or None) and `status`.
    """

    # The loader asks for the code by its name, once a page. With hot reload pages import
    # `widget.js` itself. As text: anywidget keeps widgets whose file it watches.
    _esm = (
        frontend.WIDGET_FILE
        if os.environ.get("ANYWIDGET_HMR")
        else frontend.LOADER_FILE.read_text("utf-8")
    )
    _code = traitlets.Dict(read_only=True).tag(sync=True)

    # For pages that have a widget's state and not its output.
    _snapshot_url = traitlets.Unicode("", read_only=True).tag(sync=True)

    running = traitlets.Bool(False, read_only=True).tag(sync=True)
    runs_per_second = traitlets.Float(0.0, read_only=True).tag(sync=True)
    hover = traitlets.Dict(default_value=None, allow_none=True, read_only=True).tag(
        sync=True, to_json=hover_to_json
    )
    status = traitlets.Dict(read_only=True).tag(sync=True)

    # Not synced: names are as many as they like, and pages get them as they get weights.
    # Any would let None pass unasked.
    classes: traitlets.TraitType[Any, Any] = traitlets.TraitType(())
    height = traitlets.Int(None, allow_none=True, min=100).tag(sync=True)
    example = traitlets.Int(0, min=0).tag(sync=True)
    selected = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    colormap = traitlets.Enum(COLORMAPS, "signed").tag(sync=True)
    color_range = traitlets.Enum(COLOR_RANGES, "layer").tag(sync=True)
    image_ranges: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    symmetric = traitlets.Bool(False).tag(sync=True)
    presenting = traitlets.Bool(False).tag(sync=True)
    view: traitlets.Dict[str, Any] = traitlets.Dict(default_value=DEFAULT_VIEW).tag(sync=True)

    @traitlets.default("_code")
    def _default_code(self) -> dict[str, str]:
        return frontend.blob_names()

    source: Any  # the trait of the feature "sources"

    _features: ClassVar[tuple[type[FeatureHost], ...]] = FEATURES
    _viewers_by_cell: ClassVar[dict[str, tuple[str, WeakSet[Viewer]]]] = {}

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
        timeout = validate_timeout(timeout)  # an error before minutes of work
        model = model_of(model, preprocess)
        with show_load_progress(model):
            self.network = Network(
                model, x, observe=observe, precision=precision, classes=classes, strict=strict
            )
        self._needs_snapshot = False  # a page is there that cannot draw
        self._is_replaced = False
        self._plain_kernels_help: bool | None = (
            None  # plain kernels: None untried, True taken, False useless
        )
        this = weakref.ref(self)
        self._connection = Connection(
            __version__,
            MESSAGES,
            send=lambda content, buffers: lifetime.call_weak(this, "send", content, buffers),
            adapt_manifest=lambda target: lifetime.call_weak(this, "_adapt_manifest", target),
            on_change=lambda: lifetime.call_weak(this, "_sync_traits"),
            frontend_blobs=frontend.frontend_blobs(),
            feature_blob=lambda name: lifetime.call_weak(this, "_feature_blob", name),
            weights_lock=self.network.lock,
        )
        self._parity = ParityCheck(
            self._connection,
            compute_reference=self.network.local.compute_reference,
            compute_float64=self.network.local.compute_float64,
            on_change=lambda: lifetime.call_weak(this, "_sync_traits"),
        )
        self._host = ViewerHost(self, self.network, self._connection)
        for make in self._features:
            self._host.add_feature(make(self._host))
        offers = list(self._host.all_features())
        self.add_traits(**{name: one for offered in offers for name, one in offered.traits.items()})
        for offered in offers:
            if offered.page_writable:
                self.observe(
                    partial(_handle_shared_traits, self._host, offered), offered.page_writable
                )
        self._update_pages()
        super().__init__(height=height, classes=self.network.classes)
        self._host.reader = self._reader = Reader(
            self.network,
            self._connection,
            can_reach_page=self.comm is not None and not isinstance(self.comm, DummyComm),
            timeout=timeout,
        )
        self.activations = Activations(self.network, self._reader)
        self.unbent = Activations(self.network, self._reader, unbent=True)
        if self.comm is not None:
            handle = partial(lifetime.call_weak, this, "_handle_msg")
            handle_without_hooks(self.comm, handle)
            inboxes_by_comm[self.comm.comm_id] = self._connection
            self.comm.on_close(lambda _: lifetime.call_weak(this, "_on_comm_closed"))
        self._release_old_viewers()
        self._sync_traits()

    def __setattr__(self, name: str, value: Any) -> None:
        # Python keeps whatever is set: a misspelt trait would change nothing and say nothing.
        if not (name.startswith("_") or hasattr(type(self), name) or name in vars(self)):
            names = [*(n for n in self.traits(sync=True) if n[0] != "_"), "classes", "input"]
            for near in difflib.get_close_matches(name, names, 1, 0.75):
                warnings.warn(
                    f"a {type(self).__name__} has no {name!r}: setting it changes nothing; did you "
                    f"mean {near!r}?",
                    stacklevel=2,
                )
        super().__setattr__(name, value)

    # What the network is and gives

    @property
    def input(self) -> Any:
        """The current input: an array, or a tuple of them; set it to another of the same shape.

        Behind the model's own stands the noise in the place of what forward draws; set without it,
        that stays as it is.

        While a source is on it is exactly what went into the network last, read from the page that
        has it: a copy, float32, before edits of the input. Set it to a source, as to
        `nbglcnn.Webcam()`, and that is on; to an array, and the source is off.

        Raises:
            InputError: it doesn't fit; the old one stays.
        """
        arrays = self.current_inputs()
        return arrays[0] if len(arrays) == 1 else arrays

    @input.setter
    def input(self, x: Any) -> None:
        self._host.check_open()
        if isinstance(x, InputSource):
            self._require_host(SourcesHost)
            self.source = x
            return
        self._replace_input(x)
        self._update_pages()

    def _replace_input(self, x: Any) -> None:
        """Make an array the input, and the source off; pages are shown it later."""
        self.network.set_input(x)
        if sources := self._host.find_host("sources"):
            sources.turn_off()

    def current_inputs(self) -> tuple[Array, ...]:
        """Copies of all inputs; of one that pages feed what went in last."""
        sources = self._host.find_host("sources")
        if sources is None:
            return tuple(array.copy() for array in self.network.input_arrays)
        found: tuple[Array, ...] = sources.current_inputs()
        return found

    @property
    def output(self) -> Any:
        """What the network makes of the current input, as the model returns it.

        One array; a tuple where forward returns a tuple or list (`output[0]`, …), a dict where it
        returns one (`output['name']`) or an ONNX model has several outputs. While a latent is on,
        None stands for an output that only the skipped layers lead to, as for the mean of a VAE
        that returns it beside the picture: `activations` say why.
        """
        keys = self.network.plan.header.outputs
        computed = [key for key in keys if key not in self.network.skipped_keys]
        found = dict(zip(computed, self._reader.read(computed).arrays, strict=True))
        return nest_outputs(keys, [found.get(key) for key in keys])

    def run(self, x: Any, *, timeout: float | None = None) -> Any:
        """The output of this very input, in the form of `output`; `input` stays set to it.

        A source is off then. `timeout` is how many seconds the page may say nothing, the Viewer's
        own unless given.

        Raises:
            InputError: `x` doesn't fit; the old input stays.
            PageError: somebody else set the input or the weights before the page came to this one.
        """
        with self.network.hold_weights():
            self._replace_input(x)
            revision, shown = self.network.revision, self._update_pages()
            keys = self.network.plan.header.outputs
            answer = self._reader.read(keys, timeout)
            if answer.revision != shown and self.network.revision != revision:
                raise PageError(
                    "the input or the weights were set again while run(x) waited for the output "
                    "of this x: give each thread or callback a Viewer of its own, or run one at a "
                    "time"
                )
            return nest_outputs(keys, answer.arrays)

    async def read(self, *keys: str | Iterable[str], timeout: float | None = None) -> Any:
        """The value under a key, or a dict for several keys; lets other tasks go on meanwhile."""
        answer = await self._reader.read_async(flatten_keys(keys), timeout)
        return array_or_dict(keys, answer.arrays)

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
        with self.network.hold_weights():
            return self._verify(x, timeout)

    def _verify(self, x: Any, timeout: float | None) -> Report[Match]:
        network, source = self.network, self._host.get("source")
        sources = self._host.find_host("sources")
        own = network.graph.arguments
        arrays = network.input_arrays
        shown = arrays if own is None else dict(zip(own.names, arrays, strict=False))
        if x is not None:
            self.input = x
        try:
            report, framework = verify(
                network, self._reader, timeout, sources.feed.fed_keys() if sources else []
            )
        finally:
            if x is not None:
                self.input = shown
                if source is not None:
                    self.source = source
        words = json.dumps(to_dict(edits)) if (edits := active_edits(self.network.edits)) else ""
        now = self._connection.revision  # of what the page shows again
        self._connection.send(verify_message(now, report, framework, edits=words))
        return report

    def report(self) -> str:
        """What a bug report needs, as text: versions, host, device, precision, memory, faults.

        Nothing of the model but its size is in it, no path and no name. Asks nobody.
        """
        plan = self.network.plan
        tested = self._parity.verdict(self._connection.active_page, plan, self.network.edits)
        edits = self._host.find_host("edits")
        local = self.network.local.device_name
        return format_diagnostics(
            plan, self._connection, tested, local, edits.store.present if edits else EditSnapshot()
        )

    # Showing

    @property
    def layers(self) -> Layers:
        """The layer table, indexed by position or name."""
        return self.network.plan.layers

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
        `view` is "network", "maps", "filters", "explain", "bend", "profile", "train" once it was
        trained in the page or mirrors a training, or "teach" while a head is taught; by default
        "explain" for a `pixel` (y, x), "maps" for a layer, else "network". `selected` and `view`
        say later what the page shows, whoever turned it there.

        Raises:
            KeyError: there is no such layer.
            TraitError: the layer has no such channel or pixel, or there is no such view.
            PageError: it was closed.
        """
        self._host.check_open()
        channels = [channels] if isinstance(channels, int) else [int(one) for one in channels]
        name = self.layers[layer].name if isinstance(layer, int) else layer
        if name is not None:
            self.network.value_records([name])  # KeyError
        asked = {
            "name": view or default_view(name, pixel),
            "layer": name,
            "channels": channels,
            "pixel": None if pixel is None else list(pixel),
        }
        whole = self._validate_view_state(asked)
        with self.hold_sync():
            if name is not None:
                first = channels[0] if channels else None
                self.selected = {"layer": name, "channel": first}
            self.view = whole

    def picture(
        self, key: str, channels: int | Sequence[int] | None = None, **look: Any
    ) -> Image.Image:
        """A layer's feature maps as an RGB image, drawn by Python from the values of now.

        The arguments are those of `Session.draw_picture`. What isn't given of `example`,
        `colormap`, `color_range` ("fixed" counts as "layer"; of a picture what `image_ranges` has)
        and `symmetric` is as the page has it.

        Raises:
            KeyError: there is no such value.
            InputError: an argument has no meaning here, or the picture would be too large.
        """
        [value] = self.network.value_records([key])
        color_range: Any = "layer" if self.color_range == "fixed" else self.color_range
        if feature_maps.draw_kind(value) in ("grey", "rgb"):
            color_range = self.image_ranges.get(key)
        own = {
            "example": min(self.example, value.nchw[0] - 1),
            "colormap": self.colormap,
            "color_range": color_range,
            "symmetric": self.symmetric,
        }
        array = self._reader.read([key]).arrays[0]
        return feature_maps.draw_picture(value, array, channels=channels, **{**own, **look})

    def snapshot(self, *, timeout: float | None = None) -> Image.Image:
        """The whole view as it is on screen, an RGB image, in the screen's own pixels.

        Of several pages the first that answers takes it. `timeout` is how many seconds the page may
        say nothing, the Viewer's own unless given.

        Raises:
            PageNotConnected: no page shows the Viewer.
            PageError: the page could not take it, and why.
        """
        png = self._reader.screenshot(timeout)
        return Image.open(io.BytesIO(png)).convert("RGB")

    def present(self, on: bool = True) -> None:
        """Show it for a projector: as wide as the window, with larger type and fewer controls.

        `present(False)`, Esc or the button in the page lead back; `presenting` says how it stands.
        """
        self.presenting = on

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        text: str = "",
        steps: Sequence[Mapping[str, Any]] = (),
        precision: Precision | None = None,
        train: Mapping[str, Any] | bool | None = None,
        teach: Sequence[str] | Mapping[str, Any] | bool | None = None,
    ) -> Path:
        """Write this Viewer as a page of its own, which runs offline, without a kernel.

        It has the weights, the input, the edits, the view and the source of now: of Images all that
        were given, of a Video the whole. The arguments are those of `nbglcnn.export_html`;
        `precision` is the Viewer's own unless given. `train=True` stands for what
        `viewer.train` was given last: the page begins with the weights of now; `teach=True` for
        `viewer.teaching`, with its examples and head.

        Raises:
            InputError: the source or what is trained on is larger than 64 MiB, a step is none, or
                the network cannot be trained so.
            KeyError, UnsupportedModel, UnsupportedOperator: as `nbglcnn.train`.
        """
        from nbglcnn.features.export import viewer_page  # which writes Viewers

        traits = {name: getattr(self, name) for name in PAGE_TRAITS}
        del traits["height"], traits["presenting"]
        return viewer_page.write_viewer_page(
            self._host, path, title=title, text=text, steps=steps, precision=precision,
            traits=traits, train=train, teach=teach,
        )  # fmt: skip

    # Edits and weights

    @property
    def bends(self) -> Bends:
        """All bends, in the order in which they act."""
        return self._require_host(EditsHost).editor.bends

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All that is edited now, as data: bends and what is injected, in order."""
        return self.network.edits

    def bend(
        self,
        layer: str,
        transform: Transform,
        *,
        channels: Any = None,
        mix: float = 1.0,
        name: str | None = None,
        enabled: bool = True,
    ) -> Bend:
        """Bend a layer's value, or an input, at once; the live Bend.

        Args:
            layer: the key of a value, which bends act on where a forward hook of that module would;
                behind the bends that it has.
            transform: one of `nbglcnn.transforms`.
            channels: numbers, a slice, or what `nbglcnn.channels` gives; None for all.
            mix: from 0 (unbent) to 1.
            name: of the Bend, as `bends` has it; by default one of its transform.
            enabled: whether it acts.

        Raises:
            KeyError: there is no such value, or the Plan doesn't keep it.
            InputError: it cannot be edited (integers, constants), a channel isn't there, or a
                number isn't finite; nothing is changed then.
        """
        return self._require_host(EditsHost).editor.bend(
            layer, transform, channels=channels, mix=mix, name=name, enabled=enabled
        )

    def inject(self, layer: str, array: Any, *, channels: Any = None) -> None:
        """Put an array in the place of a layer's value, or of some channels', before its bends.

        `array` has the value's shape, or that of one example; with `channels` (n, channels, h, w).
        """
        self._require_host(EditsHost).editor.inject(layer, array, channels=channels)

    def freeze(self, layer: str) -> None:
        """Keep a layer's value, before its bends, as it is now."""
        self._require_host(EditsHost).editor.freeze(layer)

    def release(self, layer: str) -> None:
        """End what was injected into a layer, or frozen."""
        self._require_host(EditsHost).editor.release(layer)

    def undo(self) -> bool:
        """Undo the last change of the edits or weights; False where there is none."""
        return self._require_host(EditsHost).editor.undo()

    def redo(self) -> bool:
        """Redo the change that was undone last; False where there is none."""
        return self._require_host(EditsHost).editor.redo()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take other weights of the same shapes (tensors or arrays); nothing is compiled again.

        Only where a BatchNorm's variance and epsilon have become 0: it can't be a part of the
        convolution before it then. What `set_weight` did can't be undone any more. The codes of a
        latent's data are computed again.
        """
        self._host.check_open()
        patches = self.network.load_state_dict(state_dict)
        self._host.weights_replaced()
        self._send_patches(patches)
        self._host.weights_changed()

    def set_weight(self, name: str, index: Any, values: Any) -> None:
        """Put other numbers at `index` of a parameter, as numpy takes it; `undo` takes them back.

        One number is one small upload; nothing is compiled again.

        Raises:
            KeyError: there is no such parameter.
            InputError: the index or the numbers don't fit, or a number isn't finite.
        """
        self._host.check_open()
        self._require_host(EditsHost).set_weight(name, index, values)

    def state_dict(self) -> dict[str, Any]:
        """The weights and buffers of now: of a torch module tensors that it loads, else arrays.

        While the network trains in a page those of the moment, all of one step; while a loop is
        mirrored those that were mirrored last.
        """
        self._host.fetch_weights()
        state = weights.state_dict(self.network.model, self.network.graph)
        for name, count in self.network.batchnorm_counts.items():
            if name in state:
                state[name] = state[name] * 0 + count
        return state

    def to_onnx(self, path: str | os.PathLike[str]) -> Path:
        """Write an ONNX file of the model with the weights of now, while it trains too.

        Of an ONNX model its own file, each weight in its own type; of a PyTorch model what
        `torch.onnx.export` makes of it, in eval mode and float32, for inputs of the Viewer's
        shapes, with the parameters under their names. Bends are no weights: the file has none.

        Raises:
            ModelError: PyTorch's exporter refuses the model, or the file can't be written.
        """
        self._host.fetch_weights()
        return weights.to_onnx(self.network.model, self.network.graph, path)

    # Training and teaching

    def train(
        self,
        data: Any,
        loss: Any = "mse",
        optimizer: Optimizer = Adam(1e-3),  # noqa: B008 - it cannot change
        batch_size: int | None = None,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        held_out: float = 0.1,
        parameters: str | Sequence[str] = "all",
        shuffle: bool = True,
        seed: int = 0,
        output: str = "output",
    ) -> LiveTraining:
        """Train the network in the page, from its weights of now, and watch.

        The data goes to the page once, and the loop runs there: Python is free meanwhile, and what
        this returns, `viewer.training`, says how it goes. `output`, `activations` and `state_dict`
        are those of the weights of the moment. Where no page shows the Viewer it is trained here,
        as by `nbglcnn.train`, and is done when this returns.

        Args:
            data, loss, optimizer, batch_size, parameters, shuffle, output: as in `nbglcnn.train`.
            epochs, steps: how long; without both until it is stopped.
            held_out: the share of the examples that are not learned from; their loss is computed
                now and then.
            seed: of the order, of which examples are held out, and of Dropout's masks.

        Raises:
            InputError, KeyError, UnsupportedModel, UnsupportedOperator: as `nbglcnn.train`.
            DeviceError: the page's device draws no 32-bit floats: gradients would be lost.
        """
        return self._require_host(TrainingHost).train(
            data, loss, optimizer, batch_size, epochs=epochs, steps=steps, held_out=held_out,
            parameters=parameters, shuffle=shuffle, seed=seed, output=output,
        )  # fmt: skip

    @property
    def training(self) -> LiveTraining | None:
        """The training that `train` began last; None before, and while a loop is mirrored."""
        host = self._host.find_host("training")
        return None if host is None else host.training

    def teach(
        self,
        classes: Iterable[str] = (),
        cut: str | None = None,
        *,
        examples: Mapping[str, Any] | None = None,
        head: Any = None,
    ) -> Teaching:
        """Teach a small head behind the frozen network, with examples that the page collects.

        The page's Teach tab has a row for each class: hold its button while the camera, a drawing
        or other pictures go in. What this returns, `viewer.teaching`, has the examples and the
        head. A picture's features, the value `cut`, are computed once; examples are in the page and
        in this kernel, and go nowhere else. Without a page `teaching.add(name, pictures)`
        and `teaching.train()` do the same here. An earlier teaching ends.

        Args:
            classes: their names; by default those of `examples`, else "class 1" and "class 2".
            cut: the name of the value that has the features; of one with more than 4,096 numbers
                the means over height and width. By default what the last Linear reads; where there
                is none, the layer with the fewest numbers.
            examples: pictures to begin with, by class, each as `teaching.add` takes them.
            head: what `teaching.head()` gave, for these classes in their order.

        Raises:
            KeyError: there is no value `cut`.
            InputError: the network takes no pictures or is being trained, its layers are computed
                in Python, `cut` has too many numbers, or what is given doesn't fit.
        """
        return self._require_host(TeachingHost).teach(classes, cut, examples, head)

    @property
    def teaching(self) -> Teaching | None:
        """The teaching that `teach` began last; None before."""
        host = self._host.find_host("teaching")
        return None if host is None else host.teaching

    def close(self) -> None:
        """Free everything here and in every page; the view goes away."""
        if getattr(self, "comm", None) is not None:
            inboxes_by_comm.pop(self.comm.comm_id, None)
        if hasattr(self, "_connection"):
            self._connection.is_closed = True
        if hasattr(self, "_host"):
            self._host.close()
        if hasattr(self, "network"):
            self.network.local.close()
        super().close()
        # ipywidgets puts None there; without it a closed Viewer says what it is.
        self.__dict__.pop("_repr_mimebundle_", None)

    def _on_comm_closed(self) -> None:
        self._connection.notify_closed()
        self.close()

    # Pages

    def _feature_blob(self, name: str) -> memoryview | None:
        """What pages ask for of a feature."""
        found = (one.blob(name) for one in self._host.all_features())
        return next((blob for blob in found if blob is not None), None)

    def _build_manifest(self) -> AssetManifest:
        return self.network.build_manifest(self._snapshot() if self._needs_snapshot else b"")

    def _update_pages(self) -> int:
        """Bring the pages up to date; the revision that they are shown."""
        self._host.plan_changed()
        with self.network.lock:
            return self._connection.send_manifest(self._build_manifest())

    def _send_patches(self, patches: Sequence[Patch]) -> None:
        """Bring them up to date by what has changed in the weights; anew where that is nothing."""
        if (carried := self.network.carried_weights) is not None:
            carried.publish_weights()
            return
        if not self._connection.pages:
            self._host.plan_changed()
            return  # those that come later are offered what there is then
        # A snapshot is drawn anew for a page that has no other picture.
        if self._needs_snapshot or not patches or not self._connection.send_patches(patches):
            self._update_pages()

    def _on_edits_changed(self) -> None:
        if self._needs_snapshot:
            self._update_pages()
        self._sync_traits()

    def _adapt_manifest(self, target: Target) -> AssetManifest | None:
        """What to show instead, on a page whose device can do less than the Plan asks for."""
        network = self.network
        offered = network.sent_graph and network.sent_graph[0]
        if (
            network.adapt_to_device(target)
            or network.hash_weights()
            or offered is not network.graph
        ):
            self._host.plan_changed()
            return self._build_manifest()
        return None

    def _update_parity(self) -> str:
        """Go on with the parity check; what it has found of the page heard last, in words.

        Where values are wrong the fast kernels are left out, for good if that mends them.
        """
        network = self.network
        if network.is_volatile:
            return ""  # each code would be another network, and so would each step
        edits, injected = network.edits, network.injected
        self._parity.update(network.plan, network.graph, network.input_arrays, edits, injected)
        verdict = self._parity.verdict(self._connection.active_page, network.plan, edits)
        if verdict is None:
            return ""
        if not verdict.is_wrong or self._plain_kernels_help is False:
            return verdict.describe(network.plan, named=True)
        # False where the plain ones were wrong as well.
        self._plain_kernels_help = network.plan.header.target.fast_kernels
        network.toggle_fast_kernels()
        self._update_pages()
        return ""

    def _apply_page_precision(self) -> None:
        """Compile again with the precision that a page asks for."""
        asked, self._connection.requested_precision = self._connection.requested_precision, None
        if asked is None or asked == self.network.precision:
            return
        try:
            self.network.set_precision(asked)
        except NbglcnnError as error:
            protocol.warn_once(f"the page asked for precision={asked!r}, and it stays: {error}")
            return
        self._update_pages()

    def _sync_traits(self) -> None:
        """Bring the traits that pages tell up to date with the connection."""
        page = self._connection.active_page
        if page is not None:
            Reader.saw_no_page = False
            if page.problem and not page.is_rejected and not self._needs_snapshot:
                self._needs_snapshot = True
                self._update_pages()
        if self._is_replaced and self.comm is not None:
            shown = any(p.health is None or p.health.views for p in self._connection.pages.values())
            (lifetime.keep_alive if shown else lifetime.allow_collection)(self)
        inbox = self._connection.message_queue
        while inbox:  # one by one: what is done with one may hear of the next
            message, buffers = inbox.pop(0)
            for one in self._host.all_features():
                if take := one.messages.get(type(message)):
                    take(message, buffers)
        for one in self._host.all_features():
            one.after_message()
        self._apply_page_precision()
        tested, plan = self._update_parity(), self.network.plan
        verdict = self._parity.verdict(page, plan, self.network.edits)
        pace = page.run_rate if page else None
        self.set_trait("running", pace is not None and pace.running)
        self.set_trait("runs_per_second", pace.runs_per_second if pace else 0.0)
        self.set_trait("hover", hover_record(self._connection.hovered, plan.values))
        self.set_trait("status", page_status(page, plan, tested, verdict.clock if verdict else ""))

    def _release_old_viewers(self) -> None:
        """Let an older Viewer of the same cell give its textures back: its view is gone."""
        cell = blocking.current_cell()
        if cell is None:
            return
        name, execution = cell
        earlier, viewers = Viewer._viewers_by_cell.get(name, ("", WeakSet()))
        if earlier != execution:
            for viewer in viewers:
                if viewer.comm is not None:
                    viewer._is_replaced = True
                    viewer._connection.send(protocol.Release())
                    viewer._sync_traits()
                viewer.network.local.close()
            viewers = WeakSet()
        viewers.add(self)
        Viewer._viewers_by_cell[name] = execution, viewers

    # What Jupyter asks

    def _handle_custom_msg(self, content: Any, buffers: Sequence[bytes | memoryview]) -> None:
        if self.comm is None or not marimo.is_duplicate(self.comm.comm_id, content):
            self._connection.receive(content, [memoryview(each) for each in buffers])

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take what a page has changed: only what a page may change, and only what fits."""
        # Those of a feature at once: each says what the other means.
        shared = [one.page_writable for one in self._host.all_features() if one.page_writable]
        for names in shared:
            if told := {name: sync_data[name] for name in names if name in sync_data}:
                try:
                    super().set_state(told)
                except traitlets.TraitError as error:
                    protocol.warn_once(f"ignored the page's {names[0]}: {error}")
                    self.send_state(names)
        for name in sync_data.keys() - {name for names in shared for name in names}:
            if name not in PAGE_TRAITS:
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
        if self.comm is None:
            return {
                "text/plain": (
                    f"{type(self).__name__} of {self.network.plan.header.name}: "
                    f"{VIEWER_CLOSED_MESSAGE}"
                )
            }, {}
        if self._is_replaced and self.comm is not None:
            self._is_replaced = False
            lifetime.keep_alive(self)
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

    # What traits may hold

    @traitlets.validate("example")
    def _validate_example(self, proposal: Any) -> int:
        return validate_example(int(proposal["value"]), self.network.plan.header.batch)

    @traitlets.validate("selected")
    def _validate_selected(self, proposal: Any) -> dict[str, Any] | None:
        return validate_selection(proposal["value"], self.network.plan.values)

    @traitlets.validate("image_ranges")
    def _validate_image_ranges(self, proposal: Any) -> dict[str, Any]:
        return validate_image_ranges(proposal["value"], self.network.plan.values)

    @traitlets.validate("view")
    def _validate_view(self, proposal: Any) -> dict[str, Any]:
        return self._validate_view_state(proposal["value"])

    def _validate_view_state(self, view: dict[str, Any]) -> dict[str, Any]:
        # Also where no page shows it, as a script may be run.
        return validate_view(view, self.network.plan, self._host.views())

    @traitlets.validate("classes")
    def _validate_classes(self, proposal: Any) -> tuple[str, ...]:
        try:
            return self.network.resolve_class_names(proposal["value"])
        except InputError as error:
            raise traitlets.TraitError(str(error)) from None

    @traitlets.observe("classes")
    def _on_classes_changed(self, change: Any) -> None:
        if change["new"] != self.network.classes:
            self.network.classes = change["new"]
            self._update_pages()

    def _require_host(self, kind: type[HostType]) -> HostType:
        """The host of a feature; InputError in a Viewer that was made without it."""
        found = next((one for one in self._host.feature_hosts if isinstance(one, kind)), None)
        if found is None:
            raise InputError(
                f"this {type(self).__name__} was made without {kind.__name__.removesuffix('Host')}"
            )
        return found


def _handle_shared_traits(host: ViewerHost, feature: Feature, _: Any) -> None:
    """Take what a page, or another Viewer that is linked to this one, has set."""
    if not any(map(host.is_setting_trait, feature.page_writable)):
        feature.traits_changed()
