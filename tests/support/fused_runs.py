"""Runs of fused Plans beside PyTorch."""

import numpy as np
import torch
from torch import nn

import nbglcnn
from nbglcnn import Session


def run_fused(model: nn.Module, *inputs: torch.Tensor) -> tuple[int, np.ndarray, np.ndarray]:
    """Run the fused Plan: the number of its passes, its output, and PyTorch's."""
    plan = nbglcnn.compile(model.eval(), inputs, observe="outputs")
    with torch.no_grad():
        expected = model(*inputs).numpy()
    keys = [one.key for one in plan.header.inputs]
    with Session(plan) as session:
        found = session.run(dict(zip(keys, (x.numpy() for x in inputs), strict=True)))
    return len(plan.header.passes), found["output"], expected
