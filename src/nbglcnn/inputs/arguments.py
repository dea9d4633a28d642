"""Example inputs: pictures, tensors and arrays as one array per input."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError, nearest
from nbglcnn.inputs.arrays import plain_array
from nbglcnn.inputs.picture_decoding import MODES, is_grey, picture_array
from nbglcnn.inputs.picture_files import read_picture
from nbglcnn.plan.picture_layout import laid_out, picture_layout, sides_of

Array = npt.NDArray[Any]

ALLOWED = "float32 (or float64, which is converted), int64 or bool"
TAKEN = (
    "give an array, a tensor, a PIL image, the path of a picture or a list of these; for several "
    "inputs a tuple of them, or a dict by their names"
)
BOTH = "A."  # before the name of an input that two compared networks read
URL = re.compile(r"[a-z][a-z0-9+.-]*://|(data|blob):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of an input: dims that are not are None, as is a shape or type that is not.

    `advice` is what to do about another shape. One with a `default` may be left out. With a `fit`
    pictures of other sizes are resampled to (height, width) of the shape, of which `share` of each
    side stays.
    """

    name: str
    shape: tuple[int | None, ...] | None = None
    dtype: np.dtype[Any] | None = None
    advice: str = ""
    default: Array | None = field(default=None, compare=False)
    fit: str = ""
    share: float = 1.0


def as_arrays(
    x: Any, specs: Sequence[Spec] | None = None, *, channels: int | None = None
) -> tuple[Array, ...]:
    """One array per input, checked against what is known of the inputs.

    Several inputs are a tuple, or a dict by the names of the Specs; a list is a batch. A tuple has
    all inputs, or all but those with a default. A PIL image becomes float32 in 0..1, channels
    first, with a batch axis.
    `channels` is what a picture gets when the Spec doesn't tell: else grey stays 1, colour 3.
    """
    if isinstance(x, Mapping) and specs is not None:
        x = _in_order(x, specs)
    items = x if isinstance(x, tuple) else (x,)
    if specs is None:
        specs = tuple(Spec(f"input {i}" if len(items) > 1 else "input") for i in range(len(items)))
    items = _with_defaults(items, specs)
    check_count(len(items), [spec.name for spec in specs], labels_advice(items))
    return tuple(_array(item, spec, channels) for item, spec in zip(items, specs, strict=True))


def _with_defaults(items: tuple[Any, ...], specs: Sequence[Spec]) -> tuple[Any, ...]:
    """The items with the defaults between them, if all those and no others are left out."""
    if len(items) == len(specs) or len(items) != sum(spec.default is None for spec in specs):
        return items
    rest = iter(items)
    return tuple(next(rest) if spec.default is None else spec.default for spec in specs)


def check_count(given: int, names: Sequence[str], advice: str = "") -> None:
    """InputError unless as many inputs were given as there are names."""
    if given != len(names):
        named = f" ({', '.join(map(repr, names))})" if names else ""
        count = "1 input was" if given == 1 else f"{given} inputs were"
        raise InputError(
            f"{count} given; the model takes {len(names)}{named}. "
            + (advice or "Give a tuple with one array for each")
        )


def with_elements(names: Iterable[str], arrays: Sequence[Array]) -> Sequence[Array]:
    """The arrays; InputError where none of them has an element, so that there is nothing to show.

    One without beside others may be meant so, as boxes of which there are none.
    """
    if arrays and not any(array.size for array in arrays):
        given = " and ".join(
            f"{name}: shape {_tuple(array.shape)} has no elements"
            for name, array in zip(names, arrays, strict=True)
        )
        raise InputError(f"{given}, so that there is nothing to show; give at least one example")
    return arrays


def by_names(given: Mapping[Any, Any], names: Sequence[str]) -> dict[Any, Any]:
    """Inputs by the names that a network has for them, given by those of forward's parameters.

    An input that is called as a module has another one, `mask:1`, and of two networks that are
    compared one that both read is `A.mask`.
    """
    own = {name.rpartition(":")[0]: name for name in names if re.fullmatch(r".+:\d+", name)}
    own |= {
        name.removeprefix(BOTH): name
        for name in names
        if name.startswith(BOTH) and name.replace(BOTH, "B.", 1) not in names
    }
    return {name if name in names else own.get(name, name): x for name, x in given.items()}


