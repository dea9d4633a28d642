"""Whole architectures: every layer equals PyTorch, observed in full and fused."""

from collections.abc import Callable

import pytest
import torch
from playwright.sync_api import Page
from torch import Tensor, nn

from conftest import BACKENDS
from equal import assert_equal
from nbglcnn.load import load, reference
from nbglcnn.lower import lower
from nbglcnn.session import Session
from page import GlPage
from test_ops import in_page
from zoo import ZOO, build


@pytest.mark.parametrize("name", ZOO)
def test_every_layer_of_an_architecture_equals_pytorch(name: str) -> None:
    model, inputs = build(name)
    graph, arrays = load(model, inputs)
    expected = reference(model, graph, arrays)
    for observe in ("all", "outputs"):
        with Session(lower(graph, observe=observe)) as session:
            actual = session.run(*arrays)
        for key, value in actual.items():
            assert_equal(value, expected[key], name=f"{key}, observe={observe}")
    missing = called(model, inputs) - {key.partition(":")[0].partition("[")[0] for key in expected}
    assert missing == set()


# Between them they draw with most of the shaders; test_ops.py has each of them in pages.
IN_PAGES = ("unet", "mobilenet_v3", "style transfer", "diffusion block", "spatial transformer")


@pytest.mark.parametrize("name", IN_PAGES)
def test_pages_give_the_same(
    name: str, gl_page: Callable[..., Page], site: tuple[str, dict[str, bytes]]
) -> None:
    model, inputs = build(name)
    graph, arrays = load(model, inputs)
    expected = reference(model, graph, arrays)
    plan = lower(graph)
    for backend in BACKENDS:
        for key, value in in_page(GlPage(gl_page(backend), site[1]), plan, arrays).items():
            assert_equal(value, expected[key], name=f"{key} on {backend}")


def called(model: nn.Module, inputs: tuple[Tensor, ...]) -> set[str]:
    """The paths of all submodules that a run calls, by the name that comes first."""
    paths: set[str] = set()
    for path, module in model.named_modules():
        if path:
            module.register_forward_hook(lambda *_, path=path: paths.add(path))
    with torch.no_grad():
        model(*inputs)
    return paths
