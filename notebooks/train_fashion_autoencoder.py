"""Trains the tour's autoencoder: the same seed gives the same weights on the same machine."""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import mse_loss
from tqdm import tqdm

from fashion_autoencoder import IMAGES, WEIGHTS, FashionAutoencoder
from nbglcnn.datasets import fashion_mnist

THREADS = 2  # Part of the recipe: sums are split by thread, so another number rounds differently.


def images(split: str) -> tuple[torch.Tensor, np.ndarray]:
    """Images of a split as N×1×28×28 with values from 0 to 1, and their labels."""
    pixels, labels = fashion_mnist(split)
    return torch.from_numpy(pixels[:, None].astype(np.float32) / 255), labels


def train(x: torch.Tensor, epochs: int, seed: int) -> FashionAutoencoder:
    """A model trained on `x`, in eval mode."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(THREADS)
    model = FashionAutoencoder()
    batches = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x), batch_size=128, shuffle=True, drop_last=True
    )
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=4e-3, total_steps=epochs * len(batches)
    )
    with tqdm(total=epochs * len(batches), unit="batch", smoothing=0.05) as progress:
        for epoch in range(epochs):
            for (batch,) in batches:
                loss = mse_loss(model(batch), batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                progress.update()
                progress.set_postfix(epoch=epoch + 1, mse=f"{loss.item():.5f}", refresh=False)
    return model.eval()


def held_out_error(model: FashionAutoencoder, x: torch.Tensor) -> float:
    """Mean squared error over images the model was not trained on."""
    with torch.no_grad():
        return sum(mse_loss(model(part), part).item() * len(part) for part in x.split(500)) / len(x)


def main() -> None:
    """Train, say how good it is, save the weights (and the tour's images beside them)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="the .npz file to write")
    arguments = parser.parse_args()

    x, _ = images("train")
    x_test, y_test = images("test")
    model = train(x, arguments.epochs, arguments.seed)
    error = held_out_error(model, x_test)
    print(f"mean squared error on {len(x_test):,} held-out images: {error:.5f}")

    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    np.savez_compressed(arguments.out, **weights)
    pixels = np.round(x_test[:32, 0].numpy() * 255).astype(np.uint8)
    np.savez_compressed(
        arguments.out.with_name(IMAGES.name), images=pixels, labels=y_test[: len(pixels)]
    )
    print(f"saved {arguments.out} ({arguments.out.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
