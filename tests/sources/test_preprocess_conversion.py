"""torchvision transforms and timm configs as `preprocess`, tested with stand-in classes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, Preprocess, Session
from nbglcnn.inputs.known_transforms import to_preprocess

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PICTURE = Image.fromarray(np.random.default_rng(2).integers(0, 256, (16, 16, 3), np.uint8))


class InterpolationMode(Enum):
    """Stands in for torchvision.transforms.InterpolationMode."""

    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


class Transform:
    """The base of all stand-ins: callable, with torchvision's names and attributes."""

    def __call__(self, picture: Any) -> Any:
        raise NotImplementedError


@dataclass
class Compose(Transform):
    transforms: list[Any]


@dataclass
class Resize(Transform):
    size: Any
    interpolation: Any = InterpolationMode.BILINEAR
    max_size: int | None = None
    antialias: bool = True


@dataclass
class CenterCrop(Transform):
    size: Any


class ToTensor(Transform):
    def __call__(self, picture: Any) -> torch.Tensor:
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
        return pixels.to(torch.float32).div(255)


class PILToTensor(Transform):
    pass


class ToImage(Transform):
    pass


@dataclass
class ConvertImageDtype(Transform):
    dtype: torch.dtype = torch.float32


@dataclass
class ToDtype(Transform):
    dtype: torch.dtype = torch.float32
    scale: bool = False


@dataclass
class Normalize(Transform):
    mean: Any
    std: Any
    inplace: bool = False

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        mean, std = (torch.as_tensor(one).view(-1, 1, 1) for one in (self.mean, self.std))
        return tensor.clone().sub_(mean).div_(std)


@dataclass
class Grayscale(Transform):
    num_output_channels: int = 1


@dataclass
class RandomResizedCrop(Transform):
    size: Any = 224


@dataclass
class GaussianBlur(Transform):
    sigma: float = 1.0


class ImageClassification(nn.Module):
    """Stands in for torchvision.transforms._presets.ImageClassification."""

    def __init__(self, *, crop_size: int, resize_size: int = 256,
                 interpolation: Any = InterpolationMode.BILINEAR) -> None:  # fmt: skip
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = list(MEAN), list(STD)
        self.interpolation, self.antialias = interpolation, True


class SemanticSegmentation(nn.Module):
    def __init__(self, *, resize_size: int | None) -> None:
        super().__init__()
        self.resize_size = [resize_size] if resize_size is not None else None
        self.mean, self.std = list(MEAN), list(STD)
        self.interpolation = InterpolationMode.BILINEAR


@dataclass
class PretrainedCfg:
    """Stands in for timm.models.PretrainedCfg, with the fields that are read."""

    input_size: tuple[int, int, int] = (3, 224, 224)
    interpolation: str = "bilinear"
    crop_pct: float = 0.875
    crop_mode: str = "center"
    mean: tuple[float, ...] = MEAN
    std: tuple[float, ...] = STD
    tag: dict[str, str] = field(default_factory=dict)


IMAGENET_PREPROCESS = Preprocess(224, resize=256, mean=MEAN, std=STD)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ImageClassification(crop_size=224), IMAGENET_PREPROCESS),
        (Compose([Resize(256), CenterCrop((224, 224)), ToTensor(), Normalize(MEAN, STD)]),
         IMAGENET_PREPROCESS),
        ([Resize([256]), CenterCrop(224), ToTensor(), Normalize(list(MEAN), list(STD))],
            IMAGENET_PREPROCESS),
        (
            Compose([Compose([PILToTensor(), ConvertImageDtype()]), Resize((256, 256)),
                     CenterCrop(224)]),
            Preprocess(224, resize=(256, 256), fit="stretch"),
        ),
        (Compose([ToImage(), Resize((32, 64)), ToDtype(scale=True), Normalize([0.1], [0.3])]),
         Preprocess((32, 64), fit="stretch", mean=0.1, std=0.3)),
        (Compose([Grayscale(), CenterCrop(28), ToTensor(), Normalize((0.1307,), (0.3081,))]),
         Preprocess(28, channels="grey", mean=0.1307, std=0.3081)),
        (Compose([PILToTensor(), ToDtype(), Normalize([33.0] * 3, [78.0] * 3)]),
         Preprocess(range=(0, 255), mean=(33, 33, 33), std=(78, 78, 78))),
        (ToTensor(), Preprocess()),
        (SemanticSegmentation(resize_size=None), Preprocess(mean=MEAN, std=STD)),
        (PretrainedCfg(), IMAGENET_PREPROCESS),
        (vars(PretrainedCfg(crop_pct=1.0)), Preprocess(224, mean=MEAN, std=STD)),
        (vars(PretrainedCfg(crop_mode="squash", crop_pct=0.95)),
         Preprocess(224, resize=(235, 235), fit="stretch", mean=MEAN, std=STD)),
        (vars(PretrainedCfg(crop_mode="border", crop_pct=1.0)),
         Preprocess(224, fit="letterbox", mean=MEAN, std=STD)),
    ],
)  # fmt: skip
def test_a_transform_is_the_preprocess_that_it_says(given: Any, expected: Preprocess) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert to_preprocess(given) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ImageClassification(crop_size=224, interpolation=InterpolationMode.BICUBIC), "bicubic"),
        (Compose([Resize((8, 8), interpolation=3), ToTensor()]), "bicubic"),
        (vars(PretrainedCfg(interpolation="bicubic")), "not by bicubic"),
        (Compose([Resize(32), ToTensor()]), r"Resize\(32\) keeps each picture's aspect ratio"),
        (SemanticSegmentation(resize_size=520), "520×520"),
    ],
)
def test_what_is_done_otherwise_is_a_warning(given: Any, words: str) -> None:
    with pytest.warns(UserWarning, match=words) as caught:
        to_preprocess(given)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Compose([RandomResizedCrop(), ToTensor()]), "Crop is a random training transform"),
        (Compose([GaussianBlur()]), "GaussianBlur is not supported: give a nbglcnn.Preprocess"),
        (Compose([Normalize(0.5, 0.5), Resize(8)]), "Resize after Normalize"),
        (Compose([CenterCrop(8), Resize(4)]), "Resize after CenterCrop"),
        (Compose([Resize(8, max_size=16)]), r"Resize\(max_size=…\)"),
        (Compose([Resize(16), CenterCrop(32)]), "smaller than size"),
        (nn.Conv2d(3, 3, 1), "Conv2d is not supported"),
        ("imagenet", "str is not supported"),
        ({"mean": MEAN}, "no input_size"),
        (vars(PretrainedCfg(crop_mode="random")), "crop_mode is 'random'; center"),
        (ImageClassification, "call it, as in weights.transforms"),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        to_preprocess(given)


def test_the_tensor_is_that_of_to_tensor_and_normalize() -> None:
    steps = [ToTensor(), Normalize(MEAN, STD)]
    model = nn.Conv2d(3, 2, 3).eval()
    plan = nbglcnn.compile(model, PICTURE, preprocess=Compose(steps))
    with Session(plan) as session:
        found = session.run(PICTURE)
        assert nbglcnn.verify(session, model, PICTURE, preprocess=Compose(steps)).ok
    expected = steps[1](steps[0](PICTURE))[None]
    assert np.abs(found["preprocess.normalize"] - expected.numpy()).max() <= 1e-6
    with torch.no_grad():
        assert_equal(found["output"], model(expected).numpy())
