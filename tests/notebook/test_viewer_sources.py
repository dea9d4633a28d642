"""A Viewer's sources with scripted pages: setting, feeding, reading and exporting them."""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
import torch
import traitlets
from PIL import Image
from torch import nn

import nbglcnn
from assertions import assert_equal
from exported_html import read_export
from nbglcnn import (
    Drawing,
    Images,
    InputError,
    Noise,
    PageError,
    Video,
    Viewer,
    Webcam,
    transforms,
)
from nbglcnn.features.edits.records import Edit, edits_to_dicts
from nbglcnn.features.export import export as exporting
from nbglcnn.features.sources import input_feed
from nbglcnn.features.sources.picture import Picture
from nbglcnn.features.sources.source_kinds import Source
from nbglcnn.plan.schema import Plan
from nbglcnn.widget import connection
from python_fallback_models import NumpyCumsum
from scripted_page import FakeComm, ScriptedPage
from viewer_models import TwoInputs, autoencoder, hook_values, pictures

SEED = 5
RANDOM = np.random.default_rng(SEED)
MP4_BYTES = b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41" + bytes(100)


def live_frame() -> np.ndarray:
    """One preprocessed picture of a live source."""
    return RANDOM.random((1, 1, 22, 18), np.float32)


def one_example_viewer() -> Viewer:
    return Viewer(autoencoder(SEED), pictures(SEED, 1))


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    viewer = one_example_viewer()
    viewer._parity._event_loop = None  # Playwright's loop, if any, runs only during its calls
    yield viewer
    viewer.close()


@pytest.fixture
def page(viewer: Viewer) -> ScriptedPage:
    return FakeComm(viewer).open_page()


DATASET_IMAGES = RANDOM.integers(0, 256, (40, 22, 18), np.uint8)


def item_as_input(item: np.ndarray) -> np.ndarray:
    found: np.ndarray = (item.astype(np.float32) / np.float32(255))[None, None]
    return found


# Python sets sources, pages follow


def test_a_source_is_told_before_the_state_that_is_of_it(
    viewer: Viewer, page: ScriptedPage
) -> None:
    page.comm.sent_types.clear()
    viewer.input = Webcam("environment")
    assert page.comm.sent_types[:2] == ["_source", "manifest"]
    told = msgspec.convert(viewer.get_state()["_source"]["source"], Source)
    assert (told.kind, told.input, told.owner) == ("webcam", "input", "")
    assert (told.faces, told.mirrored, told.playing) == ("environment", True, True)
    assert viewer.source == Webcam("environment")
    page.comm.sent_types.clear()
    viewer.source = Images(DATASET_IMAGES, labels=np.arange(40) % 4, index=3)
    assert page.comm.sent_types[:2] == ["_source", "manifest"]
    told = msgspec.convert(viewer.get_state()["_source"]["source"], Source)
    assert (told.kind, told.count, told.index, told.dtype) == ("images", 40, 3, "uint8")
    # The state already has the input, which the page also reports.
    np.testing.assert_array_equal(page.current_inputs()[0], item_as_input(DATASET_IMAGES[3]))


def test_what_is_no_source_or_does_not_fit_is_refused_and_the_old_one_stays(
    viewer: Viewer, page: ScriptedPage
) -> None:
    viewer.source = Noise(3)
    told, before = viewer.get_state()["_source"], page.state
    wrong: list[tuple[Any, str]] = [
        (7, "source is int; expected a source"),
        ("webcam", "source is str; expected a source"),
        (Picture("cat.png"), "is a picture that was chosen in a page, which now has"),
        (Video(None), "is a video without data that was chosen in a page"),
        (Images(DATASET_IMAGES.astype("f4")[:, :9]), "floats of 9×18; .* input's shape"),
        (Webcam(input="other"), "no input 'other'; the network takes input"),
    ]
    for source, words in wrong:
        with pytest.raises(InputError, match=words):
            viewer.source = source
    with pytest.raises(InputError, match="None was given"):
        viewer.input = None
    assert (
        viewer.source == Noise(3) and viewer.get_state()["_source"] == told and page.state is before
    )


