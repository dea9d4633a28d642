"""Conversion of example inputs (pictures, tensors and arrays) to one array per input."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.inputs.arrays import native_array
from nbglcnn.inputs.picture_decoding import PILLOW_MODES_BY_CHANNELS, is_grey, picture_array
from nbglcnn.inputs.picture_files import read_picture
from nbglcnn.plan.picture_layout import channels_and_size, picture_layout, to_layout

Array = npt.NDArray[Any]

ALLOWED_DTYPES = "float32 (or float64, which is converted), int64 or bool"
INPUT_HINT = (
    "give an array, a tensor, a PIL image, the path of a picture or a list of these; for several "
    "inputs give a tuple, or a dict by input name"
)
SHARED_INPUT_PREFIX = "A."  # prefix of an input that both compared networks read
URL_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*://|(data|blob):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InputSpec:
    """The known properties of an input; an unknown dimension, shape or dtype is None.

    `advice` is the error's hint for another shape. An input with a `default` may be left out. With
    a `fit`, pictures of other sizes are resampled to the shape's (height, width), keeping
    `crop_fraction` of each side.
    """

    name: str
    shape: tuple[int | None, ...] | None = None
    dtype: np.dtype[Any] | None = None
    advice: str = ""
    default: Array | None = field(default=None, compare=False)
    fit: str = ""
    crop_fraction: float = 1.0


def to_input_arrays(
    x: Any, specs: Sequence[InputSpec] | None = None, *, channels: int | None = None
) -> tuple[Array, ...]:
    """Convert `x` to one array per input, checked against the InputSpecs.

    Several inputs are a tuple, or a dict by the names of the InputSpecs; a list is a batch. A tuple
    has all inputs, or all without a default. A PIL image becomes float32 in 0..1, channels first,
    with a batch axis. `channels` is the number of channels of a picture if the InputSpec has none;
    by default grey pictures have 1 and colour pictures 3.
    """
    if isinstance(x, Mapping) and specs is not None:
        x = _order_by_spec(x, specs)
    items = x if isinstance(x, tuple) else (x,)
    if specs is None:
        specs = tuple(
            InputSpec(f"input {i}" if len(items) > 1 else "input") for i in range(len(items))
        )
    items = _fill_defaults(items, specs)
    check_input_count(len(items), [spec.name for spec in specs], labels_hint(items))
    return tuple(_to_array(item, spec, channels) for item, spec in zip(items, specs, strict=True))


def _fill_defaults(items: tuple[Any, ...], specs: Sequence[InputSpec]) -> tuple[Any, ...]:
    """Insert the defaults if exactly the inputs with a default are left out."""
    if len(items) == len(specs) or len(items) != sum(spec.default is None for spec in specs):
        return items
    rest = iter(items)
    return tuple(next(rest) if spec.default is None else spec.default for spec in specs)


def check_input_count(input_count: int, names: Sequence[str], advice: str = "") -> None:
    """Raise InputError unless the number of inputs is the number of names."""
    if input_count != len(names):
        named = f" ({', '.join(map(repr, names))})" if names else ""
        count = "1 input was" if input_count == 1 else f"{input_count} inputs were"
        raise InputError(
            f"{count} given; the model takes {len(names)}{named}. "
            + (advice or "Give a tuple with one array for each")
        )


def check_not_empty(names: Iterable[str], arrays: Sequence[Array]) -> Sequence[Array]:
    """Return the arrays; raise InputError if all of them are empty: nothing could be shown.

    A single empty array among others may be intended, such as an empty list of boxes.
    """
    if arrays and not any(array.size for array in arrays):
        given = " and ".join(
            f"{name}: shape {_format_shape(array.shape)} has no elements"
            for name, array in zip(names, arrays, strict=True)
        )
        raise InputError(f"{given}; give at least one example")
    return arrays


def resolve_input_names(inputs: Mapping[Any, Any], names: Sequence[str]) -> dict[Any, Any]:
    """Rename inputs from the names of forward's parameters to the network's names.

    An input with the name of a module is named `mask:1`. In a comparison of two networks, an input
    that both read is named `A.mask`.
    """
    own = {name.rpartition(":")[0]: name for name in names if re.fullmatch(r".+:\d+", name)}
    own |= {
        name.removeprefix(SHARED_INPUT_PREFIX): name
        for name in names
        if name.startswith(SHARED_INPUT_PREFIX)
        and name.replace(SHARED_INPUT_PREFIX, "B.", 1) not in names
    }
    return {name if name in names else own.get(name, name): x for name, x in inputs.items()}


def _order_by_spec(inputs: Mapping[Any, Any], specs: Sequence[InputSpec]) -> tuple[Any, ...]:
    names = [spec.name for spec in specs]
    inputs = resolve_input_names(inputs, names)
    for name in inputs:
        if name not in names:
            near = suggest_names(name, names)
            raise InputError(
                f"no input {name!r}{near}; the model takes {', '.join(map(repr, names))}"
            )
    for spec in specs:
        if (name := spec.name) not in inputs and spec.default is None:
            raise InputError(
                f"the input {name!r} is missing; the model takes {', '.join(map(repr, names))}"
            )
    return tuple(inputs.get(spec.name, spec.default) for spec in specs)


def _to_array(item: Any, spec: InputSpec, channels: int | None) -> Array:
    item = _read_item(item, spec.name)
    if isinstance(item, list):
        if not item:
            raise InputError(f"{spec.name}: an empty list")
        if not any(_is_image(i) or _is_tensor(i) or isinstance(i, np.ndarray) for i in item):
            return _validate_array(_number_list_array(item, spec), spec)
        parts = [
            _picture_array(i, spec, channels) if _is_image(i) else _numeric_array(i, spec)
            for i in item
        ]
        shapes = {p.shape for p in parts}
        if len(shapes) > 1:
            if advice := labels_hint(item):
                raise InputError(f"{spec.name}: a list of shapes {sorted(shapes)}. {advice}")
            some = " and ".join(str(s) for s in sorted(shapes)[:2])
            raise InputError(f"{spec.name}: a batch needs items of one shape; got {some}")
        return _validate_array(np.stack(parts), spec)
    if _is_image(item):
        return _validate_array(_picture_array(item, spec, channels)[None], spec)
    return _validate_array(_numeric_array(item, spec), spec)


def _number_list_array(item: list[Any], spec: InputSpec) -> Array:
    try:
        return native_array(item, spec.name).astype(np.float32)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{spec.name}: the list can't be converted to an array of numbers ({error})"
        ) from None


def _is_image(item: Any) -> bool:
    return any(c.__module__ == "PIL.Image" and c.__name__ == "Image" for c in type(item).__mro__)


def _is_tensor(item: Any) -> bool:
    return hasattr(item, "detach") and hasattr(item, "device")


def _picture_array(image: Any, spec: InputSpec, channels: int | None) -> Array:
    """Convert a picture to the input's layout, without the batch axis."""
    dtype = np.dtype(np.float32) if spec.dtype is None else spec.dtype
    if dtype not in (np.float32, np.uint8):
        raise InputError(
            f"{spec.name}: a picture was given, but the input is {dtype}; pictures become "
            "float32 (0 to 1) or uint8 (0 to 255). Give an array, "
            f"numpy.asarray(image).astype('{dtype}')"
        )
    layout, size = picture_layout(spec.shape, dtype) or "NCHW", None
    if spec.shape is not None and len(spec.shape) == 4:
        own, height, width = channels_and_size(spec.shape, layout)
        channels = own or channels
        size = (height, width) if spec.fit and height and width else None
    if channels is None:
        channels = 1 if is_grey(image) else 3
    if channels not in PILLOW_MODES_BY_CHANNELS:
        last = spec.shape is not None and len(spec.shape) == 4 and spec.shape[3] in (1, 3)
        else_ = ', or Preprocess(layout="NHWC") if its channels come last' if last else ""
        raise InputError(
            f"{spec.name}: the model takes {channels} channels, and a picture can't have that "
            f"many; give an array{else_}"
        )
    kind: Literal["uint8", "float32"] = "uint8" if dtype == np.uint8 else "float32"
    try:
        pixels = picture_array(image, channels, kind, size, spec.fit, spec.crop_fraction)
    except InputError as error:
        raise InputError(f"{spec.name}: {error}") from None
    return to_layout(pixels, layout)


