"""Networks trained by PyTorch, on local OpenGL and in the page."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import ConvNeXtBlock, MobileNetV2, ResNet18, UNet, autoencoder


class MnistNet(nn.Module):
    """ConvNetJS's MNIST demo network: two convolutions with pools, and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 5, padding=2), nn.Conv2d(8, 16, 5, padding=2)
        self.fc = nn.Linear(16 * 7 * 7, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))  # type: ignore[no-any-return]


class SmallViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.position = nn.Parameter(torch.randn(1, 17, 32) * 0.02)
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.Sequential(layer, layer)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.blocks(x)[:, 0])  # type: ignore[no-any-return]


def convnext() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, 4), ConvNeXtBlock(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 10),
    )  # fmt: skip


@dataclass
class TrainingCase:
    """A network with eight examples, for batches of four."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    learning_rate: float  # low enough that twenty steps don't diverge chaotically

    def build(self) -> tuple[nn.Module, Tensor, Tensor, str]:
        """Build the model, inputs and targets, and return them with the loss's name."""
        torch.manual_seed(0)
        model = self.make()
        x = torch.rand(8, *self.shape)
        with torch.no_grad():
            y = model.eval()(x)
        if y.ndim == 2:
            return model, x, torch.randint(0, y.shape[1], (8,)), "cross_entropy"
        return model, x, x if y.shape == x.shape else torch.rand_like(y), "mse"


TORCH_LOSSES = {"mse": F.mse_loss, "cross_entropy": F.cross_entropy}
TRAINING_CASES = {
    "autoencoder": TrainingCase(autoencoder, (1, 28, 28), 0.1),
    "mnist": TrainingCase(MnistNet, (1, 28, 28), 0.02),
    "unet": TrainingCase(UNet, (3, 64, 64), 0.02),
    "convnext": TrainingCase(convnext, (3, 64, 64), 0.02),
    "vit": TrainingCase(SmallViT, (3, 64, 64), 0.02),
    "resnet18": TrainingCase(ResNet18, (3, 64, 64), 1e-4),
    "mobilenet_v2": TrainingCase(MobileNetV2, (3, 64, 64), 1e-4),
}