def test_the_record_follows_the_page_and_can_be_observed(
    viewer: Viewer, page: ScriptedPage
) -> None:
    seen: list[Any] = []
    viewer.observe(lambda change: seen.append(change["new"]), "source")
    images = Images(DATASET_IMAGES)
    viewer.source = images
    page.set_source(index=8, playing=True, shuffled=True, rate=4)
    assert viewer.source == replace(images, index=8, playing=True, shuffled=True, rate=4)
    viewer.source = viewer.source.at(9)
    assert [one.index for one in seen] == [0, 8, 9] and seen[2].playing
    assert viewer.get_state()["_source"]["source"]["index"] == 9
    page.set_source(kind="webcam", owner="p", playing=True, mirrored=True)
    assert viewer.source == Webcam(owner="p") and viewer.source.owner == "p"
    page.set_source(playing=False)
    assert viewer.source == Webcam(playing=False, owner="p")
    page.set_source(kind="picture", owner="p", title="cat.png")
    assert viewer.source == Picture("cat.png", owner="p")
    viewer.source = viewer.source  # unchanged
    page.set_source(kind="video", owner="p", title="film.mp4", playing=True)
    assert repr(viewer.source) == "Video('film.mp4', chosen in a page)"
    viewer.source = replace(viewer.source, playing=False)
    assert viewer.source.owner == "p" and not viewer.source.playing
    page.set_source(kind="noise", seed=4, mean=0.5, std=0.25)
    assert viewer.source == Noise(4)
    page.set_source(kind="drawing", owner="p")
    assert viewer.source == Drawing(owner="p")
    page.clear_source()
    assert viewer.source is None


def test_a_page_goes_back_to_what_python_has_given(viewer: Viewer, page: ScriptedPage) -> None:
    images, film = Images(DATASET_IMAGES), Video(MP4_BYTES, title="film.mp4")
    viewer.source = images
    of_images = dict(viewer.get_state()["_source"]["source"])
    viewer.source = film
    of_film = dict(viewer.get_state()["_source"]["source"])
    page.set_source(kind="noise")
    page.set_source(**{**of_images, "index": 5})
    assert viewer.source == images.at(5)
    page.set_source(**{**of_film, "owner": "p"})
    assert viewer.source == replace(film, owner="p") and viewer.source.data is MP4_BYTES
    assert page.request_blob(of_film["data"]) == MP4_BYTES
    assert page.request_blob(f"{of_images['data']}.0") == DATASET_IMAGES.tobytes()


INVALID_SOURCES: list[Any] = [
    None, 1, [], "webcam", {}, {"source": 1}, {"source": {}}, {"source": {"kind": "webcam"}},
    {"sources": None}, {"source": None, "more": 1}, {"source": None, "turn": "x"},
    {"source": {"kind": "radio", "input": "input"}},
    *({"source": {"kind": "noise", "input": "input", **one}} for one in (
        {"seed": -1}, {"seed": 2**40}, {"seed": 0.5}, {"mean": float("nan")}, {"std": -1},
        {"std": float("inf")}, {"owner": "p"}, {"input": ""}, {"input": "output"},
        {"data": ""}, {"title": ""}, {"faces": "user"}, {"playing": False},  # of other source types
    )),
    {"source": {"kind": "webcam", "input": "input", "faces": "up"}},
    *({"source": {"kind": "latent", "input": "input", "code": code}} for code in (
        [0.0] * 5000, [float("nan")], "x",
    )),
    {"source": {"kind": "webcam", "input": "input", "owner": "q"}},
    {"source": {"kind": "webcam", "input": "input", "data": "x"}},
    {"source": {"kind": "video", "input": "input", "data": "x"}},
    {"source": {"kind": "images", "input": "input", "count": 40}},
    {"source": {"kind": "latent", "input": "input"}},
]  # fmt: skip


def test_what_a_page_may_not_say_is_told_back(viewer: Viewer, page: ScriptedPage) -> None:
    viewer.source = Images(DATASET_IMAGES, index=2)
    told, source = viewer.get_state()["_source"], viewer.source
    sent: list[Any] = []
    viewer.send_state = lambda key=None: sent.append(key)  # type: ignore[method-assign]
    for words in INVALID_SOURCES:
        viewer.set_state({"_source": words})
        assert viewer.get_state()["_source"] == told and viewer.source is source, words
        assert sent, f"the page would keep {words}"
        sent.clear()
    np.testing.assert_array_equal(viewer.input, item_as_input(DATASET_IMAGES[2]))


def test_what_a_page_said_before_it_heard_of_pythons_source_is_not_taken(
    viewer: Viewer, page: ScriptedPage
) -> None:
    viewer.source = Images(DATASET_IMAGES)
    page.set_source(playing=True)
    in_flight = [{**viewer.get_state()["_source"]["source"], "index": index} for index in (5, 6)]
    turn = viewer.get_state()["_source"]["turn"]
    viewer.source = Webcam()
    told = viewer.get_state()["_source"]
    sent: list[Any] = []
    viewer.send_state = lambda key=None: sent.append(key)  # type: ignore[method-assign]
    for source in in_flight:
        viewer.set_state({"_source": {"source": source, "turn": turn}})
        assert viewer.source == Webcam() and viewer.get_state()["_source"] == told and sent
        sent.clear()
    page.set_source(kind="noise", seed=4, mean=0.5, std=0.25)
    assert viewer.source == Noise(4)


