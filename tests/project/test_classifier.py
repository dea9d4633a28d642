"""The classifier of the notebook on inputs: it recognizes garments, and is actually trained."""

import numpy as np
import torch

from fashion_classifier import PICTURES, WEIGHTS, load_classifier, load_pictures
from nbglcnn.datasets import FASHION_MNIST_CLASSES
from train_fashion_classifier import accuracy, train


def garment_pictures() -> tuple[torch.Tensor, np.ndarray]:
    pixels, labels = load_pictures()
    return torch.from_numpy(pixels[:, None].astype(np.float32) / 255), labels


def test_it_knows_pictures_it_has_never_seen_and_gets_some_wrong() -> None:
    x, labels = garment_pictures()
    assert x.shape == (1000, 1, 28, 28)
    assert np.bincount(labels, minlength=len(FASHION_MNIST_CLASSES)).min() > 80
    model = load_classifier()
    assert not model.training
    assert 0.87 < accuracy(model, x, labels) < 0.96  # its mistakes are material for the notebook
    with torch.no_grad():
        assert torch.allclose(model(x[:5]).sum(1), torch.ones(5))


def test_its_files_stay_small() -> None:
    assert WEIGHTS.stat().st_size < 100_000
    assert PICTURES.stat().st_size < 500_000


def test_training_makes_it_better() -> None:
    x, labels = garment_pictures()
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        with torch.random.fork_rng():
            assert accuracy(train(x, labels, epochs=2, seed=1), x, labels) > 0.5
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
