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


def to_preprocess(argument: Any) -> Preprocess:
    """Convert the user's `preprocess` argument to a Preprocess.

    Raises:
        InputError: If the argument or a part of it is not supported; the error names the part.
    """
    if isinstance(argument, Preprocess):
        return argument
    if isinstance(argument, Mapping) or hasattr(argument, "input_size"):
        return _from_timm(argument)
    if hasattr(argument, "resize_size") and hasattr(argument, "mean"):
        return _from_preset(argument)
    called = type(argument).__name__
    if called == "partial" or isinstance(argument, type):
        raise InputError(
            "preprocess: this function returns a transform; call it, as in weights.transforms()"
        )
    parts = list(_flatten_transforms(argument))
    if not parts or not all(_is_transform(part) for part in parts):
        raise InputError(f"preprocess: {called} is not supported: {PREPROCESS_HINT}")
    return _from_transforms(parts)


def _is_transform(candidate: Any) -> bool:
    """Whether an object is a transform; a model is callable too, but isn't one."""
    named = any(c.__module__.startswith(("torchvision.", "timm.")) for c in type(candidate).__mro__)
    return callable(candidate) and (named or not hasattr(candidate, "state_dict"))


def _flatten_transforms(nested: Any) -> Iterable[Any]:
    """Iterate over the single transforms of nested ones."""
    if hasattr(nested, "transforms"):
        nested = nested.transforms
    elif type(nested).__name__ == "Sequential":
        nested = list(nested)
    if not isinstance(nested, list | tuple):
        yield nested
        return
    for one in nested:
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

    def add(self, transform: Any) -> None:
        """Read the next transform."""
        name = type(transform).__name__
        late = self.mean is not None
        if name == "Resize" and not late and self.size is None:
            _warn_filter(transform)
            if getattr(transform, "max_size", None) is not None:
                raise InputError(
                    "preprocess: Resize(max_size=…) gives each picture a different size, but the "
                    "model's input size is fixed: give Resize((height, width))"
                )
            self.resize = _parse_size(transform.size)
        elif name == "CenterCrop" and not late and self.size is None:
            side = _parse_size(transform.size)
            self.size = (side, side) if isinstance(side, int) else side
        elif name in BYTE_TRANSFORMS:
            self.range = (0.0, 255.0)
        elif name == "ConvertImageDtype" or (name == "ToDtype" and _is_scaling(transform)):
            self.range = (0.0, 1.0)
        elif name == "Grayscale" and not late:
            self.channels = "grey"
        elif name == "Normalize" and not late:
            self.mean, self.std = _float_tuple(transform.mean), _float_tuple(transform.std)
        elif name not in (*NO_OP_TRANSFORMS, "ToDtype"):
            raise _unsupported_error(transform, late)


def _from_transforms(transforms: list[Any]) -> Preprocess:
    read = _TransformReader()
    for part in transforms:
        read.add(part)
    fit: Fit = "crop"
    resize, size = read.resize, read.size
    if isinstance(resize, tuple):
        fit = "stretch"
        size, resize = (resize, None) if size is None else (size, resize)
    elif size is None and resize is not None:
        _warn_center_crop(f"Resize({resize})", resize)
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


def _unsupported_error(transform: Any, is_after_normalize: bool) -> InputError:
    name = type(transform).__name__
    if name.startswith("Random") or name in ("ColorJitter", "AutoAugment", "RandAugment"):
        why = "is a random training transform; give the evaluation transforms"
    elif is_after_normalize and name in ("Resize", "CenterCrop", "Grayscale", "Normalize"):
        why = (
            "after Normalize is not supported; put it before Normalize, or give a "
            "nbglcnn.Preprocess"
        )
    elif name in ("Resize", "CenterCrop"):
        why = "after CenterCrop is not supported; give a nbglcnn.Preprocess"
    else:
        why = f"is not supported: {PREPROCESS_HINT}"
    return InputError(f"preprocess: {name} {why}")


def _from_preset(preset: Any) -> Preprocess:
    """Convert torchvision's ImageClassification, or SemanticSegmentation, which doesn't crop."""
    _warn_filter(preset)
    resize = _parse_size(preset.resize_size) if preset.resize_size is not None else None
    mean, std = _float_tuple(preset.mean), _float_tuple(preset.std)
    if getattr(preset, "crop_size", None) is not None:
        side = _parse_size(preset.crop_size)
        size = (side, side) if isinstance(side, int) else side
        return Preprocess(size, resize=resize, mean=mean, std=std)
    if resize is None:
        return Preprocess(mean=mean, std=std)
    if isinstance(resize, tuple):
        return Preprocess(resize, fit="stretch", mean=mean, std=std)
    _warn_center_crop(f"{type(preset).__name__}(resize_size={resize})", resize)
    return Preprocess(resize, mean=mean, std=std)


def _from_timm(config: Any) -> Preprocess:
    def of(name: str) -> Any:
        found = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        return found

    size = of("input_size")
    if size is None:
        some = ", ".join(map(repr, list(config)[:6]))
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
    _warn_filter(config)
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


def _parse_size(value: Any) -> int | tuple[int, int]:
    """Parse a size: one number or [one] is the shorter side, two are (height, width)."""
    if isinstance(value, int):
        return value
    sides = tuple(int(side) for side in value)
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def _float_tuple(value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(float, value if hasattr(value, "__iter__") else (value,)))


def _is_scaling(transform: Any) -> bool:
    """Whether torchvision v2's ToDtype scales 255 to 1."""
    return bool(getattr(transform, "scale", False))


def _warn_filter(transform: Any) -> None:
    found = (
        transform.get("interpolation")
        if isinstance(transform, Mapping)
        else getattr(transform, "interpolation", None)
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


def _warn_center_crop(error_subject: str, input_side: int) -> None:
    warnings.warn(
        f"preprocess: {error_subject} keeps each picture's aspect ratio; the model's input is "
        f"{input_side}×{input_side}, so pictures are center-cropped. Preprocess(size=(height, "
        "width)) sets another size",
        UserWarning,
        stacklevel=user_stacklevel(),
    )