def _in_order(given: Mapping[Any, Any], specs: Sequence[Spec]) -> tuple[Any, ...]:
    names = [spec.name for spec in specs]
    given = by_names(given, names)
    for name in given:
        if name not in names:
            near = nearest(name, names)
            raise InputError(
                f"no input {name!r}{near}; the model takes {', '.join(map(repr, names))}"
            )
    for spec in specs:
        if (name := spec.name) not in given and spec.default is None:
            raise InputError(
                f"the input {name!r} is missing; the model takes {', '.join(map(repr, names))}"
            )
    return tuple(given.get(spec.name, spec.default) for spec in specs)


def _array(item: Any, spec: Spec, channels: int | None) -> Array:
    item = _read(item, spec.name)
    if isinstance(item, list):
        if not item:
            raise InputError(f"{spec.name}: an empty list")
        if not any(_is_image(i) or _is_tensor(i) or isinstance(i, np.ndarray) for i in item):
            return _checked(_numbers(item, spec), spec)
        parts = [_image(i, spec, channels) if _is_image(i) else _plain(i, spec) for i in item]
        shapes = {p.shape for p in parts}
        if len(shapes) > 1:
            if advice := labels_advice(item):
                raise InputError(f"{spec.name}: a list of shapes {sorted(shapes)}. {advice}")
            some = " and ".join(str(s) for s in sorted(shapes)[:2])
            raise InputError(f"{spec.name}: a batch needs items of one shape; got {some}")
        return _checked(np.stack(parts), spec)
    if _is_image(item):
        return _checked(_image(item, spec, channels)[None], spec)
    return _checked(_plain(item, spec), spec)


def _numbers(item: list[Any], spec: Spec) -> Array:
    try:
        return plain_array(item, spec.name).astype(np.float32)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{spec.name}: this list is not an array of numbers ({error})") from None


def _is_image(item: Any) -> bool:
    return any(c.__module__ == "PIL.Image" and c.__name__ == "Image" for c in type(item).__mro__)


def _is_tensor(item: Any) -> bool:
    return hasattr(item, "detach") and hasattr(item, "device")


def _image(image: Any, spec: Spec, channels: int | None) -> Array:
    """A picture as the input has it, without the axis of examples."""
    dtype = np.dtype(np.float32) if spec.dtype is None else spec.dtype
    if dtype not in (np.float32, np.uint8):
        raise InputError(
            f"{spec.name}: a picture was given; it is {dtype}, and pictures become float32 (0 to "
            f"1) or uint8 (0 to 255). Give an array, numpy.asarray(image).astype('{dtype}')"
        )
    layout, size = picture_layout(spec.shape, dtype) or "NCHW", None
    if spec.shape is not None and len(spec.shape) == 4:
        own, height, width = sides_of(spec.shape, layout)
        channels = own or channels
        size = (height, width) if spec.fit and height and width else None
    if channels is None:
        channels = 1 if is_grey(image) else 3
    if channels not in MODES:
        last = spec.shape is not None and len(spec.shape) == 4 and spec.shape[3] in (1, 3)
        else_ = ', or Preprocess(layout="NHWC") if its channels come last' if last else ""
        raise InputError(
            f"{spec.name}: the model takes {channels} channels, which a picture cannot be; "
            f"give an array{else_}"
        )
    kind: Literal["uint8", "float32"] = "uint8" if dtype == np.uint8 else "float32"
    try:
        pixels = picture_array(image, channels, kind, size, spec.fit, spec.share)
    except InputError as error:
        raise InputError(f"{spec.name}: {error}") from None
    return laid_out(pixels, layout)


def _plain(item: Any, spec: Spec) -> Array:
    if item is None:
        raise InputError(f"{spec.name}: None was given; an example input is needed")
    array = of_tensor(item, spec) if _is_tensor(item) else as_array(item, spec.name)
    if array.dtype in (np.float16, np.float64):
        return array.astype(np.float32)
    if spec.dtype is not None and spec.dtype.kind in "iu" and array.dtype.kind in "iu":
        return np.array(array)
    if array.dtype in (np.uint8, np.uint16):
        white = np.iinfo(array.dtype).max
        raise InputError(
            f"{spec.name}: dtype {array.dtype}; {ALLOWED} is needed. For pixels: "
            f"x.astype('float32') / {white} (or whatever scale the model was trained with); "
            "for other integers x.astype('int64')"
        )
    if array.dtype.kind not in "ib" and array.dtype != np.float32:
        raise InputError(
            f"{spec.name}: {type(item).__name__} of dtype {array.dtype}; {ALLOWED} is needed"
        )
    return np.array(array)  # the caller may change theirs later


