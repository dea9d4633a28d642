"""ESRGAN-slim, a network that doubles a picture's size, with the weights its makers trained."""

import io
import json

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from pretrained import UPSCALER, read

# The names that the file of weights has for the layers.
NAMES = {
    "first": "F_m1",
    "start": "F_0",
    "dense1.grow": "F_1_1",
    "dense1.fuse": "LFF_1",
    "dense2.grow": "F_2_1",
    "dense2.fuse": "LFF_2",
    "fuse.0": "GFF_1",
    "fuse.1": "GFF_2",
    "enlarge.0": "UPN1",
    "enlarge.2": "UPN2",
    "enlarge.4": "UPN3",
    "last": "SR",
}


class ResidualDense(nn.Module):
    """Adds to its input what a convolution sees in it and in 4 new channels."""

    def __init__(self) -> None:
        super().__init__()
        self.grow = nn.Conv2d(64, 4, 3, padding=1)
        self.relu = nn.ReLU()
        self.fuse = nn.Conv2d(68, 64, 1)

    def forward(self, x: Tensor) -> Tensor:
        """64 channels in, 64 out."""
        return x + self.fuse(torch.cat([x, self.relu(self.grow(x))], dim=1))


class Upscaler(nn.Module):
    """Draws N×3×H×W pictures (0 to 1) at twice their width and height."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, padding=1)
        self.start = nn.Conv2d(64, 64, 3, padding=1)
        self.dense1 = ResidualDense()
        self.dense2 = ResidualDense()
        self.fuse = nn.Sequential(nn.Conv2d(128, 64, 1), nn.Conv2d(64, 64, 3, padding=1))
        self.enlarge = nn.Sequential(
            nn.Conv2d(64, 64, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 12, 3, padding=1),
            nn.Upsample(scale_factor=2),
        )
        self.last = nn.Conv2d(12, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Small details first, then the size."""
        first = self.first(x)
        one = self.dense1(self.start(first))
        two = self.dense2(one)
        return self.last(self.enlarge(first + self.fuse(torch.cat([one, two], dim=1))))


def load_upscaler() -> Upscaler:
    """The trained network, ready to look at; the first call downloads 1 MB from npm."""
    [manifest] = json.loads(read(UPSCALER, "package/models/model.json"))["weightsManifest"]
    [file] = manifest["paths"]
    numbers = np.frombuffer(read(UPSCALER, f"package/models/{file}"), "<f4")
    arrays = {}
    at = 0
    for weight in manifest["weights"]:
        size = int(np.prod(weight["shape"]))
        arrays[weight["name"]] = numbers[at : at + size].reshape(weight["shape"])
        at += size
    state = {}
    for name, theirs in NAMES.items():
        # TensorFlow keeps a kernel as height, width, inputs, outputs.
        kernel = arrays[f"{theirs}/kernel"].transpose(3, 2, 0, 1)
        state[f"{name}.weight"] = torch.from_numpy(kernel.copy())
        # They count pixels from 0 to 255. No layer here does more than add, multiply or cut at 0,
        # so with smaller biases the same network takes and gives 0 to 1.
        state[f"{name}.bias"] = torch.from_numpy(arrays[f"{theirs}/bias"] / np.float32(255))
    model = Upscaler()
    model.load_state_dict(state)
    return model.eval()


def load_flower() -> np.ndarray:
    """The picture of a flower that comes with the weights (1×3×128×128, 0 to 1)."""
    return _picture("package/assets/fixture.png")


def load_published_result() -> np.ndarray:
    """What the makers' own program makes of it (1×3×256×256, 0 to 1)."""
    return _picture("package/assets/samples/2x/result.png")


def _picture(member: str) -> np.ndarray:
    with Image.open(io.BytesIO(read(UPSCALER, member))) as picture:
        pixels = np.asarray(picture.convert("RGB"), np.float32) / 255
    return pixels.transpose(2, 0, 1)[None]
