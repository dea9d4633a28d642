"""A Viewer's edits without a page: values, undo, messages that pages may send, weights."""

import gc
import json
import logging
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, Viewer, channels, transforms
from nbglcnn.errors import OpenGLUnavailable
from nbglcnn.features.edits.store import COALESCE_S, EditStore
from onnx_models import model_of, node, randn
from python_fallback_models import NumpyCumsum
from scripted_page import FakeComm
from viewer_models import autoencoder, hook_values, pictures
from zoo import ResNet18

SEED = 7


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    made = Viewer(autoencoder(SEED), pictures(SEED))
    yield made
    made.close()


def values_with_hook(
    layer: str, change_value: Callable[[torch.Tensor], torch.Tensor], model: nn.Module | None = None
) -> dict[str, np.ndarray]:
    """The values that PyTorch's hooks see when a hook on one layer changes its value."""
    model = model or autoencoder(SEED)
    model.get_submodule(layer).register_forward_hook(lambda _, __, y: change_value(y))
    return hook_values(model, pictures(SEED))


def last_sent_edits(viewer: Viewer) -> list[tuple[str, float]]:
    """The names and mixes of the edits that are sent to pages."""
    return [(one["name"], one["mix"]) for one in viewer.get_state()["_edits"]["edits"]]


def test_a_bend_changes_all_behind_it_and_unbent_is_before_it(viewer: Viewer) -> None:
    before = hook_values(autoencoder(SEED), pictures(SEED))
    bend = viewer.bend("encoder.2", transforms.multiply(2), channels=slice(1, 7, 2), mix=0.5)

    def change(y: torch.Tensor) -> torch.Tensor:
        y = y.clone()
        y[:, 1:7:2] *= 1.5
        return y

    after = values_with_hook("encoder.2", change)
    for key, value in viewer.activations.to_dict().items():
        assert_equal(value, after[key], name=key)
    assert_equal(viewer.output, after["output"])
    assert_equal(viewer.unbent["encoder.2"], before["encoder.2"])
    # For later layers, `unbent` is before their own edits but after this one.
    assert_equal(viewer.unbent["decoder.0"], after["decoder.0"])
    assert "values before their own edits" in repr(viewer.unbent)
    bend.factor = 4
    assert_equal(viewer.activations["encoder.2"][:, 3], 2.5 * before["encoder.2"][:, 3])
    assert last_sent_edits(viewer) == [("multiply", 0.5)] and viewer.get_state()["_edits"]["edits"][
        0
    ]["parameters"] == [4.0]
    bend.remove()
    assert_equal(viewer.output, before["output"])
    with pytest.raises(InputError, match="was removed"):
        bend.factor = 3
    assert viewer.undo() and viewer.bends[0] is bend and not bend.removed
    bend.factor = 3
    assert_equal(viewer.activations["encoder.2"][:, 3], 2 * before["encoder.2"][:, 3])


def test_channels_are_chosen_by_the_value_before_and_kept_as_a_list(viewer: Viewer) -> None:
    value = viewer.activations["encoder.0"]
    viewer.bend("encoder.0", transforms.ablate())
    least = np.argsort(value.mean((0, 2, 3)), kind="stable")[:2]
    bend = viewer.bend("encoder.0", transforms.invert(), channels=channels.bottom(2))
    assert bend.channels == sorted(least.tolist())
    bend.channels = channels.every(4)
    assert bend.channels == [0, 4, 8]
    [first, *_] = channels.groups(value, 3)
    bend.channels = channels.clusters(3)
    assert bend.channels == first
    with pytest.raises(InputError, match="channels 0 to 8"):
        bend.channels = [9]
    assert bend.channels == first


