"""Every operator case on local OpenGL and in Chromium, every layer compared.

In Chromium every sixteenth case runs on SwiftShader, every eighth of those with unusual numbers,
and the others on llvmpipe, which compiles shaders four times as fast; test_conformance.py has a
case of each operator of ONNX's suite on both. A case with usual numbers is skipped there if earlier
cases have run all its programs; `make sweep` runs each case on both.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from cases import CASES
from cases.case import Case
from conftest import BACKENDS
from playwright.sync_api import Browser
from torch import nn

from assertions import assert_equal
from browsers import collect_console_errors
from conformance import RunPlan, run_on_opengl
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.file_checks import first_problem
from nbglcnn.reference import compute_reference
from webgl_page import GlPage

drawn_values: dict[str, set[object]] = defaultdict(
    set
)  # the programs that ran in pages, by renderer


@pytest.fixture(scope="module")
def page_by_renderer(
    browser: Callable[[str], Browser], static_site: tuple[str, dict[str, bytes]]
) -> Iterator[Callable[[str], GlPage]]:
    """One page per renderer for all cases; console errors are checked at the end."""
    opened: dict[str, GlPage] = {}
    errors: list[list[str]] = []

    def get(backend: str) -> GlPage:
        if backend not in opened:
            page = browser(backend).new_page()
            errors.append(collect_console_errors(page))
            page.goto(static_site[0])
            opened[backend] = GlPage(page, static_site[1])
            # Stays open to the end, so that resources shared by all Sessions are built once.
            opened[backend].open(lower(load(nn.ReLU(), np.zeros((1, 1, 2, 2), "f"))[0]))
        return opened[backend]

    yield get
    assert not any(errors), [found[:10] for found in errors]


@pytest.mark.parametrize(
    ("number", "case"), list(enumerate(CASES)), ids=[case.name for case in CASES]
)
def test_every_layer_equals_the_reference(
    number: int, case: Case, page_by_renderer: Callable[[str], GlPage], pytestconfig: pytest.Config
) -> None:
    both = pytestconfig.getoption("--sweep") is not None
    model, inputs = case.build()
    graph, arrays = load(model, inputs)
    expected = compute_reference(model, graph, arrays)
    # A page spends its time compiling programs, and a compiled program computes as before;
    # renderers differ in infinities, NaN and large numbers.
    usual = all(np.abs(array).max(initial=0) < 100 for array in arrays)
    one = "llvmpipe" if number % (16 if usual else 8) else "swiftshader"
    renderers = BACKENDS if both else (one,)
    programs: set[object] = drawn_values[renderers[0]] if usual and not both else set()
    for observe in ("all", "outputs"):
        plan = lower(graph, observe=observe)
        assert plan.values, "nothing was observed"
        assert first_problem(plan.header) is None
        where: list[str] = ["OpenGL"]
        # If nothing was fused, the page has already run all programs.
        if not programs.issuperset(plan.header.programs):
            where += renderers
            programs.update(plan.header.programs)
        for name in where:
            run: RunPlan = run_on_opengl if name == "OpenGL" else page_by_renderer(name).run_plan
            for key, value in run(plan, arrays).items():
                what = f"{key} on {name}, observe={observe}"
                assert_equal(value, expected[key], rtol=case.rtol, name=what)
