"""A small classifier that trains in JupyterLab's page, and the same training in PyTorch."""

import json

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from jupyter_lab import Notebook

# The kernel's model and data.
SETUP_CELL = """
import json, numpy as np, torch, nbglcnn
from torch import nn
from nbglcnn import Viewer
torch.manual_seed(3)
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                      nn.Flatten(), nn.Linear(8 * 49, 10)).eval()
x = (torch.rand(60, 1, 14, 14) * 255).to(torch.uint8).numpy()
y = np.arange(60) % 10
x[np.arange(60), 0, y, 3:9] = 255
"""


def make_model_and_data() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Create the model of `SETUP_CELL`, its examples and labels in this process."""
    found: dict[str, object] = {}
    exec(SETUP_CELL, found)
    x = torch.from_numpy(found["x"].astype(np.float32)) / 255  # type: ignore[attr-defined]
    return found["model"], x, torch.from_numpy(found["y"])  # type: ignore[return-value, arg-type]


def read_json(notebook: Notebook, expression: str) -> object:
    """The value of an expression in the kernel, transferred as JSON."""
    return json.loads(notebook.run(f"print(json.dumps({expression}))").text)


# A cell that polls while an expression is true.
WAIT_WHILE_CELL = "import asyncio\nwhile {}: await asyncio.sleep(0.05)"


def start_paused_training(notebook: Notebook, options: str = "") -> None:
    """Start a training that pauses after its 4th step, for comparison with PyTorch."""
    notebook.run("viewer = Viewer(model, torch.rand(1, 1, 14, 14), timeout=60)\nviewer")
    start_training_in_viewer(notebook, options)


def start_training_in_viewer(notebook: Notebook, options: str = "") -> None:
    """Start the training of `start_paused_training` in the existing Viewer."""
    notebook.run(
        "training = viewer.train((x, y), 'cross_entropy', nbglcnn.SGD(0.05, momentum=0.9), 16,\n"
        f"                        shuffle=False, held_out=0.2{options})\n"
        "training.pause()"
    )
    notebook.run(WAIT_WHILE_CELL.format("not viewer._training['training']['owner']"))
    run_steps(notebook, "4 - training.step_count", 4)


def run_steps(notebook: Notebook, count: str, total_steps: int) -> None:
    """Run `count` steps, and wait until the total is `total_steps`."""
    notebook.run(
        f"if {count} > 0: training.step({count})\n"
        + WAIT_WHILE_CELL.format(f"training.step_count < {total_steps}")
    )


def train_in_torch(phases: list[tuple[int, int, tuple[str, ...]]]) -> tuple[nn.Module, list[float]]:
    """Train in PyTorch by consecutive parts (steps, batch size, frozen parameters).

    Returns the model and its losses.
    """
    model, x, y = make_model_and_data()
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    losses = []
    for count, size, frozen in phases:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in frozen)
        per_epoch = -(-48 // size)
        for step in range(count):
            at = step % per_epoch * size
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[at : min(at + size, 48)]), y[at : min(at + size, 48)])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return model, losses


def train_bent_in_torch(rates: list[float], factors: list[float]) -> tuple[nn.Module, list[float]]:
    """Train with a learning rate per step and a bend factor on channels 1 and 6 of "2"."""
    model, x, y = make_model_and_data()
    model.train()
    losses: list[float] = []

    def hook(_: nn.Module, __: object, value: torch.Tensor) -> torch.Tensor:
        change = torch.zeros_like(value)
        change[:, [1, 6]] = (value[:, [1, 6]] * (factors[len(losses)] - 1)).detach()
        return value + change

    model[2].register_forward_hook(hook)
    optimizer = torch.optim.SGD(model.parameters(), rates[0], momentum=0.9)
    for step, rate in enumerate(rates):
        optimizer.param_groups[0]["lr"] = rate
        at = step % 3 * 16
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[at : at + 16]), y[at : at + 16])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def assert_trained_equally(notebook: Notebook, model: nn.Module, losses: list[float]) -> None:
    """Assert that the page's losses and weights equal PyTorch's."""
    found = np.array(read_json(notebook, "training.losses.tolist()"))
    np.testing.assert_allclose(found, losses, rtol=2e-4)
    state = read_json(notebook, "{n: t.tolist() for n, t in viewer.state_dict().items()}")
    assert isinstance(state, dict)
    for name, tensor in model.state_dict().items():
        np.testing.assert_allclose(np.array(state[name]), tensor.numpy(), atol=3e-4, err_msg=name)