def test_injected_and_frozen_values_stay_while_the_input_changes(viewer: Viewer) -> None:
    value = viewer.activations["encoder.4"]
    other = np.random.default_rng(1).normal(size=value.shape).astype(np.float32)
    viewer.inject("encoder.4", other)
    expected = values_with_hook("encoder.4", lambda _: torch.from_numpy(other))["output"]
    assert_equal(viewer.output, expected)
    viewer.input = pictures(3)
    assert_equal(viewer.output, expected)
    viewer.release("encoder.4")
    viewer.input = pictures(SEED)
    viewer.freeze("encoder.4")
    viewer.input = pictures(3)
    assert_equal(viewer.activations["encoder.4"], value)
    assert_equal(
        viewer.unbent["encoder.4"], hook_values(autoencoder(SEED), pictures(3))["encoder.4"]
    )
    # A page is offered the arrays of the current edits and of undoable steps, once each.
    page = FakeComm(viewer).open_page()
    assert len(page.state["injected"]) == 2
    sent = {bytes(page.blobs[name]) for name in page.state["injected"]}
    assert sent == {other.tobytes(), value.tobytes()}


def test_steps_go_back_and_forth_and_arrays_go_with_their_last_step(viewer: Viewer) -> None:
    shape = viewer.activations["encoder.4"].shape
    viewer.inject("encoder.4", np.ones(shape))
    bend = viewer.bend("encoder.0", transforms.rotate(10), name="tilt")
    for degrees in range(20, 90):
        bend.degrees = degrees  # a drag
    assert viewer.undo() and viewer.bends["tilt"].degrees == 10
    assert bend.degrees == 10 and viewer.redo() and bend.degrees == 89
    viewer.bends.clear()
    assert len(viewer.bends) == 0 and viewer.undo() and viewer.undo() and viewer.undo()
    assert viewer.undo() and not viewer.undo()
    assert (
        viewer.get_state()["_history"]["past"] == []
        and len(viewer.get_state()["_history"]["future"]) == 4
    )
    page = FakeComm(viewer).open_page()
    assert page.state["injected"]
    viewer.bend("encoder.0", transforms.flip_h())
    assert not page.state["injected"]  # no undo step refers to it
    assert not any("inject" in str(one) for one in viewer.get_state()["_history"]["past"])


def test_a_page_changes_edits_as_python_does(viewer: Viewer) -> None:
    bend = viewer.bend("encoder.0", transforms.rotate(30), name="tilt")
    now = json.loads(json.dumps(viewer.get_state()["_edits"]))
    before = json.loads(json.dumps({"edits": [], "weights": 0}))
    now["edits"][0]["parameters"] = [45]
    second = {"layer": "decoder.0", "name": "mute", "transform": "ablate", "channels": [2]}
    seen: list[Any] = []
    bend.observe(lambda change: seen.append(change["new"]), "degrees")
    sent: list[Any] = []
    viewer.send_state = lambda key=None: sent.append(key)  # type: ignore[method-assign]
    viewer.set_state(
        {
            "_edits": {**now, "edits": [*now["edits"], second]},
            "_history": {"past": [before, now], "future": []},
        }
    )
    assert seen == [45.0] and bend.degrees == 45
    assert [one.name for one in viewer.bends] == ["tilt", "mute"]
    assert viewer.activations["decoder.0"][:, 2].max() == 0
    assert viewer.undo() and [one.name for one in viewer.bends] == ["tilt"]


def test_a_pages_slider_is_told_to_nobody_a_second_time(viewer: Viewer) -> None:
    bend = viewer.bend("encoder.0", transforms.rotate(30))
    sent: list[dict[str, Any]] = []
    viewer._send = lambda message, buffers=None: sent.append(message)  # type: ignore[assignment]
    for degrees in range(60):
        words = json.loads(json.dumps(viewer.get_state()["_edits"]))
        words["edits"][0]["parameters"] = [degrees]
        viewer.set_state({"_edits": words})
    assert bend.degrees == 59
    assert {one["method"] for one in sent} <= {"echo_update"}  # ipywidgets' echoes to other pages
    # The individual changes are no undo steps.
    assert len(viewer.get_state()["_history"]["past"]) == 1


INVALID_EDITS: dict[str, Any] = {
    "a layer that isn't there": {"layer": "encoder.99", "name": "x", "transform": "ablate"},
    "a transform that isn't there": {"layer": "encoder.0", "name": "x", "transform": "melt"},
    "too few numbers": {"layer": "encoder.0", "name": "x", "transform": "rotate"},
    "a channel that isn't there": {
        **{"layer": "encoder.0", "name": "x", "transform": "ablate", "channels": [99]},
    },
    "a text that isn't ours": {
        **{"layer": "encoder.0", "name": "x", "transform": "glsl", "source": "y = x + 123.0;"},
    },
    "an array that isn't here": {
        **{"layer": "encoder.0", "name": "x", "transform": "inject", "array_hash": "0" * 32},
    },
    "no edit": 3,
}


