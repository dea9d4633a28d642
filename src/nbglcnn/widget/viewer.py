"""Viewer: a network's layers, live in a notebook page, and as numpy arrays."""

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
from nbglcnn.features.edits import weight_log
from nbglcnn.features.edits.bends import Bend, Bends
from nbglcnn.features.edits.host import EditsHost
from nbglcnn.features.edits.records import Edit, active_edits, edits_to_dicts
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
from nbglcnn.load import wrap_model
from nbglcnn.notebook import blocking, lifetime, marimo
from nbglcnn.notebook.comm_hooks import set_hookless_handler
from nbglcnn.notebook.message_receivers import receivers_by_comm_id
from nbglcnn.pictures import feature_maps
from nbglcnn.pictures.colors import COLORMAPS
from nbglcnn.plan.schema import Layers, Patch, Precision, Target
from nbglcnn.protocol import COLOR_RANGE_MODES, DEFAULT_VIEW, VIEWER_MESSAGES
from nbglcnn.report import Match, Report
from nbglcnn.transforms import Transform
from nbglcnn.widget import frontend
from nbglcnn.widget.activations import Activations, array_or_dict, flatten_keys
from nbglcnn.widget.asset_manifest import AssetManifest
from nbglcnn.widget.connection import Connection
from nbglcnn.widget.diagnostics import format_diagnostics
from nbglcnn.widget.load_progress import show_load_progress
from nbglcnn.widget.network import Network
from nbglcnn.widget.parity import ParityCheck, make_verify_result, verify
from nbglcnn.widget.reader import Reader, nest_outputs, validate_timeout
from nbglcnn.widget.traits import (
    PAGE_WRITABLE_TRAITS,
    default_view,
    hover_to_json,
    make_hover_value,
    page_status,
    validate_example,
    validate_image_ranges,
    validate_selection,
    validate_view,
)

HostType = TypeVar("HostType")

# Each is created with a ViewerHost, in this order: a feature comes after those that it uses.
FEATURE_HOST_TYPES: tuple[type[FeatureHost], ...] = (
    EditsHost,
    SourcesHost,
    LatentHost,
    TrainingHost,
    MirrorHost,
    TeachingHost,
)

MESSAGES = sum((one.message_types for one in FEATURE_HOST_TYPES), VIEWER_MESSAGES)