def _numeric_array(item: Any, spec: InputSpec) -> Array:
    if item is None:
        raise InputError(f"{spec.name}: None was given; expected an example input")
    array = tensor_to_array(item, spec) if _is_tensor(item) else to_number_array(item, spec.name)
    if array.dtype in (np.float16, np.float64):
        return array.astype(np.float32)
    if spec.dtype is not None and spec.dtype.kind in "iu" and array.dtype.kind in "iu":
        return np.array(array)
    if array.dtype in (np.uint8, np.uint16):
        white = np.iinfo(array.dtype).max
        raise InputError(
            f"{spec.name}: dtype {array.dtype}; expected {ALLOWED_DTYPES}. For pixels: "
            f"x.astype('float32') / {white} (or whatever scale the model was trained with); for "
            "other integers x.astype('int64')"
        )
    if array.dtype.kind not in "ib" and array.dtype != np.float32:
        raise InputError(
            f"{spec.name}: {type(item).__name__} of dtype {array.dtype}; expected {ALLOWED_DTYPES}"
        )
    return np.array(array)  # a copy: the caller may change their array


def special_tensor_kind(tensor: Any) -> tuple[str, str] | None:
    """Return the kind of a tensor that isn't dense and real, and the call that converts it."""
    for kind, found, dense in (
        ("nested", tensor.is_nested, "x.to_padded_tensor(0)"),
        ("sparse", not str(tensor.layout).endswith("strided"), "x.to_dense()"),
        ("quantized", tensor.is_quantized, "x.dequantize()"),
        ("complex", tensor.is_complex(), "torch.view_as_real(x)"),
    ):
        if found:
            return kind, dense
    return None


