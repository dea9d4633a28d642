"""The bending notebook's generator: it draws many kinds of garments, and is actually trained."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import nbglcnn
import train_fashion_generator
from assertions import assert_all_equal
from fashion_autoencoder import load_autoencoder, load_images
from fashion_generator import LATENT, WEIGHTS, FashionGenerator, latents, load
from train_fashion_generator import train


def generate(model: FashionGenerator, count: int = 256) -> Tensor:
    with torch.no_grad():
        return model(torch.from_numpy(latents(count, seed=7)))


def redrawing_error(images: Tensor) -> float:
    """The autoencoder's reconstruction error on these images; it knows only garments."""
    with torch.no_grad():
        return float(nn.functional.mse_loss(load_autoencoder()(images), images))


def mean_distance(images: Tensor) -> float:
    """The mean pairwise distance of images."""
    return float(torch.pdist(images.flatten(1)).mean())


def test_what_it_draws_are_garments_of_many_kinds() -> None:
    images = generate(load())
    real = torch.from_numpy(load_images()[0])
    assert images.shape == (256, 1, 28, 28)
    # An autoencoder of garments reconstructs them nearly as well as real ones, but not upside down.
    assert redrawing_error(images) < 1.8 * redrawing_error(real)
    assert redrawing_error(images.flip(2)) > 1.4 * redrawing_error(images)
    assert mean_distance(images) > 0.85 * mean_distance(real)
    nearest = torch.cdist(real.flatten(1), images.flatten(1)).argmin(1)
    assert len(nearest.unique()) > len(real) / 2  # most garments have a different match


def test_latents_are_seeded_and_normal() -> None:
    z = latents(4000)
    assert z.shape == (4000, LATENT)
    assert z.dtype == np.float32
    assert np.array_equal(z[:5], latents(5))
    assert not np.array_equal(z, latents(4000, seed=1))
    assert abs(z.mean()) < 0.02
    assert abs(z.std() - 1) < 0.02


def test_its_layers_are_worth_bending_and_run_as_in_pytorch() -> None:
    model, z = load(), latents(3)
    assert not model.training
    assert WEIGHTS.stat().st_size < 300_000
    plan = nbglcnn.compile(model, z)
    maps = {value.key: value.shape[1:] for value in plan.values if value.key}
    assert maps["start"] == (64, 7, 7)
    assert maps["middle"] == (32, 14, 14)
    assert maps["fine"] == (32, 28, 28)
    seen: dict[str, np.ndarray] = {}
    for name in ("start", "middle", "fine"):
        model.get_submodule(name).register_forward_hook(
            lambda _module, _given, made, name=name: seen.__setitem__(name, made.numpy())
        )
    with torch.no_grad():
        seen["output"] = model(torch.from_numpy(z)).numpy()
    with nbglcnn.Session(plan) as session:
        values = session.run(z)
    assert_all_equal({name: values[name] for name in seen}, seen)


@pytest.fixture
def torch_settings(monkeypatch: pytest.MonkeyPatch):
    """Restore torch's settings, which training changes."""
    monkeypatch.setattr(train_fashion_generator, "SETTLING", 256)  # reduced: took half of the time
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


@pytest.mark.usefixtures("torch_settings")
def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    x = torch.from_numpy(load_images()[0]).repeat(4, 1, 1, 1)

    def weights(seed: int) -> dict[str, Tensor]:
        return train(x, steps=2, seed=seed).state_dict()

    first, again, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["middle.0.weight"], other["middle.0.weight"])


@pytest.mark.usefixtures("torch_settings")
def test_training_brings_it_nearer_to_its_images() -> None:
    x = torch.from_numpy(load_images()[0]).repeat(4, 1, 1, 1)

    def energy(model: FashionGenerator) -> float:
        """The energy distance between the generated images and `x` (Székely and Rizzo 2013)."""
        images = generate(model, 128).flatten(1)
        return float(
            2 * torch.cdist(images, x.flatten(1)).mean()
            - torch.cdist(images, images).mean()
            - torch.cdist(x.flatten(1), x.flatten(1)).mean()
        )

    assert energy(train(x, steps=40, seed=0)) < 0.7 * energy(train(x, steps=0, seed=0))