@pytest.mark.parametrize("wrong", INVALID_EDITS)
def test_what_a_page_gets_wrong_is_ignored_and_it_is_told_so(
    viewer: Viewer, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    viewer.bend("encoder.0", transforms.rotate(30), name="tilt")
    now, value = viewer.get_state()["_edits"], viewer.output
    sent: list[Any] = []
    viewer._send = lambda message, buffers=None: sent.append(message)  # type: ignore[assignment]
    caplog.set_level(logging.WARNING, "nbglcnn")
    for words in (
        {"_edits": {"edits": [INVALID_EDITS[wrong]], "weights": 0}},
        {"_edits": {"edits": [INVALID_EDITS[wrong]], "weights": 0}, "_history": {"past": 3}},
    ):
        sent.clear()
        viewer.set_state(words)
        assert viewer.get_state()["_edits"] == now
        [last] = [one["state"] for one in sent if one["method"] == "update"]
        assert last["_edits"] == now
    np.testing.assert_array_equal(viewer.output, value)
    assert [one.name for one in viewer.bends] == ["tilt"]


@pytest.mark.parametrize("count", [1, -1, True, 2.5, 10**9])
def test_a_page_cannot_make_edits_of_weights_that_nobody_has_made(
    viewer: Viewer, count: Any
) -> None:
    history = {"past": [{"edits": [], "weights": 0}], "future": []}
    viewer.set_state({"_edits": {"edits": [], "weights": count}, "_history": history})
    assert viewer.get_state()["_edits"] == {"edits": [], "weights": 0}
    viewer.set_state({"_edits": 3})
    assert viewer.get_state()["_edits"] == {"edits": [], "weights": 0}


def test_a_text_that_does_not_compile_leaves_all_as_it_was(viewer: Viewer) -> None:
    viewer.bend("encoder.0", transforms.glsl("y = sin(x * p0);", p0=2.0), name="wave")
    value = viewer.activations["encoder.0"]
    assert_equal(value, np.sin(2 * viewer.unbent["encoder.0"]))
    with pytest.raises(InputError, match=r"does not compile; the edits are unchanged"):
        viewer.bend("encoder.0", transforms.glsl("y = nothing(x);"))
    np.testing.assert_array_equal(viewer.activations["encoder.0"], value)
    assert last_sent_edits(viewer) == [("wave", 1.0)]


def test_verify_compares_with_the_edits_replayed(viewer: Viewer) -> None:
    viewer.bend("encoder.2", transforms.rotate(20), channels=channels.every(2), mix=0.75)
    viewer.inject("encoder.4", 2 * viewer.activations["encoder.4"] + 1)
    viewer.set_weight("decoder.0.weight", (0, 0), 1.5)
    report = viewer.verify()
    assert report.ok and len(report.rows) > 10, report
    viewer.bend("encoder.0", transforms.glsl("y = 2.0 * x;"), name="own")
    with pytest.raises(InputError, match="'own'"):
        viewer.verify()


def test_refusals_name_what_is_wrong(viewer: Viewer) -> None:
    with pytest.raises(KeyError, match=r"encoder\.O"):
        viewer.bend("encoder.O", transforms.ablate())
    with pytest.raises(InputError, match=r"encoder\.0 has channels 0 to 8, not 9"):
        viewer.bend("encoder.0", transforms.ablate(), channels=[9])
    with pytest.raises(InputError, match="mix is nan"):
        viewer.bend("encoder.0", transforms.ablate(), mix=float("nan"))
    with pytest.raises(InputError, match="is not a transform"):
        viewer.bend("encoder.0", "ablate")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"blur needs its arguments; .* blur\("):
        viewer.bend("encoder.0", transforms.blur)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match=r"no attribute 'rotat' \(near: rotate"):
        transforms.rotat(3)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'evry' \(near: every"):
        channels.evry(3)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'Veiwer' \(near: Viewer"):
        nbglcnn.Veiwer  # type: ignore[attr-defined]  # noqa: B018
    turned = viewer.bend("encoder.0", transforms.rotate(3))
    with pytest.raises(AttributeError, match=r"rotate has no parameter 'degree' \(near: degrees"):
        turned.degree = 5  # type: ignore[attr-defined]
    turned._own = 5  # type: ignore[attr-defined]
    turned.degrees = 5  # type: ignore[attr-defined]
    assert turned.transform.parameters["degrees"] == 5
    viewer.undo()
    viewer.undo()
    with pytest.raises(InputError, match=r"expected an array of shape \(2, 9, 11, 9\)"):
        viewer.inject("encoder.0", np.zeros((3, 3)))
    assert (
        viewer.get_state()["_edits"]["edits"] == [] and viewer.get_state()["_history"]["past"] == []
    )
    fused = Viewer(autoencoder(SEED), pictures(SEED), observe="outputs")
    with pytest.raises(KeyError, match="is not kept by this Plan, so it cannot be edited"):
        fused.bend("encoder.0", transforms.ablate())
    fused.close()


def test_a_layer_before_one_that_python_computes_cannot_be_bent() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), NumpyCumsum(2), nn.Conv2d(2, 2, 1)).eval()
    viewer = Viewer(model, randn(1, 1, 6, 5))
    with pytest.raises(InputError, match=r"0 can't be edited: 1 depends on it and runs in Python"):
        viewer.bend("0", transforms.ablate())
    value = viewer.activations["2"]
    viewer.bend("1", transforms.multiply(2))
    assert np.abs(viewer.activations["2"] - value).max() > 0.01
    viewer.close()