def test_a_page_may_not_make_a_set_another(viewer: Viewer, page: ScriptedPage) -> None:
    viewer.source = Images(DATASET_IMAGES, labels=[0] * 40, classes=["a"])
    told = viewer.get_state()["_source"]
    for one in ({"index": 40}, {"count": 41}, {"block_size": 1}, {"dtype": "float32"},
                {"data": "x"}, {"labels": ""}, {"classes": "other"}, {"rate": 0.0},
                {"owner": "p"}, {"rate": -1}, {"rate": 5000}, {"seed": -1},
                {"title": "x" * 1001}, {"code": []}):  # fmt: skip
        page.set_source(**one)
        assert viewer.get_state()["_source"] == told


def test_two_pages_follow_each_other_and_the_owner_is_one_of_them(viewer: Viewer) -> None:
    wires = FakeComm(viewer)
    p, q = wires.open_page("p"), wires.open_page("q")
    p.set_source(kind="drawing", owner="q")
    assert viewer.source == Drawing(owner="q")
    q.set_source(owner="p")
    assert viewer.source == Drawing(owner="p")
    q.set_source(owner="r")
    assert viewer.source == Drawing(owner="p")


def test_linked_viewers_have_one_source() -> None:
    first, second = one_example_viewer(), one_example_viewer()
    link = traitlets.link((first, "source"), (second, "source"))
    first.source = Images(DATASET_IMAGES, index=6)
    np.testing.assert_array_equal(second.input, item_as_input(DATASET_IMAGES[6]))
    second.source = second.source.at(7)
    np.testing.assert_array_equal(first.input, item_as_input(DATASET_IMAGES[7]))
    link.unlink()
    with first.hold_trait_notifications():
        first.source = Noise(1)
    assert first.get_state()["_source"]["source"]["kind"] == "noise"
    for viewer in (first, second):
        viewer.close()


# Blobs


def test_blocks_come_when_they_are_asked_for(viewer: Viewer, page: ScriptedPage) -> None:
    viewer.source = Images(DATASET_IMAGES, np.arange(40) % 4, list("abcd"))
    told = viewer.get_state()["_source"]["source"]
    assert not [name for name in page.state["sizes"] if name.startswith(told["data"])]
    assert page.request_blob(f"{told['data']}.0") == DATASET_IMAGES.tobytes()
    assert json.loads(page.request_blob(told["labels"]) or b"") == [k % 4 for k in range(40)]
    assert json.loads(page.request_blob(told["classes"]) or b"") == list("abcd")
    for name in (f"{told['data']}.1", told["data"], "other.0"):
        assert page.request_blob(name) is None
    assert viewer._connection.resent_blobs == 0  # nothing was lost
    film = Video(MP4_BYTES * 40_000, title="large.mp4")
    viewer.source = film
    assert page.request_blob(viewer.get_state()["_source"]["source"]["data"]) == MP4_BYTES * 40_000


def test_floats_travel_without_rounding(viewer: Viewer, page: ScriptedPage) -> None:
    own = RANDOM.normal(size=(9, 1, 22, 18)).astype(np.float32)
    viewer.source = Images(own, index=4)
    told = viewer.get_state()["_source"]["source"]
    assert told["dtype"] == "float32" and page.request_blob(f"{told['data']}.0") == own.tobytes()
    np.testing.assert_array_equal(viewer.input, own[4:5])


# Fed input


def test_the_input_is_exactly_what_went_in_last(viewer: Viewer, page: ScriptedPage) -> None:
    last = viewer.input
    viewer.source = Webcam()
    np.testing.assert_array_equal(viewer.input, last)  # no page has started it
    page.set_source(owner="p")
    for _ in range(3):
        shown = live_frame()
        page.feed_input(shown, still=False)
        found = viewer.input
        np.testing.assert_array_equal(found.view(np.uint32), shown.view(np.uint32))
        assert found.dtype == np.float32 and found.flags.writeable
        assert_equal(viewer.output, hook_values(autoencoder(SEED), shown)["output"])
    viewer.bend("input", transforms.invert())
    np.testing.assert_array_equal(viewer.input, shown)  # before its edits
    assert not np.array_equal(viewer.network.input_arrays[0], shown)


def test_what_stays_is_adopted_and_shown_by_others(viewer: Viewer) -> None:
    wires = FakeComm(viewer)
    p, q = wires.open_page("p"), wires.open_page("q")
    p.set_source(kind="drawing", owner="p")
    shown, revision = live_frame(), p.state["revision"]
    p.feed_input(shown)
    np.testing.assert_array_equal(viewer.network.input_arrays[0], shown)
    np.testing.assert_array_equal(q.current_inputs()[0], shown)
    assert p.state["revision"] == revision + 1
    [read] = p.messages_of("read")
    assert (read["page"], read["before_edits"], list(read["keys"])) == ("p", True, ["input"])
    p.report_feed(still=True)  # a repetition: nothing new
    assert p.state["revision"] == revision + 1 and len(p.messages_of("read")) == 2
    q.feed_input(live_frame())  # which is not its owner
    np.testing.assert_array_equal(viewer.network.input_arrays[0], shown)


