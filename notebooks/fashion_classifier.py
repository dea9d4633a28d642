"""A small classifier for Fashion-MNIST, with its trained weights, and a thousand test pictures."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

WEIGHTS = Path(__file__).with_name("fashion_classifier.npz")
PICTURES = Path(__file__).with_name("fashion_pictures.npz")


class FashionClassifier(nn.Module):
    """Says which of ten garments a 28×28 grey picture shows: a score for each."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.scores = nn.Sequential(nn.Flatten(), nn.Linear(32 * 7 * 7, 10), nn.Softmax(1))

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities (N, 10) for N×1×28×28 pictures with values from 0 to 1."""
        return self.scores(self.features(x))


def load_classifier() -> FashionClassifier:
    """The trained classifier, ready to look at (in eval mode)."""
    model = FashionClassifier()
    with np.load(WEIGHTS, allow_pickle=False) as weights:
        model.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    return model.eval()


def load_pictures() -> tuple[np.ndarray, np.ndarray]:
    """1,000 test pictures (1000×28×28, uint8) that no network here was trained on; their labels."""
    with np.load(PICTURES, allow_pickle=False) as data:
        return data["pictures"], data["labels"]
