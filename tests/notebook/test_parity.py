"""The repeated parity check: a page sends samples again; a script plays the page."""

import asyncio
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from nbglcnn import Viewer
from nbglcnn.plan.schema import Plan, Target
from nbglcnn.report import Match, Report, compare_values
from nbglcnn.widget.parity import ParityCheck, mark_example_mismatches
from nbglcnn.widget.reader import Reader, ReadResult
from python_fallback_models import NumpyCumsum
from scripted_page import FakeComm, ScriptedPage
from viewer_models import LargeProducts, autoencoder, pictures

SEED = 7


@pytest.fixture(scope="module")
def shared_viewer() -> Iterator[Viewer]:
    one = pictures(SEED, 1)
    viewer = Viewer(autoencoder(SEED), np.concatenate([one, pictures(SEED + 1, 1), one]))
    yield viewer
    viewer.close()


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    """A Viewer unknown to any page, shared because loading takes longer than most tests."""
    shared_viewer._connection.pages.clear()
    shared_viewer._parity._verdicts.clear()  # its pages have equal names
    # Playwright's loop, if any, runs only during its calls.
    shared_viewer._parity._event_loop = None
    return shared_viewer


@pytest.fixture
def page(viewer: Viewer) -> ScriptedPage:
    page = FakeComm(viewer).open_page()
    page.report_run()
    return page


def wait_until(page: ScriptedPage, condition: Callable[[str], bool]) -> str:
    """Return the check's verdict once `condition` accepts it, while page messages arrive."""
    end = time.monotonic() + 60
    while not condition(found := page.viewer.status["parity"]):
        assert time.monotonic() < end, found
        time.sleep(0.02)
        page.send("contexthealth", lost=False, losses=0, bytes=0, views=1)
    return str(found)


def is_all_matching(verdict_text: str) -> bool:
    return verdict_text.startswith("10 of 10 layers match PyTorch")


def corrupt_value(page: ScriptedPage, key: str) -> None:
    """Change a value of this page slightly, so that the kernels aren't swapped."""
    values = page.compute_values()
    by = 2e-4 * np.abs(values[key]).max()
    page.compute_values = lambda: {**values, key: values[key] + by}  # type: ignore[method-assign]


def test_samples_that_come_again_make_another_verdict(page: ScriptedPage) -> None:
    assert page.viewer.status["parity_at"] == ""
    page.answer_probe()
    wait_until(page, is_all_matching)
    first = page.messages_of("verifyresult")
    assert len(first) == 1
    corrupt_value(page, "decoder.0")
    page.answer_probe()
    found = wait_until(page, lambda words: not is_all_matching(words))
    assert found.startswith("9 of 10 layers match PyTorch")
    assert "the first that is not: decoder.0" in found
    told = page.messages_of("verifyresult")
    assert len(told) == 2 and [name for name, _, ok in told[1]["layers"] if not ok] == ["decoder.0"]
    assert len(page.messages_of("probe")) == 1  # one probe serves all later samples


def test_the_verdict_of_one_page_is_not_anothers(viewer: Viewer) -> None:
    comm = FakeComm(viewer)
    pages = [comm.open_page(name) for name in "pq"]
    for page in pages:
        page.report_run()
        assert page.messages_of("probe")[-1]["page"] == page.name
    corrupt_value(pages[1], "decoder.0")
    for page in pages:
        page.answer_probe()
    wait_until(pages[1], lambda words: "9 of 10" in words)
    wait_until(pages[0], is_all_matching)
    wait_until(pages[1], lambda words: "9 of 10" in words)


def test_samples_of_an_earlier_input_are_asked_for_once_more(page: ScriptedPage) -> None:
    page.answer_probe()
    wait_until(page, is_all_matching)
    old = page.state
    page.viewer.input = pictures(SEED + 2, 3)
    new, page.state = page.state, old
    page.answer_probe()
    page.state = new
    page.report_run()
    assert [probe["revision"] for probe in page.messages_of("probe")] == [
        old["revision"],
        new["revision"],
    ]
    before = len(page.messages_of("verifyresult"))
    page.answer_probe()
    wait_until(page, lambda _: len(page.messages_of("verifyresult")) > before)
    assert is_all_matching(page.viewer.status["parity"])


