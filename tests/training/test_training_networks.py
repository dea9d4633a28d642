"""Whole networks: gradients of one step, losses of 20 steps, and the result of 200 steps."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbglcnn
from nbglcnn import Session
from nbglcnn.datasets import fashion_mnist
from nbglcnn.features.training.local_training import compile_training
from training_checks import assert_near_float64, train_in_torch
from training_networks import TORCH_LOSSES, TRAINING_CASES

STEPS, SIZE = 20, 4
LARGE_NETWORKS = ("resnet18", "mobilenet_v2")  # run in `make sweep`
GRADIENT_TOLERANCE = 1e-5  # of each tensor's maximum
LOSS_TOLERANCE = 1e-4


def optimizers(name: str, lr: float) -> tuple[Any, Callable[[Any], torch.optim.Optimizer]]:
    if name == "SGD":
        return nbglcnn.SGD(lr, 0.9), lambda p: torch.optim.SGD(p, lr, momentum=0.9)
    return nbglcnn.Adam(lr), lambda p: torch.optim.Adam(p, lr)


@pytest.mark.timeout(1800)  # for resnet18 and mobilenet_v2, in `make sweep`
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=pytest.mark.sweep if one in LARGE_NETWORKS else ())
        for one in TRAINING_CASES
    ],
)
def test_gradients_of_a_step_and_losses_of_twenty(name: str) -> None:
    example = TRAINING_CASES[name]
    model, x, y, loss = example.build()
    ours, theirs = optimizers("SGD", example.learning_rate)
    run, data = compile_training(model, (x, y), loss, ours, SIZE, shuffle=False)
    of_torch = TORCH_LOSSES[loss]
    first = [
        train_in_torch(model, x, y, of_torch, theirs, steps=1, size=SIZE, dtype=dtype).model
        for dtype in (torch.float64, torch.float32)
    ]
    largest = max(float(one.grad.abs().max()) for one in first[0].parameters()
                  if one.grad is not None)  # fmt: skip
    found = []
    with Session(run.plan) as session:
        for number, batch in zip(range(STEPS), data.batches(0), strict=False):
            for key, array in run.step_inputs(batch, number).items():
                session.write(key, array)
            session.run(section="train", read=())
            found.append(float(session.read("loss")[0]))
            if number == 0:
                pairs = zip(first[0].named_parameters(), first[1].parameters(), strict=True)
                for (parameter, right), single in pairs:
                    assert right.grad is not None and single.grad is not None
                    size = max(float(right.grad.abs().max()), 1e-3 * largest)
                    assert_near_float64(parameter, session.read(f"gradient of {parameter}"),
                                        right.grad,
                                        single.grad, GRADIENT_TOLERANCE, size)  # fmt: skip
            session.commit()
    right, single = (
        torch.from_numpy(
            train_in_torch(
                model, x, y, of_torch, theirs, steps=STEPS, size=SIZE, dtype=dtype
            ).losses
        )
        for dtype in (torch.float64, torch.float32)
    )
    assert right[-1] < right[0] or name == "unet"
    assert_near_float64("losses", np.array(found), right, single, LOSS_TOLERANCE)


@pytest.mark.parametrize("name", ["mnist", "convnext", "vit"])
def test_losses_of_twenty_steps_of_adam(name: str) -> None:
    example = TRAINING_CASES[name]
    model, x, y, loss = example.build()
    ours, theirs = optimizers("Adam", 1e-3)
    result = nbglcnn.train(model, (x, y), loss, ours, SIZE, steps=STEPS, shuffle=False,
                           progress=False)  # fmt: skip
    right, single = (
        torch.from_numpy(train_in_torch(model, x, y, TORCH_LOSSES[loss], theirs, steps=STEPS,
                                        size=SIZE, dtype=dtype).losses)
        for dtype in (torch.float64, torch.float32)
    )  # fmt: skip
    assert_near_float64("losses", result.losses, right, single, LOSS_TOLERANCE)


def fashion_autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1),
        nn.Sigmoid(),
    )  # fmt: skip


def test_two_hundred_steps_of_the_autoencoder_reach_pytorchs_loss() -> None:
    torch.manual_seed(0)
    model = fashion_autoencoder()
    pictures, _ = fashion_mnist("test")
    x = torch.from_numpy(pictures[:512].astype(np.float32) / 255)[:, None]
    result = nbglcnn.train(model, pictures[:512], "mse", nbglcnn.SGD(1.0, momentum=0.9), 16,
                           steps=200, shuffle=False, progress=False)  # fmt: skip
    right = train_in_torch(
        model, x, x, F.mse_loss, lambda p: torch.optim.SGD(p, 1.0, momentum=0.9), steps=200, size=16
    )
    assert right.losses[-10:].mean() < 0.5 * right.losses[0]
    ours, theirs = result.losses[-32:].mean(), right.losses[-32:].mean()
    assert ours == pytest.approx(theirs, rel=0.01)
