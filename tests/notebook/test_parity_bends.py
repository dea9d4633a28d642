"""The parity check with edits, with local OpenGL in place of a page."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from nbglcnn import Session, transforms
from nbglcnn.features.edits.records import Edit, edits_to_dicts
from nbglcnn.graph import Array
from nbglcnn.load import load
from nbglcnn.local_backend import LocalBackend
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.schema import Target
from nbglcnn.widget import parity
from nbglcnn.widget.asset_manifest import AssetManifest
from nbglcnn.widget.connection import Connection
from nbglcnn.widget.parity import ParityCheck, hash_edits
from nbglcnn.widget.reader import Reader, ReadResult
from nbglcnn.widget.viewer import MESSAGES
from recorded_runs import is_tracing


class FakePage:
    """A page that shows a Session's values, and the ParityCheck that checks it."""

    def __init__(self, middle: nn.Module | None = None) -> None:
        torch.manual_seed(0)
        middle = middle or nn.ReLU()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3), middle, nn.Conv2d(6, 3, 3)).eval()
        self.graph, self.arrays = load(self.net, torch.randn(2, 3, 12, 11))
        self.plan = lower(self.graph)
        self.session = Session(self.plan)
        self.sent: list[dict[str, Any]] = []
        self.connection = Connection(
            "0.1.0",
            MESSAGES,
            lambda content, _: self.sent.append(content),
            lambda _: None,
            lambda: None,
        )
        self.connection.send_manifest(
            AssetManifest(self.plan.hash, (), (), {self.plan.hash: memoryview(b"")})
        )
        self.statuses: list[dict[str, Any]] = []
        local = LocalBackend(self.net)
        self.check = ParityCheck(
            self.connection, local.compute_reference, local.compute_float64, lambda: None
        )
        self.send("hello", version="0.1.0", protocol=MESSAGES.digest, cached_blobs=[],
                  renderer="a GPU", target=msgspec.to_builtins(Target()), problem="")  # fmt: skip
        self.report_run()

    def send(self, kind: str, buffers: Sequence[memoryview] = (), **fields: Any) -> None:
        self.connection.receive({"type": kind, "page": "p", **fields}, list(buffers))

    def report_run(self) -> None:
        self.send("runreport", revision=self.connection.revision, ms=1.0, timing="wall", passes=3,
                  is_remeasured=False)  # fmt: skip

    @property
    def edits(self) -> Sequence[Edit]:
        return self.session.bends.store.edits

    def advance_check(self) -> str:
        """Advance the check by a step, and return its verdict text."""
        store = self.session.bends.store
        self.check.continue_checks(self.plan, self.graph, self.arrays, self.edits, store.arrays)
        found = self.check.find_verdict(self.connection.active_page, self.plan, self.edits)
        return found.describe(self.plan, named=True) if found else ""

    def answer_probe(self, message: str | None = None) -> None:
        """Answer the last Probe, and wait until the samples are judged."""
        [probe] = [one for one in self.sent if one["type"] == "probe"]
        self.sent.clear()
        values = self.session.run(*self.arrays)
        texels = [self._sample_texels(values[key], key, bands) for key, bands in
                  zip(probe["keys"], probe["spans"], strict=True)]  # fmt: skip
        said = msgspec.json.encode(edits_to_dicts(self.edits)).decode() if self.edits else ""
        data = memoryview(np.concatenate(texels).tobytes())
        self.send("probereply", [data], chunk=0, count=1, bytes=data.nbytes,
                  revision=probe["revision"],
                  edits=said if message is None else message)  # fmt: skip

    def _sample_texels(self, value: Array, key: str, bands: Any) -> Array:
        [record] = [one for one in self.plan.values if one.key == key]
        width, height = record.readback.draw_pass.viewport
        flat = np.zeros(4 * width * height, np.float32)
        flat[: value.size] = value.ravel()
        return np.concatenate([flat[4 * (y * width + x) :][: 4 * w] for x, y, w in bands])

    def wait_until(self, condition: Callable[[str], bool]) -> str:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if condition(found := self.advance_check()):
                self.advance_check()  # the verdict may have come after the step that sends it
                return found
            time.sleep(0.02)
        raise AssertionError(f"the parity check says {self.advance_check()!r}")

    def is_probed(self) -> bool:
        return any(one["type"] == "probe" for one in self.sent)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePage]:
    monkeypatch.setattr(parity, "EDIT_DEBOUNCE_S", 0.3)
    page = FakePage()
    yield page
    page.session.close()