def test_without_opengl_pytorch_replays_the_edits(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer.network.local, "_opengl_error", OpenGLUnavailable("none here"))
    assert viewer.activations.source.startswith("reference (PyTorch")
    before = hook_values(autoencoder(SEED), pictures(SEED))
    viewer.bend("encoder.2", transforms.multiply(2))
    after = values_with_hook("encoder.2", lambda y: 2 * y)
    for key, value in viewer.activations.to_dict().items():
        assert_equal(value, after[key], name=key)
    assert_equal(viewer.unbent["encoder.2"], before["encoder.2"])
    assert_equal(viewer.unbent["output"], after["output"])
    viewer.bend("encoder.4", transforms.glsl("y = 2.0 * x;"), name="own")
    with pytest.raises(InputError, match=r"'own' of encoder\.4 is written in GLSL"):
        viewer.activations["encoder.0"]
    viewer.bends["own"].remove()
    assert_equal(viewer.output, after["output"])


def test_another_plan_keeps_the_edits_that_fit_it(viewer: Viewer) -> None:
    viewer.bend("encoder.0", transforms.multiply(2), name="kept")
    viewer.bend("encoder.1", transforms.multiply(2), name="lost")
    network = viewer.network
    network.toggle_fast_kernels()
    viewer.input = viewer.input
    assert last_sent_edits(viewer) == [("kept", 1.0), ("lost", 1.0)]
    network.observe = ["encoder.0", "decoder.0"]
    network.toggle_fast_kernels()
    with pytest.warns(UserWarning, match=r"1 edits .*lost: 'encoder\.1' is not kept"):
        viewer.input = viewer.input
    assert last_sent_edits(viewer) == [("kept", 1.0)]
    assert viewer.undo() and last_sent_edits(viewer) == [
        ("kept", 1.0)
    ]  # the remaining step is valid too
    assert_equal(
        viewer.output,
        values_with_hook("encoder.0", lambda y: 2 * y)["output"],
        rtol=2e-5,
        name="output",
    )