def test_equal_examples_that_differ_are_told_though_both_are_near_enough(
    page: ScriptedPage,
) -> None:
    page.viewer.input = np.concatenate([pictures(SEED, 1)] * 3)
    page.report_run()
    page.answer_probe()
    wait_until(page, is_all_matching)
    page.answer_probe([("encoder.0", 0, 2)])
    found = wait_until(page, lambda words: not is_all_matching(words))
    assert "example 2 of encoder.0 differs from example 0, which has the same input" in found
    assert page.messages_of("verifyresult")[-1]["note"].startswith("example 2 of encoder.0")


def test_examples_that_differ_in_the_reference_too_are_right() -> None:
    rows = tuple(Match(key, 0.0, 0.0, 0.0, True) for key in ("a", "b"))
    report = Report(rows, "match PyTorch")
    same, ramp = np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = {"a": ramp, "b": same}
    assert mark_example_mismatches(report, [("a", 0, 1)], expected).ok
    assert mark_example_mismatches(
        report, [("b", 0, 5), ("c", 0, 1)], expected
    ).ok  # not layers of this network
    found = mark_example_mismatches(report, [("a", 0, 1), ("b", 0, 1)], expected)
    assert found.first_diverging == "b" and found.note.startswith("example 1 of b")
    signs = {"b": np.array([[0.0], [-0.0]], np.float32)}
    assert mark_example_mismatches(report, [("b", 0, 1)], signs).ok  # differs in the sign bit


def test_verify_names_equal_examples_that_differ(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = pictures(SEED, 1)
    viewer.input = np.concatenate([one, pictures(SEED + 1, 1), one])
    assert viewer.verify().ok
    values = viewer.network.compute_values(viewer.network.plan.computed)
    at = viewer.network.plan.computed.index("encoder.0")
    values[at][2].ravel()[5] = np.nextafter(values[at][2].ravel()[5], np.float32(9))
    monkeypatch.setattr(Reader, "read", lambda *_, **__: ReadResult(values, 0))
    report = viewer.verify()
    assert report.first_diverging == "encoder.0"
    assert "example 2 of encoder.0 differs from example 0, which has" in report.summary


def test_a_cell_that_runs_is_not_disturbed_by_a_check_that_is_made_again(
    page: ScriptedPage,
) -> None:
    viewer = page.viewer
    network, page.state["revision"] = viewer.network, viewer._connection.revision
    given = network.plan, network.graph, network.input_arrays

    async def cells() -> None:
        begun: list[str] = []

        def reference(*arguments: object) -> object:
            begun.append("reference")
            return network.local.compute_reference(*arguments)  # type: ignore[arg-type]

        check = ParityCheck(
            viewer._connection, reference, network.local.compute_float64, lambda: None
        )  # type: ignore[arg-type]
        [own] = viewer._connection.usable_pages

        async def judged() -> None:
            while not check.find_verdict(own, network.plan) or check._running:
                await asyncio.sleep(0.01)

        viewer._parity, before = check, viewer._parity
        try:
            own.probed_state, own.probed_plan_hash, own.parity_samples = (-1, ""), "", None
            check.continue_checks(*given)
            page.answer_probe()
            await judged()
            begun.clear()
            page.answer_probe()
            time.sleep(0.5)  # a cell computes in the kernel's main thread
            assert not begun
            await judged()
            assert begun == ["reference"]
        finally:
            viewer._parity = before

    asyncio.run(cells())


def test_the_time_of_the_check_is_said(page: ScriptedPage) -> None:
    page.answer_probe()
    wait_until(page, is_all_matching)
    at = page.viewer.status["parity_at"]
    time.strptime(at, "%H:%M:%S")
    assert f"on samples of each, made at {at}" in page.viewer.report()


def test_a_live_picture_is_not_compared_where_python_computes_layers_of_an_earlier_one() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), NumpyCumsum(4), nn.ReLU()).eval()
    viewer = Viewer(model, torch.randn(1, 3, 8, 9))
    try:
        assert viewer.network.plan.in_python
        page = FakeComm(viewer).open_page()
        page.viewer.input = nbglcnn.Webcam()
        page.set_source(kind="webcam", owner="p", playing=True)
        page.report_feed(still=False)
        page.report_run()
        assert not page.messages_of("probe")
        page.report_feed(still=True)
        page.report_run()
        assert page.messages_of("probe")
    finally:
        viewer.close()