def kind_of(tensor: Any) -> tuple[str, str] | None:
    """Of a torch tensor that holds its numbers in another way: which, and what makes it dense."""
    for kind, found, dense in (
        ("nested", tensor.is_nested, "x.to_padded_tensor(0)"),
        ("sparse", not str(tensor.layout).endswith("strided"), "x.to_dense()"),
        ("quantized", tensor.is_quantized, "x.dequantize()"),
        ("complex", tensor.is_complex(), "torch.view_as_real(x)"),
    ):
        if found:
            return kind, dense
    return None


def of_tensor(tensor: Any, spec: Spec) -> Array:
    """A torch tensor as an array; the kinds that hold numbers in another way are refused."""
    if tensor.device.type == "meta":
        raise InputError(f"{spec.name}: a tensor on meta has no numbers; give one on the CPU")
    if tensor.device.type != "cpu":
        raise InputError(f"{spec.name}: the tensor is on {tensor.device}; call .cpu() first")
    if (found := kind_of(tensor)) is not None:
        kind, dense = found
        raise InputError(
            f"{spec.name}: a {kind} tensor was given; only dense tensors of real numbers are "
            f"taken. Convert it with {dense}"
        )
    name = str(tensor.dtype)
    if name == "torch.bfloat16" or name.startswith("torch.float8"):  # which numpy doesn't know
        tensor = tensor.float()
    try:
        return np.asarray(tensor.detach().resolve_conj().resolve_neg().numpy())
    except (TypeError, RuntimeError) as error:
        raise InputError(
            f"{spec.name}: a tensor of dtype {name} cannot become an array ({error}); "
            f"{ALLOWED} is needed"
        ) from None


def as_array(item: Any, name: str) -> Array:
    """What numpy makes an array of numbers of; InputError else. `name` is what it is for."""
    try:
        array = plain_array(item, name)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name}: {type(item).__name__} cannot become an array ({error}); {TAKEN}"
        ) from None
    if array.dtype.kind not in "fiubc":
        raise InputError(f"{name}: {type(item).__name__} was given; {TAKEN}")
    return array


def _checked(array: Array, spec: Spec) -> Array:
    if spec.dtype is not None and spec.dtype.kind in "iu" and array.dtype.kind in "iu":
        converted = array.astype(spec.dtype)
        if not np.array_equal(converted, array):
            raise InputError(
                f"{spec.name}: integers from {array.min()} to {array.max()} were given; it is "
                f"{spec.dtype}, which cannot hold them"
            )
        array = converted
    if spec.dtype is not None and array.dtype != spec.dtype:
        raise InputError(
            f"{spec.name}: dtype {array.dtype} was given; it is {spec.dtype}. "
            + _converted(array, spec.dtype)
        )
    if spec.shape is None:
        return array
    if not _fits(array.shape, spec.shape):
        wanted = tuple("any" if d is None else d for d in spec.shape)
        hint = ""
        if _fits((1, *array.shape), spec.shape):
            hint = "; add the batch axis with x[None]"
        elif _fits(array.shape, spec.shape[1:]):
            hint = f"; the batch axis is missing: stack {spec.shape[0]} of them, numpy.stack(items)"
        elif len(spec.shape) > 2:
            hint = _turned(array.shape, spec.shape) or _turned_back(array.shape, spec.shape)
        hint = hint or (f". {spec.advice}" if spec.advice else "")
        raise InputError(
            f"{spec.name}: shape {_tuple(array.shape)} was given; it is {_tuple(wanted)}{hint}"
        )
    return array


def _converted(array: Array, dtype: np.dtype[Any]) -> str:
    """How to make an array of another dtype."""
    if dtype == np.uint8 and array.dtype.kind == "f" and array.size and np.abs(array).max() <= 1:
        return "Convert numbers from 0 to 1 with (255 * x).round().astype('uint8')"
    return f"Convert with x.astype('{dtype}')"


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(
        want in (None, have) for want, have in zip(wanted, shape, strict=True)
    )


