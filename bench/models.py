"""The benchmark's networks: whole ones and single layers, all with random weights."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "notebooks")]

from fashion_autoencoder import load_autoencoder  # noqa: E402
from gallery_networks import DenseNet121, VisionTransformer  # noqa: E402
from zoo import ConvNeXtBlock, MobileNetV2, Pix2Pix, ResNet18  # noqa: E402

Shape = tuple[int, ...]


@dataclass(frozen=True)
class BenchModel:
    """A network to time, and its input shape.

    `is_slow` networks run only in `make bench-full`; for `is_drawing_timed` networks, drawing is
    timed too. Networks with a goal of their own (`has_goal`, see targets.py) are timed in several
    runs, the others in one.
    """

    make: Callable[[], nn.Module]
    shape: Shape
    is_slow: bool = False
    is_drawing_timed: bool = False
    has_goal: bool = False

    def build(self) -> nn.Module:
        """Build the network in eval mode, with non-trivial statistics as after training."""
        torch.manual_seed(7)
        model = self.make().eval()
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d) and part.num_batches_tracked == 0:
                part.running_mean.normal_(0, 0.2)
                part.running_var.uniform_(0.5, 2)
        return model


def all_convolutional_autoencoder() -> nn.Module:
    """Josh Murr's autoencoder: 4×4 kernels of stride 2 and nothing else."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(),
        nn.Conv2d(64, 256, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(256, 64, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of maps."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps in and out."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext_tiny() -> nn.Module:
    """ConvNeXt-T (Liu et al. 2022), 29 million parameters."""
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96)]
    widths = (96, 192, 384, 768)
    for k, (width, depth) in enumerate(zip(widths, (3, 3, 9, 3), strict=True)):
        if k:
            layers += [ChannelNorm(width // 2), nn.Conv2d(width // 2, width, 2, 2)]
        layers += [ConvNeXtBlock(width) for _ in range(depth)]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768), nn.Linear(768, 1000))
    return nn.Sequential(*layers, *head)


def vit_small() -> nn.Module:
    """ViT-S/16 (Beyer et al. 2022: tokens are averaged), 22 million parameters."""
    return VisionTransformer(384, 6, 12, patch=16, tokens=196, ratio=4, classes=1000)


def vgg16() -> nn.Module:
    """VGG-16 (Simonyan and Zisserman 2015), 138 million parameters."""
    layers: list[nn.Module] = []
    channels = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    dense = (nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU())
    return nn.Sequential(*layers, nn.Flatten(), *dense, nn.Linear(4096, 1000))


def convolution_factory(*sizes: int, **arguments: int) -> Callable[[], nn.Module]:
    """A single layer with its most common activation."""
    return lambda: nn.Sequential(nn.Conv2d(*sizes, **arguments), nn.ReLU())


MODELS = {
    "fashion autoencoder": BenchModel(
        load_autoencoder, (1, 1, 28, 28), is_drawing_timed=True, has_goal=True
    ),
    "all-conv autoencoder 32×32": BenchModel(
        all_convolutional_autoencoder, (1, 3, 32, 32), has_goal=True
    ),
    "pix2pix16 64×64": BenchModel(lambda: Pix2Pix(16, 6), (1, 3, 64, 64)),
    "pix2pix16 128×128": BenchModel(lambda: Pix2Pix(16, 7), (1, 3, 128, 128)),
    "pix2pix16": BenchModel(lambda: Pix2Pix(16, 8), (1, 3, 256, 256), has_goal=True),
    "pix2pix32": BenchModel(lambda: Pix2Pix(32, 8), (1, 3, 256, 256), is_slow=True),
    "pix2pix64": BenchModel(lambda: Pix2Pix(64, 8), (1, 3, 256, 256), is_slow=True),
    "resnet18": BenchModel(ResNet18, (1, 3, 224, 224), is_drawing_timed=True, has_goal=True),
    "mobilenet_v2": BenchModel(MobileNetV2, (1, 3, 224, 224), has_goal=True),
    "convnext_tiny": BenchModel(convnext_tiny, (1, 3, 224, 224), has_goal=True),
    "ViT-S/16": BenchModel(vit_small, (1, 3, 224, 224), has_goal=True),
    "densenet121": BenchModel(lambda: DenseNet121(32, 1000), (1, 3, 224, 224)),
    "vgg16": BenchModel(vgg16, (1, 3, 224, 224), is_slow=True),
    "conv 3×3 64→64 @56": BenchModel(
        convolution_factory(64, 64, 3, 1, 1), (1, 64, 56, 56), has_goal=True
    ),
    "conv 3×3 512→512 @7": BenchModel(
        convolution_factory(512, 512, 3, 1, 1), (1, 512, 7, 7), has_goal=True
    ),
    "conv 1×1 64→256 @56": BenchModel(convolution_factory(64, 256, 1), (1, 64, 56, 56)),
    "conv 1×1 384→1536 @14": BenchModel(
        convolution_factory(384, 1536, 1), (1, 384, 14, 14), has_goal=True
    ),
    "linear 384→1536, 196 rows": BenchModel(
        lambda: nn.Sequential(nn.Linear(384, 1536), nn.ReLU()), (1, 196, 384), has_goal=True
    ),
    "depthwise 3×3 144 @56": BenchModel(
        convolution_factory(144, 144, 3, 1, 1, groups=144), (1, 144, 56, 56)
    ),
    "conv 7×7 s2 3→64 @224": BenchModel(convolution_factory(3, 64, 7, 2, 3), (1, 3, 224, 224)),
    "conv 4×4 s2 64→128 @64": BenchModel(convolution_factory(64, 128, 4, 2, 1), (1, 64, 64, 64)),
    "convT 4×4 s2 128→64 @32": BenchModel(
        lambda: nn.Sequential(nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ReLU()), (1, 128, 32, 32)
    ),
    "gemm 4096→1000": BenchModel(lambda: nn.Sequential(nn.Linear(4096, 1000)), (1, 4096)),
}