def test_more_than_one_message_of_samples_is_put_together(page: ScriptedPage) -> None:
    plan: Plan = page.viewer.network.plan
    probe = page.messages_of("probe")[-1]
    count = sum(4 * width for bands in probe["spans"] for _, _, width in bands)
    assert list(probe["keys"]) == plan.computed
    data = memoryview(np.zeros(count, np.float32).tobytes())
    sizes = {"revision": probe["revision"], "count": 2, "bytes": data.nbytes}
    page.send("probereply", [data[:7]], chunk=0, **sizes)
    page.send("probereply", [data], chunk=1, **sizes)
    page.send("probereply", [data], chunk=0, **{**sizes, "bytes": 2**40})
    assert page.viewer.status["parity"] == ""
    page.answer_probe()
    wait_until(page, is_all_matching)


def test_numbers_beyond_16_bits_name_their_layer_and_a_page_may_ask_for_float32() -> None:
    torch.manual_seed(0)
    model, x = LargeProducts().eval(), torch.rand(1, 1, 5, 6) + 1
    viewer = Viewer(model, x, precision="float16")
    try:
        page = FakeComm(viewer).open_page()
        page.report_run()
        page.answer_probe()
        found = wait_until(page, lambda words: bool(words and page.messages_of("verifyresult")))
        assert "values of wide exceed the float16 range (up to " in found
        assert found.endswith(
            'maximum is 65504): use precision="float32", checked on samples of each'
        )
        assert page.messages_of("verifyresult")[-1]["float16_overflow"] == "wide"
        page.send("setprecision", precision="float32")
        assert viewer.network.precision == viewer.network.plan.precision == "float32"
        page.report_run()
        page.answer_probe()
        found = wait_until(
            page, lambda _: page.messages_of("verifyresult")[-1]["float16_overflow"] == ""
        )
        assert found.startswith("3 of 3 layers match") and "16 bits" not in found
        with torch.no_grad():
            np.testing.assert_allclose(viewer.output, model(x).numpy(), rtol=1e-5, atol=1e-6)
    finally:
        viewer.close()


def test_a_device_without_float32_is_offered_none() -> None:
    model, x = LargeProducts().eval(), torch.rand(1, 1, 5, 6) + 1
    weak = nbglcnn.compile(model, x, target=Target(float32_render=False))
    true = {key: np.full(1, 1e6, np.float32) for key in weak.computed}
    report = compare_values(weak, true, true, "PyTorch")
    assert report.float16_overflow == weak.computed[0]
    assert "use a browser or GPU that supports float32" in report.advice


def test_the_precision_stays_where_a_training_is_on_and_edits_stay_with_another() -> None:
    viewer = Viewer(LargeProducts().eval(), torch.rand(1, 1, 5, 6), precision="float16")
    try:
        page = FakeComm(viewer).open_page()
        viewer.bend("narrow", nbglcnn.transforms.flip_h())
        page.send("setprecision", precision="float32")
        assert viewer.network.plan.precision == "float32"
        assert [edit.layer for edit in viewer.network.edits] == ["narrow"]
        page.send("setprecision", precision="float64")
        assert viewer.network.plan.precision == "float32"
    finally:
        viewer.close()