def tensor_to_array(tensor: Any, spec: InputSpec) -> Array:
    """Convert a torch tensor to an array; raise InputError unless it is dense and real."""
    if tensor.device.type == "meta":
        raise InputError(
            f"{spec.name}: a tensor on the meta device has no values; give one on the CPU"
        )
    if tensor.device.type != "cpu":
        raise InputError(f"{spec.name}: the tensor is on {tensor.device}; call .cpu() first")
    if (found := special_tensor_kind(tensor)) is not None:
        kind, dense = found
        raise InputError(
            f"{spec.name}: a {kind} tensor was given; only dense real tensors are supported. "
            f"Convert it with {dense}"
        )
    name = str(tensor.dtype)
    if name == "torch.bfloat16" or name.startswith("torch.float8"):  # types that numpy lacks
        tensor = tensor.float()
    try:
        return np.asarray(tensor.detach().resolve_conj().resolve_neg().numpy())
    except (TypeError, RuntimeError) as error:
        raise InputError(
            f"{spec.name}: a tensor of dtype {name} can't be converted to an array ({error}); "
            f"expected {ALLOWED_DTYPES}"
        ) from None


def to_number_array(item: Any, name: str) -> Array:
    """Convert an item to an array; InputError if impossible. `name` is the input's name."""
    try:
        array = native_array(item, name)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name}: {type(item).__name__} can't be converted to an array ({error}); {INPUT_HINT}"
        ) from None
    if array.dtype.kind not in "fiubc":
        raise InputError(f"{name}: {type(item).__name__} was given; {INPUT_HINT}")
    return array


def _validate_array(array: Array, spec: InputSpec) -> Array:
    if spec.dtype is not None and spec.dtype.kind in "iu" and array.dtype.kind in "iu":
        converted = array.astype(spec.dtype)
        if not np.array_equal(converted, array):
            raise InputError(
                f"{spec.name}: integers from {array.min()} to {array.max()} were given, which "
                f"are out of range for the input's {spec.dtype}"
            )
        array = converted
    if spec.dtype is not None and array.dtype != spec.dtype:
        raise InputError(
            f"{spec.name}: dtype {array.dtype} was given; expected {spec.dtype}. "
            + _dtype_hint(array, spec.dtype)
        )
    if spec.shape is None:
        return array
    if not _shape_matches(array.shape, spec.shape):
        wanted = tuple("any" if d is None else d for d in spec.shape)
        hint = ""
        if _shape_matches((1, *array.shape), spec.shape):
            hint = "; add the batch axis with x[None]"
        elif _shape_matches(array.shape, spec.shape[1:]):
            hint = f"; the batch axis is missing: stack {spec.shape[0]} of them, numpy.stack(items)"
        elif len(spec.shape) > 2:
            hint = _channels_first_hint(array.shape, spec.shape) or _channels_last_hint(
                array.shape, spec.shape
            )
        hint = hint or (f". {spec.advice}" if spec.advice else "")
        raise InputError(
            f"{spec.name}: shape {_format_shape(array.shape)} was given; expected "
            f"{_format_shape(wanted)}{hint}"
        )
    return array


def _dtype_hint(array: Array, dtype: np.dtype[Any]) -> str:
    """The hint for converting an array to another dtype."""
    if dtype == np.uint8 and array.dtype.kind == "f" and array.size and np.abs(array).max() <= 1:
        return "Convert values from 0 to 1 with (255 * x).round().astype('uint8')"
    return f"Convert with x.astype('{dtype}')"


def _shape_matches(shape: Sequence[int], expected_shape: Sequence[int | None]) -> bool:
    return len(shape) == len(expected_shape) and all(
        want in (None, have) for want, have in zip(expected_shape, shape, strict=True)
    )


def _channels_first_hint(shape: Sequence[int], expected_shape: Sequence[int | None]) -> str:
    """The hint for an array with channels last if the input needs them first, else "".

    The hint for a single picture (height, width, channels) also adds the batch axis.
    """
    places = len(expected_shape) - 2
    batch = (1,) if len(shape) == places + 1 else ()
    whole = (*batch, *shape)
    if len(whole) != len(expected_shape) or not _shape_matches(
        (whole[0], whole[-1], *whole[1:-1]), expected_shape
    ):
        return ""
    first = len(shape) - places - 1
    axes = ", ".join(map(str, [*range(first), len(shape) - 1, *range(first, len(shape) - 1)]))
    add = "[None]" if batch else ""
    return f"; channels first: x.transpose({axes}){add}, for a tensor x.permute({axes}){add}"


