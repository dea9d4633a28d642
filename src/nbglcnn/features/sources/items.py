"""The items of a data set, accessed one at a time: an array, a folder, a list or a Dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.graph import Array
from nbglcnn.inputs.arguments import InputSpec, check_local_path, tensor_to_array
from nbglcnn.inputs.arguments import to_number_array as array_of
from nbglcnn.inputs.arrays import native_array
from nbglcnn.inputs.picture_decoding import is_high_depth, open_picture
from nbglcnn.inputs.picture_files import list_picture_folder

Dtype = Literal["uint8", "float32"]
# Formats of picture files that may have greys of more than 8 bits.
HIGH_DEPTH_SUFFIXES = (".png", ".pgm", ".tif", ".tiff")
# Labels that require reading the items are read when a page needs them, for at most this many
# items.
MAX_LABEL_READS = 2000
NON_DATASET_TYPES = (dict, bytes, bytearray, memoryview, range)
IMAGES_DATA_HINT = (
    "give an array of uint8 or float32, (N, H, W), (N, C, H, W) or (N, H, W, C); a folder of "
    "picture files; a list of PIL images; or a torch Dataset of (picture, label)"
)


@dataclass(frozen=True)
class DatasetItems:
    """The properties of a data set, known before its items are loaded.

    `load_item` returns a PIL image, or an array of (h, w), (c, h, w) or (h, w, c); an exception
    only affects that item. `item_name` returns an item's name for errors. `labels` returns a number
    for each item, -1 for none; it is None without labels. `known_labels` are the labels if they are
    known without reading items. `stacked` is the array of all items, if there is one.
    """

    count: int
    dtype: Dtype
    load_item: Callable[[int], Any]
    item_name: Callable[[int], str]
    description: str
    title: str = ""
    labels: Callable[[], Sequence[int]] | None = None
    known_labels: tuple[int, ...] | None = None
    classes: tuple[str, ...] = ()
    stacked: Array | None = field(default=None, compare=False)


def open_items(data: Any) -> DatasetItems:
    """Open the items of a data set; InputError if the data has another type."""
    if is_picture(data):
        raise InputError(
            "Images: one PIL image was given; set it with viewer.input = image, or give a list "
            "of images"
        )
    if isinstance(data, str | os.PathLike):
        check_local_path("Images", str(os.fspath(data)))
        return _items_of_folder(Path(str(os.fspath(data))).expanduser())
    if is_tensor(data):
        return _items_of_array(tensor_to_array(data, InputSpec("Images")))
    if isinstance(data, np.ndarray):
        return _items_of_array(native_array(data, "Images"))
    if isinstance(data, list | tuple):
        return _items_of_list(data)
    if (
        hasattr(data, "__getitem__")
        and hasattr(data, "__len__")
        and not isinstance(data, NON_DATASET_TYPES)
    ):
        return _items_of_dataset(data)
    if hasattr(data, "dataset"):
        raise InputError(f"Images: {type(data).__name__} yields batches; give its .dataset")
    if hasattr(data, "__iter__") and not hasattr(data, "__len__"):
        raise InputError(
            f"Images: {type(data).__name__} has no length, so its items have no index; give "
            "list(…) of its items, or a Dataset with __len__ and __getitem__"
        )
    raise InputError(f"Images: {type(data).__name__} was given; {IMAGES_DATA_HINT}")


def is_picture(value: Any) -> bool:
    """Whether an object is a PIL image, without importing PIL."""
    return any(c.__module__ == "PIL.Image" and c.__name__ == "Image" for c in type(value).__mro__)


def is_tensor(value: Any) -> bool:
    """Whether an object is a torch tensor, without importing torch."""
    return hasattr(value, "detach") and hasattr(value, "device")


def dtype_of(array: Array, error_subject: str) -> Dtype:
    """Return the dtype for sending an array's items; InputError if it isn't uint8 or float."""
    if array.dtype == np.uint8:
        return "uint8"
    if array.dtype.kind == "f":
        return "float32"
    how = "array.astype('uint8') if the values are from 0 to 255"
    if array.dtype == np.uint16:
        how += ", (array / 65535).astype('float32') if white is 65535"
    raise InputError(
        f"{error_subject}: dtype {array.dtype}; expected uint8 from 0 to 255, or floats in the "
        f"network's range. {how}"
    )


def _items_of_array(array: Array) -> DatasetItems:
    dtype = dtype_of(array, "Images")
    if array.ndim not in (3, 4) or 0 in array.shape:
        add = "; for one picture give array[None]" if array.ndim in (2, 3) else ""
        raise InputError(
            f"Images: an array of shape {array.shape}; expected (N, H, W), (N, C, H, W) or (N, "
            f"H, W, C) with at least one item{add}"
        )
    size = "×".join(map(str, array.shape[1:]))
    return DatasetItems(
        len(array),
        dtype,
        lambda index: array[index],
        lambda index: f"item {index}",
        f"of {size} {array.dtype}",
        stacked=array,
    )


def _items_of_list(data: Sequence[Any]) -> DatasetItems:
    if not data:
        raise InputError(f"Images: an empty {type(data).__name__}; {IMAGES_DATA_HINT}")
    if all(isinstance(one, str | os.PathLike) for one in data):
        for one in data:
            check_local_path("Images", str(one))
        return _items_of_files([Path(str(one)).expanduser() for one in data], "files")
    for number, one in enumerate(data):
        if not (is_picture(one) or is_tensor(one) or isinstance(one, np.ndarray)):
            raise InputError(f"Images: item {number} is {type(one).__name__}; {IMAGES_DATA_HINT}")
    floats = [not is_picture(one) and dtype_of(as_array(one), "Images") != "uint8" for one in data]
    if any(floats) and not all(floats):
        raise InputError(
            f"Images: item {floats.index(True)} has floats, item {floats.index(False)} is a "
            "picture or uint8: give all items in one of these forms"
        )
    deep = any(is_picture(one) and is_high_depth(one) for one in data)
    kind = type(data[0]).__name__
    return DatasetItems(
        len(data),
        "float32" if floats[0] or deep else "uint8",
        lambda index: data[index],
        lambda index: f"item {index}",
        f"in a {type(data).__name__} ({kind})",
    )


def _items_of_folder(folder: Path) -> DatasetItems:
    """Open picture files in order; subfolders are classes, as in torchvision's ImageFolder."""
    found = list_picture_folder(folder, "Images")
    items = _items_of_files(found.files, folder.name, folder)
    if not found.classes:
        return items
    labels = [*found.labels]
    return replace(items, labels=lambda: labels, known_labels=found.labels, classes=found.classes)


