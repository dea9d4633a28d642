"""Edits in the page's engine: they outlive Plans, contexts and sessions; the last one counts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Error, Page
from torch import nn

import nbglcnn
from engine_page import Engine
from nbglcnn.features.edits.records import Edit, to_dict
from page import ONE_RENDERER

X = np.random.default_rng(2).standard_normal((2, 3, 9, 7)).astype(np.float32)
LOSE = """async () => {
  const lose = page.lose();
  lose.loseContext();
  await new Promise((resolve) => setTimeout(resolve, 20));
  lose.restoreContext();
}"""


@pytest.fixture
def engine(gl_page: Callable[..., Page], backend: str) -> Engine:
    return Engine(gl_page(backend, allow="CONTEXT_LOST_WEBGL|context lost"))


@pytest.fixture(scope="module")
def plan() -> nbglcnn.Plan:
    return nbglcnn.compile(network(4), X)


def network(channels: int) -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.ReLU()).eval()


def output(channels: int, x: np.ndarray = X) -> np.ndarray:
    with torch.inference_mode():
        return np.asarray(network(channels)[0](torch.from_numpy(x)))


def edit(engine: Engine, *edits: Edit) -> None:
    engine.page.evaluate("edits => page.engine.edit(edits)", to_dict(edits))


def multiply(by: float, layer: str = "0", **fields: Any) -> Edit:
    given: dict[str, Any] = {"name": f"times {layer}", "layer": layer, "transform": "multiply"}
    return Edit(**given | {"parameters": (by,)} | fields)


def check(engine: Engine, expected: np.ndarray, key: str = "0") -> None:
    found = engine.read(key).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@ONE_RENDERER
def test_edits_go_over_to_another_plan_but_for_those_it_has_no_place_for(
    engine: Engine, plan: nbglcnn.Plan
) -> None:
    edit(engine, multiply(2), multiply(3, name="last", channels=(3,)))  # before there is a network
    engine.show(plan, X)
    expected = output(4) * 2
    expected[:, 3] *= 3
    check(engine, expected)
    assert engine.page.evaluate("page.left") == []
    engine.show(nbglcnn.compile(network(2), X), X)
    check(engine, output(2) * 2)
    assert engine.page.evaluate("page.left") == [["last"]]
    engine.show(plan, X)
    check(engine, expected)
    assert engine.page.evaluate("page.left") == [["last"], []]
    engine.page.evaluate("page.engine.release()")
    engine.show(plan, -X)
    expected = output(4, -X) * 2
    expected[:, 3] *= 3
    check(engine, expected)
    edit(engine)
    check(engine, output(4, -X))


@ONE_RENDERER
def test_of_many_changes_the_last_one_arrives_and_one_run_is_in_flight(
    engine: Engine, plan: nbglcnn.Plan
) -> None:
    engine.show(plan, X)
    edit(engine, multiply(1))
    found = engine.page.evaluate(
        """async (edits) => {
          const { engine } = page;
          const { run } = engine.signals;
          let runs = 0;
          run.subscribe(() => runs++);
          const all = edits.map((one) => engine.edit([one]));
          await all[0];
          const first = runs;
          await Promise.all(all);
          return [first, runs, run.peek().sequence, engine.signals.session.peek().sequence];
        }""",
        to_dict([multiply(k, name="m") for k in range(2, 62)]),
    )
    first, runs, last, shown = found
    assert runs <= 3, "the subscription itself, what was there first, and the last"
    assert first <= runs and last == shown
    check(engine, output(4) * 61)


@ONE_RENDERER
def test_a_change_during_a_run_is_in_the_next_one_right_behind_it(
    engine: Engine, plan: nbglcnn.Plan
) -> None:
    content = engine.content(plan, X)
    engine.page.evaluate("a => page.engine.show(a)", content)
    edit(engine, multiply(2))
    frames = engine.page.evaluate(
        """async ([content, one]) => {
          const { engine } = page;
          const before = engine.frame;
          const running = engine.show(content, { again: true });
          const edited = engine.edit([one]);
          await running;
          await edited;
          return engine.frame - before;
        }""",
        [content, to_dict([multiply(5)])[0]],
    )
    assert frames <= 2
    check(engine, output(4) * 5)


@ONE_RENDERER
def test_edits_and_their_arrays_survive_a_lost_context(engine: Engine, plan: nbglcnn.Plan) -> None:
    engine.show(plan, X)
    array = np.random.default_rng(1).standard_normal((2, 1, 9, 7)).astype(np.float32)
    inject = multiply(0, transform="inject", parameters=(), array="somewhere", channels=(1,))
    edit(engine, inject)
    assert engine.page.evaluate("page.left") == [["times 0"]], "its array is not here"
    check(engine, output(4))
    engine.put("somewhere", array.tobytes())
    edit(engine, inject)
    assert engine.page.evaluate("page.left") == [["times 0"], []]
    expected = output(4)
    expected[:, 1] = array[:, 0]
    check(engine, expected)
    engine.page.evaluate(LOSE)
    engine.page.wait_for_function("page.told.includes('restored')")
    engine.page.wait_for_function("page.engine.shown !== undefined")
    check(engine, expected)


@ONE_RENDERER
def test_an_edit_that_cannot_be_is_told_to_who_made_it_and_those_before_stay(
    engine: Engine, plan: nbglcnn.Plan
) -> None:
    engine.show(plan, X)
    edit(engine, multiply(2))
    wrong = multiply(0, transform="glsl", parameters=(), source="y = nothing", name="wrong")
    with pytest.raises(Error, match="nothing"):
        edit(engine, multiply(4), wrong)
    check(engine, output(4) * 2)
    engine.show(plan, -X)
    check(engine, output(4, -X) * 2)
    found: Sequence[str] = engine.page.evaluate(
        """async ([wrong, right]) => {
          const all = [wrong, right].map((one) => page.engine.edit([one]));
          const settled = await Promise.allSettled(all);
          return settled.map(({ status }) => status);
        }""",
        to_dict([wrong, multiply(3)]),
    )
    assert found[1] == "fulfilled", "the one behind it is its own"
    check(engine, output(4, -X) * 3)
