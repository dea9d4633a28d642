"""ONNX's own test suite: all but large networks on local OpenGL, the core subset in Chromium too.

Chromium runs llvmpipe. One case of each operator also runs on SwiftShader, where shaders take four
times as long to compile. `make conformance` runs every case on both.
"""

import json
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from playwright.sync_api import Playwright

import nbglcnn.backend
from browsers import RENDERERS
from conformance import OPENGL, RECORD_FILE, Outcome, run_case, run_on_opengl
from onnx_suite import SUBSET_FILE, SUBSETS, SuiteCase, suite_cases
from plan_page import PlanPage, open_plan_pages
from shader_proof import explain_missing_passes

CASES = list(suite_cases(expanded=False))
# The networks of "real" are in test_real_models.py, which compares each of their tensors.
CASE_GROUPS = sorted({(case.subset, case.operator) for case in CASES if case.operator != "real"})
RECORDED_RESULTS = json.loads(RECORD_FILE.read_text("utf-8"))


def assert_matches_record(found: Outcome) -> None:
    """Check that the outcome matches the repository's record of a whole run."""
    for backend, status in found.status_by_backend.items():
        if found.name in RECORDED_RESULTS["not passed"]:
            assert status == "refused", (
                f"{found.name} on {backend}: {found.reason_by_backend[backend]}"
            )
        else:
            assert status == "passed", (
                f"{found.name} on {backend}: {found.reason_by_backend[backend]}"
            )


@pytest.mark.parametrize("ring, operator", CASE_GROUPS, ids="-".join)
def test_the_suites_cases_pass_on_local_opengl(ring: str, operator: str) -> None:
    for case in CASES:
        if (case.subset, case.operator) == (ring, operator):
            assert_matches_record(run_case(case, {OPENGL: run_on_opengl}))


@pytest.fixture(scope="module")
def plan_pages_by_renderer(playwright: Playwright) -> Iterator[dict[str, PlanPage]]:
    with open_plan_pages(playwright, tuple(RENDERERS)) as pages:
        yield pages


@pytest.mark.parametrize("operator", sorted({c.operator for c in CASES if c.subset != "models"}))
def test_core_cases_and_one_of_each_other_operator_pass_in_the_browser(
    operator: str, plan_pages_by_renderer: dict[str, PlanPage]
) -> None:
    first, *others = (case for case in CASES if case.operator == operator)
    assert_matches_record(
        run_case(first, {name: page.run for name, page in plan_pages_by_renderer.items()})
    )
    for case in others if first.subset == "core" else ():
        assert_matches_record(run_case(case, {"llvmpipe": plan_pages_by_renderer["llvmpipe"].run}))


def test_the_record_holds_all_cases_and_the_promise() -> None:
    assert RECORDED_RESULTS["onnx"] == json.loads(SUBSET_FILE.read_text("utf-8"))["onnx"]
    assert sum(RECORDED_RESULTS["rings"][ring][1] for ring in SUBSETS) == len(CASES) == 758
    assert RECORDED_RESULTS["rings"]["core"] == [415, 415]
    assert sum(RECORDED_RESULTS["rings"][ring][0] for ring in SUBSETS) >= 0.95 * 758
    for reasons in RECORDED_RESULTS["not passed"].values():
        assert all(reason.startswith("refused: ") for reason in reasons)


def case_named(name: str) -> SuiteCase:
    return next(case for case in CASES if case.name == name)


def test_an_output_that_no_pass_computed_does_not_count() -> None:
    model, [(inputs, expected)] = case_named("test_relu").read()
    fixed = nbglcnn.backend.bind_inputs(model, {"x": inputs[0]})
    plan, _ = nbglcnn.backend.compile_call(fixed, {})
    assert not plan.header.passes, "all of it was folded"
    assert "no pass reads" in str(explain_missing_passes(model, plan, {"x": inputs[0]}, expected))
    honest, _ = nbglcnn.backend.compile_call(model, {"x": inputs[0]})
    assert explain_missing_passes(model, honest, {"x": inputs[0]}, expected) is None


def test_an_input_by_another_name_counts_only_if_it_is_the_result() -> None:
    model, [(inputs, expected)] = _identity_model()
    plan, _ = nbglcnn.backend.compile_call(model, {"x": inputs[0]})
    assert explain_missing_passes(model, plan, {"x": inputs[0]}, expected) is None
    assert "renaming" in str(
        explain_missing_passes(model, plan, {"x": inputs[0]}, (expected[0] + 1,))
    )


def _identity_model() -> tuple[onnx.ModelProto, list[tuple[tuple[np.ndarray], tuple[np.ndarray]]]]:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 3)) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", info[:1], info[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), [((x,), (x,))]