def test_a_comparison_is_bent_by_its_own_keys() -> None:
    model, x = autoencoder(SEED), pictures(SEED)
    both = nbglcnn.compare(model, autoencoder(SEED), x)
    both.bend("B.encoder.4", transforms.ablate())
    changed = values_with_hook("encoder.4", torch.zeros_like)["decoder.0"]
    found = both["decoder.0"]
    assert_equal(found.b, changed)
    assert_equal(found.difference, changed - hook_values(model, x)["decoder.0"])
    # Replaced values: kept, undone and carried over, as in a single Viewer.
    kept, plain = both.bends.to_dict(), hook_values(model, x)
    other = np.random.default_rng(2).normal(size=plain["encoder.4"].shape).astype(np.float32)
    both.inject("A.encoder.4", other)
    injected = values_with_hook("encoder.4", lambda _: torch.from_numpy(other))["decoder.0"]
    assert_equal(both["decoder.0"].a, injected)
    assert_equal(both["decoder.0"].b, changed)
    both.release("A.encoder.4")
    assert_equal(both["decoder.0"].a, plain["decoder.0"])
    assert both.undo() and both.undo()
    assert_equal(both["decoder.0"].a, plain["decoder.0"])
    both.bends.clear()
    assert_equal(both["decoder.0"].b, plain["decoder.0"])
    both.freeze("B.encoder.4")
    both.input = pictures(3)
    of_a = hook_values(model, pictures(3))["decoder.0"]
    assert_equal(both["decoder.0"].a, of_a)
    assert_equal(both["decoder.0"].b, plain["decoder.0"])
    both.release("B.encoder.4")
    assert_equal(both["decoder.0"].b, of_a)
    both.input = x
    both.bends.from_dict(kept)
    assert_equal(both["decoder.0"].b, changed)
    both.set_weight("B.decoder.0.bias", 0, 9.0)
    assert both.state_dict()["decoder.0.bias"][0] == 9
    model.load_state_dict(both.state_dict())
    with pytest.raises(InputError, match="a comparison is not a model"):
        both.to_onnx("never.onnx")
    both.close()


def test_a_bend_that_somebody_keeps_holds_no_viewer() -> None:
    viewer = Viewer(autoencoder(SEED), pictures(SEED))
    kept = viewer.bend("encoder.0", transforms.rotate(1))
    gone = viewer.bend("encoder.1", transforms.rotate(1))
    gone.remove()
    assert not any(isinstance(value, EditStore) for value in vars(gone).values())
    array = np.ones(viewer.activations["encoder.4"].shape, np.float32)
    viewer.inject("encoder.4", array)
    data = weakref.ref(next(iter(viewer.network.injected.values())))
    network, this = weakref.ref(viewer.network), weakref.ref(viewer)
    viewer.close()
    del viewer
    gc.collect()
    assert this() is None and network() is None
    with pytest.raises(InputError, match="the Viewer was closed or deleted"):
        kept.degrees = 5
    del kept, gone
    gc.collect()
    assert data() is None


def test_the_report_says_how_much_is_edited(viewer: Viewer) -> None:
    assert "0 edits" in viewer.report()
    for transform in (transforms.ablate(), transforms.blur(), transforms.ablate()):
        viewer.bend("encoder.0", transform)
    viewer.set_weight("encoder.0.bias", 0, 1)
    assert "3 edits (2 ablate, 1 blur), 1 of weights" in viewer.report()


def test_a_picture_and_the_snapshot_are_of_the_bent_values(viewer: Viewer) -> None:
    before = viewer.network.snapshot(viewer.example)
    plain = np.asarray(viewer.picture("encoder.0"))
    viewer.bend("encoder.0", transforms.flip_v())
    assert (np.asarray(viewer.picture("encoder.0")) != plain).any()
    assert viewer.network.snapshot(viewer.example) != before
    viewer.undo()
    assert viewer.network.snapshot(viewer.example) == before


# Weights


