"""A data set in blocks for pages: items in the input's size, several per block, made on demand."""

from __future__ import annotations

import json
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.sources.items import DatasetItems, Dtype, as_array, dtype_of, is_picture
from nbglcnn.features.sources.records import BLOCK_BYTES
from nbglcnn.graph import Array
from nbglcnn.inputs.picture_decoding import PILLOW_MODES_BY_CHANNELS, picture_array
from nbglcnn.plan.picture_layout import PictureLayout, channels_and_size, to_layout
from nbglcnn.plan.schema import Input

log = logging.getLogger("nbglcnn")

# Recently decoded blocks that are cached, because pages request missed parts again.
MAX_CACHED_BLOCKS = 4


class DatasetBlocks:
    """The items of a data set for one input, loaded on demand in blocks.

    An array whose items fit the input is sent without a copy. In a block an item that cannot be
    loaded is black; the log names it once.
    """

    def __init__(
        self,
        items: DatasetItems,
        model_input: Input,
        labels: Callable[[], Sequence[int]] | None,
        classes: Sequence[str],
    ) -> None:
        self.items = items
        self.model_input = model_input
        self.name = uuid4().hex
        self.shape = model_input.shape[1:]
        self._labels = labels
        self._classes = tuple(classes)
        self._failed_items: set[int] = set()
        # An input of uint8 takes bytes from any kind of picture.
        self.dtype: Dtype = "uint8" if model_input.dtype == "uint8" else items.dtype
        stacked = items.stacked
        self._stacked = (
            None if stacked is None else _to_input_layout(stacked, self.shape, model_input.layout)
        )
        self._block_cache: OrderedDict[int, Array] = OrderedDict()
        self.item_bytes = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        self.items_per_block = max(1, BLOCK_BYTES // self.item_bytes)
        if stacked is not None and (self._stacked is None or items.dtype != self.dtype):
            self._check_item(stacked[0], "Images")  # all items have the same type and shape

    def is_same_data(self, other: DatasetBlocks) -> bool:
        """Whether pages that have one's blobs can use them for the other."""
        ours, theirs = (
            (
                id(one.items),
                id(one._labels),
                one._classes,
                one.shape,
                one.model_input.fit,
                one.model_input.crop_fraction,
                one.model_input.dtype,
            )
            for one in (self, other)
        )
        return ours == theirs

    def record_fields(self) -> dict[str, Any]:
        """Return the fields of the record that name the blobs."""
        return {
            "data": self.name,
            "count": self.items.count,
            "block_size": self.items_per_block,
            "dtype": self.dtype,
            "labels": f"{self.name}.labels" if self._labels else "",
            "classes": f"{self.name}.classes" if self._classes else "",
        }

    def blob_names(self) -> Iterator[str]:
        """Iterate over the names of all blobs."""
        for k in range(-(-self.items.count // self.items_per_block)):
            yield f"{self.name}.{k}"
        fields = self.record_fields()
        yield from filter(None, (fields["labels"], fields["classes"]))

    @property
    def nbytes(self) -> int:
        """The size of all items in bytes."""
        return self.item_bytes * self.items.count

    def blob(self, name: str) -> memoryview | None:
        """Return the bytes of a block, or of the labels or classes; None for another name."""
        data, _, part = name.rpartition(".")
        if data != self.name:
            return None
        if part == "labels" and self._labels is not None:
            return memoryview(json.dumps(list(self._labels())).encode())
        if part == "classes" and self._classes:
            return memoryview(json.dumps(self._classes).encode())
        if not part.isdecimal() or not part.isascii() or len(part) > 10:
            return None
        first = int(part) * self.items_per_block
        if first >= self.items.count:
            return None
        return self._load_block(int(part), first).reshape(-1).view(np.uint8).data

    def item(self, index: int) -> Array:
        """Load one item, in the input's shape and the set's dtype; InputError if unavailable."""
        if self._stacked is not None:
            return _to_contiguous(self._stacked[index], self.dtype)
        made = self._block_cache.get(index // self.items_per_block)
        if made is None or index in self._failed_items:
            return self._load_item(index)
        found: Array = made[index % self.items_per_block]
        return found

    def input_array(self, index: int) -> Array:
        """Return one item as an input array; for a float32 input white is 1."""
        item = self.item(index)
        whole = item.astype(self.model_input.dtype)
        if self.dtype == "uint8" and self.model_input.dtype != "uint8":
            whole /= np.float32(255)
        return np.broadcast_to(whole, self.model_input.shape).copy()

    def _load_block(self, block_index: int, first_item: int) -> Array:
        last = min(first_item + self.items_per_block, self.items.count)
        if self._stacked is not None:
            return _to_contiguous(self._stacked[first_item:last], self.dtype)
        if block_index in self._block_cache:
            self._block_cache.move_to_end(block_index)
            return self._block_cache[block_index]
        made = np.zeros((last - first_item, *self.shape), self.dtype)
        for k in range(first_item, last):
            try:
                made[k - first_item] = self._load_item(k)
            except InputError as error:
                if k not in self._failed_items:
                    log.warning("nbglcnn: %s; it is black in the page", error)
                self._failed_items.add(k)
        self._block_cache[block_index] = made
        while len(self._block_cache) > MAX_CACHED_BLOCKS:
            self._block_cache.popitem(last=False)
        return made

    def _load_item(self, index: int) -> Array:
        name = self.items.item_name(index)
        try:
            item = self.items.load_item(index)
        except Exception as error:  # a damaged file, or an error of the data set
            words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise InputError(f"Images: {name} is not available ({words})") from error
        return self._to_input(item, f"Images: {name}")

    def _to_input(self, item: Any, name: str) -> Array:
        """Convert an item to the input's shape and the set's dtype."""
        if not is_picture(item):
            item = self._check_item(as_array(item), name)
            if item.shape == self.shape:
                exact = np.asarray(item, np.float32 if self.dtype == "float32" else item.dtype)
                whole = self.dtype == "float32" and item.dtype == np.uint8
                return exact / np.float32(255) if whole else exact
            item = _to_pil(item)
        channels, height, width = channels_and_size(self.shape, self.model_input.layout)
        if channels not in PILLOW_MODES_BY_CHANNELS:
            raise InputError(
                f"{name} is a picture, but the input {self.model_input.key} has {channels} "
                f"channels; give arrays of shape {self.shape}"
            )
        fit, share = self.model_input.fit or "crop", self.model_input.crop_fraction
        try:
            pixels = picture_array(item, channels, self.dtype, (height, width), fit, share)
        except Exception as error:  # a damaged file whose pixels are decoded only now
            raise InputError(f"{name} is not available ({error})") from error
        return to_layout(pixels, self.model_input.layout)

    def _check_item(self, item: Array, name: str) -> Array:
        """Check an array item: the input's shape, or a picture of uint8; else InputError."""
        shape, bytes_ = self.shape, self.dtype == "uint8"
        batch_of_one = (
            _to_input_layout(item[None], shape, self.model_input.layout)
            if item.ndim in (2, 3)
            else None
        )
        if batch_of_one is not None:
            if dtype_of(item, name) == "float32" and bytes_:
                raise InputError(
                    f"{name} has floats, but the input {self.model_input.key} is uint8; give uint8"
                    if self.model_input.dtype == "uint8"
                    else f"{name} has floats, but the first item is a picture or uint8"
                )
            own: Array = batch_of_one[0]
            return own
        found = "×".join(map(str, item.shape))
        if item.dtype != np.uint8:
            dtype_of(item, name)
            raise InputError(
                f"{name}: floats of {found}; floats are used unchanged, so they need the input's "
                f"shape {shape}. Resize them first, or give pictures as uint8, which are resized"
            )
        colours = item.ndim == 3 and (
            item.shape[0] in PILLOW_MODES_BY_CHANNELS or item.shape[2] in PILLOW_MODES_BY_CHANNELS
        )
        if item.ndim == 2 or colours:
            return item
        raise InputError(
            f"{name}: uint8 of {found}; a picture has 1, 3 or 4 channels, (H, W), (C, H, W) or "
            "(H, W, C)"
        )


def _to_input_layout(array: Array, shape: tuple[int, ...], layout: PictureLayout) -> Array | None:
    """Return a view of an array of items in the input's layout; None if the shape doesn't fit."""
    channels, height, width = channels_and_size(shape, layout)
    own = array.shape[-3:]
    if array.ndim == 4 and own == shape:
        return array
    if array.ndim == 4 and own == (height, width, channels):
        return array.transpose(0, 3, 1, 2)
    if array.ndim == 4 and layout == "NHWC" and own == (channels, height, width):
        return array.transpose(0, 2, 3, 1)
    if array.ndim == 3 and channels == 1 and array.shape[1:] == (height, width):
        return array[..., None] if layout == "NHWC" else array[:, None]
    return None


def _to_pil(array: Array) -> Any:
    """Convert uint8 of (h, w), (c, h, w) or (h, w, c) to a PIL image."""
    from PIL import Image

    if array.ndim == 3 and array.shape[0] in PILLOW_MODES_BY_CHANNELS:
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    return Image.fromarray(np.ascontiguousarray(array))


def _to_contiguous(array: Array, dtype: Dtype) -> Array:
    """Return a contiguous array, without a copy if possible; float16 and float64 become float32."""
    return np.ascontiguousarray(array, dtype)
