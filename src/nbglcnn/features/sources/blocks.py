"""A data set as pages ask for it: items brought to the input's size, so many in a block."""

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
from nbglcnn.features.sources.items import Dtype, Items, as_array, dtype_of, is_picture
from nbglcnn.features.sources.records import BLOCK_BYTES
from nbglcnn.graph import Array
from nbglcnn.inputs.picture_decoding import MODES, picture_array
from nbglcnn.plan.picture_layout import PictureLayout, laid_out, sides_of
from nbglcnn.plan.schema import Input

log = logging.getLogger("nbglcnn")

KEPT = 4  # blocks that are kept when they had to be made: a page asks for parts that it missed


class Blocks:
    """The items of a set for one input, made when they are asked for.

    An array whose items are the input's already is sent as it lies, without a copy. In a block an
    item that cannot be had is black, and the log names it once.
    """

    def __init__(
        self,
        items: Items,
        record: Input,
        labels: Callable[[], Sequence[int]] | None,
        classes: Sequence[str],
    ) -> None:
        self.items = items
        self.record = record
        self.name = uuid4().hex
        self.shape = record.shape[1:]
        self._labels = labels
        self._classes = tuple(classes)
        self._missing: set[int] = set()
        # Inputs of uint8 have bytes, whatever the pictures are.
        self.dtype: Dtype = "uint8" if record.dtype == "uint8" else items.dtype
        stacked = items.stacked
        self._whole = None if stacked is None else _laid(stacked, self.shape, record.layout)
        self._made: OrderedDict[int, Array] = OrderedDict()
        self.item_bytes = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        self.block = max(1, BLOCK_BYTES // self.item_bytes)
        if stacked is not None and (self._whole is None or items.dtype != self.dtype):
            self._check(stacked[0], "Images")  # what is wrong is so with all

    def is_like(self, other: Blocks) -> bool:
        """Whether pages that have one need not have the other."""
        ours, theirs = (
            (
                id(one.items),
                id(one._labels),
                one._classes,
                one.shape,
                one.record.fit,
                one.record.share,
                one.record.dtype,
            )
            for one in (self, other)
        )
        return ours == theirs

    def fields(self) -> dict[str, Any]:
        """The fields of the record that name it."""
        return {
            "data": self.name,
            "count": self.items.count,
            "block": self.block,
            "dtype": self.dtype,
            "labels": f"{self.name}.labels" if self._labels else "",
            "classes": f"{self.name}.classes" if self._classes else "",
        }

    def names(self) -> Iterator[str]:
        """The names of all its blobs."""
        for k in range(-(-self.items.count // self.block)):
            yield f"{self.name}.{k}"
        fields = self.fields()
        yield from filter(None, (fields["labels"], fields["classes"]))

    @property
    def nbytes(self) -> int:
        """Of all items."""
        return self.item_bytes * self.items.count

    def blob(self, name: str) -> memoryview | None:
        """The bytes of a block, or of the labels or classes; None for another name."""
        data, _, part = name.rpartition(".")
        if data != self.name:
            return None
        if part == "labels" and self._labels is not None:
            return memoryview(json.dumps(list(self._labels())).encode())
        if part == "classes" and self._classes:
            return memoryview(json.dumps(self._classes).encode())
        if not part.isdecimal() or not part.isascii() or len(part) > 10:
            return None
        first = int(part) * self.block
        if first >= self.items.count:
            return None
        return self._block(int(part), first).reshape(-1).view(np.uint8).data

    def item(self, index: int) -> Array:
        """One item in the input's shape, of the set's type; InputError where it cannot be had."""
        if self._whole is not None:
            return _contiguous(self._whole[index], self.dtype)
        made = self._made.get(index // self.block)
        if made is None or index in self._missing:
            return self._fitted(index)
        found: Array = made[index % self.block]
        return found

    def tensor(self, index: int) -> Array:
        """One item as the input has it, of an input of float32 with 1 for white."""
        item = self.item(index)
        whole = item.astype(self.record.dtype)
        if self.dtype == "uint8" and self.record.dtype != "uint8":
            whole /= np.float32(255)
        return np.broadcast_to(whole, self.record.shape).copy()

    def _block(self, number: int, first: int) -> Array:
        last = min(first + self.block, self.items.count)
        if self._whole is not None:
            return _contiguous(self._whole[first:last], self.dtype)
        if number in self._made:
            self._made.move_to_end(number)
            return self._made[number]
        made = np.zeros((last - first, *self.shape), self.dtype)
        for k in range(first, last):
            try:
                made[k - first] = self._fitted(k)
            except InputError as error:
                if k not in self._missing:
                    log.warning("nbglcnn: %s; it is black in the page", error)
                self._missing.add(k)
        self._made[number] = made
        while len(self._made) > KEPT:
            self._made.popitem(last=False)
        return made

    def _fitted(self, index: int) -> Array:
        name = self.items.named(index)
        try:
            item = self.items.item(index)
        except Exception as error:  # a damaged file, or the data set's own code
            words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise InputError(f"Images: {name} cannot be had ({words})") from error
        return self._as_input(item, f"Images: {name}")

    def _as_input(self, item: Any, name: str) -> Array:
        """An item in the input's shape and the set's type."""
        if not is_picture(item):
            item = self._check(as_array(item), name)
            if item.shape == self.shape:
                exact = np.asarray(item, np.float32 if self.dtype == "float32" else item.dtype)
                whole = self.dtype == "float32" and item.dtype == np.uint8
                return exact / np.float32(255) if whole else exact
            item = _picture(item)
        channels, height, width = sides_of(self.shape, self.record.layout)
        if channels not in MODES:
            raise InputError(
                f"{name} is a picture, which cannot have the {channels} channels of the input "
                f"{self.record.key}; give arrays of {self.shape}"
            )
        fit, share = self.record.fit or "crop", self.record.share
        try:
            pixels = picture_array(item, channels, self.dtype, (height, width), fit, share)
        except Exception as error:  # a damaged file whose pixels are read only now
            raise InputError(f"{name} cannot be had ({error})") from error
        return laid_out(pixels, self.record.layout)

    def _check(self, item: Array, name: str) -> Array:
        """An array as an item: the input's own shape, or uint8 of a picture; InputError else."""
        shape, bytes_ = self.shape, self.dtype == "uint8"
        laid = _laid(item[None], shape, self.record.layout) if item.ndim in (2, 3) else None
        if laid is not None:
            if dtype_of(item, name) == "float32" and bytes_:
                raise InputError(
                    f"{name}: of floats, and the input {self.record.key} is uint8; give uint8"
                    if self.record.dtype == "uint8"
                    else f"{name}: of floats, while the first item is a picture or uint8"
                )
            own: Array = laid[0]
            return own
        found = "×".join(map(str, item.shape))
        if item.dtype != np.uint8:
            dtype_of(item, name)
            raise InputError(
                f"{name}: floats of {found}; they are taken as they are, so that the input's shape "
                f"{shape} is needed. Resize them before, or give pictures of uint8, which are "
                "resized"
            )
        colours = item.ndim == 3 and (item.shape[0] in MODES or item.shape[2] in MODES)
        if item.ndim == 2 or colours:
            return item
        raise InputError(
            f"{name}: uint8 of {found}; a picture has 1, 3 or 4 channels, (H, W), (C, H, W) or "
            "(H, W, C)"
        )


def _laid(array: Array, shape: tuple[int, ...], layout: PictureLayout) -> Array | None:
    """Items of (h, w), (c, h, w) or (h, w, c) as the input's, without a copy; None for others."""
    channels, height, width = sides_of(shape, layout)
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


def _picture(array: Array) -> Any:
    """A PIL image of uint8: (h, w), (c, h, w) or (h, w, c)."""
    from PIL import Image

    if array.ndim == 3 and array.shape[0] in MODES:
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    return Image.fromarray(np.ascontiguousarray(array))


def _contiguous(array: Array, dtype: Dtype) -> Array:
    """As it lies in memory if it can be; float16 and float64 become float32."""
    return np.ascontiguousarray(array, dtype)