def test_a_number_of_a_weight_is_set_and_taken_back(viewer: Viewer) -> None:
    model = autoencoder(SEED)
    first = {name: value.clone() for name, value in model.state_dict().items()}
    viewer.set_weight("encoder.0.weight", (3, 0, 1, 1), 2.5)
    viewer.set_weight("decoder.0.weight", np.s_[:, 2], torch.zeros(4, 4))
    assert viewer.get_state()["_edits"]["weights"] == 2
    with torch.no_grad():
        model.encoder[0].weight[3, 0, 1, 1] = 2.5
        model.decoder[0].weight[:, 2] = 0
    expected = hook_values(model, pictures(SEED))
    for key, value in viewer.activations.to_dict().items():
        assert_equal(value, expected[key], name=key)
    fresh = autoencoder(3 * SEED + 4)  # of the same shapes
    fresh = autoencoder(SEED + 4)
    fresh.load_state_dict(viewer.state_dict())
    assert_equal(hook_values(fresh, pictures(SEED))["output"], expected["output"])
    viewer.bend("encoder.0", transforms.rotate(20))
    assert viewer.undo() and viewer.undo() and viewer.undo() and not viewer.undo()
    for name, value in viewer.state_dict().items():
        assert value.dtype == first[name].dtype and torch.equal(value, first[name]), name
    assert_equal(viewer.output, hook_values(autoencoder(SEED), pictures(SEED))["output"])
    assert viewer.redo() and viewer.redo()
    assert_equal(viewer.output, expected["output"])


def test_a_page_drags_a_weight_in_one_step_and_takes_it_back(viewer: Viewer) -> None:
    first = viewer.state_dict()["encoder.0.weight"].clone()
    flat = first.reshape(-1)

    def set_weight(index: int, *values: float, step: str) -> None:
        page.send("setweight", name="encoder.0.weight", index=index, values=values, step=step)

    page = FakeComm(viewer).open_page()
    for k in range(30):
        set_weight(10, k / 8, step="a")
        if k == 15:
            time.sleep(1.1 * COALESCE_S)  # a pause in the drag
    set_weight(18, 1, 2, 3, step="b")
    set_weight(21, 4, step="b")  # the same drag, at another element
    assert (
        viewer.get_state()["_edits"]["weights"] == 3
        and len(viewer.get_state()["_history"]["past"]) == 2
    )
    now = viewer.state_dict()["encoder.0.weight"].reshape(-1)
    assert now[10] == 29 / 8 and now[18:22].tolist() == [1, 2, 3, 4]
    for wrong in (80, 10**6):
        set_weight(wrong, 1, 2, step="c")
    assert viewer.get_state()["_edits"]["weights"] == 3
    # The page's undo is a change of the traits.
    history = json.loads(json.dumps(viewer.get_state()["_history"]))
    at = history["past"].pop()
    viewer.set_state(
        {
            "_edits": at,
            "_history": {
                **history,
                "future": [json.loads(json.dumps(viewer.get_state()["_edits"]))],
            },
        }
    )
    now = viewer.state_dict()["encoder.0.weight"].reshape(-1)
    assert now[10] == 29 / 8 and torch.equal(now[18:22], flat[18:22])
    assert viewer.redo()
    assert viewer.state_dict()["encoder.0.weight"].reshape(-1)[21] == 4
    assert viewer.undo() and viewer.undo() and not viewer.undo()
    assert torch.equal(viewer.state_dict()["encoder.0.weight"], first)


def hello_message() -> dict[str, Any]:
    from nbglcnn.plan.schema import Target
    from nbglcnn.widget.viewer import MESSAGES

    words = {
        "type": "hello",
        "page": "p",
        "version": "0.1.0",
        "protocol": MESSAGES.digest,
        "cached_blobs": [],
    }
    return {**words, "renderer": "r", "target": msgspec.to_builtins(Target()), "problem": ""}


def test_other_weights_end_the_way_back_to_old_ones(viewer: Viewer) -> None:
    other = autoencoder(SEED + 4)
    viewer.bend("encoder.0", transforms.multiply(2), name="bend")
    viewer.set_weight("encoder.0.bias", 0, 1)
    viewer.load_state_dict(other.state_dict())
    assert viewer.get_state()["_edits"]["weights"] == 0 and last_sent_edits(viewer) == [
        ("bend", 1.0)
    ]
    while viewer.undo():
        pass
    assert_equal(viewer.output, hook_values(other, pictures(SEED))["output"])


