"""Every operator case on local OpenGL and in Chromium on two renderers: each layer must be right."""

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from cases import CASES
from cases.case import Case
from conftest import BACKENDS
from equal import assert_equal
from page import GlPage
from playwright.sync_api import Browser

from nbglcnn.load import load, reference
from nbglcnn.lower import lower
from nbglcnn.plan import Plan
from nbglcnn.session import Session


# Chromium reports a wrong WebGL call as a mere warning, and some notes on speed beside it.
WRONG = re.compile("INVALID_|GL_OUT_OF|error", re.IGNORECASE)


@pytest.fixture(scope="module")
def pages(
    browser: Callable[[str], Browser], site: tuple[str, dict[str, bytes]]
) -> Iterator[dict[str, GlPage]]:
    """One page a renderer for all cases; what a console says of one is found at the end of all."""
    errors: list[str] = []
    opened = {}
    for backend in BACKENDS:
        page = browser(backend).new_page()
        page.on("console", lambda m: errors.append(m.text) if WRONG.search(m.text) else None)
        page.goto(site[0])
        opened[backend] = GlPage(page, site[1])
    yield opened
    assert not errors, errors[:10]


def in_page(page: GlPage, plan: Plan, arrays: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
    session = page.open(plan)
    for record, array in zip(plan.header.inputs, arrays, strict=True):
        page.write(session, record.key, array)
    page.run(session)
    values = {v.key: page.read(session, v.key).astype(v.dtype) for v in plan.values}
    page.close(session)
    return values


def on_opengl(plan: Plan, arrays: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
    with Session(plan) as session:
        return session.run(*arrays)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_layer_equals_the_reference(case: Case, pages: dict[str, GlPage]) -> None:
    model, inputs = case.build()
    graph, arrays = load(model, inputs)
    expected = reference(model, graph, arrays)
    for observe in ("all", "outputs"):
        plan = lower(graph, observe=observe)
        assert plan.values, "nothing was observed"
        runs = {"OpenGL": lambda: on_opengl(plan, arrays)}
        for backend, page in pages.items():
            runs[backend] = lambda page=page: in_page(page, plan, arrays)
        for name, run in runs.items():
            for key, value in run().items():
                where = f"{key} on {name}, observe={observe}"
                assert_equal(value, expected[key], rtol=case.rtol, name=where)
