"""The command line in a separate process."""

import os
import subprocess
import sys
from pathlib import Path

COMMAND = (sys.executable, "-m", "nbglcnn")

# A user's Python file: a module, a function that creates one, and objects that don't.
NETWORK_SOURCE = """
import torch
from torch import nn

print("building")
torch.manual_seed(4)
small = nn.Sequential(
    nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 5, 3)
)
size = 3


def make_model():
    torch.manual_seed(4)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(4 * 6 * 8, 2))


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def number():
    return 7


def broken():
    return torch.load("weights.pt")
"""


def run_command(
    *arguments: object, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environment},
    )


HIDE_PACKAGE_CODE = """
import importlib.metadata, sys
sys.modules[{package!r}] = None
version = importlib.metadata.version
def of(name):
    if name == {package!r}:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = of
"""


def environment_without(folder: Path, package: str) -> dict[str, str]:
    """The environment of a process that cannot import a package."""
    (folder / "sitecustomize.py").write_text(HIDE_PACKAGE_CODE.format(package=package))
    return {"PYTHONPATH": str(folder)}