@pytest.mark.parametrize(
    ("index", "values", "words"),
    [
        ((99,), 1.0, "index 99 is out of bounds"),
        ((0, 0), np.ones(7), r"values of shape \(7,\) were given"),
        (0, float("nan"), "nan was given; expected finite numbers"),
        (0, np.float32([1, np.inf, 2]), "inf was given; expected finite numbers"),
        (0, 1e39, "out of range for float32"),
        (0, "many", "expected numbers"),
        (0, 1 + 2j, "expected numbers, not complex128"),
    ],
)
def test_numbers_that_do_not_fit_a_weight_are_refused_by_its_name(
    viewer: Viewer, index: Any, values: Any, words: str
) -> None:
    with pytest.raises(
        InputError, match=rf"encoder\.0\.weight has the shape \(9, 1, 3, 3\).*{words}"
    ):
        viewer.set_weight("encoder.0.weight", index, values)
    with pytest.raises(
        KeyError, match=r"'encoder\.0\.wieght' is not a parameter .*encoder\.0\.wei"
    ):
        viewer.set_weight("encoder.0.wieght", 0, 1)
    assert viewer.get_state()["_edits"]["weights"] == 0 and not viewer.undo()


def test_one_number_of_a_large_network_is_one_small_message() -> None:
    torch.manual_seed(0)
    model = ResNet18().eval()
    viewer = Viewer(model, np.zeros((1, 3, 64, 64), np.float32))
    sent: list[tuple[dict[str, Any], int]] = []
    viewer._connection._send_raw = lambda content, buffers: sent.append(
        (content, sum(one.nbytes for one in buffers))
    )
    viewer._connection.receive(hello_message(), [])
    name = max(viewer.network.graph.parameters, key=lambda n: model.state_dict()[n].numel())
    shape = model.state_dict()[name].shape
    peaks = []
    for k in range(3):
        sent.clear()
        tracemalloc.start()
        viewer.set_weight(name, tuple(size // 2 for size in shape), k + 0.5)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        [(content, size)] = [one for one in sent if one[0]["type"] == "patches"]
        assert len(sent) == 1 and len(content["rectangles"]) == 1 and size == 16
    # Only the weight is copied, once; nothing else of the network is.
    assert (
        max(peaks) < 1.5 * 4 * shape.numel() < 0.4 * 4 * sum(map(torch.numel, model.parameters()))
    )
    viewer.close()


def test_a_modules_own_names_types_and_ties_come_back() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(1, 3, 3, padding=1)
            self.norm = nn.BatchNorm2d(3)
            self.again = nn.Conv2d(1, 3, 3, padding=1)
            self.again.weight = self.first.weight
            self.unused = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.first(x)) + self.again(x)

    torch.manual_seed(0)
    model = Tied().eval()
    viewer = Viewer(model, randn(1, 1, 6, 5))
    viewer.set_weight("again.weight", (1, 0, 2, 2), 3)
    state = viewer.state_dict()
    assert list(state) == list(model.state_dict())
    for name, value in model.state_dict().items():
        assert state[name].dtype == value.dtype and state[name].shape == value.shape, name
    assert state["first.weight"][1, 0, 2, 2] == 3 == state["again.weight"][1, 0, 2, 2]
    assert model.first.weight[1, 0, 2, 2] != 3  # the user's model is unchanged
    assert state["norm.num_batches_tracked"].dtype == torch.int64
    model.load_state_dict(state)
    assert_equal(viewer.output, model(torch.from_numpy(viewer.input)).detach().numpy())
    viewer.close()


@pytest.mark.parametrize("large", [False, True])
def test_an_onnx_file_is_written_of_a_pytorch_model(large: bool, tmp_path: Any) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(4 * 16, 20_000 if large else 3),
    ).eval()  # fmt: skip
    viewer = Viewer(model, randn(2, 1, 6, 6), preprocess=nbglcnn.Preprocess(mean=0.25, std=0.5))
    weight = randn(*model[0].weight.shape)
    viewer.load_state_dict({**viewer.state_dict(), "0.weight": torch.from_numpy(weight)})
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    path = viewer.to_onnx(tmp_path / "model.onnx")
    assert path == tmp_path / "model.onnx" and not list(tmp_path.glob(".*"))
    onnx.checker.check_model(str(path))
    stored = onnx.load(path)
    names = {tensor.name for tensor in stored.graph.initializer}
    assert names == {name for name in before if "num_batches" not in name}
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = randn(2, 1, 6, 6)
    [value] = session.run(None, {session.get_inputs()[0].name: x})
    model.load_state_dict(viewer.state_dict())
    assert np.array_equal(model[0].weight.detach().numpy(), weight)
    assert_equal(value, model(torch.from_numpy(x)).detach().numpy())
    # The file contains the model without the preprocessing of pictures.
    assert_equal(Viewer(path, x).output, value)
    viewer.close()


