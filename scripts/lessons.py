"""Writes lessons to build/lessons as pages that run offline: `make lessons`."""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))

import nbglcnn  # noqa: E402
from fashion_autoencoder import load_images  # noqa: E402

LESSONS_FOLDER = ROOT / "build" / "lessons"
PICTURE_INDEX = 4  # a picture with a closed outline


class ConvolutionSizes(nn.Module):
    """One picture through convolutions without padding, with padding, strided and transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.valid = nn.Conv2d(1, 2, 3)
        self.padded = nn.Conv2d(1, 2, 3, padding=1)
        self.relu = nn.ReLU()
        self.strided = nn.Conv2d(1, 2, 3, stride=2, padding=1)
        self.uneven = nn.ConvTranspose2d(2, 1, 3, stride=2, padding=1, output_padding=1)
        self.even = nn.ConvTranspose2d(2, 1, 4, stride=2, padding=1)
        edges = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 4
        blur = torch.tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]) / 16
        with torch.no_grad():
            for layer in (self.valid, self.padded, self.strided):
                layer.weight.copy_(torch.stack([edges, blur])[:, None])
                layer.bias.zero_()
            for layer in (self.uneven, self.even):
                layer.weight.zero_()
                layer.weight[1] = 1.0 if layer is self.uneven else 0.25
                layer.bias.zero_()
            self.uneven.weight[1] /= 9 / 4

    def forward(self, picture: Tensor) -> dict[str, Tensor]:
        """The output of each variant."""
        small = self.strided(picture)
        return {
            "valid": self.relu(self.valid(picture)),
            "padded": self.relu(self.padded(picture)),
            "uneven": self.uneven(small),
            "even": self.even(small),
        }


LESSON_STEPS = [
    {
        "text": """## 1. A filter needs room

`valid` slides a filter of 3×3 numbers over the picture of 28×28. Its middle can stand on every
pixel but those of the border, where a part of the filter would hang outside:
**28 − 3 + 1 = 26**, so the maps have 26×26. The first filter finds upright edges (dark to bright
is blue, bright to dark orange), the second blurs. Each layer of this kind would take a border of
one pixel away.

*Try:* click another pixel of the map below. Which nine pixels of the picture made it?""",
        "view": {"name": "explain", "layer": "valid", "channels": [0], "pixel": [0, 9]},
    },
    {
        "text": """## 2. Padding: zeros around the picture

`padded` has the same two filters and `padding=1`: a frame of zeros lies around the picture, which
is drawn hatched. Now the filter's middle can stand on each of the 28×28 pixels, and the map is as
large as the picture: **28 + 2·1 − 3 + 1 = 28**. The price is at the border: this pixel is computed
from three made-up zeros, so that the blurred picture darkens towards its border.""",
        "view": {"name": "explain", "layer": "padded", "channels": [1], "pixel": [0, 13]},
    },
    {
        "text": """## 3. Stride: every second place

`strided` moves its filters by **two** pixels at a time (`stride=2`). It computes the very same
numbers as `padded`, but only every second one in each direction: **⌊(28 + 2·1 − 3) / 2⌋ + 1 = 14**.
A quarter of the numbers, a quarter of the work, and a layer behind it sees twice as far with a
filter of the same size.

*Try:* pixel (y, x) here is pixel (2y, 2x) of `padded`. Compare the two.""",
        "view": {"name": "explain", "layer": "strided", "channels": [1], "pixel": [6, 7]},
    },
    {
        "text": """## 4. Back up: transposed convolution, and why it makes checkerboards

`uneven` turns 14×14 into 28×28: each number of the small map is multiplied with the whole filter
and laid down, two pixels further for the next; where they overlap they are added. With a filter of
**3** and a stride of **2** they overlap unevenly: a pixel of the result is the sum of 1, 2 or 4
products, in a pattern like a checkerboard, although the filter is the same number everywhere.""",
        "view": {"name": "explain", "layer": "uneven", "pixel": [14, 15]},
    },
    {
        "text": """## 5. The cure: a filter that the stride divides

`even` has a filter of **4** and a stride of **2**. Now every pixel of the result, but for the
border, is the sum of exactly 2×2 products, and the picture comes back smooth:
**(14 − 1)·2 − 2·1 + 4 = 28**. That is why generators take `kernel_size=4, stride=2, padding=1`, or
enlarge the map first and convolve it afterwards.

*Try:* go back to step 4 and compare the two pictures. Then look at all of it in the tab
Network.""",
        "view": {"name": "explain", "layer": "even", "pixel": [14, 15]},
    },
]


def main() -> None:
    """Write all lessons."""
    LESSONS_FOLDER.mkdir(parents=True, exist_ok=True)
    picture = load_images()[0][PICTURE_INDEX : PICTURE_INDEX + 1]
    path = nbglcnn.export_html(
        ConvolutionSizes().eval(),
        np.ascontiguousarray(picture),
        LESSONS_FOLDER / "sizes.html",
        title="How large is a feature map? Stride, padding and transposed convolution",
        text="The network below runs in this page, on your own GPU. Nothing is sent or loaded.",
        steps=LESSON_STEPS,
    )
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
