"""How a Viewer looks: what its page shows and in which colours, and pictures of that."""

from __future__ import annotations

import difflib
import io
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets
from PIL import Image

from nbglcnn.errors import InputError, to_write
from nbglcnn.pictures import maps
from nbglcnn.plan.schema import Layers, Precision
from nbglcnn.widget.connection import CLOSED
from nbglcnn.widget.network import Network
from nbglcnn.widget.protocol import COLOR_RANGES, COLORMAPS
from nbglcnn.widget.reading import Reader
from nbglcnn.widget.traits import (
    FIRST_VIEW,
    OF_THE_PAGE,
    checked_image_ranges,
    checked_index,
    checked_selection,
    checked_view,
    name_of_view,
)

if TYPE_CHECKING:
    from nbglcnn.features.export import export
    from nbglcnn.features.mirror.mirror import Mirror
    from nbglcnn.features.training.live_training import LiveTraining


class Shown(anywidget.AnyWidget):
    """Mixin: snapshots, pictures, exported pages and the view of a Viewer, which has a Reader."""

    network: Network
    _reader: Reader
    _trained_by: dict[str, Any] | None
    training: LiveTraining | None
    _mirror: Mirror | None

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
    view: traitlets.Dict[str, Any] = traitlets.Dict(default_value=FIRST_VIEW).tag(sync=True)

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

    def _show(self) -> int:
        """Bring the pages up to date."""
        raise NotImplementedError

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
        self._check_open()
        channels = [channels] if isinstance(channels, int) else [int(one) for one in channels]
        name = self.layers[layer].name if isinstance(layer, int) else layer
        if name is not None:
            self.network.values([name])  # KeyError
        asked = {
            "name": view or name_of_view(name, pixel),
            "layer": name,
            "channels": channels,
            "pixel": None if pixel is None else list(pixel),
        }
        whole = self._check_shown(asked)
        with self.hold_sync():
            if name is not None:
                first = channels[0] if channels else None
                self.selected = {"layer": name, "channel": first}
            self.view = whole

    def picture(
        self, key: str, channels: int | Sequence[int] | None = None, **look: Any
    ) -> Image.Image:
        """A layer's feature maps as an RGB image, drawn by Python from the values of now.

        The arguments are those of `Session.picture`. What isn't given of `example`, `colormap`,
        `color_range` ("fixed" counts as "layer"; of a picture what `image_ranges` has) and
        `symmetric` is as the page has it.

        Raises:
            KeyError: there is no such value.
            InputError: an argument has no meaning here, or the picture would be too large.
        """
        [value] = self.network.values([key])
        color_range: Any = "layer" if self.color_range == "fixed" else self.color_range
        if maps.drawn_as(value) in ("grey", "rgb"):
            color_range = self.image_ranges.get(key)
        own = {
            "example": min(self.example, value.nchw[0] - 1),
            "colormap": self.colormap,
            "color_range": color_range,
            "symmetric": self.symmetric,
        }
        array = self._reader.read([key]).arrays[0]
        return maps.picture(value, array, channels=channels, **{**own, **look})

    def snapshot(self, *, timeout: float | None = None) -> Image.Image:
        """The whole view as it is on screen, an RGB image, in the screen's own pixels.

        Of several pages the first that answers takes it. `timeout` is how many seconds the page may
        say nothing, the Viewer's own unless given.

        Raises:
            PageNotConnected: no page shows the Viewer.
            PageError: the page could not take it, and why.
        """
        png = self._reader.screen(timeout)
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
        `precision` is the Viewer's own unless given. `train=True` stands for what `viewer.train`
        was given last: the page begins with the weights of now; `teach=True` for `viewer.teaching`,
        with its examples and head.

        Raises:
            InputError: the source or what is trained on is larger than 64 MiB, a step is none, or
                the network cannot be trained so.
            KeyError, UnsupportedModel, UnsupportedOperator: as `nbglcnn.train`.
        """
        from nbglcnn.features.export import export  # which writes Viewers

        target = to_write(path)
        if train is True:
            if self._trained_by is None:
                raise InputError(
                    "train=True: this Viewer was not trained by viewer.train(…); give what the "
                    'page shall train with, as train={"data": images, "loss": "mse"}'
                )
            train = self._trained_by

        traits = {name: getattr(self, name) for name in OF_THE_PAGE}
        del traits["height"], traits["presenting"]
        self._adopt_now()
        content = export.page(
            self.network,
            title=title,
            text=text,
            steps=steps,
            precision=precision,
            traits=traits,
            source=self._exported_source(),
            train=None if train is False else train,
            teach=self._exported_teaching() if teach is True else teach or None,
        )
        return export.write(target, content)

    def close(self) -> None:
        """Free the comm."""
        super().close()
        # ipywidgets puts None there; without it a closed Viewer says what it is.
        self.__dict__.pop("_repr_mimebundle_", None)

    def _repr_mimebundle_(self, **_: Any) -> Any:
        if self.comm is None:
            return {
                "text/plain": f"{type(self).__name__} of {self.network.plan.header.name}: {CLOSED}"
            }, {}
        return super()._repr_mimebundle_()

    def _check_open(self) -> None:
        raise NotImplementedError

    @property
    def _teaches(self) -> bool:
        """Whether a head is taught behind the network."""
        raise NotImplementedError

    def _exported_teaching(self) -> Any:
        """What is taught now, for a page of its own."""
        raise NotImplementedError

    def _adopt_now(self) -> None:
        """Make what pages were fed last the network's input."""
        raise NotImplementedError

    def _exported_source(self) -> export.WithBlobs:
        """The source of now, and its blobs."""
        raise NotImplementedError

    @traitlets.validate("example")
    def _check_index(self, proposal: Any) -> int:
        return checked_index(int(proposal["value"]), self.network.plan.header.batch)

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> dict[str, Any] | None:
        return checked_selection(proposal["value"], self.network.plan.values)

    @traitlets.validate("image_ranges")
    def _check_image_ranges(self, proposal: Any) -> dict[str, Any]:
        return checked_image_ranges(proposal["value"], self.network.plan.values)

    @traitlets.validate("view")
    def _check_view(self, proposal: Any) -> dict[str, Any]:
        return self._check_shown(proposal["value"])

    def _check_shown(self, view: dict[str, Any]) -> dict[str, Any]:
        # Also where no page shows it, as a script may be run.
        trains = self.training is not None or self._mirror is not None
        return checked_view(view, self.network.plan, trains=trains, teaches=self._teaches)

    @traitlets.validate("classes")
    def _check_classes(self, proposal: Any) -> tuple[str, ...]:
        try:
            return self.network.named(proposal["value"])
        except InputError as error:
            raise traitlets.TraitError(str(error)) from None

    @traitlets.observe("classes")
    def _name_classes(self, change: Any) -> None:
        if change["new"] != self.network.classes:
            self.network.classes = change["new"]
            self._show()
