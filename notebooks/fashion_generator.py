"""A small generator that draws garments it makes up from 16 numbers, with its trained weights."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

WEIGHTS = Path(__file__).with_name("fashion_generator.npz")
LATENT = 16


class FashionGenerator(nn.Module):
    """Draws a 28×28 grey image from a latent vector of 16 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Sequential(
            nn.Unflatten(1, (LATENT, 1, 1)),
            nn.ConvTranspose2d(LATENT, 64, 7),
            nn.BatchNorm2d(64),
            nn.ReLU(),
        )
        self.middle = nn.Sequential(
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.fine = nn.Sequential(
            nn.ConvTranspose2d(32, 32, 4, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.draw = nn.Sequential(nn.Conv2d(32, 1, 3, padding=1), nn.Sigmoid())

    def forward(self, z: Tensor) -> Tensor:
        """Images (N×1×28×28, 0 to 1) of latent vectors (N×16, normally distributed)."""
        return self.draw(self.fine(self.middle(self.start(z))))


def load() -> FashionGenerator:
    """The trained generator, ready to look at (in eval mode)."""
    model = FashionGenerator()
    with np.load(WEIGHTS, allow_pickle=False) as weights:  # stored in 16 bits
        model.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    return model.eval()


def latents(count: int, seed: int = 0) -> np.ndarray:
    """Random latent vectors (count×16), the same for the same seed."""
    return np.random.default_rng(seed).standard_normal((count, LATENT), dtype=np.float32)