def _channels_last_hint(shape: Sequence[int], expected_shape: Sequence[int | None]) -> str:
    """The hint for an array with channels first if the input needs them last, else ""."""
    batch = (1,) if len(shape) == len(expected_shape) - 1 else ()
    whole = (*batch, *shape)
    if len(whole) != len(expected_shape) or not _shape_matches(
        (whole[0], *whole[2:], whole[1]), expected_shape
    ):
        return ""
    first = len(shape) - len(expected_shape) + 1
    axes = ", ".join(map(str, [*range(first), *range(first + 1, len(shape)), first]))
    add = "[None]" if batch else ""
    return f"; channels last: x.transpose({axes}){add}, for a tensor x.permute({axes}){add}"


def layout_hint(shape: Sequence[int], channels: int | None) -> str:
    """The hint for a picture whose last axis has the expected number of channels, else ""."""
    if channels is None or len(shape) not in (3, 4) or shape[-3] == channels:
        return ""
    return _channels_first_hint(shape, (None, channels, None, None))


def _format_shape(shape: Sequence[Any]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def labels_hint(items: Sequence[Any]) -> str:
    """The hint for the images and labels of a data set or DataLoader; "" for other items."""
    if len(items) != 2:
        return ""
    images, labels = items
    one = isinstance(labels, int | np.integer) and not isinstance(labels, bool)
    shape = tuple(getattr(labels, "shape", ()))
    whole = "int" in str(getattr(labels, "dtype", ""))
    batch = tuple(getattr(images, "shape", ()))[:1]
    if one or (whole and not shape):
        return f"For an image with its label, give only the image: x[0]{_batch_axis_hint(images)}"
    if whole and shape == batch and len(shape) == 1:
        return "For images with labels, as a data set returns them, give only the images: x[0]"
    return ""


def _batch_axis_hint(image: Any) -> str:
    """The index that adds a batch axis to one example; "" for a Pillow image."""
    return "[None]" if 0 < len(getattr(image, "shape", ())) < 4 else ""


def _read_item(item: Any, name: str) -> Any:
    """Read an item, replacing paths by pictures; InputError for a DataLoader or data set."""
    if isinstance(item, list):
        return [_read_item(one, name) for one in item]
    if isinstance(item, str | os.PathLike):
        check_local_path(name, os.fspath(item))
        return read_picture(item, name, INPUT_HINT)
    if hasattr(item, "dataset") and hasattr(item, "__iter__") and not hasattr(item, "shape"):
        raise InputError(
            f"{name}: {type(item).__name__} yields batches: give the images of the first one, "
            "next(iter(loader))[0]"
        )
    if _is_data_set(item):
        raise InputError(
            f"{name}: {type(item).__name__} is a data set: give one of its images, "
            f"dataset{_first_image_index(item)}"
        )
    return item


def _is_data_set(item: Any) -> bool:
    """Whether an item is a data set: indexable, but neither a sequence nor an array."""
    if any(c.__module__ == "torch.utils.data.dataset" for c in type(item).__mro__):
        return True
    if _is_tensor(item):
        return False
    arrays = ("shape", "__array__", "__array_interface__", "__buffer__", "keys", "read", "typecode")
    return (
        hasattr(item, "__getitem__")
        and hasattr(item, "__len__")
        and not isinstance(item, Sequence | memoryview)
        and not any(hasattr(item, one) for one in arrays)
    )


def _first_image_index(data: Any) -> str:
    """The index expression of a data set's first image: "[0][0][None]" for tensors with labels."""
    try:
        item = data[0]
    except Exception:  # an IterableDataset, or a missing file
        return "[0][0]"
    picked, parts = "[0]", {}
    if isinstance(item, Mapping):
        parts = {f"[{key!r}]": one for key, one in item.items()}
    elif isinstance(item, tuple | list):
        parts = {f"[{at}]": one for at, one in enumerate(item)}
    for key, one in parts.items():
        if _is_image(one) or len(getattr(one, "shape", ())):
            return f"{picked}{key}{_batch_axis_hint(one)}"
    return f"{picked}{_batch_axis_hint(item)}"


def check_local_path(error_subject: str, path: str) -> None:
    """Raise InputError if a path is a URL: nothing is downloaded."""
    if URL_PATTERN.match(path):
        raise InputError(
            f"{error_subject}: {path[:60]!r} is a URL, which nbglcnn does not download: download "
            "it, and give the file's path"
        )
