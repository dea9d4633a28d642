"""Pretrained networks and real pictures for them; `make test` fetches their files."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.backend.test
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn

from efficientnet import PREPROCESS, efficientnet_lite0
from pretrained import MTCNN, OCR, read
from upscale import load_flower, load_upscaler
from zoo import PNet

LIGHT_MODELS_FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"
SAMPLE_TEXT = "Feature maps 2026"


class RNet(nn.Module):
    """MTCNN's second network, with the parameter names of its weights file."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.pool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.pool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.softmax5_1 = nn.Linear(128, 2), nn.Softmax(dim=1)
        self.dense5_2 = nn.Linear(128, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Box corrections, and face probabilities."""
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.prelu3(self.conv3(x)).permute(0, 3, 2, 1).contiguous()
        x = self.prelu4(self.dense4(x.view(x.shape[0], -1)))
        return self.dense5_2(x), self.softmax5_1(self.dense5_1(x))


class ONet(nn.Module):
    """MTCNN's third network, which also finds eyes, nose and mouth."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.pool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.pool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.pool3 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.softmax6_1 = nn.Linear(256, 2), nn.Softmax(dim=1)
        self.dense6_2, self.dense6_3 = nn.Linear(256, 4), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Box corrections, facial landmarks, and face probabilities."""
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.pool3(self.prelu3(self.conv3(x)))
        x = self.prelu4(self.conv4(x)).permute(0, 3, 2, 1).contiguous()
        x = self.prelu5(self.dense5(x.view(x.shape[0], -1)))
        return self.dense6_2(x), self.dense6_3(x), self.softmax6_1(self.dense6_1(x))


def mtcnn(name: str, make: Callable[[], nn.Module], height: int, width: int) -> Any:
    """One of the three with its weights, and the flower cropped and scaled to −1…1 as expected."""
    model = make()
    file = io.BytesIO(read(MTCNN, f"facenet_pytorch/data/{name}.pt"))
    model.load_state_dict(torch.load(file, weights_only=True))
    return model.eval(), load_flower()[:, :, 20 : 20 + height, 30 : 30 + width] * 2 - 1


def upscaler() -> Any:
    """ESRGAN-slim with a crop of the flower."""
    return load_upscaler(), np.ascontiguousarray(load_flower()[:, :, 40:77, 50:91])


def efficientnet() -> Any:
    """EfficientNet-Lite0 with a crop of the flower, normalized as it expects."""
    cut = load_flower()[:, :, 32:96, 32:96]
    return efficientnet_lite0(), (cut - PREPROCESS.mean) / PREPROCESS.std


def ocr(name: str, *pictures: np.ndarray) -> Any:
    """One of the three ONNX files of PP-OCR, and a batch of pictures for it."""
    return read(OCR, f"rapidocr_onnxruntime/models/{name}.onnx"), np.concatenate(pictures)


def text_picture(height: int, width: int, *, turned: bool = False, size: int = 32) -> np.ndarray:
    """A picture of black text on white, scaled to −1…1 as PP-OCR's networks expect."""
    picture = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size)
    draw.text((8, height // 2), SAMPLE_TEXT, fill="black", font=font, anchor="lm")
    if turned:
        picture = picture.transpose(Image.Transpose.ROTATE_180)
    pixels = np.asarray(picture, np.float32).transpose(2, 0, 1)[None]
    return np.ascontiguousarray(pixels) / 127.5 - 1


TEXT_DETECTOR_NAME = "ch_PP-OCRv4_det_infer"
TEXT_ORIENTATION_NAME = "ch_ppocr_mobile_v2.0_cls_infer"
TEXT_RECOGNISER_NAME = "ch_PP-OCRv4_rec_infer"
TRAINED_MODELS: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "text detector": lambda: ocr(TEXT_DETECTOR_NAME, text_picture(192, 384)),
    "text detector, another size": lambda: ocr(TEXT_DETECTOR_NAME, text_picture(96, 160, size=18)),
    "text direction": lambda: ocr(
        TEXT_ORIENTATION_NAME, text_picture(48, 192), text_picture(48, 192, turned=True)
    ),
    "text recogniser": lambda: ocr(TEXT_RECOGNISER_NAME, text_picture(48, 320)),
    "mtcnn p-net": lambda: mtcnn("pnet", PNet, 61, 58),
    "mtcnn r-net": lambda: mtcnn("rnet", RNet, 24, 24),
    "mtcnn o-net": lambda: mtcnn("onet", ONet, 48, 48),
    "upscaler": upscaler,
    "efficientnet-lite0": efficientnet,
}
# ONNX's own files: real architectures with all weights equal.
UNTRAINED_MODELS = sorted(
    file.stem.removeprefix("light_") for file in LIGHT_MODELS_FOLDER.glob("*.onnx")
)


def build_model(name: str) -> tuple[Any, np.ndarray | None]:
    """A model and its example input for `load`; an untrained model has no example input."""
    return (
        TRAINED_MODELS[name]()
        if name in TRAINED_MODELS
        else (LIGHT_MODELS_FOLDER / f"light_{name}.onnx", None)
    )