class Viewer(anywidget.AnyWidget):
    """A notebook widget that shows every layer of a network while it runs on the page's GPU.

    A cell shows the Viewer as its last value, or by `display(viewer)`. It is an anywidget:
    `viewer.observe`, `ipywidgets.link` and `ipywidgets.VBox([viewer])` work.

    Args:
        model: A `torch.nn.Module` in eval mode and on the CPU, an `onnx.ModelProto` or its bytes,
            or the path of an `.onnx` file. It is not changed.
        x: An example input: an array, tensor, picture or list of pictures; for several inputs a
            tuple, or a dict by name. Its shape is fixed for this Viewer. Optional only for an ONNX
            model with static shapes, and with `preprocess`.
        observe: The values to keep, which can be shown and read: `"all"` (default), `"outputs"`, or
            a list of names. Fewer values need less time and memory.
        precision: The storage of values and weights: `"float32"` (default), or `"float16"`, which
            halves the memory and keeps about three digits.
        classes: The names of the output's classes: a list, a dict by index, or an object with
            `.meta["categories"]`, such as torchvision's weights. Default: the names in the ONNX
            file, if any.
        height: The maximum height of the view in CSS pixels, at least 100. Default: as tall as the
            content.
        timeout: The time in seconds without a message from a connected page after which a read
            fails. Default: 10.
        strict: Whether layers that cannot run on the GPU are an error, as in `compile`. By default,
            PyTorch or ONNX Runtime computes them in Python for each input.
        preprocess: The steps from a picture to the model's input, as for `compile`. `x` is then the
            picture.

    Attributes:
        activations: All values by name, with edits: an `Activations` mapping.
        unbent: The same mapping, with each value before its own edits.
        example: Trait. The example of the batch that the page shows, from 0.
        selected: Trait. The selection, `{"layer": name, "channel": number or None}`, or None.
        view: Trait. The page's view, `{"name", "layer", "channels", "pixel"}`; see `show`.
        colormap: Trait. `"signed"`, `"viridis"`, `"cividis"`, `"magma"` or `"grey"`.
        color_range: Trait. The values at the ends of the colour map: `"layer"` (one range for all
            maps of a layer), `"channel"` (one range per map) or `"fixed"` (the layer's range at the
            time of this choice).
        image_ranges: Trait. The values of black and white of pictures by key: `(low, high)`, or
            `"layer"` for the minimum and maximum.
        symmetric: Trait. Whether sequential colour maps range from −max to max.
        height: Trait. See Args.
        presenting: Trait. Whether the view fills the window for a projector.
        classes: Trait. The names of the output's classes, a tuple. Set None to restore the model's
            own names.
        source: Trait. What feeds the input: a `Webcam`, `Video`, `Images`, `Drawing`, `Noise` or
            `Latent`, a picture that was chosen in a page, or None.
        running: Read-only trait. Whether the page runs the network, or did within the last 0.25 s.
        runs_per_second: Read-only trait. The runs that finished within the last second; 0 when
            idle.
        hover: Read-only trait. The element under the pointer,
            `{"layer", "channel", "y", "x", "value"}`, or None.
        status: Read-only trait. The state of the page: a dict with `page`, `problem`, `renderer`,
            `stage`, `done`, `total`, `ms`, `timing`, `precision`, `parity`, `parity_at`,
            `gpu_bytes` and `in_python`.

    Raises:
        InputError: If `x` is missing or doesn't fit, or another argument is not valid.
        KeyError: If `observe` contains an unknown name.
        TraitError: If `height` is less than 100.
        ModelError: If `model` is not a model, or its file is damaged or unsafe.
        UnsupportedModel: If the model cannot run as it is.
        UnsupportedOperator: If an operator can run neither on the GPU nor in Python; with `strict`,
            if it cannot run on the GPU.

    Example:
        >>> viewer = nbglcnn.Viewer(model, x)
        >>> viewer.activations["encoder.0"].shape
    """

    # The loader requests the code by its name, once per page. With hot reload, pages import
    # `widget.js` itself. As text, because anywidget keeps widgets alive whose file it watches.
    _esm = (
        frontend.WIDGET_FILE
        if os.environ.get("ANYWIDGET_HMR")
        else frontend.LOADER_FILE.read_text("utf-8")
    )
    _code = traitlets.Dict(read_only=True).tag(sync=True)

    # For pages that have a widget's state but not its output.
    _snapshot_url = traitlets.Unicode("", read_only=True).tag(sync=True)

    running = traitlets.Bool(False, read_only=True).tag(sync=True)
    runs_per_second = traitlets.Float(0.0, read_only=True).tag(sync=True)
    hover = traitlets.Dict(default_value=None, allow_none=True, read_only=True).tag(
        sync=True, to_json=hover_to_json
    )
    status = traitlets.Dict(read_only=True).tag(sync=True)

    # Not synced: the number of names has no limit, and pages get them as a blob, like weights.
    # traitlets.Any would accept None without validation.
    classes: traitlets.TraitType[Any, Any] = traitlets.TraitType(())
    height = traitlets.Int(None, allow_none=True, min=100).tag(sync=True)
    example = traitlets.Int(0, min=0).tag(sync=True)
    selected = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    colormap = traitlets.Enum(COLORMAPS, "signed").tag(sync=True)
    color_range = traitlets.Enum(COLOR_RANGE_MODES, "layer").tag(sync=True)
    image_ranges: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    symmetric = traitlets.Bool(False).tag(sync=True)
    presenting = traitlets.Bool(False).tag(sync=True)
    view: traitlets.Dict[str, Any] = traitlets.Dict(default_value=DEFAULT_VIEW).tag(sync=True)

    @traitlets.default("_code")
    def _default_code(self) -> dict[str, str]:
        return frontend.code_blob_names()

    source: Any  # trait of the feature "sources"

    _feature_host_types: ClassVar[tuple[type[FeatureHost], ...]] = FEATURE_HOST_TYPES
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
        timeout = validate_timeout(timeout)  # fail before minutes of work
        model = wrap_model(model, preprocess)
        with show_load_progress(model):
            self.network = Network(
                model, x, observe=observe, precision=precision, classes=classes, strict=strict
            )
        self._needs_snapshot = False  # a page that cannot draw is connected
        self._is_replaced = False
        # Plain kernels: None not tried, True in use, False no help.
        self.plain_kernel_state: bool | None = None
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
        for make in self._feature_host_types:
            self._host.add_feature(make(self._host))
        offers = list(self._host.all_features())
        self.add_traits(**{name: one for offered in offers for name, one in offered.traits.items()})
        for offered in offers:
            if offered.page_writable_traits:
                self.observe(
                    partial(_handle_page_writable_traits, self._host, offered),
                    offered.page_writable_traits,
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
            set_hookless_handler(self.comm, handle)
            receivers_by_comm_id[self.comm.comm_id] = self._connection
            self.comm.on_close(lambda _: lifetime.call_weak(this, "_on_comm_closed"))
        self._release_old_viewers()
        self._sync_traits()

    def __setattr__(self, name: str, value: Any) -> None:
        # Python accepts any attribute: a misspelt trait would change nothing, without an error.
        if not (name.startswith("_") or hasattr(type(self), name) or name in vars(self)):
            names = [*(n for n in self.traits(sync=True) if n[0] != "_"), "classes", "input"]
            for near in difflib.get_close_matches(name, names, 1, 0.75):
                warnings.warn(
                    f"a {type(self).__name__} has no {name!r}: setting it changes nothing; did you "
                    f"mean {near!r}?",
                    stacklevel=2,
                )
        super().__setattr__(name, value)

    # Input and output

    @property
    def input(self) -> Any:
        """The current input: an array, or a tuple of arrays for several inputs.

        Reading returns a copy (while a source is on: float32, before edits of the input, read from
        the page with the source). The arrays of noise, which replace the random numbers of
        `forward`, follow the model's own inputs.

        Set it to another input of the same shape: the source is then off, and noise that is omitted
        keeps its values. Or set it to a source, such as `nbglcnn.Webcam()`, to turn that on. An
        input that doesn't fit raises an InputError, and the old input stays.
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
        """Set the input to an array, and turn the source off; the caller updates the pages."""
        self.network.set_input(x)
        if sources := self._host.find_host("sources"):
            sources.remove_source()

    def current_inputs(self) -> tuple[Array, ...]:
        """Return copies of all inputs; for an input that a page feeds, the array of the last run.

        Returns:
            A tuple of arrays: the model's own inputs, then noise.
        """
        sources = self._host.find_host("sources")
        if sources is None:
            return tuple(array.copy() for array in self.network.input_arrays)
        found: tuple[Array, ...] = sources.current_inputs()
        return found

    @property
    def output(self) -> Any:
        """The output for the current input, in the form that the model returns.

        An array; a tuple if `forward` returns a tuple or list (`output[0]`, …); a dict if it
        returns one (`output['name']`) or an ONNX model has several outputs. While a Latent is on,
        outputs that only skipped layers compute are None, such as the mean that a VAE returns
        beside its picture.
        """
        keys = self.network.plan.header.outputs
        computed = [key for key in keys if key not in self.network.skipped_keys]
        found = dict(zip(computed, self._reader.read(computed).arrays, strict=True))
        return nest_outputs(keys, [found.get(key) for key in keys])

    def run(self, x: Any, *, timeout: float | None = None) -> Any:
        """Set `x` as the input and return the output for it.

        `input` stays `x`. A source is turned off.

        Args:
            x: An input, as for the constructor, of the same shape.
            timeout: The time in seconds without a message from the page after which this fails.
                Default: the Viewer's own.

        Returns:
            The output, in the form of `output`.

        Raises:
            InputError: If `x` doesn't fit. The old input stays.
            PageError: If another thread or callback set the input or weights before the page ran
                `x`, or the page cannot reply.
        """
        with self.network.hold_weights():
            self._replace_input(x)
            revision, shown = self.network.revision, self._update_pages()
            keys = self.network.plan.header.outputs
            answer = self._reader.read(keys, timeout)
            if answer.revision != shown and self.network.revision != revision:
                raise PageError(
                    "the input or the weights changed while run(x) waited for the output of this "
                    "x: use a separate Viewer for each thread or callback, or run one at a time"
                )
            return nest_outputs(keys, answer.arrays)

    async def read(self, *keys: str | Iterable[str], timeout: float | None = None) -> Any:
        """Read values without blocking other tasks of the kernel.

        Args:
            *keys: Names of values, or lists of names.
            timeout: The time in seconds without a message from the page after which this fails.
                Default: the Viewer's own.

        Returns:
            The array for a single name; otherwise a dict of arrays by name.

        Raises:
            KeyError: If a value doesn't exist or isn't kept.
            PageError: If the page cannot reply.

        Example:
            >>> value = await viewer.read("encoder.0")
        """
        answer = await self._reader.read_async(flatten_keys(keys), timeout)
        return array_or_dict(keys, answer.arrays)

    def verify(self, x: Any = None, *, timeout: float | None = None) -> Report[Match]:
        """Compare all readable values with PyTorch, or for an ONNX model with ONNX Runtime.

        The values have the same origin as `activations`: the page, otherwise local OpenGL. Bends,
        injected and frozen values apply in the reference, too. `nbglcnn.verify` describes when a
        layer is ok.

        Args:
            x: Another input for this comparison; afterwards the Viewer's own input is restored.
                Default: the current input.
            timeout: The time in seconds without a message from the page after which this fails.
                Default: the Viewer's own.

        Returns:
            A Report with one `Match` row per value: the largest and the mean absolute error, the
            largest error relative to the layer's largest value, and `ok`. `report.ok` is the
            verdict; `report.first_diverging` is the first layer that is not ok.

        Raises:
            InputError: If `x` doesn't fit, or a bend cannot be replayed (GLSL code).
            DeviceError: If neither a page nor local OpenGL can run the network.

        Example:
            >>> viewer.verify().ok
            True
        """
        with self.network.hold_weights():
            return self._verify(x, timeout)

    def _verify(self, x: Any, timeout: float | None) -> Report[Match]:
        network, source = self.network, self._host.get_trait("source")
        sources = self._host.find_host("sources")
        own = network.graph.input_structure
        arrays = network.input_arrays
        shown = arrays if own is None else dict(zip(own.input_names, arrays, strict=False))
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
        words = (
            json.dumps(edits_to_dicts(edits)) if (edits := active_edits(self.network.edits)) else ""
        )
        now = self._connection.revision  # the page shows the Viewer's own input again
        self._connection.send(make_verify_result(now, report, framework, edits=words))
        return report

    def report(self) -> str:
        """Return a text for a bug report: versions, host, device, precision, memory and errors.

        It describes the size of the model, and contains no paths and no names. Nothing is sent.

        Returns:
            The text.
        """
        plan = self.network.plan
        tested = self._parity.find_verdict(self._connection.active_page, plan, self.network.edits)
        edits = self._host.find_host("edits")
        local = self.network.local.device_name
        return format_diagnostics(
            plan, self._connection, tested, local, edits.store.current if edits else EditSnapshot()
        )

    # Views

    @property
    def layers(self) -> Layers:
        """The table of layers, indexed by position or name."""
        return self.network.plan.layers

    def show(
        self,
        layer: str | int | None = None,
        channels: int | Sequence[int] = (),
        *,
        view: str | None = None,
        pixel: tuple[int, int] | None = None,
    ) -> None:
        """Show a layer or another view in the page.

        Args:
            layer: The name of a layer or value, or the position of a layer in `layers`. Default:
                none.
            channels: A channel, or up to four channels to show large. The first one is selected.
                Default: none.
            view: `"network"`, `"maps"`, `"filters"`, `"explain"`, `"bend"`, `"profile"`, `"train"`
                (after `train` or while a mirror is open) or `"teach"` (while `teach` has classes).
                Default: `"explain"` with a `pixel`, `"maps"` with a layer, otherwise `"network"`.
            pixel: The position `(y, x)` to explain. Default: none.

        Raises:
            KeyError: If the layer doesn't exist.
            TraitError: If the view doesn't exist, or the layer has no such channel or pixel.
            PageError: If the Viewer is closed.

        Example:
            >>> viewer.show("encoder.2", channels=[3, 5])
        """
        self._host.check_open()
        channels = [channels] if isinstance(channels, int) else [int(one) for one in channels]
        name = self.layers[layer].name if isinstance(layer, int) else layer
        if name is not None:
            self.network.value_records([name])  # raises KeyError for an unknown name
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
        """Draw the feature maps of a value with its current numbers.

        Args:
            key: The name of the value.
            channels: The channels to draw, in this order. Default: all.
            **look: The other arguments of `Session.picture`. Defaults of `example`, `colormap`,
                `color_range` and `symmetric` are the page's settings (`"fixed"` counts as
                `"layer"`; for pictures, `image_ranges` applies).

        Returns:
            An RGB image.

        Raises:
            KeyError: If the value doesn't exist.
            InputError: If an argument is not valid, or the picture would be too large.
        """
        [value] = self.network.value_records([key])
        color_range: Any = "layer" if self.color_range == "fixed" else self.color_range
        if feature_maps.display_style(value) in ("grey", "rgb"):
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
        """Take a picture of the whole view as it is on screen, in the screen's own pixels.

        If several pages show the Viewer, the first one to reply takes it.

        Args:
            timeout: The time in seconds without a message from the page after which this fails.
                Default: the Viewer's own.

        Returns:
            An RGB image.

        Raises:
            PageNotConnected: If no page shows the Viewer.
            PageError: If the page could not take the picture.
        """
        png = self._reader.screenshot(timeout)
        return Image.open(io.BytesIO(png)).convert("RGB")

    def present(self, on: bool = True) -> None:
        """Show the Viewer for a projector: window-wide, with larger type and fewer controls.

        `present(False)`, Esc or the button in the page end it. `presenting` is the current state.

        Args:
            on: Whether to present. Default: True.
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
        """Write this Viewer as one HTML file, which runs offline and without a kernel.

        It contains the current weights, input, edits, view and source (all data of `Images`, the
        whole file of a `Video`).

        Args:
            path: The file; an existing one is replaced.
            title: The title and heading. Default: the model's name as the title, no heading.
            text: CommonMark text above the Viewer. Default: none.
            steps: The steps of a lesson, as for `export_html`. Default: none.
            precision: `"float16"` halves the weights. Default: the Viewer's own.
            train: The training for the page's reader, as for `export_html`; True uses the arguments
                of the last `viewer.train`, from the current weights. Default: none.
            teach: The classes for the page's reader to teach, as for `export_html`; True uses
                `viewer.teaching` with its examples and head. Default: none.

        Returns:
            The path of the file.

        Raises:
            InputError: If the source or the training data is larger than 64 MiB, a step is not
                valid, or the network cannot be trained with these arguments.
            KeyError: As in `nbglcnn.train`.
            UnsupportedModel: As in `nbglcnn.train`.
            UnsupportedOperator: As in `nbglcnn.train`.
            OSError: If the file cannot be written.
        """
        from nbglcnn.features.export import viewer_page  # writes a Viewer as HTML

        traits = {name: getattr(self, name) for name in PAGE_WRITABLE_TRAITS}
        del traits["height"], traits["presenting"]
        return viewer_page.write_viewer_page(
            self._host, path, title=title, text=text, steps=steps, precision=precision,
            traits=traits, train=train, teach=teach,
        )  # fmt: skip

    # Edits and weights

    @property
    def bends(self) -> Bends:
        """All bends in the order in which they apply, indexed by position or name."""
        return self._require_host(EditsHost).editor.bends

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All current edits as records, in order: bends and injected values."""
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
        """Add a bend: transform a layer's value, or an input, while the network runs.

        The bend applies where a forward hook on that module would, after earlier bends of the
        layer. All later layers compute with the bent value.

        Args:
            layer: The key of the value.
            transform: A transform of `nbglcnn.transforms`.
            channels: The channels to bend: a number, a slice, a list, or a selection of
                `nbglcnn.channels`. Default: all.
            mix: The weight of the transformed value, from 0 (unbent) to 1 (default).
            name: The name of the bend, unique in `bends`. Default: one derived from the transform.
            enabled: Whether the bend is active. Default: True.

        Returns:
            The bend; its parameters, `mix`, `channels` and `enabled` are traits to set.

        Raises:
            KeyError: If the value doesn't exist or isn't kept.
            InputError: If the value cannot be edited (integers, constants), a channel doesn't
                exist, a number is not valid, or the name is used. Nothing is changed then.

        Example:
            >>> bend = viewer.bend("1", nbglcnn.transforms.rotate(30), channels=[1, 5])
            >>> bend.degrees = 45
        """
        return self._require_host(EditsHost).editor.bend(
            layer, transform, channels=channels, mix=mix, name=name, enabled=enabled
        )

    def inject(self, layer: str, array: Any, *, channels: Any = None) -> None:
        """Replace a layer's value, or some of its channels, by an array, before its bends.

        Args:
            layer: The key of the value.
            array: The array, in the shape of the value or of one example; with `channels`, shape
                (n, channels, h, w).
            channels: The channels to replace. Default: all.

        Raises:
            KeyError: If the value doesn't exist or isn't kept.
            InputError: If the value cannot be edited, or the array doesn't fit.
        """
        self._require_host(EditsHost).editor.inject(layer, array, channels=channels)

    def freeze(self, layer: str) -> None:
        """Keep a layer's current value, before its bends, for all later inputs.

        Args:
            layer: The key of the value.

        Raises:
            KeyError: If the value doesn't exist or isn't kept.
            InputError: If the value cannot be edited.
        """
        self._require_host(EditsHost).editor.freeze(layer)

    def release(self, layer: str) -> None:
        """End `inject` or `freeze` of a layer.

        Args:
            layer: The key of the value.

        Raises:
            KeyError: If the value doesn't exist or isn't kept.
            InputError: If the value cannot be edited.
        """
        self._require_host(EditsHost).editor.release(layer)

    def undo(self) -> bool:
        """Undo the last change of edits or weights.

        Returns:
            Whether there was a change to undo.
        """
        return self._require_host(EditsHost).editor.undo()

    def redo(self) -> bool:
        """Redo the change that was undone last.

        Returns:
            Whether there was a change to redo.
        """
        return self._require_host(EditsHost).editor.redo()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Set weights of the same names and shapes; the network is not compiled again.

        Exception: it is compiled again if the variance and epsilon of a BatchNorm have become 0,
        because it cannot be fused with its convolution then. Changes by `set_weight` cannot be
        undone afterwards. The codes of a Latent's data are computed again.

        Args:
            state_dict: Tensors or arrays by name.

        Raises:
            InputError: If the names or shapes don't fit.
        """
        self._host.check_open()
        patches = self.network.load_state_dict(state_dict)
        self._host.notify_weights_replaced()
        self._send_patches(patches)
        self._host.notify_weights_changed()

    def set_weight(self, name: str, index: Any, values: Any) -> None:
        """Set numbers of a parameter; `undo` restores them.

        One number is one small upload. Nothing is compiled again.

        Args:
            name: The name of the parameter, as in `state_dict`.
            index: The index of the numbers, as in numpy.
            values: A number, or an array that can be broadcast to the indexed shape.

        Raises:
            KeyError: If the parameter doesn't exist.
            InputError: If the index or the numbers don't fit, or a number is not finite.

        Example:
            >>> viewer.set_weight("0.weight", (0, 0, 1, 1), 0.5)
        """
        self._host.check_open()
        self._require_host(EditsHost).set_weight(name, index, values)

    def state_dict(self) -> dict[str, Any]:
        """Return the current parameters and buffers.

        During a training in the page, all of them belong to one step. While a mirror is open, they
        are those of the last mirrored state.

        Returns:
            A dict by name: tensors that the torch module loads, or arrays for an ONNX model.
        """
        self._host.fetch_weights()
        state = weight_log.state_dict(self.network.loaded_model, self.network.graph)
        for name, count in self.network.batchnorm_counts.items():
            if name in state:
                state[name] = state[name] * 0 + count
        return state

    def to_onnx(self, path: str | os.PathLike[str]) -> Path:
        """Write an ONNX file of the model with its current weights.

        An ONNX model is written as its own file, with each weight in its own type. A PyTorch model
        is exported by `torch.onnx.export` in eval mode and float32, for inputs of the Viewer's
        shapes, with parameters under their names. Bends are not part of the file.

        Args:
            path: The file.

        Returns:
            The path of the file.

        Raises:
            ModelError: If PyTorch's exporter refuses the model, or the file cannot be written.
            OSError: If `path` is a folder, or its folder doesn't exist.
        """
        self._host.fetch_weights()
        return weight_log.to_onnx(self.network.loaded_model, self.network.graph, path)

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
        """Train the network in the page from its current weights.

        The data is sent to the page once, and the loop runs there, so Python is free. `output`,
        `activations` and `state_dict` have the current weights. Without a page that shows the
        Viewer, it trains on local OpenGL as `nbglcnn.train` and returns when done. An earlier
        training ends.

        Args:
            data: The examples, as for `nbglcnn.train`.
            loss: The loss, as for `nbglcnn.train`. Default: `"mse"`.
            optimizer: `SGD`, `Adam` or `AdamW`. Default: `Adam(1e-3)`.
            batch_size: The number of examples per step. Default: 32.
            epochs: The number of epochs. Without `epochs` and `steps`, the training runs until it
                is stopped (without a page, one of them is required).
            steps: The number of steps.
            held_out: The share of the examples that is not trained on; their loss is computed from
                time to time. Default: 0.1.
            parameters: The parameters to train, as for `nbglcnn.train`. Default: `"all"`.
            shuffle: Whether each epoch has its own order. Default: True.
            seed: The seed of the order, of the held-out examples and of Dropout's masks. Default:
                0.
            output: The output that the loss compares with the targets. Default: `"output"`.

        Returns:
            The training, also available as `viewer.training`.

        Raises:
            InputError: As in `nbglcnn.train`.
            KeyError: As in `nbglcnn.train`.
            UnsupportedModel: As in `nbglcnn.train`.
            UnsupportedOperator: As in `nbglcnn.train`.
            DeviceError: If the page's device cannot render 32-bit floats, which gradients need.
        """
        return self._require_host(TrainingHost).train(
            data, loss, optimizer, batch_size, epochs=epochs, steps=steps, held_out=held_out,
            parameters=parameters, shuffle=shuffle, seed=seed, output=output,
        )  # fmt: skip

    @property
    def training(self) -> LiveTraining | None:
        """The training that `train` started last, or None; None while a mirror is open."""
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
        """Train a small head on top of the frozen network, with examples that the page collects.

        The page's Teach tab has a row per class: hold its button to collect pictures of a camera, a
        drawing or another source. The features of a picture, the value `cut`, are computed once.
        Examples are stored in the page and in this kernel only. Without a page,
        `teaching.add(name, pictures)` and `teaching.train()` do the same. An earlier teaching ends.

        Args:
            classes: The names of the classes. Default: those of `examples`, otherwise "class 1" and
                "class 2".
            cut: The value with the features. If it has more than 4,096 numbers, their means over
                height and width are used. Default: the input of the last Linear, or without a
                Linear the layer with the fewest numbers.
            examples: Pictures to start with, by class, each as for `Teaching.add`. Default: none.
            head: The result of `teaching.head()` or `teaching.to_dict()` for these classes in this
                order, or a pair of weight (classes, features) and bias (classes,). Default: none.

        Returns:
            The teaching, also available as `viewer.teaching`.

        Raises:
            KeyError: If the value `cut` doesn't exist.
            InputError: If the network takes no pictures, is being trained or has layers in Python,
                if `cut` has too many numbers, or if an argument doesn't fit.

        Source: transfer learning with a linear head: multinomial logistic regression with an L2
        penalty.
        """
        return self._require_host(TeachingHost).teach(classes, cut, examples, head)

    @property
    def teaching(self) -> Teaching | None:
        """The teaching that `teach` started last, or None."""
        host = self._host.find_host("teaching")
        return None if host is None else host.teaching

    def close(self) -> None:
        """Close the Viewer: free all memory here and in every page, and remove the view."""
        if getattr(self, "comm", None) is not None:
            receivers_by_comm_id.pop(self.comm.comm_id, None)
        if hasattr(self, "_connection"):
            self._connection.is_closed = True
        if hasattr(self, "_host"):
            self._host.close()
        if hasattr(self, "network"):
            self.network.local.close()
        super().close()
        # ipywidgets sets it to None; without that, a closed Viewer describes itself.
        self.__dict__.pop("_repr_mimebundle_", None)

    def _on_comm_closed(self) -> None:
        self._connection.notify_closed()
        self.close()

    # Pages

    def _feature_blob(self, name: str) -> memoryview | None:
        """The blob of a feature that pages request by this name."""
        found = (one.find_blob(name) for one in self._host.all_features())
        return next((blob for blob in found if blob is not None), None)

    def _build_manifest(self) -> AssetManifest:
        return self.network.build_manifest(self._snapshot() if self._needs_snapshot else b"")

    def _update_pages(self) -> int:
        """Update the pages with a new manifest; return its revision."""
        self._host.notify_plan_changed()
        with self.network.lock:
            return self._connection.send_manifest(self._build_manifest())

    def _send_patches(self, patches: Sequence[Patch]) -> None:
        """Update the pages by patches of weights; with a new manifest if there are none."""
        if (carried := self.network.carried_weights) is not None:
            carried.publish_weights()
            return
        if not self._connection.pages:
            self._host.notify_plan_changed()
            return  # later pages get the manifest of their time
        # A page that cannot draw needs a new snapshot.
        if self._needs_snapshot or not patches or not self._connection.send_patches(patches):
            self._update_pages()

    def _on_edits_changed(self) -> None:
        if self._needs_snapshot:
            self._update_pages()
        self._sync_traits()

    def _adapt_manifest(self, target: Target) -> AssetManifest | None:
        """A new manifest if a page's device supports less than the Plan, or weights changed."""
        network = self.network
        offered = network.sent_graph and network.sent_graph[0]
        if (
            network.adapt_to_device(target)
            or network.merge_weight_patches()
            or offered is not network.graph
        ):
            self._host.notify_plan_changed()
            return self._build_manifest()
        return None

    def _update_parity(self) -> str:
        """Continue the parity check; return its verdict on the page heard last, as text.

        If values are wrong, the fast kernels are turned off, for good if that helps.
        """
        network = self.network
        if network.is_changing_continuously:
            return ""  # each code or training step would be another network
        edits, injected = network.edits, network.injected
        self._parity.continue_checks(
            network.plan, network.graph, network.input_arrays, edits, injected
        )
        verdict = self._parity.find_verdict(self._connection.active_page, network.plan, edits)
        if verdict is None:
            return ""
        if not verdict.is_wrong or self.plain_kernel_state is False:
            return verdict.describe(network.plan, named=True)
        # True at the first switch to plain kernels; False if they were wrong too.
        self.plain_kernel_state = network.plan.header.target.fast_kernels
        network.toggle_fast_kernels()
        self._update_pages()
        return ""

    def _apply_page_precision(self) -> None:
        """Compile again with the precision that a page requests."""
        asked, self._connection.requested_precision = self._connection.requested_precision, None
        if asked is None or asked == self.network.precision:
            return
        try:
            self.network.set_precision(asked)
        except NbglcnnError as error:
            protocol.warn_once(f"ignored the page's request for precision={asked!r}: {error}")
            return
        self._update_pages()

    def _sync_traits(self) -> None:
        """Handle queued messages, and update the traits that pages report."""
        page = self._connection.active_page
        if page is not None:
            Reader.has_timed_out = False
            if page.problem and not page.is_rejected and not self._needs_snapshot:
                self._needs_snapshot = True
                self._update_pages()
        if self._is_replaced and self.comm is not None:
            shown = any(
                p.context_health is None or p.context_health.views
                for p in self._connection.pages.values()
            )
            (lifetime.keep_alive if shown else lifetime.allow_collection)(self)
        inbox = self._connection.message_queue
        while inbox:  # one by one: handling a message may receive the next
            message, buffers = inbox.pop(0)
            for one in self._host.all_features():
                if take := one.message_handlers.get(type(message)):
                    take(message, buffers)
        for one in self._host.all_features():
            one.on_message_handled()
        self._apply_page_precision()
        tested, plan = self._update_parity(), self.network.plan
        verdict = self._parity.find_verdict(page, plan, self.network.edits)
        pace = page.run_rate if page else None
        self.set_trait("running", pace is not None and pace.running)
        self.set_trait("runs_per_second", pace.runs_per_second if pace else 0.0)
        self.set_trait("hover", make_hover_value(self._connection.hovered, plan.values))
        self.set_trait(
            "status", page_status(page, plan, tested, verdict.time_text if verdict else "")
        )

    def _release_old_viewers(self) -> None:
        """Free the textures of an older Viewer of the same cell, whose view no longer exists."""
        cell = blocking.current_cell()
        if cell is None:
            return
        name, execution = cell
        earlier, viewers = Viewer._viewers_by_cell.get(name, ("", WeakSet()))
        if earlier != execution:
            for viewer in viewers:
                if viewer.comm is not None:
                    viewer._is_replaced = True
                    viewer._connection.send(protocol.ReleaseMemory())
                    viewer._sync_traits()
                viewer.network.local.close()
            viewers = WeakSet()
        viewers.add(self)
        Viewer._viewers_by_cell[name] = execution, viewers

    # Calls from Jupyter

    def _handle_custom_msg(self, content: Any, buffers: Sequence[bytes | memoryview]) -> None:
        if self.comm is None or not marimo.is_duplicate_message(self.comm.comm_id, content):
            self._connection.receive(content, [memoryview(each) for each in buffers])

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply changes that a page sends: only traits that a page may set, and only valid values.

        Args:
            sync_data: The changed traits by name.
        """
        # The traits of a feature are set together, because they depend on each other.
        shared = [
            one.page_writable_traits
            for one in self._host.all_features()
            if one.page_writable_traits
        ]
        for names in shared:
            if told := {name: sync_data[name] for name in names if name in sync_data}:
                try:
                    super().set_state(told)
                except traitlets.TraitError as error:
                    protocol.warn_once(f"ignored the page's {names[0]}: {error}")
                    self.send_state(names)
        for name in sync_data.keys() - {name for names in shared for name in names}:
            if name not in PAGE_WRITABLE_TRAITS:
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
            f"a {type(self).__name__} cannot be pickled or copied: it is connected to pages and "
            "has textures. Pickle the Plan instead, nbglcnn.compile(model, x), or create another "
            "from the same model"
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
            if marimo.is_marimo_comm(self.comm):
                url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
                self.set_trait("_snapshot_url", url)
        except NbglcnnError as error:
            protocol.warn_once(f"no snapshot: {error}")
        return data, metadata

    # Validation of traits

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
        # Also if no page shows the view, as in a script.
        return validate_view(view, self.network.plan, self._host.list_views())

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

    def _require_host(self, host_type: type[HostType]) -> HostType:
        """The host of a feature; InputError if the Viewer was created without it."""
        found = next((one for one in self._host.feature_hosts if isinstance(one, host_type)), None)
        if found is None:
            raise InputError(
                f"this {type(self).__name__} was created without "
                f"{host_type.__name__.removesuffix('Host')}"
            )
        return found


def _handle_page_writable_traits(host: ViewerHost, feature: Feature, _: Any) -> None:
    """Handle traits that a page, or another Viewer linked to this one, has set."""
    if not any(map(host.is_setting_trait, feature.page_writable_traits)):
        feature.on_traits_changed()