def test_samples_are_compared_with_the_model_whose_bends_are_replayed(page: FakePage) -> None:
    page.advance_check()
    page.answer_probe()
    found = page.wait_until(bool)
    assert found.startswith("3 of 3 layers match PyTorch") and "bends" not in found
    [told] = [one for one in page.sent if one["type"] == "verifyresult"]
    assert told["edits"] == ""

    page.session.bend("0", transforms.rotate(30), channels=[0, 2])
    assert page.advance_check() == ""  # that verdict was without the bend
    page.wait_until(lambda _: page.is_probed())
    page.answer_probe()
    found = page.wait_until(bool)
    assert found.startswith("3 of 3 layers match PyTorch")
    assert found.endswith(", with bends applied, checked on samples of each")
    [told] = [one for one in page.sent if one["type"] == "verifyresult"]
    assert "rotate" in told["edits"]
    page.sent.clear()

    page.session.bends.clear()  # a verdict for this exists
    assert page.advance_check().startswith("3 of 3 layers match PyTorch")
    [told] = [one for one in page.sent if one["type"] == "verifyresult"]
    assert told["edits"] == ""


def test_a_page_that_has_not_bent_is_found_out(page: FakePage) -> None:
    page.session.bend("0", transforms.flip_h())
    page.wait_until(lambda _: page.is_probed())
    words = msgspec.json.encode(edits_to_dicts(page.edits)).decode()
    page.session.set_edits((), {})
    page.answer_probe(words)
    assert "the first that is not: 0" in page.wait_until(bool)
    verdict = page.check.find_verdict(page.connection.active_page, page.plan, page.edits)
    assert verdict is not None and not verdict.is_wrong  # plain kernels wouldn't fix it


def test_nothing_is_begun_while_a_slider_moves(page: FakePage) -> None:
    bend = page.session.bend("0", transforms.rotate(0))
    start = time.monotonic()
    while time.monotonic() - start < 0.8:
        bend.degrees = 100 * (time.monotonic() - start)
        page.advance_check()
        assert not page.is_probed()
        time.sleep(0.05)
    page.wait_until(lambda _: page.is_probed())


def test_it_goes_on_by_itself_when_the_slider_rests(page: FakePage) -> None:
    calls: list[float] = []

    async def rest() -> None:
        local = LocalBackend(page.net)
        check = ParityCheck(
            page.connection,
            local.compute_reference,
            local.compute_float64,
            lambda: calls.append(time.monotonic()),
        )
        page.session.bend("0", transforms.flip_v())
        start = time.monotonic()
        for _ in range(5):
            check.continue_checks(page.plan, page.graph, page.arrays, page.edits)
        await asyncio.sleep(0.6)
        assert len(calls) == 1
        assert calls[0] - start >= 0.3

    asyncio.run(rest())


def test_samples_of_other_edits_are_judged_as_such_and_asked_for_again(page: FakePage) -> None:
    page.session.bend("1", transforms.add(1))
    page.wait_until(lambda _: page.is_probed())
    words = msgspec.json.encode(edits_to_dicts(page.edits)).decode()
    old = page.edits
    page.session.bends[0].number = 2.0  # after the page's report of its edits
    page.session.set_edits(old, {})
    page.answer_probe(words)
    page.wait_until(lambda _: page.is_probed())  # for the current edits
    page.session.bends.store.reapply()
    page.answer_probe()
    assert page.wait_until(bool).startswith("3 of 3 layers match")


