"""Values longer than a texture's side: split into strips, in every kernel, and shown in the page.

Devices with a maximum side of 8 or 16 texels split small tensors into strips. `make sweep` runs
every operator's cases on them; this file has a selection.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from cases import CASES
from cases.case import Case
from torch import nn

import nbglcnn
from assertions import assert_equal
from browsers import collect_console_errors
from conformance import RunPlan, run_on_opengl
from nbglcnn import Plan, Session, Target, UnsupportedModel
from nbglcnn.load import load
from nbglcnn.reference import compute_reference
from strips import compile_in_strips
from views_page import ViewsPage
from webgl_page import GlPage

# One case for each kernel that computes texel positions differently; `PAGE_CASE_NAMES` run in
# Chromium too.
DEFAULT_CASE_NAMES = (
    "Sub rows",
    "cat odd channels, batch 2",
    "conv 3x3 batch 3",
    "conv depthwise multiplier 3",
    "cat, relu, transposed convolution",
    "attention by einsum",
    "channels under a mask",
    "vectors under a mask",
)
PAGE_CASE_NAMES = ("cat, relu, transposed convolution", "attention by einsum")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        everything = metafunc.config.getoption("--sweep") is not None
        cases = [case for case in CASES if everything or case.name in DEFAULT_CASE_NAMES]
        metafunc.parametrize("case", cases, ids=[case.name for case in cases])


@pytest.fixture(scope="module")
def open_shared_page(
    browser: Callable[[str], object], static_site: tuple[str, dict[str, bytes]]
) -> Iterator[Callable[[], GlPage]]:
    """One page for all cases, opened for the first one."""
    opened: list[GlPage] = []
    errors: list[list[str]] = []

    def get() -> GlPage:
        if not opened:
            page = browser("llvmpipe").new_page()  # type: ignore[attr-defined]
            errors.append(collect_console_errors(page))
            page.goto(static_site[0])
            opened.append(GlPage(page, static_site[1]))
        return opened[0]

    yield get
    assert not any(errors), [found[:10] for found in errors]


def test_every_layer_in_strips_equals_the_reference(
    case: Case, open_shared_page: Callable[[], GlPage], pytestconfig: pytest.Config
) -> None:
    everything = pytestconfig.getoption("--sweep") is not None
    model, inputs = case.build()
    graph, arrays = load(model, inputs)
    expected, found = None, 0
    for texels in (4, 8, 16) if everything else (8, 4):
        if found and not everything:
            break
        for observe in ("all", "outputs") if everything else ("all",):
            plan = compile_in_strips(graph, texels, observe=observe)
            if plan is None:
                continue
            found += 1
            expected = expected or compute_reference(model, graph, arrays)
            where: dict[str, RunPlan] = {"OpenGL": run_on_opengl}
            if everything or case.name in PAGE_CASE_NAMES:
                where["llvmpipe"] = open_shared_page().run_plan
            for name, run in where.items():
                for key, value in run(plan, arrays).items():
                    what = f"{key} on {name}, {texels} texels, observe={observe}"
                    assert_equal(value, expected[key], rtol=case.rtol, name=what)
    assert found or everything, "nothing of it lies in strips"


def audio_network() -> nn.Module:
    """A small audio network."""
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv1d(1, 8, 9, padding=4), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(4),
        nn.Conv1d(8, 16, 9, stride=4, padding=4), nn.ReLU(), nn.ConvTranspose1d(16, 4, 4, stride=4),
        nn.AdaptiveAvgPool1d(10), nn.Flatten(), nn.Linear(40, 5),
    ).eval()  # fmt: skip


class TallMap(nn.Module):
    """A map with more rows than a texture of 4096 texels holds, as in attention over patches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean((2, 3), keepdim=True)).relu()


@pytest.mark.parametrize(
    ("make", "shape", "observe"),
    [
        pytest.param(audio_network, (2, 1, 20_000), "all", id="two signals"),
        pytest.param(audio_network, (1, 1, 960_000), "outputs", id="a minute at 16 kHz"),
        pytest.param(TallMap, (1, 13, 12_549, 4), "outputs", id="13×12549×4"),
        pytest.param(lambda: nn.Softmax(-1), (1, 2, 40_000), "all", id="softmax"),
    ],
)
def test_long_values_equal_pytorch(
    make: Callable[[], nn.Module], shape: tuple[int, ...], observe: str
) -> None:
    model, x = make().eval(), np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    plan = nbglcnn.compile(model, x, observe=observe)
    longest = plan.header.target.max_texture_size
    assert max(max(t.width, t.height) for t in plan.header.textures) <= longest
    assert any("#define WRAPPED" in program.source for program in plan.header.programs)
    expected = compute_reference(model, *load(model, x))
    with Session(plan) as session:
        for key, value in session.run(x).items():
            assert_equal(value, expected[key], name=key)


def test_what_a_whole_texture_has_no_room_for_is_named_with_its_size_and_the_limit() -> None:
    model = nn.Sequential(nn.Conv1d(1, 8, 3), nn.ReLU()).eval()
    with pytest.raises(UnsupportedModel) as error:
        nbglcnn.compile(model, torch.zeros(1, 1, 12_002), target=Target(max_texture_size=64))
    text = str(error.value)
    assert "1×8×1×12000 elements take 3000×2 texels" in text
    assert text.startswith("0 (Conv1d)") and "at most 64×64" in text and "smaller input" in text


def test_ordinary_networks_have_no_strips() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5), nn.Softmax(-1),
    ).eval()  # fmt: skip
    plan = nbglcnn.compile(model, torch.zeros(1, 3, 64, 64))
    assert not any("#define WRAPPED" in program.source for program in plan.header.programs)
    assert {value.layout.max_side for value in plan.values} == {0}


def test_views_show_a_long_signal(show: Callable[..., ViewsPage]) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv1d(1, 8, 9), nn.ReLU(), nn.AdaptiveAvgPool1d(4)).eval()
    x = torch.randn(1, 1, 17_000).numpy()
    plan: Plan = nbglcnn.compile(model, x)
    views = show(plan, x)
    views.open_layer("0", 3)
    views.wait_idle()
    expected = compute_reference(model, *load(model, x))["0"][0, 3]
    table = views.page.locator(".nbg-layer").inner_text()
    assert f"{expected.max():.3f}" in table and f"{expected.mean():.3f}" in table, table
