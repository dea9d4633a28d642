"""Networks drawn by hypothesis: their number, and a comparison of each layer with PyTorch."""

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from torch import nn

from assertions import assert_equal
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference
from nbglcnn.runtime.session import Session

FEW_EXAMPLES_SETTINGS = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,  # the same shapes in every run; other seeds are for long manual runs
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def assert_layers_equal(model: nn.Module, x: torch.Tensor | np.ndarray) -> None:
    graph, arrays = load(model.eval(), x)
    expected = compute_reference(model, graph, arrays)
    for observe in ("all", "outputs"):
        with Session(lower(graph, observe=observe)) as session:
            for key, value in session.run(*arrays).items():
                assert_equal(value, expected[key], name=f"{key} of {model} for {tuple(x.shape)}")
