"""A small convolutional autoencoder for Fashion-MNIST, with its trained weights and some images."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

WEIGHTS = Path(__file__).with_name("fashion_autoencoder.npz")
IMAGES = Path(__file__).with_name("fashion_test_images.npz")


class FashionAutoencoder(nn.Module):
    """Squeezes a 28×28 grey image through 16 numbers and draws it again."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 32, 4, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.Conv2d(64, 16, 7),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(16, 64, 7),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Reconstruct N×1×28×28 images with values from 0 to 1."""
        return self.decoder(self.encoder(x))


def load_autoencoder() -> FashionAutoencoder:
    """The trained autoencoder, ready to look at (in eval mode)."""
    model = FashionAutoencoder()
    with np.load(WEIGHTS, allow_pickle=False) as weights:
        model.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    return model.eval()


def load_images() -> tuple[np.ndarray, np.ndarray]:
    """32 test images it never saw in training (32×1×28×28, 0 to 1) and their labels."""
    with np.load(IMAGES, allow_pickle=False) as data:
        return data["images"][:, None].astype(np.float32) / 255, data["labels"]
