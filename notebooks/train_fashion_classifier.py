"""Trains the classifier of the notebook on inputs: the same seed gives the same weights."""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import nll_loss
from tqdm import tqdm

from fashion_classifier import PICTURES, WEIGHTS, FashionClassifier
from train_fashion_autoencoder import THREADS, images

SHOWN = 1000


def train(x: torch.Tensor, labels: np.ndarray, epochs: int, seed: int) -> FashionClassifier:
    """A model trained on pictures and the numbers of their classes, in eval mode."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(THREADS)
    model = FashionClassifier()
    batches = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, torch.from_numpy(labels.astype(np.int64))),
        batch_size=128,
        shuffle=True,
        drop_last=True,
    )
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=6e-3, total_steps=epochs * len(batches)
    )
    with tqdm(total=epochs * len(batches), unit="batch", smoothing=0.05) as progress:
        for _ in range(epochs):
            for batch, targets in batches:
                loss = nll_loss(model(batch).clamp_min(1e-9).log(), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                progress.update()
    return model.eval()


def accuracy(model: FashionClassifier, x: torch.Tensor, labels: np.ndarray) -> float:
    """The share of pictures whose class has the largest probability."""
    with torch.no_grad():
        found = torch.cat([model(part).argmax(1) for part in x.split(500)]).numpy()
    return float(np.mean(found == labels))


def main() -> None:
    """Train, say how good it is, save the weights and the notebook's pictures beside them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="the .npz file to write")
    arguments = parser.parse_args()

    x, labels = images("train")
    x_test, labels_test = images("test")
    model = train(x, labels, arguments.epochs, arguments.seed)
    share = accuracy(model, x_test, labels_test)
    print(f"{share:.1%} of {len(x_test):,} held-out pictures are classified right")

    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    np.savez_compressed(arguments.out, **weights)
    pixels = np.round(x_test[:SHOWN, 0].numpy() * 255).astype(np.uint8)
    np.savez_compressed(
        arguments.out.with_name(PICTURES.name), pictures=pixels, labels=labels_test[:SHOWN]
    )
    print(f"saved {arguments.out} ({arguments.out.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
