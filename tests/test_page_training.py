"""Training steps in the page: their gradients, and losses of twenty steps, are PyTorch's."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import Page

import nbglcnn
from nbglcnn.training.local import compiled
from page import ONE_RENDERER, GlPage
from training_networks import EXAMPLES, TORCH_LOSSES
from trainings import assert_near, by_torch

STEPS, SIZE = 20, 4


@ONE_RENDERER
@pytest.mark.parametrize("name", ["autoencoder", "mnist", "convnext"])
def test_twenty_steps_in_the_page(
    gl_page: Callable[..., Page], site: tuple[str, dict[str, bytes]], backend: str, name: str
) -> None:
    example = EXAMPLES[name]
    model, x, y, loss = example.built()
    run, data = compiled(model, (x, y), loss, nbglcnn.SGD(example.rate, 0.9), SIZE, shuffle=False)

    def theirs(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, example.rate, momentum=0.9)

    first, first_single, right, single = (
        by_torch(model, x, y, TORCH_LOSSES[loss], theirs, steps=steps, size=SIZE, dtype=dtype)
        for steps in (1, STEPS)
        for dtype in (torch.float64, torch.float32)
    )
    gl = GlPage(gl_page(backend), site[1])
    session = gl.open(run.plan)
    found = []
    for number, batch in zip(range(STEPS), data.batches(0), strict=False):
        for key, array in run.inputs(batch, number).items():
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
                assert_near(parameter, gradient, one.grad, other.grad, 1e-5)
        gl.commit(session)
    assert_near("losses", np.array(found), torch.from_numpy(right.losses),
                torch.from_numpy(single.losses), 1e-4)  # fmt: skip
    assert right.losses[-1] < right.losses[0]
    for parameter, tensor in right.model.named_parameters():
        other = single.model.get_parameter(parameter)
        assert_near(parameter, gl.read(session, parameter), tensor, other, 1e-4)
