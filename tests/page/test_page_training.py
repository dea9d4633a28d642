"""Training steps in the page: gradients, and the losses of twenty steps, equal PyTorch's."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Page

import nbglcnn
from nbglcnn.features.training.local_training import compile_training
from training_checks import assert_near_float64, train_in_torch
from training_networks import TORCH_LOSSES, TRAINING_CASES
from webgl_page import ONE_RENDERER, GlPage

sys.path.append(str(Path(__file__).parents[2] / "notebooks"))
from fashion_autoencoder import FashionAutoencoder

STEPS, SIZE = 20, 4


@ONE_RENDERER
@pytest.mark.parametrize("name", ["autoencoder", "mnist", "convnext"])
def test_twenty_steps_in_the_page(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]], backend: str, name: str
) -> None:
    example = TRAINING_CASES[name]
    model, x, y, loss = example.build()
    run, data = compile_training(
        model, (x, y), loss, nbglcnn.SGD(example.learning_rate, 0.9), SIZE, shuffle=False
    )

    def theirs(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, example.learning_rate, momentum=0.9)

    first, first_single, right, single = (
        train_in_torch(model, x, y, TORCH_LOSSES[loss], theirs, steps=steps, size=SIZE, dtype=dtype)
        for steps in (1, STEPS)
        for dtype in (torch.float64, torch.float32)
    )
    gl = GlPage(gl_page(backend), static_site[1])
    session = gl.open(run.plan)
    found = []
    for number, batch in zip(range(STEPS), data.batches(0), strict=False):
        for key, array in run.step_inputs(batch, number).items():
            gl.write(session, key, array)
        gl.run(session, "train")
        found.append(float(gl.read(session, "loss")[0]))
        if number == 0:
            pairs = zip(
                first.model.named_parameters(), first_single.model.parameters(), strict=True
            )
            for (parameter, one), other in pairs:
                assert one.grad is not None and other.grad is not None
                gradient = gl.read(session, f"gradient of {parameter}")
                assert_near_float64(parameter, gradient, one.grad, other.grad, 1e-5)
        gl.commit(session)
        if number == 0:
            gl.page.evaluate("() => gl.count()")
    # A step's resources exist since the first step.
    counted = gl.page.evaluate("gl.counted()")
    assert counted["drawArrays"] > STEPS
    assert counted.get("linkProgram", 0) == counted.get("createTexture", 0) == 0
    assert_near_float64("losses", np.array(found), torch.from_numpy(right.losses),
                        torch.from_numpy(single.losses), 1e-4)  # fmt: skip
    assert right.losses[-1] < right.losses[0]
    for parameter, tensor in right.model.named_parameters():
        other = single.model.get_parameter(parameter)
        assert_near_float64(parameter, gl.read(session, parameter), tensor, other, 1e-4)


@ONE_RENDERER
@pytest.mark.sweep
def test_two_hundred_steps_reach_pytorchs_loss(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]], backend: str
) -> None:
    """The Fashion autoencoder with BatchNorm, by Adam, in batches of 32: within 1 %.

    At a rate of 1e-3 PyTorch's own float32 and float64 differ by 1.5 % by then; at this rate by 0.1
    %.
    """
    torch.manual_seed(0)
    model = FashionAutoencoder().eval()
    with np.load(Path(__file__).parents[2] / "notebooks" / "fashion_pictures.npz") as data:
        pictures = data["pictures"][:640, None]
    x = torch.from_numpy(pictures).float() / 255
    run, batches = compile_training(model, pictures, "mse", nbglcnn.Adam(3e-4), 32, shuffle=False)
    right = train_in_torch(
        model, x, x, torch.nn.functional.mse_loss, lambda p: torch.optim.Adam(p, 3e-4),
        steps=200, size=32,
    )  # fmt: skip
    gl = GlPage(gl_page(backend), static_site[1])
    session = gl.open(run.plan)
    found = []
    for number, batch in zip(range(200), batches.batches(0), strict=False):
        for key, array in run.step_inputs(batch, number).items():
            gl.write(session, key, array)
        gl.run(session, "train")
        found.append(float(gl.read(session, "loss")[0]))
        gl.commit(session)
    assert right.losses[-1] < 0.35 * right.losses[0]
    ours, theirs = (np.mean(losses[-20:]) for losses in (found, right.losses))
    assert ours == pytest.approx(theirs, rel=0.01)
