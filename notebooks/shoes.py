"""Shoes of Fashion-MNIST as a camera might see them: somewhere in the picture, large or small."""

import numpy as np
from PIL import Image

from fashion_classifier import load_pictures
from nbglcnn.datasets import FASHION_MNIST_CLASSES

KINDS = ("sandal", "sneaker", "ankle boot")
PICTURES = 80  # of each kind
SIZE = 96  # pixels, of a side
SMALLEST, LARGEST = 40, 72  # a shoe's sides


def shoes(kind: str) -> np.ndarray:
    """Pictures of a kind (80×28×28, uint8) that no network here was trained on."""
    pictures, labels = load_pictures()
    return pictures[labels == FASHION_MNIST_CLASSES.index(kind)][:PICTURES]


def scenes(
    pictures: np.ndarray, seed: int, *, side: str | None = None, wall: int = 0
) -> np.ndarray:
    """Each picture once (N×96×96, uint8) at a random place and size, in front of a grey wall.

    `side` is "left" or "right" where it stands at that edge; `wall` is from 0 to 255.
    """
    random = np.random.default_rng(seed)
    made = np.full((len(pictures), SIZE, SIZE), wall, np.uint8)
    for one, picture in zip(made, pictures, strict=True):
        size = int(random.integers(SMALLEST, LARGEST + 1))
        y, x = random.integers(0, SIZE - size + 1, 2)
        if side is not None:
            x = random.integers(0, 5) if side == "left" else SIZE - size - random.integers(0, 5)
        shoe, mask = (
            np.asarray(Image.fromarray(part).resize((size, size), Image.Resampling.BILINEAR))
            for part in (picture, np.where(picture > 0, np.uint8(255), np.uint8(0)))
        )
        share = mask / 255
        one[y : y + size, x : x + size] = (share * shoe + (1 - share) * wall).round()
    return made
