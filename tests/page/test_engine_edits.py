"""Edits in the page's engine outlive a Plan, a context and a session; the last ones win."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Error, Page
from torch import nn

import nbglcnn
from engine_page import EnginePage
from nbglcnn.features.edits.records import Edit, edits_to_dicts
from webgl_page import ONE_RENDERER

X = np.random.default_rng(2).standard_normal((2, 3, 9, 7)).astype(np.float32)
LOSE_CONTEXT_SCRIPT = """async () => {
  const lose = page.lose();
  lose.loseContext();
  await new Promise((resolve) => setTimeout(resolve, 20));
  lose.restoreContext();
}"""


@pytest.fixture
def engine(gl_page: Callable[..., Page], backend: str) -> EnginePage:
    return EnginePage(gl_page(backend, allow="CONTEXT_LOST_WEBGL|context lost"))


@pytest.fixture(scope="module")
def plan() -> nbglcnn.Plan:
    return nbglcnn.compile(make_network(4), X)


def make_network(channels: int) -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.ReLU()).eval()


def torch_output(channels: int, x: np.ndarray = X) -> np.ndarray:
    with torch.inference_mode():
        return np.asarray(make_network(channels)[0](torch.from_numpy(x)))


def set_edits(engine: EnginePage, *edits: Edit) -> None:
    engine.page.evaluate("edits => page.engine.setEdits(edits)", edits_to_dicts(edits))


def multiply_edit(factor: float, layer: str = "0", **fields: Any) -> Edit:
    given: dict[str, Any] = {"name": f"times {layer}", "layer": layer, "transform": "multiply"}
    return Edit(**given | {"parameters": (factor,)} | fields)


def assert_value(engine: EnginePage, expected: np.ndarray, key: str = "0") -> None:
    found = engine.read(key).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@ONE_RENDERER
def test_edits_go_over_to_another_plan_but_for_those_it_has_no_place_for(
    engine: EnginePage, plan: nbglcnn.Plan
) -> None:
    # Before a network is loaded.
    set_edits(engine, multiply_edit(2), multiply_edit(3, name="last", channels=(3,)))
    engine.show(plan, X)
    expected = torch_output(4) * 2
    expected[:, 3] *= 3
    assert_value(engine, expected)
    assert engine.page.evaluate("page.left") == []
    engine.show(nbglcnn.compile(make_network(2), X), X)
    assert_value(engine, torch_output(2) * 2)
    assert engine.page.evaluate("page.left") == [["last"]]
    engine.show(plan, X)
    assert_value(engine, expected)
    assert engine.page.evaluate("page.left") == [["last"], []]
    engine.page.evaluate("page.engine.unloadContent()")
    engine.show(plan, -X)
    expected = torch_output(4, -X) * 2
    expected[:, 3] *= 3
    assert_value(engine, expected)
    set_edits(engine)
    assert_value(engine, torch_output(4, -X))


@ONE_RENDERER
def test_of_many_changes_the_last_one_arrives_and_one_run_is_in_flight(
    engine: EnginePage, plan: nbglcnn.Plan
) -> None:
    engine.show(plan, X)
    set_edits(engine, multiply_edit(1))
    found = engine.page.evaluate(
        """async (edits) => {
          const { engine } = page;
          const { run } = engine.signals;
          let runs = 0;
          run.subscribe(() => runs++);
          const all = edits.map((one) => engine.setEdits([one]));
          await all[0];
          const first = runs;
          await Promise.all(all);
          return [first, runs, run.peek().sequence, engine.signals.session.peek().sequence];
        }""",
        edits_to_dicts([multiply_edit(k, name="m") for k in range(2, 62)]),
    )
    first, runs, last, shown = found
    assert runs <= 3, "the subscription itself, what was there first, and the last"
    assert first <= runs and last == shown
    assert_value(engine, torch_output(4) * 61)


@ONE_RENDERER
def test_a_change_during_a_run_is_in_the_next_one_right_behind_it(
    engine: EnginePage, plan: nbglcnn.Plan
) -> None:
    content = engine.add_content(plan, X)
    engine.page.evaluate("a => page.engine.show(a)", content)
    set_edits(engine, multiply_edit(2))
    frames = engine.page.evaluate(
        """async ([content, one]) => {
          const { engine } = page;
          const before = engine.runCount;
          const running = engine.show(content, { rerun: true });
          const edited = engine.setEdits([one]);
          await running;
          await edited;
          return engine.runCount - before;
        }""",
        [content, edits_to_dicts([multiply_edit(5)])[0]],
    )
    assert frames <= 2
    assert_value(engine, torch_output(4) * 5)


@ONE_RENDERER
def test_edits_and_their_arrays_survive_a_lost_context(
    engine: EnginePage, plan: nbglcnn.Plan
) -> None:
    engine.show(plan, X)
    array = np.random.default_rng(1).standard_normal((2, 1, 9, 7)).astype(np.float32)
    inject = multiply_edit(
        0, transform="inject", parameters=(), array_hash="somewhere", channels=(1,)
    )
    set_edits(engine, inject)
    assert engine.page.evaluate("page.left") == [["times 0"]], "its array is not here"
    assert_value(engine, torch_output(4))
    engine.add_blob("somewhere", array.tobytes())
    set_edits(engine, inject)
    assert engine.page.evaluate("page.left") == [["times 0"], []]
    expected = torch_output(4)
    expected[:, 1] = array[:, 0]
    assert_value(engine, expected)
    engine.page.evaluate(LOSE_CONTEXT_SCRIPT)
    engine.page.wait_for_function("page.told.includes('restored')")
    engine.page.wait_for_function("page.engine.currentContent !== undefined")
    assert_value(engine, expected)


@ONE_RENDERER
def test_an_edit_that_cannot_be_is_told_to_who_made_it_and_those_before_stay(
    engine: EnginePage, plan: nbglcnn.Plan
) -> None:
    engine.show(plan, X)
    set_edits(engine, multiply_edit(2))
    wrong = multiply_edit(0, transform="glsl", parameters=(), source="y = nothing", name="wrong")
    with pytest.raises(Error, match="nothing"):
        set_edits(engine, multiply_edit(4), wrong)
    assert_value(engine, torch_output(4) * 2)
    engine.show(plan, -X)
    assert_value(engine, torch_output(4, -X) * 2)
    found: Sequence[str] = engine.page.evaluate(
        """async ([wrong, right]) => {
          const all = [wrong, right].map((one) => page.engine.setEdits([one]));
          const settled = await Promise.allSettled(all);
          return settled.map(({ status }) => status);
        }""",
        edits_to_dicts([wrong, multiply_edit(3)]),
    )
    assert found[1] == "fulfilled", "the one behind it is its own"
    assert_value(engine, torch_output(4, -X) * 3)