def count_calls(function: Callable[[], object]) -> int:
    """Count the calls of Python and C functions."""
    count = 0

    def follow(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(follow)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_a_live_source_in_one_page_costs_python_next_to_nothing(
    viewer: Viewer, page: ScriptedPage
) -> None:
    page.set_source(kind="webcam", owner="p", playing=True)
    before, revision = viewer.network.input_arrays[0], page.state["revision"]
    shown = page.source_inputs.get("input", before)
    calls = [count_calls(lambda: page.feed_input(shown, still=False)) for _ in range(300)]
    assert not page.messages_of("read") and page.state["revision"] == revision
    assert viewer.network.input_arrays[0] is before
    assert max(calls) < 500  # a fraction of a ms, at most ten times a second
    page.feed_input(live_frame())
    assert len(page.messages_of("read")) == 1


def test_other_pages_follow_a_live_one_a_few_times_a_second(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wires = FakeComm(viewer)
    p, q = wires.open_page("p"), wires.open_page("q")
    p.set_source(kind="webcam", owner="p", playing=True)
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(input_feed, "time", SimpleNamespace(monotonic=lambda: clock.now))
    first = live_frame()
    p.feed_input(first, still=False)
    np.testing.assert_array_equal(q.current_inputs()[0], first)
    for _ in range(5):
        p.feed_input(live_frame(), still=False)
    np.testing.assert_array_equal(q.current_inputs()[0], first)
    assert len(p.messages_of("read")) == 1
    later = live_frame()
    clock.now += input_feed.MIN_ADOPT_INTERVAL_S
    p.feed_input(later, still=False)
    np.testing.assert_array_equal(q.current_inputs()[0], later)
    last = live_frame()
    p.feed_input(last)  # the last one is always sent
    np.testing.assert_array_equal(q.current_inputs()[0], last)


def test_an_answer_that_is_lost_is_asked_for_with_the_next_picture(
    viewer: Viewer, page: ScriptedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.set_source(kind="drawing", owner="p")
    page.ignores_reads = True
    page.feed_input(live_frame())
    page.feed_input(live_frame())
    assert len(page.messages_of("read")) == 1
    page.ignores_reads = False
    monkeypatch.setattr(input_feed, "RESEND_TIMEOUT_S", -1.0)
    shown = live_frame()
    page.feed_input(shown)
    assert len(page.messages_of("read")) == 2
    np.testing.assert_array_equal(viewer.network.input_arrays[0], shown)


def test_a_last_picture_whose_answer_is_lost_is_asked_for_again(
    viewer: Viewer, page: ScriptedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.set_source(kind="drawing", owner="p")
    shown = live_frame()
    page.ignores_reads = True
    page.feed_input(shown)  # no other picture follows
    page.ignores_reads = False
    page.send("contexthealth", lost=False, losses=0, bytes=0, views=1)
    assert len(page.messages_of("read")) == 1  # it may be in flight
    monkeypatch.setattr(input_feed, "RESEND_TIMEOUT_S", -1.0)
    page.send("contexthealth", lost=False, losses=0, bytes=0, views=1)
    assert len(page.messages_of("read")) == 2
    np.testing.assert_array_equal(viewer.network.input_arrays[0], shown)
    page.send("contexthealth", lost=False, losses=0, bytes=0, views=1)
    assert len(page.messages_of("read")) == 2


def test_layers_in_python_follow_a_live_source() -> None:
    torch.manual_seed(SEED)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), NumpyCumsum(2), nn.ReLU()).eval()
    viewer = Viewer(model, torch.rand(1, 1, 22, 18))
    page = FakeComm(viewer).open_page()
    page.set_source(kind="webcam", owner="p", playing=True)
    shown = live_frame()
    page.feed_input(shown, still=False)
    np.testing.assert_array_equal(viewer.network.input_arrays[0], shown)
    assert viewer.network.plan.in_python
    with torch.no_grad():
        expected = hook_values(model, shown)
    for key, array in zip(
        (r.key for r in viewer.network.plan.in_python), viewer.network.python_values, strict=True
    ):
        assert_equal(array, expected[key], name=key)
    viewer.close()


# Reads


def test_all_is_read_from_the_page_that_has_the_pictures(viewer: Viewer) -> None:
    wires = FakeComm(viewer)
    p, q = wires.open_page("p"), wires.open_page("q")
    q.set_source(kind="webcam", owner="q", playing=True)
    shown = live_frame()
    q.source_inputs["input"] = shown
    expected = hook_values(autoencoder(SEED), shown)
    assert_equal(viewer.activations["encoder.0"], expected["encoder.0"])
    assert_equal(viewer.output, expected["output"])
    assert {read["page"] for read in q.messages_of("read")} == {"q"}
    viewer.source = Images(DATASET_IMAGES)
    q.source_inputs.clear()
    _ = viewer.output
    assert p.messages_of("read")[-1]["page"] == ""


def test_where_the_owner_was_closed_another_page_answers(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wires = FakeComm(viewer)
    p, q = wires.open_page("p"), wires.open_page("q")
    p.set_source(kind="webcam", owner="p", playing=True)
    shown = live_frame()
    p.feed_input(shown)
    p.ignores_reads = True
    monkeypatch.setattr(connection, "RESEND_TIMEOUT_S", 0.05)
    np.testing.assert_array_equal(viewer.input, shown)
    assert [read["page"] for read in q.messages_of("read")][-2:] == ["p", ""]
    asked = len(q.messages_of("read"))
    _ = viewer.output
    # The disconnected page isn't waited for any more.
    assert [read["page"] for read in q.messages_of("read")][asked:] == [""]
    p.ignores_reads = False
    p.feed_input(live_frame())
    _ = viewer.output
    assert q.messages_of("read")[-1]["page"] == "p"


def test_verify_compares_the_picture_that_the_values_are_of(
    viewer: Viewer, page: ScriptedPage
) -> None:
    page.set_source(kind="webcam", owner="p", playing=True)
    page.feed_input(live_frame(), still=False)
    report = viewer.verify()
    assert report.ok and not np.array_equal(
        viewer.network.input_arrays[0], page.source_inputs["input"]
    )
    before = viewer.source
    page.source_inputs.clear()
    assert viewer.verify(pictures(3, 1)).ok
    assert viewer.source == replace(before, owner="")


def test_a_live_picture_is_compared_with_the_very_picture_that_the_samples_are_of(
    viewer: Viewer, page: ScriptedPage
) -> None:
    def until(matching: bool) -> None:
        end = time.monotonic() + 60
        words = "10 of 10 layers match PyTorch"
        while viewer.status["parity"].startswith(words) != matching:
            assert time.monotonic() < end, viewer.status["parity"]
            time.sleep(0.02)
            page.send("contexthealth", lost=False, losses=0, bytes=0, views=1)

    page.set_source(kind="webcam", owner="p", playing=True)
    page.feed_input(live_frame(), still=False)
    page.report_run()
    assert len(page.messages_of("probe")) == 1
    page.feed_input(live_frame(), still=False)  # Python has neither picture
    page.answer_probe()
    until(True)
    shown, page.source_inputs["input"] = (
        page.compute_values(),
        page.source_inputs["input"] * np.float32(1.0002),
    )
    page.compute_values = lambda: shown  # type: ignore[method-assign]
    page.answer_probe()  # numbers that this picture doesn't produce
    until(False)
    assert "the first that is not: encoder.0" in viewer.status["parity"]
    assert len(page.messages_of("probe")) == 1


# Off


def test_setting_the_input_turns_the_source_off(viewer: Viewer, page: ScriptedPage) -> None:
    page.set_source(kind="webcam", owner="p", playing=True)
    page.feed_input(live_frame())
    with pytest.raises(InputError, match="shape"):
        viewer.input = pictures(3, 2)
    assert viewer.source == Webcam(owner="p")
    page.source_inputs.clear()
    viewer.input = pictures(3, 1)
    assert viewer.source is None and viewer.get_state()["_source"]["source"] is None
    np.testing.assert_array_equal(viewer.input, pictures(3, 1))
    viewer.source = Noise()
    assert_equal(
        viewer.run(pictures(4, 1)), hook_values(autoencoder(SEED), pictures(4, 1))["output"]
    )
    assert viewer.source is None


def test_a_page_edits_while_another_source_is_set(
    viewer: Viewer, page: ScriptedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Setting a source first reads the last picture; other page messages are handled meanwhile."""
    page.set_source(kind="webcam", owner="p", playing=True)
    page.feed_input(live_frame(), still=False)
    edit = Edit(layer="encoder.0", name="in between", transform="invert")
    answer = page.answer_read

    def edited(read: dict[str, Any]) -> None:
        viewer.set_state({"_edits": {"edits": edits_to_dicts((edit,)), "weights": 0}})
        answer(read)

    monkeypatch.setattr(page, "answer_read", edited)
    viewer.input = Drawing()
    assert [one.name for one in viewer.bends] == ["in between"]


def test_none_keeps_what_went_in_last(viewer: Viewer, page: ScriptedPage) -> None:
    page.set_source(kind="webcam", owner="p", playing=True)
    shown = live_frame()
    page.feed_input(shown, still=False)
    viewer.source = None
    page.source_inputs.clear()
    np.testing.assert_array_equal(viewer.input, shown)
    np.testing.assert_array_equal(page.current_inputs()[0], shown)
    # Also if a source without a picture yet takes over, and if the page ends the source.
    page.set_source(kind="webcam", owner="p", playing=True)
    shown = live_frame()
    page.feed_input(shown, still=False)
    viewer.source = Drawing()
    page.source_inputs.clear()
    np.testing.assert_array_equal(viewer.input, shown)
    page.set_source(kind="webcam", owner="p", playing=True)
    shown = live_frame()
    page.feed_input(shown, still=False)
    page.clear_source()
    page.source_inputs.clear()
    np.testing.assert_array_equal(viewer.input, shown)


def test_a_page_that_says_nothing_leaves_what_python_has(
    page: ScriptedPage, viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer._reader, "default_timeout", 0.1)
    page.set_source(kind="webcam", owner="p", playing=True)
    shown = live_frame()
    page.feed_input(shown)
    page.ignores_reads = True
    page.source_inputs["input"] = live_frame()
    with pytest.raises(PageError):
        _ = viewer.input
    with pytest.warns(UserWarning, match="did not send its source's last input"):
        viewer.source = None
    np.testing.assert_array_equal(viewer.network.input_arrays[0], shown)


# One example


def test_a_batch_becomes_its_first_example_with_weights_and_edits() -> None:
    model = autoencoder(SEED)
    viewer = Viewer(model, pictures(SEED, 4))
    viewer.example = 2
    other = autoencoder(SEED).state_dict()
    other["encoder.0.bias"] += 0.25
    viewer.load_state_dict(other)
    viewer.set_weight("encoder.3.weight", (0, 1, 2, 2), 1.5)
    viewer.bend("encoder.2", transforms.multiply(2.0))
    own = RANDOM.normal(size=viewer.activations["encoder.4"].shape).astype(np.float32)
    viewer.inject("encoder.4", own, channels=None)
    bends = viewer.bends.to_dict()
    with pytest.warns(UserWarning, match=r"recompiled for the first of 4, with its weights"):
        viewer.source = Noise(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        viewer.source = Noise(3)
        viewer.source = Drawing()
    assert viewer.network.plan.header.batch == 1 and viewer.example == 0
    assert viewer.bends.to_dict()["bends"] == bends["bends"]

    def expected(x: np.ndarray, injected: bool = True) -> dict[str, np.ndarray]:
        mine = autoencoder(SEED)
        mine.load_state_dict(other)
        with torch.no_grad():
            mine.get_parameter("encoder.3.weight")[0, 1, 2, 2] = 1.5
        mine.get_submodule("encoder.2").register_forward_hook(lambda _, __, y: 2 * y)
        if injected:
            mine.get_submodule("encoder.4").register_forward_hook(
                lambda _, __, y: torch.from_numpy(own[:1])
            )
        return hook_values(mine, x)

    x = Noise(3).current_input_array(viewer.network.plan.inputs[0], None)
    np.testing.assert_array_equal(viewer.input, x)
    for key, value in viewer.activations.to_dict().items():
        assert_equal(value, expected(x)[key], name=key)
    assert viewer.undo()  # undo the injection
    assert_equal(viewer.output, expected(x, injected=False)["output"])
    assert viewer.redo() and viewer.undo() and viewer.undo() and viewer.undo()
    other.pop("none", None)
    plain = autoencoder(SEED)
    plain.load_state_dict(other)
    assert_equal(viewer.output, hook_values(plain, x)["output"])  # undoes set_weight too
    with pytest.raises(
        InputError, match=r"shape \(4, 1, 22, 18\) was given; expected \(1, 1, 22, 18\)"
    ):
        viewer.input = pictures(SEED, 4)
    viewer.close()


@pytest.mark.parametrize("trait", ["input", "source"])
def test_the_warning_points_at_the_line_that_sets_the_source(trait: str) -> None:
    viewer = Viewer(autoencoder(SEED), pictures(SEED, 2))
    with pytest.warns(UserWarning, match="the first of 2") as caught:
        setattr(viewer, trait, Noise(2))
    assert [warning.filename for warning in caught] == [__file__]
    viewer.close()


def test_a_page_that_chooses_a_source_makes_a_batch_one_example() -> None:
    viewer = Viewer(autoencoder(SEED), pictures(SEED, 3))
    page = FakeComm(viewer).open_page()
    with pytest.warns(UserWarning, match="the first of 3"):
        page.set_source(kind="webcam", owner="p", playing=True)
    assert viewer.network.plan.header.batch == 1
    assert page.state["plan"] == viewer.network.plan.hash
    np.testing.assert_array_equal(page.current_inputs()[0], pictures(SEED, 3)[:1])
    viewer.close()


def test_a_network_that_cannot_run_with_one_example_says_so_and_stays() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(3, -1) * 2

    viewer = Viewer(Fixed(), torch.rand(3, 1, 4, 4))
    plan = viewer.network.plan
    with pytest.raises(
        InputError, match="a source gives one example at a time, which this network cannot run"
    ):
        viewer.source = Noise()
    assert viewer.source is None and viewer.network.plan is plan and viewer.output.shape == (3, 16)
    page = FakeComm(viewer).open_page()
    page.set_source(kind="noise")
    assert viewer.source is None and viewer.get_state()["_source"]["source"] is None
    viewer.close()


def test_the_input_is_kept_though_nobody_observed_it(caplog: pytest.LogCaptureFixture) -> None:
    for observe in ("outputs", ["encoder.0"]):
        viewer = Viewer(autoencoder(SEED), pictures(SEED, 1), observe=observe)
        page = FakeComm(viewer).open_page()
        viewer.source = Webcam()
        page.set_source(owner="p")
        shown = live_frame()
        page.feed_input(shown)
        np.testing.assert_array_equal(viewer.input, shown)
        assert_equal(viewer.output, hook_values(autoencoder(SEED), shown)["output"])
        assert ("encoder.0" in viewer.activations) == (observe != "outputs")
        viewer.close()


def test_one_of_several_inputs_is_fed_and_the_others_stay() -> None:
    torch.manual_seed(0)
    model = TwoInputs().eval()
    image, noise = torch.randn(1, 2, 5, 7), torch.randn(1, 3, 5, 7)
    viewer = Viewer(model, (image, noise))
    keys = [record.key for record in viewer.network.plan.inputs]
    viewer.source = Webcam()
    assert viewer.get_state()["_source"]["source"]["input"] == keys[1] and viewer.source == Webcam()
    viewer.source = Noise(7, input=keys[0])
    expected = Noise(7).current_input_array(viewer.network.plan.inputs[0], None)
    first, second = viewer.input
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, noise.numpy())
    page = FakeComm(viewer).open_page()
    page.set_source(seed=8)
    assert viewer.source == Noise(8, input=keys[0])
    with torch.no_grad():
        assert_equal(viewer.output[1], model(torch.from_numpy(expected), noise)[1].numpy())
    viewer.close()


# Without a page


def test_without_a_page_python_computes_what_it_has(viewer: Viewer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        viewer.source = Images(DATASET_IMAGES, index=4)
        expected = hook_values(autoencoder(SEED), item_as_input(DATASET_IMAGES[4]))
        for key, value in viewer.activations.to_dict().items():
            assert_equal(value, expected[key], name=key)
        assert viewer.verify().ok
        before = viewer.network.snapshot(0)
        viewer.source = viewer.source.at(5)
        assert viewer.network.snapshot(0) != before
        np.testing.assert_array_equal(viewer.input, item_as_input(DATASET_IMAGES[5]))
        viewer.source = Noise(6)
        np.testing.assert_array_equal(
            viewer.input, Noise(6).current_input_array(viewer.network.plan.inputs[0], None)
        )
        last = viewer.input
        for source in (Webcam(), Video(MP4_BYTES), Drawing(), None):
            viewer.source = source
            np.testing.assert_array_equal(viewer.input, last)


def test_a_closed_viewer_takes_no_source() -> None:
    viewer = one_example_viewer()
    viewer.source = Images(DATASET_IMAGES)
    viewer.close()
    with pytest.raises(PageError, match="closed"):
        viewer.source = Noise()
    with pytest.raises(PageError, match="closed"):
        viewer.input = Noise()


# Exported pages, comparisons


def test_an_exported_page_has_the_source_with_all_it_was_given(
    viewer: Viewer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_export(viewer.to_html(tmp_path / "a.html"))[0]["source"] is None
    viewer.source = Images(DATASET_IMAGES, np.arange(40) % 4, list("abcd"), index=7, title="Things")
    exported, blobs = read_export(viewer.to_html(tmp_path / "a.html"))
    told = exported["source"]
    assert (told["kind"], told["index"], told["title"]) == ("images", 7, "Things")
    plan = Plan.from_bytes(blobs[0]) if hasattr(Plan, "from_bytes") else viewer.network.plan
    assert len(plan.inputs) == 1
    np.testing.assert_array_equal(
        np.frombuffer(blobs[1], np.float32), item_as_input(DATASET_IMAGES[7]).ravel()
    )
    named = dict(zip(exported["blobs"], blobs[2:], strict=True))
    assert named[f"{told['data']}.0"] == DATASET_IMAGES.tobytes()
    assert json.loads(named[told["labels"]])[:5] == [0, 1, 2, 3, 0]
    assert json.loads(named[told["classes"]]) == list("abcd")
    viewer.source = Video(MP4_BYTES)
    exported, blobs = read_export(viewer.to_html(tmp_path / "a.html"))
    assert exported["blobs"] == [exported["source"]["data"], "samples"] and blobs[-2] == MP4_BYTES
    monkeypatch.setattr(exporting, "MAX_SOURCE_BYTES", 100)
    with pytest.raises(
        InputError, match="the source has 132 bytes; an exported page takes at most 100"
    ):
        viewer.to_html(tmp_path / "b.html")
    assert not (tmp_path / "b.html").exists()


def test_pages_are_told_the_folder_of_a_data_set_and_exported_ones_no_path(
    viewer: Viewer, tmp_path: Path
) -> None:
    folder = tmp_path / "pics"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        Image.fromarray(DATASET_IMAGES[0]).save(folder / name / "0.png")
    for given in (str(folder), folder):
        viewer.source = Images(given, index=1)
        assert viewer.get_state()["_source"]["source"]["folder"] == str(folder)
    exported = read_export(viewer.to_html(tmp_path / "a.html"))[0]
    assert exported["source"]["folder"] == "" and exported["source"]["title"] == "pics"
    assert str(tmp_path) not in (tmp_path / "a.html").read_text("utf-8")
    # A record with only the folder could not recreate these.
    for other in (
        Images(folder, [1, 0]),
        Images(folder, classes=["c", "d"]),
        Images(DATASET_IMAGES),
    ):
        viewer.source = other
        assert viewer.get_state()["_source"]["source"]["folder"] == ""


def test_an_exported_page_begins_with_the_live_picture_of_now(
    viewer: Viewer, page: ScriptedPage, tmp_path: Path
) -> None:
    page.set_source(kind="webcam", owner="p", playing=True)
    page.feed_input(live_frame(), still=False)
    exported, blobs = read_export(viewer.to_html(tmp_path / "a.html"))
    assert exported["source"]["kind"] == "webcam" and exported["source"]["owner"] == ""
    np.testing.assert_array_equal(
        np.frombuffer(blobs[1], np.float32), page.source_inputs["input"].ravel()
    )
    page.set_source(kind="picture", owner="p", title="cat.png")
    page.feed_input(live_frame())
    exported, blobs = read_export(viewer.to_html(tmp_path / "a.html"))
    assert exported["source"] is None  # only the page has the picture; its numbers are the input
    np.testing.assert_array_equal(
        np.frombuffer(blobs[1], np.float32), page.source_inputs["input"].ravel()
    )


def test_a_comparison_takes_sources_and_the_input_of_a_live_viewer(
    viewer: Viewer, page: ScriptedPage
) -> None:
    page.set_source(kind="webcam", owner="p", playing=True)
    page.feed_input(live_frame(), still=False)
    other = autoencoder(SEED)
    with torch.no_grad():
        other.get_parameter("encoder.0.bias").add_(1.0)
    live = nbglcnn.compare(viewer, other)
    np.testing.assert_array_equal(live.input, page.source_inputs["input"])
    live.close()

    batch = nbglcnn.compare(autoencoder(SEED), other.state_dict(), pictures(SEED, 3))
    with pytest.warns(UserWarning, match="the first of 3"):
        batch.source = Images(DATASET_IMAGES, index=2)
    a, b = (
        hook_values(model, item_as_input(DATASET_IMAGES[2]))["encoder.1"]
        for model in (autoencoder(SEED), other)
    )
    found = batch["encoder.1"]
    assert_equal(found.a, a)
    assert_equal(found.b, b)
    np.testing.assert_array_equal(found.difference, found.b - found.a)
    assert batch.verify().ok
    batch.close()


def test_what_a_page_feeds_an_input_of_bytes_is_adopted_as_bytes() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (uint8[1,4,5,3] x) => (float[1,3,4,5] y) '
        "{ f = Cast<to=1>(x) y = Transpose<perm=[0, 3, 1, 2]>(f) }"
    )
    viewer = Viewer(model)
    page = FakeComm(viewer).open_page()
    shown = RANDOM.integers(0, 256, (1, 4, 5, 3), np.uint8)
    for source in (Webcam(), Drawing()):
        viewer.source = source
        page.set_source(owner="p")
        page.feed_input(shown, key="x")
        np.testing.assert_array_equal(viewer.input, shown)
        np.testing.assert_array_equal(viewer.network.input_arrays[0], shown)
        assert viewer.network.input_arrays[0].dtype == np.uint8
        np.testing.assert_array_equal(viewer.output, shown.transpose(0, 3, 1, 2))
        assert viewer.verify().ok
    viewer.close()