def test_what_pytorchs_exporter_refuses_is_said(tmp_path: Any) -> None:
    viewer = Viewer(nn.Linear(3, 2).eval(), randn(1, 3))
    with pytest.raises(FileNotFoundError):
        viewer.to_onnx(tmp_path / "nowhere" / "model.onnx")
    viewer.close()


def store_model(kind: int, is_external: bool, folder: Any) -> Any:
    """Write a network with weights of one type, in the file or next to it; return its path."""
    nodes = [
        node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        node("Conv", ["x", "wide", "b"], ["c"], kernel_shape=[3, 3], pads=[1] * 4),
        node("Constant", [], ["s"], value=numpy_helper.from_array(np.float32(0.75), "s")),
        node("Mul", ["c", "s"], ["y"]),
    ]
    if kind == TensorProto.FLOAT:
        nodes[0] = node("Identity", ["w"], ["wide"])
    model = model_of(nodes, {"x": (1, 2, 5, 7)}, ["y"], constants={"b": randn(3)})
    shown = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 5, 7))
    model.graph.output[0].CopyFrom(shown)
    w = helper.make_tensor("w", kind, (3, 2, 3, 3), (randn(3, 2, 3, 3) / 3).reshape(-1).tolist())
    w.doc_string = "of the first layer"
    model.graph.initializer.append(w)
    model.ir_version = 8
    path = folder / "network.onnx"
    if is_external:
        onnx.save_model(
            model, path, save_as_external_data=True, location="numbers.bin", size_threshold=0
        )
    else:
        onnx.save_model(model, path)
    return path


@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
@pytest.mark.parametrize(
    "kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16]
)
def test_an_onnx_file_is_written_with_the_weights_of_now(
    kind: int, external: bool, tmp_path: Any
) -> None:
    path = store_model(kind, external, tmp_path)
    viewer = Viewer(path, randn(1, 2, 5, 7))
    viewer.set_weight("b", 1, -2.5)
    if "w" in viewer.network.graph.parameters:
        viewer.set_weight("w", (2, 1, 0, 2), 1.25)
    state = viewer.state_dict()
    assert state.keys() == viewer.network.graph.parameters.keys()
    assert {type(value) for value in state.values()} == {np.ndarray}
    assert state["b"][1] == -2.5 and ("w" not in state or state["w"][2, 1, 0, 2] == 1.25)
    expected = viewer.output
    viewer.bend("c", transforms.ablate())  # has no weight
    written = viewer.to_onnx(tmp_path / "again.onnx")
    onnx.checker.check_model(str(written))
    assert (tmp_path / "again.onnx.data").exists() == external
    before, after = ({t.name: t for t in onnx.load(p).graph.initializer} for p in (path, written))
    assert before.keys() == after.keys()
    for name, tensor in after.items():
        assert tensor.data_type == before[name].data_type and tensor.dims == before[name].dims
        assert tensor.doc_string == before[name].doc_string
    old, new = (numpy_helper.to_array(one["w"]) for one in (before, after))
    differs = np.argwhere(np.asarray(old != new))
    if "w" in viewer.network.graph.parameters:
        assert differs.tolist() == [[2, 1, 0, 2]]
    else:
        assert not differs.size
    if kind != TensorProto.BFLOAT16:  # ONNX Runtime supports this cast on some CPUs only
        session = onnxruntime.InferenceSession(str(written), providers=["CPUExecutionProvider"])
        [value] = session.run(None, {"x": viewer.input})
        assert_equal(value, expected, rtol=1e-5)
    again = Viewer(written, viewer.input)
    assert_equal(again.output, expected)
    # Overwrite the file that is being read.
    viewer.to_onnx(path)
    assert_equal(Viewer(path, viewer.input).output, expected)
    viewer.close()
    assert not list(tmp_path.glob(".*"))