def _turned(shape: Sequence[int], wanted: Sequence[int | None]) -> str:
    """What to do where the channels come last but are wanted before the places, else nothing.

    A picture of (height, width, channels) lacks the batch axis, too.
    """
    places = len(wanted) - 2
    batch = (1,) if len(shape) == places + 1 else ()
    whole = (*batch, *shape)
    if len(whole) != len(wanted) or not _fits((whole[0], whole[-1], *whole[1:-1]), wanted):
        return ""
    first = len(shape) - places - 1
    axes = ", ".join(map(str, [*range(first), len(shape) - 1, *range(first, len(shape) - 1)]))
    add = "[None]" if batch else ""
    return f"; channels first: x.transpose({axes}){add}, for a tensor x.permute({axes}){add}"


def _turned_back(shape: Sequence[int], wanted: Sequence[int | None]) -> str:
    """What to do where the channels come first but are wanted last, else nothing."""
    batch = (1,) if len(shape) == len(wanted) - 1 else ()
    whole = (*batch, *shape)
    if len(whole) != len(wanted) or not _fits((whole[0], *whole[2:], whole[1]), wanted):
        return ""
    first = len(shape) - len(wanted) + 1
    axes = ", ".join(map(str, [*range(first), *range(first + 1, len(shape)), first]))
    add = "[None]" if batch else ""
    return f"; channels last: x.transpose({axes}){add}, for a tensor x.permute({axes}){add}"


def channels_last(shape: Sequence[int], channels: int | None) -> str:
    """What to do where a picture has the channels that are wanted at its end, else nothing."""
    if channels is None or len(shape) not in (3, 4) or shape[-3] == channels:
        return ""
    return _turned(shape, (None, channels, None, None))


def _tuple(shape: Sequence[Any]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def labels_advice(items: Sequence[Any]) -> str:
    """What to do with the images and labels of a data set or DataLoader; "" for other items."""
    if len(items) != 2:
        return ""
    images, labels = items
    one = isinstance(labels, int | np.integer) and not isinstance(labels, bool)
    shape = tuple(getattr(labels, "shape", ()))
    whole = "int" in str(getattr(labels, "dtype", ""))
    batch = tuple(getattr(images, "shape", ()))[:1]
    if one or (whole and not shape):
        return f"Of an image with its label, give the image alone: x[0]{_batch_axis(images)}"
    if whole and shape == batch and len(shape) == 1:
        return "Of images with labels, as a data set gives them, give the images alone: x[0]"
    return ""


def _batch_axis(image: Any) -> str:
    """What gives one example an axis of examples; a picture of Pillow's needs none."""
    return "[None]" if 0 < len(getattr(image, "shape", ())) < 4 else ""


def _read(item: Any, name: str) -> Any:
    """An item, with the pictures in the place of their paths; InputError for what gives batches."""
    if isinstance(item, list):
        return [_read(one, name) for one in item]
    if isinstance(item, str | os.PathLike):
        checked_path(name, os.fspath(item))
        return read_picture(item, name, TAKEN)
    if hasattr(item, "dataset") and hasattr(item, "__iter__") and not hasattr(item, "shape"):
        raise InputError(
            f"{name}: {type(item).__name__} gives batches: give the images of its first, "
            "next(iter(loader))[0]"
        )
    if _is_data_set(item):
        raise InputError(
            f"{name}: {type(item).__name__} is a data set: give one of its images, "
            f"dataset{_first_image(item)}"
        )
    return item


def _is_data_set(item: Any) -> bool:
    """Whether it gives items by number and is neither a sequence of numbers nor an array."""
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


def _first_image(data: Any) -> str:
    """What picks the first image of a data set: "[0][0][None]" of tensors with labels."""
    try:
        item = data[0]
    except Exception:  # an IterableDataset, or a file that is missing
        return "[0][0]"
    picked, parts = "[0]", {}
    if isinstance(item, Mapping):
        parts = {f"[{key!r}]": one for key, one in item.items()}
    elif isinstance(item, tuple | list):
        parts = {f"[{at}]": one for at, one in enumerate(item)}
    for key, one in parts.items():
        if _is_image(one) or len(getattr(one, "shape", ())):
            return f"{picked}{key}{_batch_axis(one)}"
    return f"{picked}{_batch_axis(item)}"


def checked_path(what: str, path: str) -> None:
    """InputError for a text that is an address: nothing is fetched."""
    if URL.match(path):
        raise InputError(
            f"{what}: {path[:60]!r} is an address, and nothing is fetched from one: download it, "
            "and give the file's path"
        )