def _items_of_files(files: Sequence[Path], title: str, folder: Path | None = None) -> DatasetItems:
    def named(index: int) -> str:
        file = files[index]
        return str(file.relative_to(folder)) if folder else str(file)

    where = f"in {folder}" if folder else "of files"
    dtype: Dtype = "float32" if any(map(_is_high_depth_file, files[:MAX_LABEL_READS])) else "uint8"
    return DatasetItems(
        len(files), dtype, lambda index: open_picture(files[index]), named, where, title
    )


def _is_high_depth_file(file: Path) -> bool:
    """Whether a file's header has greys of more than 8 bits; False for a damaged file."""
    if file.suffix.lower() not in HIGH_DEPTH_SUFFIXES:
        return False
    from PIL import Image

    with suppress(Exception), Image.open(file) as image:
        return is_high_depth(image)
    return False


def _items_of_dataset(data: Any) -> DatasetItems:
    kind = type(data).__name__
    count = len(data)
    if not count:
        raise InputError(f"Images: {kind} has no items")
    item = data[0]
    first = _image_of(item)
    if not (is_picture(first) or is_tensor(first) or isinstance(first, np.ndarray)):
        raise InputError(
            f"Images: item 0 of {kind} is {type(first).__name__}; expected a PIL image, a tensor "
            "or an array, or a tuple (picture, label)"
        )
    dtype: Dtype
    if is_picture(first):
        dtype = "float32" if is_high_depth(first) else "uint8"
    else:
        dtype = dtype_of(as_array(first), f"item 0 of {kind}")
    known_labels = _known_labels(data, count)
    labels: Callable[[], Sequence[int]] | None = None
    if known_labels is not None:
        labels = partial(list, known_labels)
    elif count <= MAX_LABEL_READS and isinstance(item, tuple | list) and len(item) > 1:
        labels = partial(_read_labels, data, count)
    return DatasetItems(
        count,
        dtype,
        lambda index: _image_of(data[index]),
        lambda index: f"item {index} of {kind}",
        f"of {kind}",
        kind,
        labels,
        None if known_labels is None else tuple(known_labels),
        _classes_of(data),
    )


def _image_of(item: Any) -> Any:
    return item[0] if isinstance(item, tuple | list) and item else item


def _known_labels(data: Any, count: int) -> list[int] | None:
    """Return a Dataset's labels if they are known without reading its items."""
    tensors = getattr(data, "tensors", ())  # torch.utils.data.TensorDataset
    second = tensors[1] if isinstance(tensors, tuple) and len(tensors) > 1 else None
    for found in (getattr(data, "targets", None), getattr(data, "labels", None), second):
        if found is None or not hasattr(found, "__len__") or len(found) != count:
            continue
        with suppress(InputError):  # targets of detection, segmentation or regression
            return label_numbers(found)
    inner, indices = getattr(data, "dataset", None), getattr(data, "indices", None)
    if inner is None or indices is None:  # not a torch.utils.data.Subset
        return None
    whole = _known_labels(inner, len(inner))
    return None if whole is None else [whole[int(index)] for index in indices]


def _read_labels(data: Any, count: int) -> list[int]:
    """Read the labels of all items."""
    found = []
    for index in range(count):
        try:
            found += label_numbers([data[index][1]])
        except Exception:  # the data set's own code: an unavailable item has no label
            found.append(-1)
    return found


def _classes_of(data: Any) -> tuple[str, ...]:
    classes = getattr(data, "classes", None)
    if isinstance(classes, list | tuple) and all(isinstance(name, str) for name in classes):
        return tuple(classes)
    inner = getattr(data, "dataset", None)
    return _classes_of(inner) if inner is not None else ()


def label_numbers(labels: Iterable[Any]) -> list[int]:
    """Convert labels to integers of at least -1; InputError for the first that is none."""
    if is_tensor(labels):
        labels = tensor_to_array(labels, InputSpec("labels"))
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        labels = labels.tolist()
    numbers = []
    for at, label in enumerate(labels):
        try:
            number = label if isinstance(label, int) else label.__index__()
        except (AttributeError, TypeError):
            number = -2
        if isinstance(label, bool) or not -1 <= number < 2**31:
            raise InputError(
                f"labels[{at}] is {label!r:.60}; expected integers, the index of the name in "
                "classes, -1 for none"
            )
        numbers.append(int(number))
    return numbers


def as_array(item: Any) -> Array:
    """Return an item other than a PIL image as an array."""
    if is_tensor(item):
        return tensor_to_array(item, InputSpec("Images"))
    return array_of(item, "Images")
