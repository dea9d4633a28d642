"""The parity check repeated: samples that a page sends again, with a script in the page's place."""

import asyncio
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from left_to_python import Summed
from nbglcnn import Viewer
from nbglcnn.plan.schema import Plan, Target
from nbglcnn.report import Match, Report, compared
from nbglcnn.widget.parity import ParityCheck, with_apart
from nbglcnn.widget.reading import Answer, Reader
from scripted_page import ScriptedPage, Wires
from viewer_models import Large, autoencoder, pictures

SEED = 7


@pytest.fixture(scope="module")
def made() -> Iterator[Viewer]:
    one = pictures(SEED, 1)
    viewer = Viewer(autoencoder(SEED), np.concatenate([one, pictures(SEED + 1, 1), one]))
    yield viewer
    viewer.close()


@pytest.fixture
def viewer(made: Viewer) -> Viewer:
    """Without a page that knows it; loading one takes longer than most tests."""
    made._connection.pages.clear()
    made._parity._verdicts.clear()  # its pages have the same names
    made._parity._loop = None  # Playwright's in a process that has one, and runs in its calls alone
    return made


@pytest.fixture
def page(viewer: Viewer) -> ScriptedPage:
    page = Wires(viewer).page()
    page.ran()
    return page


def until(page: ScriptedPage, done: Callable[[str], bool]) -> str:
    """What the check says once it says so; a page that says something lets it go on."""
    end = time.monotonic() + 60
    while not done(found := page.viewer.status["parity"]):
        assert time.monotonic() < end, found
        time.sleep(0.02)
        page.say("health", lost=False, losses=0, bytes=0, views=1)
    return str(found)


def matches(words: str) -> bool:
    return words.startswith("10 of 10 layers match PyTorch")


def wrong(page: ScriptedPage, key: str) -> None:
    """From now on this page computes another value, by so little that kernels aren't swapped."""
    values = page.values()
    by = 2e-4 * np.abs(values[key]).max()
    page.values = lambda: {**values, key: values[key] + by}  # type: ignore[method-assign]


def test_samples_that_come_again_make_another_verdict(page: ScriptedPage) -> None:
    assert page.viewer.status["parity_at"] == ""
    page.probed()
    until(page, matches)
    first = page.asked("verified")
    assert len(first) == 1
    wrong(page, "decoder.0")
    page.probed()
    found = until(page, lambda words: not matches(words))
    assert found.startswith("9 of 10 layers match PyTorch")
    assert "the first that is not: decoder.0" in found
    told = page.asked("verified")
    assert len(told) == 2 and [name for name, _, ok in told[1]["layers"] if not ok] == ["decoder.0"]
    assert len(page.asked("probe")) == 1  # which is for all times


def test_the_verdict_of_one_page_is_not_anothers(viewer: Viewer) -> None:
    wires = Wires(viewer)
    pages = [wires.page(name) for name in "pq"]
    for page in pages:
        page.ran()
        assert page.asked("probe")[-1]["page"] == page.name
    wrong(pages[1], "decoder.0")
    for page in pages:
        page.probed()
    until(pages[1], lambda words: "9 of 10" in words)
    until(pages[0], matches)
    until(pages[1], lambda words: "9 of 10" in words)


def test_samples_of_an_earlier_input_are_asked_for_once_more(page: ScriptedPage) -> None:
    page.probed()
    until(page, matches)
    old = page.state
    page.viewer.input = pictures(SEED + 2, 3)
    new, page.state = page.state, old
    page.probed()
    page.state = new
    page.ran()
    assert [probe["revision"] for probe in page.asked("probe")] == [
        old["revision"],
        new["revision"],
    ]
    before = len(page.asked("verified"))
    page.probed()
    until(page, lambda _: len(page.asked("verified")) > before)
    assert matches(page.viewer.status["parity"])


def test_equal_examples_that_differ_are_told_though_both_are_near_enough(
    page: ScriptedPage,
) -> None:
    page.viewer.input = np.concatenate([pictures(SEED, 1)] * 3)
    page.ran()
    page.probed()
    until(page, matches)
    page.probed([("encoder.0", 0, 2)])
    found = until(page, lambda words: not matches(words))
    assert "example 2 of encoder.0 differs from example 0, which has the same input" in found
    assert page.asked("verified")[-1]["note"].startswith("example 2 of encoder.0")


def test_examples_that_differ_in_the_reference_too_are_right() -> None:
    rows = tuple(Match(key, 0.0, 0.0, 0.0, True) for key in ("a", "b"))
    report = Report(rows, "match PyTorch")
    same, ramp = np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = {"a": ramp, "b": same}
    assert with_apart(report, [("a", 0, 1)], expected).ok
    assert with_apart(report, [("b", 0, 5), ("c", 0, 1)], expected).ok  # not in this network
    found = with_apart(report, [("a", 0, 1), ("b", 0, 1)], expected)
    assert found.first_diverging == "b" and found.note.startswith("example 1 of b")
    signs = {"b": np.array([[0.0], [-0.0]], np.float32)}
    assert with_apart(report, [("b", 0, 1)], signs).ok  # by a bit


