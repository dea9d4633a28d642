"""Models that take preprocessed pictures, and the usual mean and deviation per channel."""

from __future__ import annotations

import onnx
import torch
from torch import nn

from onnx_models import model_of, node, randn

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class SmallResNet(nn.Module):
    """A small ResNet: a skip, a stride, a classification head."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU())
        self.conv = nn.Conv2d(6, 6, 3, 1, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = torch.relu(self.conv(x) + x)
        return self.fc(self.pool(x).flatten(1))


def small_resnet(channels: int = 3) -> nn.Module:
    torch.manual_seed(5)
    return SmallResNet(channels).eval()


def tensorflow_model() -> onnx.ModelProto:
    """A model like those of tf2onnx: its input (n, h, w, channels) is transposed at once."""
    return model_of(
        [
            node("Transpose", ["image"], ["turned"], perm=[0, 3, 1, 2]),
            node("Conv", ["turned", "w"], ["c"], kernel_shape=[3, 3]),
            node("Relu", ["c"], ["y"]),
        ],
        {"image": (1, 9, 12, 3)},
        ["y"],
        constants={"w": randn(4, 3, 3, 3)},
    )
