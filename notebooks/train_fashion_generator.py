"""Trains the generator of notebooks/bending.ipynb; on one machine a seed gives the same weights."""

import argparse
import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import relu
from torch.nn.utils.parametrizations import spectral_norm
from tqdm import tqdm

from fashion_generator import LATENT, WEIGHTS, FashionGenerator, latents
from nbglcnn.datasets import fashion_mnist

THREADS = 1  # Part of the recipe: sums are split by thread, so another number rounds differently.
BATCH = 64
SETTLING = 4096  # latents that BatchNorm's statistics are of
STEPS = 5000  # 5.3 times through the 60,000 images: 7 minutes of one core


class Critic(nn.Module):
    """Says how real each image of a batch looks: a number, larger for more real."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            spectral_norm(nn.Conv2d(1, 32, 4, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(32, 64, 4, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(64, 128, 3, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
        )
        self.score = spectral_norm(nn.Linear(128 * 4 * 4 + 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """A score of each image; they are judged as a batch, so that all alike look unreal too."""
        found = self.features(x * 2 - 1)
        spread = found.std(dim=0).mean().expand(len(found), 1)
        return self.score(torch.cat([found, spread], 1))


def batches(x: Tensor) -> Iterator[Tensor]:
    """Batches of `x` without end, in a new random order each time through."""
    while True:
        order = torch.randperm(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            yield x[order[start : start + BATCH]]


def train(x: Tensor, steps: int, seed: int) -> FashionGenerator:
    """A generator of images like `x`, in eval mode.

    A GAN with hinge loss and spectral norm (https://arxiv.org/abs/1802.05957). What is kept is a
    running mean of the generator's weights, which draws more evenly than the last ones.
    """
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(THREADS)
    fast = torch.channels_last  # a fifth less time
    generator, critic = FashionGenerator().to(memory_format=fast), Critic().to(memory_format=fast)
    kept = copy.deepcopy(generator)
    learner = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.99))
    judge = torch.optim.Adam(critic.parameters(), lr=5e-4, betas=(0.5, 0.99))
    images = batches(x)
    progress = tqdm(range(steps), unit="step", smoothing=0.05)
    for step in progress:
        fade = max(0.1, 1 - 0.9 * step / STEPS)  # learning rates fall to a tenth
        for group in (*learner.param_groups, *judge.param_groups):
            group["lr"] = 5e-4 * fade
        drawn = generator(torch.randn(BATCH, LATENT))

        loss = relu(1 - critic(next(images))).mean() + relu(1 + critic(drawn.detach())).mean()
        judge.zero_grad()
        loss.backward()
        judge.step()

        critic.requires_grad_(False)
        learner.zero_grad()
        (-critic(drawn).mean()).backward()
        learner.step()
        critic.requires_grad_(True)

        with torch.no_grad():
            part = max(0.002, 4 / (4 + step))  # a mean over the last 500 steps or so
            for mean, now in zip(kept.parameters(), generator.parameters(), strict=True):
                mean.lerp_(now, part)
        progress.set_postfix(critic=f"{loss.item():.3f}", refresh=False)
    return settled(kept)


def settled(model: FashionGenerator) -> FashionGenerator:
    """The model with BatchNorm's statistics measured anew with its weights of now, in eval mode."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.reset_running_stats()
            layer.momentum = None  # the mean over all batches
    model.train()
    with torch.no_grad():
        for part in torch.randn(SETTLING, LATENT).split(256):
            model(part)
    return model.eval()


def sheet(model: FashionGenerator, rows: int = 8, columns: int = 16) -> Image.Image:
    """Drawings of random latent vectors in rows, to judge by eye."""
    with torch.no_grad():
        drawn = model(torch.from_numpy(latents(rows * columns))).numpy()
    tiles = np.pad(drawn[:, 0], ((0, 0), (1, 1), (1, 1)), constant_values=1)
    tall = tiles.reshape(rows, columns, 30, 30).transpose(0, 2, 1, 3).reshape(rows * 30, -1)
    return Image.fromarray(np.round(tall * 255).astype(np.uint8)).resize(
        (columns * 90, rows * 90), Image.Resampling.NEAREST
    )


def main() -> None:
    """Train, save the weights in 16 bits and, where one is asked for, a sheet of drawings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="the .npz file to write")
    parser.add_argument("--sheet", type=Path, help="a PNG of drawings to write")
    arguments = parser.parse_args()

    pixels, _ = fashion_mnist("train")
    x = torch.from_numpy(pixels[:, None].astype(np.float32) / 255)
    model = train(x, arguments.steps, arguments.seed).half().float()
    weights = {name: stored(value.numpy()) for name, value in model.state_dict().items()}
    np.savez_compressed(arguments.out, **weights)
    print(f"saved {arguments.out} ({arguments.out.stat().st_size / 1000:.0f} kB)")
    if arguments.sheet:
        sheet(model).save(arguments.sheet)
        print(f"saved {arguments.sheet}")


def stored(array: np.ndarray) -> np.ndarray:
    """An array as it is stored: numbers in 16 bits, counts as they are."""
    return array.astype(np.float16) if array.dtype.kind == "f" else array


if __name__ == "__main__":
    main()
