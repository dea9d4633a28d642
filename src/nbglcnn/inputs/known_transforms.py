"""Conversion of torchvision transforms and timm configs to a Preprocess, without their packages."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from nbglcnn.errors import InputError, user_stacklevel
from nbglcnn.inputs.preprocess import Channels, Fit, Preprocess

PREPROCESS_HINT = (
    "give a nbglcnn.Preprocess; torchvision transforms (weights.transforms(), or a Compose of "
    "Resize, CenterCrop, ToTensor, PILToTensor, ToImage, ConvertImageDtype, ToDtype, Grayscale, "
    "Normalize); or a config of timm (model.pretrained_cfg)"
)
# Transforms that convert a picture to a tensor, or change nothing.
NO_OP_TRANSFORMS = ("Identity", "RGB", "ToPureTensor", "MaybeToTensor", "ToTensor")
BYTE_TRANSFORMS = ("PILToTensor", "ToImage", "MaybePILToTensor")
TIMM_CROP_MODES: Mapping[str, Fit] = {"center": "crop", "squash": "stretch", "border": "letterbox"}
# Pillow's filter numbers, which older transforms use.
PILLOW_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


def to_preprocess(given: Any) -> Preprocess:
    """Convert the user's `preprocess` argument to a Preprocess.

    Raises:
        InputError: If the argument or a part of it is not supported; the error names the part.
    """
    if isinstance(given, Preprocess):
        return given
    if isinstance(given, Mapping) or hasattr(given, "input_size"):
        return _from_timm(given)
    if hasattr(given, "resize_size") and hasattr(given, "mean"):
        return _from_preset(given)
    called = type(given).__name__
    if called == "partial" or isinstance(given, type):
        raise InputError(
            "preprocess: this function returns a transform; call it, as in weights.transforms()"
        )
    parts = list(_flatten_transforms(given))
    if not parts or not all(_is_transform(part) for part in parts):
        raise InputError(f"preprocess: {called} is not supported: {PREPROCESS_HINT}")
    return _from_transforms(parts)


def _is_transform(part: Any) -> bool:
    """Whether an object is a transform; a model is callable too, but isn't one."""
    named = any(c.__module__.startswith(("torchvision.", "timm.")) for c in type(part).__mro__)
    return callable(part) and (named or not hasattr(part, "state_dict"))


def _flatten_transforms(given: Any) -> Iterable[Any]:
    """Iterate over the single transforms of nested ones."""
    if hasattr(given, "transforms"):
        given = given.transforms
    elif type(given).__name__ == "Sequential":
        given = list(given)
    if not isinstance(given, list | tuple):
        yield given
        return
    for one in given:
        yield from _flatten_transforms(one)


class _TransformReader:
    """Collects Preprocess settings from a list of transforms."""

    def __init__(self) -> None:
        self.resize: int | tuple[int, int] | None = None
        self.size: tuple[int, int] | None = None
        self.range = (0.0, 1.0)
        self.mean: tuple[float, ...] | None = None
        self.std: tuple[float, ...] | None = None
        self.channels: Channels = "RGB"

    def add(self, part: Any) -> None:
        """Read the next transform."""
        name = type(part).__name__
        late = self.mean is not None
        if name == "Resize" and not late and self.size is None:
            _warn_filter(part)
            if getattr(part, "max_size", None) is not None:
                raise InputError(
                    "preprocess: Resize(max_size=…) gives each picture a different size, but the "
                    "model's input size is fixed: give Resize((height, width))"
                )
            self.resize = _parse_size(part.size)
        elif name == "CenterCrop" and not late and self.size is None:
            side = _parse_size(part.size)
            self.size = (side, side) if isinstance(side, int) else side
        elif name in BYTE_TRANSFORMS:
            self.range = (0.0, 255.0)
        elif name == "ConvertImageDtype" or (name == "ToDtype" and _is_scaling(part)):
            self.range = (0.0, 1.0)
        elif name == "Grayscale" and not late:
            self.channels = "grey"
        elif name == "Normalize" and not late:
            self.mean, self.std = _float_tuple(part.mean), _float_tuple(part.std)
        elif name not in (*NO_OP_TRANSFORMS, "ToDtype"):
            raise _unsupported_error(part, late)


def _from_transforms(parts: list[Any]) -> Preprocess:
    read = _TransformReader()
    for part in parts:
        read.add(part)
    fit: Fit = "crop"
    resize, size = read.resize, read.size
    if isinstance(resize, tuple):
        fit = "stretch"
        size, resize = (resize, None) if size is None else (size, resize)
    elif size is None and resize is not None:
        _warn_proportions(f"Resize({resize})", resize)
        size, resize = (resize, resize), None
    return Preprocess(
        size,
        resize=resize,
        fit=fit,
        mean=read.mean,
        std=read.std,
        range=read.range,
        channels=read.channels,
    )


