"""A U-Net that denoises Fashion-MNIST pictures, for a picture in the docs."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fashion_autoencoder import load_images

TRAINING_STEPS = 300


class Denoiser(nn.Module):
    """Three resolutions down and up again, with a skip at each."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        a, b, c, d = width, 2 * width, 3 * width, 4 * width
        self.down1, self.down2, self.down3 = (
            _double_conv(1, a),
            _double_conv(a, b),
            _double_conv(b, c),
        )
        self.pool = nn.MaxPool2d(2)
        self.bottleneck = _double_conv(c, d)
        self.up3, self.dec3 = nn.ConvTranspose2d(d, c, 2, 2), _double_conv(2 * c, c)
        self.up2, self.dec2 = nn.ConvTranspose2d(c, b, 2, 2), _double_conv(2 * b, b)
        self.up1, self.dec1 = nn.ConvTranspose2d(b, a, 2, 2), _double_conv(2 * a, a)
        self.head = nn.Conv2d(a, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the N×1×32×32 pictures, with values from 0 to 1, without the noise."""
        one = self.down1(x)
        two = self.down2(self.pool(one))
        three = self.down3(self.pool(two))
        y = self.bottleneck(self.pool(three))
        y = self.dec3(torch.cat([self.up3(y), three], 1))
        y = self.dec2(torch.cat([self.up2(y), two], 1))
        y = self.dec1(torch.cat([self.up1(y), one], 1))
        return torch.sigmoid(self.head(y))


def _double_conv(inputs: int, outputs: int) -> nn.Sequential:
    def one(i: int, o: int) -> list[nn.Module]:
        return [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU()]

    return nn.Sequential(*one(inputs, outputs), *one(outputs, outputs))


def train_denoiser() -> tuple[Denoiser, Tensor]:
    """Train the U-Net for half a minute; return it and four noisy pictures."""
    torch.manual_seed(0)
    pictures = functional.pad(torch.from_numpy(load_images()[0]), (2, 2, 2, 2))
    model = Denoiser().train()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(TRAINING_STEPS):
        clean = pictures[(torch.arange(16) + 16 * step) % len(pictures)]
        clean = clean.flip(3) if step % 4 > 1 else clean
        loss = functional.mse_loss(model(add_noise(clean)), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), add_noise(pictures[:4])


def add_noise(pictures: Tensor) -> Tensor:
    """Add noise; values stay from 0 to 1."""
    return (pictures + 0.25 * torch.randn_like(pictures)).clamp(0, 1)
