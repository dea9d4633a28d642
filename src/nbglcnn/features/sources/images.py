"""A data set as a source: the items, the current item, and the playback settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
from msgspec import Meta

from nbglcnn import class_names
from nbglcnn.errors import InputError
from nbglcnn.features.sources.blocks import DatasetBlocks
from nbglcnn.features.sources.input_source import (
    MAX_RATE,
    InputSource,
    SourceBlobs,
    check_bool_fields,
    check_int_field,
    float_field,
    folder_of,
)
from nbglcnn.features.sources.items import DatasetItems, label_numbers, open_items
from nbglcnn.features.sources.records import Name, NonNegative, SourceRecord, Text
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Input


class ImagesRecord(SourceRecord, frozen=True, kw_only=True, tag="images"):
    """A data set: `count` items in blocks of `block_size` items each.

    Block k is the blob `data.k`, with its items one after another, in the input's (channels,
    height, width). The dtype is "uint8" (255 becomes 1) or "float32" (used unchanged). `index` is
    the current item in the set's own order, also while it is `shuffled` by the `seed`; `playing`
    advances automatically, at `rate` items per second. `labels` is a JSON blob with one number per
    item, -1 for none, and `classes` one with the labels' names; "" without these. `title` is the
    displayed name. `folder` is the path as passed to Python, if the labels are the folder's own; ""
    for other data, and in an exported page.
    """

    data: Name = ""
    count: NonNegative = 0
    block_size: NonNegative = 0
    dtype: Literal["uint8", "float32"] = "uint8"
    labels: Name = ""
    classes: Name = ""
    index: NonNegative = 0
    playing: bool = False
    rate: Annotated[float, Meta(ge=0, le=MAX_RATE)] = 2.0
    shuffled: bool = False
    seed: NonNegative = 0
    title: Text = ""
    folder: Text = ""

    def for_export(self) -> Self:
        """Return the record for an exported page."""
        return msgspec.structs.replace(super().for_export(), folder="")


@dataclass(frozen=True, eq=False)
class ImageSet:
    """An opened data set, which all `Images` made from each other share.

    Attributes:
        data: The `data` argument.
        labels_argument: The `labels` argument.
        classes_argument: The `classes` argument.
        items: The items.
        labels: Returns a label per item; None without labels.
        classes: The names of the labels.
    """

    data: Any
    labels_argument: Any
    classes_argument: Any
    items: DatasetItems
    labels: Callable[[], Sequence[int]] | None
    classes: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Images(InputSource):
    """A data set as a source: one item at a time is the input, in order or shuffled.

    Pictures and arrays of uint8 become numbers from 0 to 1. If their size or channels differ from
    the input's, they are cropped and resized as the Plan says (Pillow's bilinear resampling).
    Arrays of floats are used as they are, in the input's own shape. Items are decoded when they are
    needed, and nothing is copied before: don't change an array while a Viewer shows it. An item
    that cannot be decoded is black, and the log names it.

    A source is immutable: `images.at(8)` is the same set at another item, and
    `dataclasses.replace(images, playing=True)` has other settings. `len(images)` is the number of
    items.

    Args:
        data: An array or tensor of uint8 or floats, (N, H, W), (N, C, H, W) or (N, H, W, C); the
            path of a folder of pictures, sorted by name, or of a folder with one subfolder per
            class, as in torchvision's ImageFolder; a list of PIL images, arrays or paths; or a
            torch Dataset of pictures or of (picture, label).
        labels: An integer per item, -1 for none. Default: the folders, or the Dataset's `targets`
            or `labels`; for a Dataset of at most 2000 items without these, the labels of its items,
            read when a page needs them (the attribute is then None).
        classes: The names of the labels. Default: those of the folders or of the Dataset's
            `classes`.
        index: The item to show, from 0. Default: 0.
        playing: Whether it advances by itself. Default: False.
        rate: The number of items per second, greater than 0, at most 1000. Default: 2.
        shuffled: Whether it advances in a random order. Default: False.
        seed: The seed of that order, an integer from 0 to 2³¹. Default: 0.
        title: The name in the page. Default: the name of the folder or Dataset.
        input: The key of the input to feed, if the network has several. Default: the first
            compatible one.
        owner: Read-only: unused for a data set.

    Raises:
        InputError: If there are no items, an argument doesn't fit, or `data` is a URL (nothing is
            downloaded); when a Viewer takes it, if an array of floats has another shape than the
            input.
        OSError: If the folder cannot be read.

    Example:
        >>> viewer.input = nbglcnn.Images(pictures, labels=labels)
        >>> viewer.source = viewer.source.at(8)
    """

    record_type: ClassVar[type[SourceRecord]] = ImagesRecord
    pages_can_start: ClassVar[bool] = False
    public_methods: ClassVar[tuple[str, ...]] = ("at",)
    accepted_inputs_text: ClassVar[str] = (
        "arrays of float32, (n, channels, height, width), or pictures as uint8, channels first or "
        "last"
    )

    data: Any = field(compare=False)
    labels: Any = field(default=None, compare=False)
    classes: Any = field(default=None, compare=False)
    index: int = field(default=0, kw_only=True)
    playing: bool = field(default=False, kw_only=True)
    rate: float = field(default=2.0, kw_only=True)
    shuffled: bool = field(default=False, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    title: str = field(default="", kw_only=True)
    _image_set: ImageSet | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        opened, labels, classes = self._image_set, self.labels, self.classes
        if opened is not None:  # with its own labels and classes
            labels = None if labels is opened.items.known_labels else labels
            classes = None if classes is opened.items.classes else classes
        if opened is None or not (
            opened.data is self.data
            and opened.labels_argument is labels
            and opened.classes_argument is classes
        ):
            known = opened.items if opened is not None and opened.data is self.data else None
            opened = _open_image_set(self.data, labels, classes, known)
            object.__setattr__(self, "_image_set", opened)
        object.__setattr__(self, "labels", opened.items.known_labels if labels is None else labels)
        own = opened.items.classes or None
        object.__setattr__(self, "classes", own if classes is None else classes)
        check_int_field(self, "index")
        if self.index >= opened.items.count:
            raise InputError(
                f"Images: index={self.index}; there are {len(self)} items, counted from 0"
            )
        check_int_field(self, "seed")
        check_bool_fields(self, "playing", "shuffled")
        rate = float_field(self, "rate")
        if not 0 < rate <= MAX_RATE:
            raise InputError(
                f"Images: rate={rate:g}; expected more than 0 and at most {MAX_RATE:g} items per "
                "second"
            )
        object.__setattr__(self, "rate", rate)
        if not isinstance(self.title, str):
            raise InputError(f"Images: title={self.title!r}; expected a string")
        object.__setattr__(self, "title", (self.title or opened.items.title)[:1000])

    @property
    def image_set(self) -> ImageSet:
        """The opened data set."""
        assert self._image_set is not None
        return self._image_set

    def at(self, index: int) -> Self:
        """Return the same data set at another item.

        Args:
            index: The item, from 0; negative numbers count from the end.

        Returns:
            The new source. The data is not opened again.

        Raises:
            InputError: If there is no such item.
        """
        if not hasattr(index, "__index__") or not -len(self) <= index < len(self):
            raise InputError(f"Images: at({index!r}); there are {len(self)} items, counted from 0")
        return replace(self, index=index + len(self) if index < 0 else index)

    def __len__(self) -> int:
        return self.image_set.items.count

    def fits_input(self, model_input: Input) -> bool:
        """Return whether an input can take this source: pictures, or float32 with four axes.

        Args:
            model_input: The input.

        Returns:
            True if it can.
        """
        floats = (
            model_input.dtype == "float32"
            and len(model_input.shape) == 4
            and 0 not in model_input.shape
        )
        return floats or model_input.fit != ""

    def open_blobs(
        self, model_input: Input, earlier_blobs: SourceBlobs | None = None
    ) -> DatasetBlocks:
        """Return the items as blocks for pages.

        Args:
            model_input: The input.
            earlier_blobs: The blocks of an earlier source, which are reused if they have the same
                items and size.

        Returns:
            The blocks.
        """
        opened = self.image_set
        found = DatasetBlocks(opened.items, model_input, opened.labels, opened.classes)
        return (
            earlier_blobs
            if isinstance(earlier_blobs, DatasetBlocks) and earlier_blobs.is_same_data(found)
            else found
        )

    def current_input_array(self, model_input: Input, blobs: SourceBlobs | None) -> Array:
        """Return the current item as the input array.

        Args:
            model_input: The input.
            blobs: The blocks of `open_blobs`.

        Returns:
            An array in the shape and dtype of the input.

        Raises:
            InputError: If the item cannot be read. The message names it.
        """
        blocks = blobs if isinstance(blobs, DatasetBlocks) else self.open_blobs(model_input)
        return blocks.input_array(self.index)

    def to_record(self, input_key: str) -> SourceRecord:
        """Return the source as the record that pages get, without data.

        Args:
            input_key: The key of the input that it feeds.

        Returns:
            The record.
        """
        own = self.image_set
        folder = folder_of(self.data, own.labels_argument, own.classes_argument)
        return msgspec.structs.replace(super().to_record(input_key), folder=folder)

    def __repr__(self) -> str:
        items = self.image_set.items
        words = [f"{items.count:,} item{'s' if items.count > 1 else ''} {items.description}"]
        if self.image_set.labels is not None:
            names = len(self.image_set.classes)
            words.append(f"labels of {names} classes" if names else "labels")
        defaults = {"index": 0, "playing": False, "rate": 2.0, "shuffled": False, "seed": 0}
        shown = {name: getattr(self, name) for name in defaults}
        words += [f"{k}={v!r}" for k, v in shown.items() if k == "index" or v != defaults[k]]
        return f"Images({', '.join(words)})"


def _open_image_set(
    data: Any, labels: Any, classes: Any, opened_items: DatasetItems | None
) -> ImageSet:
    items = open_items(data) if opened_items is None else opened_items
    numbers = items.labels
    if labels is not None:
        if isinstance(labels, str | bytes | os.PathLike) or not hasattr(labels, "__len__"):
            raise InputError(f"Images: labels is {type(labels).__name__}; expected a list")
        given = label_numbers(labels)
        if len(given) != items.count:
            raise InputError(
                f"Images: {len(given)} labels were given for {items.count} items; expected one "
                "for each item, -1 for none"
            )
        numbers = lambda: given  # noqa: E731
    names = items.classes if classes is None else class_names.to_class_names(classes)
    if labels is not None and names and max(given, default=-1) >= len(names):
        at = next(k for k, label in enumerate(given) if label >= len(names))
        raise InputError(
            f"Images: labels[{at}] is {given[at]}; there are {len(names)} classes, counted from 0"
        )
    return ImageSet(data, labels, classes, items, numbers, names)