def test_after_a_bend_that_comes_and_goes_it_is_told_again(page: FakePage) -> None:
    """A page discards the verdict on every change."""

    def told() -> list[str]:
        return [one["edits"] for one in page.sent if one["type"] == "verifyresult"]

    def come_and_go(transform: transforms.Transform) -> None:
        page.sent.clear()
        page.session.bend("1", transform)
        page.advance_check()
        page.session.undo()
        page.advance_check()

    page.advance_check()
    page.answer_probe()
    page.wait_until(bool)
    come_and_go(transforms.flip_v())
    assert told() == [""]
    page.session.bend("0", transforms.flip_h())
    page.wait_until(lambda _: page.is_probed())
    page.answer_probe()
    page.wait_until(bool)
    assert len(told()) == 1
    come_and_go(transforms.flip_v())
    page.wait_until(lambda _: page.is_probed())
    page.answer_probe()
    page.wait_until(bool)
    assert len(told()) == 1 and "flip_h" in told()[0]


def test_what_cannot_be_replayed_is_said_and_no_samples_are_asked_for(page: FakePage) -> None:
    page.session.bend("0", transforms.glsl("y = x * x"), name="square")
    found = page.wait_until(bool)
    assert found.startswith("bent: not compared (the bend 'square' of 0 is written in GLSL")
    assert not page.is_probed()
    page.session.bends.clear()
    page.session.bend("0", transforms.threshold(0.0))
    page.wait_until(lambda _: page.is_probed())
    page.session.set_edits((), {})
    page.answer_probe(msgspec.json.encode(edits_to_dicts(page.edits)).decode())
    assert page.wait_until(bool).startswith("bent: not compared (a threshold may decide")


def test_edits_that_no_page_of_ours_says_are_ignored(page: FakePage) -> None:
    page.session.bend("0", transforms.flip_h())
    for words in ("{", "[1]", '[{"layer": "nowhere", "name": "a", "transform": "flip_h"}]'):
        page.wait_until(lambda _: page.is_probed())
        page.answer_probe(words)
        assert page.advance_check() == ""
    assert hash_edits(page.edits) != hash_edits([]) == ""


def test_verify_replays_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU()).eval()
    viewer = nbglcnn.Viewer(net, torch.randn(1, 3, 8, 8))
    edits = [Edit(layer="0", name="a", transform="flip_v")]
    try:
        assert viewer.verify().ok
        unbent = viewer.network.compute_values(viewer.network.plan.computed)
        monkeypatch.setattr(viewer.network, "edits", tuple(edits))
        monkeypatch.setattr(Reader, "read", lambda *_, **__: ReadResult(list(unbent), 0))
        report = viewer.verify()
        assert report.first_diverging == "0"  # the page's values have no bends
        assert report.summary.count(", with bends applied") == 1
    finally:
        viewer.close()


class CountsCalls(nn.Module):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class ExportsDifferently(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 1.5 if is_tracing() else x.clone()


@pytest.mark.filterwarnings("ignore:.*two equal calls")
@pytest.mark.parametrize(
    ("middle", "words"),
    [
        (CountsCalls, "two equal calls of the model differ, first in 1,"),
        (ExportsDifferently, "the first that is not: 1"),
    ],
)
def test_the_check_does_not_agree_with_its_own_graph(middle: type[nn.Module], words: str) -> None:
    page = FakePage(middle())
    page.advance_check()
    page.answer_probe()
    assert words in page.wait_until(bool)
    found = page.check.find_verdict(page.connection.active_page, page.plan)
    assert found is not None and found.report is not None and not found.report.ok
    # The state is wrong, not the fast kernels.
    assert found.is_wrong == (middle is ExportsDifferently)
    page.session.close()
