"""The tour's autoencoder: actually trained, and reproducible."""

import numpy as np
import pytest
import torch

from fashion_autoencoder import (
    IMAGES,
    WEIGHTS,
    FashionAutoencoder,
    load_autoencoder,
    load_images,
)
from train_fashion_autoencoder import held_out_error, train


def test_it_redraws_images_it_has_never_seen() -> None:
    model = load_autoencoder()
    x, labels = load_images()
    assert x.shape == (32, 1, 28, 28)
    assert x.dtype == np.float32
    assert len(set(labels.tolist())) == 10
    assert not model.training
    assert model.encoder(torch.from_numpy(x)).shape == (32, 16, 1, 1)
    blank = ((x - x.mean(axis=0)) ** 2).mean()  # the error of the average image
    assert held_out_error(model, torch.from_numpy(x)) < blank / 8


def test_its_files_stay_small() -> None:
    assert WEIGHTS.stat().st_size < 700_000
    assert IMAGES.stat().st_size < 30_000


@pytest.fixture
def torch_settings():
    """Restore torch's settings, which training changes."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


@pytest.mark.usefixtures("torch_settings")
def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    x = torch.from_numpy(load_images()[0]).repeat(8, 1, 1, 1)  # two batches

    def weights(seed: int) -> dict[str, torch.Tensor]:
        return train(x, epochs=2, seed=seed).state_dict()

    first, again, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["encoder.0.weight"], other["encoder.0.weight"])


@pytest.mark.usefixtures("torch_settings")
def test_training_makes_it_better() -> None:
    x = torch.from_numpy(load_images()[0]).repeat(8, 1, 1, 1)
    assert held_out_error(train(x, epochs=5, seed=0), x) < held_out_error(
        FashionAutoencoder().eval(), x
    )