def test_verify_names_equal_examples_that_differ(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = pictures(SEED, 1)
    viewer.input = np.concatenate([one, pictures(SEED + 1, 1), one])
    assert viewer.verify().ok
    values = viewer.network.computed(viewer.network.plan.computed)
    at = viewer.network.plan.computed.index("encoder.0")
    values[at][2].ravel()[5] = np.nextafter(values[at][2].ravel()[5], np.float32(9))
    monkeypatch.setattr(Reader, "read", lambda *_, **__: Answer(values, 0))
    report = viewer.verify()
    assert report.first_diverging == "encoder.0"
    assert "example 2 of encoder.0 differs from example 0, which has" in report.summary


def test_a_cell_that_runs_is_not_disturbed_by_a_check_that_is_made_again(
    page: ScriptedPage,
) -> None:
    viewer = page.viewer
    network, page.state["revision"] = viewer.network, viewer._connection.revision
    given = network.plan, network.graph, network.arrays

    async def cells() -> None:
        begun: list[str] = []

        def reference(*arguments: object) -> object:
            begun.append("reference")
            return network.local.reference(*arguments)  # type: ignore[arg-type]

        check = ParityCheck(viewer._connection, reference, network.local.exact, lambda: None)  # type: ignore[arg-type]
        [own] = viewer._connection.usable

        async def judged() -> None:
            while not check.of(own, network.plan) or check._busy:
                await asyncio.sleep(0.01)

        viewer._parity, before = check, viewer._parity
        try:
            own.sampled, own.probed, own.samples = (-1, ""), "", None
            check.follow(*given)
            page.probed()
            await judged()
            begun.clear()
            page.probed()
            time.sleep(0.5)  # a cell computes in the kernel's main thread
            assert not begun
            await judged()
            assert begun == ["reference"]
        finally:
            viewer._parity = before

    asyncio.run(cells())


def test_the_time_of_the_check_is_said(page: ScriptedPage) -> None:
    page.probed()
    until(page, matches)
    at = page.viewer.status["parity_at"]
    time.strptime(at, "%H:%M:%S")
    assert f"in samples of each, made at {at}" in page.viewer.report()


def test_a_live_picture_is_not_compared_where_python_computes_layers_of_an_earlier_one() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), Summed(4), nn.ReLU()).eval()
    viewer = Viewer(model, torch.randn(1, 3, 8, 9))
    try:
        assert viewer.network.plan.in_python
        page = Wires(viewer).page()
        page.viewer.input = nbglcnn.Webcam()
        page.choose(kind="webcam", owner="p", playing=True)
        page.tell(still=False)
        page.ran()
        assert not page.asked("probe")
        page.tell(still=True)
        page.ran()
        assert page.asked("probe")
    finally:
        viewer.close()


def test_more_than_one_message_of_samples_is_put_together(page: ScriptedPage) -> None:
    plan: Plan = page.viewer.network.plan
    probe = page.asked("probe")[-1]
    count = sum(4 * width for bands in probe["bands"] for _, _, width in bands)
    assert list(probe["keys"]) == plan.computed
    data = memoryview(np.zeros(count, np.float32).tobytes())
    sizes = {"revision": probe["revision"], "count": 2, "bytes": data.nbytes}
    page.say("probed", [data[:7]], part=0, **sizes)
    page.say("probed", [data], part=1, **sizes)
    page.say("probed", [data], part=0, **{**sizes, "bytes": 2**40})
    assert page.viewer.status["parity"] == ""
    page.probed()
    until(page, matches)


def test_numbers_beyond_16_bits_name_their_layer_and_a_page_may_ask_for_float32() -> None:
    torch.manual_seed(0)
    model, x = Large().eval(), torch.rand(1, 1, 5, 6) + 1
    viewer = Viewer(model, x, precision="float16")
    try:
        page = Wires(viewer).page()
        page.ran()
        page.probed()
        found = until(page, lambda words: bool(words and page.asked("verified")))
        assert "the numbers of wide leave 16 bits (up to " in found
        assert found.endswith(
            'float16 ends at 65504): precision="float32" holds them, in samples of each'
        )
        assert page.asked("verified")[-1]["beyond"] == "wide"
        page.say("setprecision", precision="float32")
        assert viewer.network.precision == viewer.network.plan.precision == "float32"
        page.ran()
        page.probed()
        found = until(page, lambda _: page.asked("verified")[-1]["beyond"] == "")
        assert found.startswith("3 of 3 layers match") and "16 bits" not in found
        with torch.no_grad():
            np.testing.assert_allclose(viewer.output, model(x).numpy(), rtol=1e-5, atol=1e-6)
    finally:
        viewer.close()


def test_a_device_without_float32_is_offered_none() -> None:
    model, x = Large().eval(), torch.rand(1, 1, 5, 6) + 1
    weak = nbglcnn.compile(model, x, target=Target(float32_render=False))
    true = {key: np.full(1, 1e6, np.float32) for key in weak.computed}
    report = compared(weak, true, true, "PyTorch")
    assert report.beyond == weak.computed[0]
    assert "a browser or GPU that draws float32 holds them" in report.advice


def test_the_precision_stays_where_a_training_is_on_and_edits_stay_with_another() -> None:
    viewer = Viewer(Large().eval(), torch.rand(1, 1, 5, 6), precision="float16")
    try:
        page = Wires(viewer).page()
        viewer.bend("narrow", nbglcnn.transforms.flip_h())
        page.say("setprecision", precision="float32")
        assert viewer.network.plan.precision == "float32"
        assert [edit.layer for edit in viewer.network.edits] == ["narrow"]
        page.say("setprecision", precision="float64")
        assert viewer.network.plan.precision == "float32"
    finally:
        viewer.close()