def _unsupported_error(part: Any, late: bool) -> InputError:
    name = type(part).__name__
    if name.startswith("Random") or name in ("ColorJitter", "AutoAugment", "RandAugment"):
        why = "is a random training transform; give the evaluation transforms"
    elif late and name in ("Resize", "CenterCrop", "Grayscale", "Normalize"):
        why = (
            "after Normalize is not supported; put it before Normalize, or give a "
            "nbglcnn.Preprocess"
        )
    elif name in ("Resize", "CenterCrop"):
        why = "after CenterCrop is not supported; give a nbglcnn.Preprocess"
    else:
        why = f"is not supported: {PREPROCESS_HINT}"
    return InputError(f"preprocess: {name} {why}")


def _from_preset(given: Any) -> Preprocess:
    """Convert torchvision's ImageClassification, or SemanticSegmentation, which doesn't crop."""
    _warn_filter(given)
    resize = _parse_size(given.resize_size) if given.resize_size is not None else None
    mean, std = _float_tuple(given.mean), _float_tuple(given.std)
    if getattr(given, "crop_size", None) is not None:
        side = _parse_size(given.crop_size)
        size = (side, side) if isinstance(side, int) else side
        return Preprocess(size, resize=resize, mean=mean, std=std)
    if resize is None:
        return Preprocess(mean=mean, std=std)
    if isinstance(resize, tuple):
        return Preprocess(resize, fit="stretch", mean=mean, std=std)
    _warn_proportions(f"{type(given).__name__}(resize_size={resize})", resize)
    return Preprocess(resize, mean=mean, std=std)


def _from_timm(given: Any) -> Preprocess:
    def of(name: str) -> Any:
        found = given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
        return found

    size = of("input_size")
    if size is None:
        some = ", ".join(map(repr, list(given)[:6]))
        raise InputError(
            f"preprocess: a dict with {some or 'nothing'} but no input_size: {PREPROCESS_HINT}"
        )
    size = tuple(int(side) for side in size)
    if len(size) != 3:
        raise InputError(f"preprocess: input_size is {size}; expected (channels, height, width)")
    mode = of("crop_mode") or "center"
    if mode not in TIMM_CROP_MODES:
        raise InputError(
            f"preprocess: crop_mode is {mode!r}; {', '.join(TIMM_CROP_MODES)} are supported"
        )
    _warn_filter(given)
    height, width = size[1:]
    share = float(of("crop_pct") or 1.0)
    resize: int | tuple[int, int] | None = None
    if share != 1 and TIMM_CROP_MODES[mode] != "letterbox":
        # Rounded as in timm.data.create_transform.
        sides = tuple(math.floor(side / share) for side in (height, width))
        resize = sides[0] if height == width and mode == "center" else (sides[0], sides[1])
    return Preprocess(
        (height, width),
        resize=resize,
        fit=TIMM_CROP_MODES[mode],
        mean=_float_tuple(of("mean")),
        std=_float_tuple(of("std")),
    )


def _parse_size(given: Any) -> int | tuple[int, int]:
    """Parse a size: one number or [one] is the shorter side, two are (height, width)."""
    if isinstance(given, int):
        return given
    sides = tuple(int(side) for side in given)
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def _float_tuple(given: Any) -> tuple[float, ...] | None:
    if given is None:
        return None
    given = given.tolist() if hasattr(given, "tolist") else given
    return tuple(map(float, given if hasattr(given, "__iter__") else (given,)))


def _is_scaling(part: Any) -> bool:
    """Whether torchvision v2's ToDtype scales 255 to 1."""
    return bool(getattr(part, "scale", False))


def _warn_filter(part: Any) -> None:
    found = (
        part.get("interpolation")
        if isinstance(part, Mapping)
        else getattr(part, "interpolation", None)
    )
    found = getattr(found, "value", found)
    name = (
        PILLOW_FILTERS.get(found, str(found))
        if isinstance(found, int)
        else str(found or "bilinear")
    )
    if name not in ("bilinear", ""):
        warnings.warn(
            f"preprocess: pictures are resampled bilinearly (antialiased), not by {name} "
            "interpolation: values may differ slightly from the transform's",
            UserWarning,
            stacklevel=user_stacklevel(),
        )


def _warn_proportions(what: str, side: int) -> None:
    warnings.warn(
        f"preprocess: {what} keeps each picture's aspect ratio; the model's input is "
        f"{side}×{side}, so pictures are center-cropped. Preprocess(size=(height, width)) sets "
        "another size",
        UserWarning,
        stacklevel=user_stacklevel(),
    )
