"""Viewer whose source is a latent: without a page, with scripted pages, in a browser, exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Frame, Page, expect

import nbglcnn
from minimal_host import TIMEOUT_S, HostFrames
from nbglcnn import Images, InputError, Latent, Viewer, transforms
from scripted_page import FakeComm, ScriptedPage
from viewer_models import autoencoder, hook_values, pictures

SEED = 5
LATENT_LAYER = "encoder.4"
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
EXAMPLE_INPUTS = pictures(SEED + 1, 12)


def make_model() -> torch.nn.Module:
    return autoencoder(SEED)


def decode(code: Any, shape: tuple[int, ...]) -> np.ndarray:
    with torch.inference_mode():
        array = torch.from_numpy(np.array(code, np.float32).reshape(1, *shape[1:]))
        return make_model().decoder(array).numpy()


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    viewer = Viewer(make_model(), pictures(SEED, 1))
    yield viewer
    viewer.close()


@pytest.fixture
def shape(viewer: Viewer) -> tuple[int, ...]:
    [value] = [one for one in viewer.network.plan.values if one.key == LATENT_LAYER]
    return value.shape


def test_values_without_a_page_are_those_of_the_code(
    viewer: Viewer, shape: tuple[int, ...]
) -> None:
    x = viewer.input
    plain = hook_values(make_model(), x)
    viewer.input = Latent(LATENT_LAYER, data=EXAMPLE_INPUTS)
    # The latent starts at the input's code, and decodes it.
    np.testing.assert_allclose(viewer.output, plain["output"], **TOLERANCE)
    with torch.inference_mode():
        codes = make_model().encoder(torch.from_numpy(EXAMPLE_INPUTS)).flatten(1).numpy()
    np.testing.assert_allclose(viewer.source.codes, codes, **TOLERANCE)
    np.testing.assert_array_equal(viewer.input, x)
    viewer.source = viewer.source.with_code(codes[3])
    np.testing.assert_allclose(viewer.output, decode(codes[3], shape), **TOLERANCE)
    np.testing.assert_array_equal(viewer.source.code, codes[3])
    np.testing.assert_array_equal(viewer.activations[LATENT_LAYER].reshape(-1), codes[3])
    assert viewer.activations.to_dict().keys() == {*viewer.activations}
    for layer in ("encoder.0", "encoder.3"):
        assert layer not in viewer.activations
        for read in (
            lambda layer=layer: viewer.activations[layer],
            lambda layer=layer: viewer.activations.read("output", layer),
            lambda layer=layer: viewer.unbent[layer],
        ):
            with pytest.raises(KeyError, match=r"an active latent .*viewer\.source = None"):
                read()
    viewer.source = None
    np.testing.assert_allclose(viewer.activations["encoder.3"], plain["encoder.3"], **TOLERANCE)
    np.testing.assert_array_equal(viewer.input, x)


@pytest.mark.parametrize("way", ["array", "images", "none"])
def test_another_input_or_source_ends_it(viewer: Viewer, way: str) -> None:
    viewer.input = Latent(LATENT_LAYER)
    assert viewer.network.skipped_keys
    x = pictures(SEED + 2, 1)
    if way == "array":
        viewer.input = x
    elif way == "images":
        viewer.source = Images(x)
    else:
        viewer.source = None
        x = viewer.input
    assert not viewer.network.skipped_keys and not isinstance(viewer.source, Latent)
    np.testing.assert_allclose(viewer.output, hook_values(make_model(), x)["output"], **TOLERANCE)


def test_it_is_no_bend_and_no_step_to_undo(viewer: Viewer, shape: tuple[int, ...]) -> None:
    history = len(viewer.get_state()["_history"]["past"])
    viewer.source = Latent(LATENT_LAYER, code=np.full(shape, 0.5))
    assert len(viewer.bends) == 0 and viewer.edits == ()
    assert (
        viewer.get_state()["_edits"]["edits"] == []
        and len(viewer.get_state()["_history"]["past"]) == history
    )
    assert "bends" not in viewer.verify().summary
    viewer.bend(LATENT_LAYER, transforms.add(0.25))
    np.testing.assert_allclose(viewer.output, decode(np.full(shape, 0.75), shape), **TOLERANCE)
    np.testing.assert_array_equal(viewer.unbent[LATENT_LAYER], np.full(shape, 0.5, np.float32))
    report = viewer.verify()
    assert report.ok and {row.layer for row in report.rows} >= {"decoder.0", "output"}
    assert report.summary.endswith(", with bends applied")
    assert "encoder.0" not in {row.layer for row in report.rows}
    assert viewer._repr_mimebundle_() is not None
    viewer.source = None
    assert [edit.transform for edit in viewer.edits] == ["add"]


def test_what_cannot_be_cut_leaves_the_source_as_it_is(viewer: Viewer) -> None:
    viewer.source = Latent(LATENT_LAYER)
    before = viewer.source
    for wrong, error in (
        (Latent("encoder.9"), KeyError),
        (Latent("input"), InputError),
        (Latent(LATENT_LAYER, code=[1, 2]), InputError),
        (Latent(LATENT_LAYER, data=np.zeros((2, 3), np.float32)), InputError),
    ):
        with pytest.raises(error):
            viewer.source = wrong
        assert viewer.source is before and viewer.network.latent_edit.layer == LATENT_LAYER


def test_a_batch_becomes_one_example_with_a_word() -> None:
    viewer = Viewer(make_model(), pictures(SEED, 3))
    with pytest.warns(UserWarning, match="a source gives one example"):
        viewer.source = Latent(LATENT_LAYER, data=EXAMPLE_INPUTS)
    assert viewer.output.shape == (1, 1, 22, 18)
    assert len(viewer.source.codes) == 12
    viewer.close()


# Pages


@pytest.fixture
def page(viewer: Viewer) -> ScriptedPage:
    return FakeComm(viewer).open_page()


def test_a_page_moves_the_code_and_gets_what_it_asks_for(
    viewer: Viewer, page: ScriptedPage, shape: tuple[int, ...]
) -> None:
    viewer.source = Latent(LATENT_LAYER, EXAMPLE_INPUTS, np.arange(12) % 3, ["a", "b", "c"])
    told = viewer.get_state()["_source"]["source"]
    assert (
        page.request_blob(told["labels"]) is not None
        and page.request_blob(told["classes"]) is not None
    )
    assert len(page.request_blob(told["data"]) or b"") > 12 * viewer.source.code.nbytes
    known = viewer.source.known
    code = np.random.default_rng(1).normal(size=viewer.source.code.size).astype(np.float32)
    page.set_source(code=code.tolist())
    np.testing.assert_array_equal(viewer.source.code, code)
    assert viewer.source.known is known
    viewer._connection.pages.clear()
    np.testing.assert_allclose(viewer.output, decode(code, shape), **TOLERANCE)


def test_a_page_cannot_say_a_code_that_does_not_fit(viewer: Viewer, page: ScriptedPage) -> None:
    viewer.source = Latent(LATENT_LAYER, EXAMPLE_INPUTS)
    before = viewer.source
    for wrong in ({"code": [1.0]}, {"input": "decoder.0"}, {"data": "elsewhere"}):
        page.set_source(**wrong)
        assert viewer.source is before
        assert [*viewer.get_state()["_source"]["source"]["code"]] == before.code.tolist()
    page.set_source(kind="latent", input=LATENT_LAYER, code=[0.0])
    assert viewer.source is before, "a page begins none that Python has not made"
    page.clear_source()
    assert viewer.source is None and not viewer.network.skipped_keys


def read_in_frame(host: HostFrames, *keys: str) -> list[np.ndarray]:
    """Return the values of these keys, read by the page in the first frame."""
    values = {value.key: value for value in host.viewer.network.plan.values}
    request = host.connection.request_values(keys, [4 * values[key].readback.count for key in keys])
    host.wait_until(lambda: host.connection.is_answered(request, TIMEOUT_S))
    host.connection.end_request(request)
    return [
        flat.reshape(values[key].shape) for key, flat in zip(keys, request.arrays(), strict=True)
    ]


def test_a_page_decodes_what_python_sets_and_what_its_pad_says(
    iframes: Callable[[int], list[Frame]], static_site: tuple[str, dict[str, bytes]]
) -> None:
    viewer = Viewer(make_model(), pictures(SEED, 1))
    viewer.source = Latent(LATENT_LAYER, EXAMPLE_INPUTS)
    viewer.source = viewer.source.with_code(viewer.source.codes[2])
    [value] = [one for one in viewer.network.plan.values if one.key == LATENT_LAYER]
    host = HostFrames(viewer, iframes(1), static_site[0], "DataView")
    host.wait_until(lambda: viewer.status["page"] == "connected")
    [output, code] = read_in_frame(host, "output", LATENT_LAYER)
    np.testing.assert_array_equal(code.reshape(-1), viewer.source.code)
    np.testing.assert_allclose(output, decode(code, value.shape), **TOLERANCE)
    with pytest.raises(nbglcnn.DeviceError, match=r"encoder\.3 has no value: an active latent"):
        read_in_frame(host, "encoder.3")
    viewer.close()


def test_codes_follow_new_weights_here_and_in_the_page(viewer: Viewer, page: ScriptedPage) -> None:
    viewer.source = Latent(LATENT_LAYER, EXAMPLE_INPUTS)
    saved, before = viewer.source, viewer.get_state()["_source"]["source"]
    other = make_model()
    with torch.no_grad():
        other.get_submodule("encoder.3").weight.mul_(-1.5)
    try:
        viewer.load_state_dict(other.state_dict())
        expected = hook_values(other, EXAMPLE_INPUTS)[LATENT_LAYER].reshape(12, -1)
        assert np.abs(expected - saved.codes).max() > 0.01
        np.testing.assert_allclose(viewer.source.codes, expected, **TOLERANCE)
        np.testing.assert_array_equal(viewer.source.code, saved.code)
        told = viewer.get_state()["_source"]["source"]
        assert told["data"] != before["data"] and told["items"] == before["items"]
        sent = bytes(page.request_blob(told["data"]) or b"")
        assert np.ascontiguousarray(viewer.source.codes, "<f4").tobytes() in sent
        # Setting an earlier record does not bring back the old codes.
        viewer.source = saved
        np.testing.assert_allclose(viewer.source.codes, expected, **TOLERANCE)
        now = viewer.get_state()["_source"]["source"]
        viewer.source = None
    finally:
        viewer.load_state_dict(make_model().state_dict())
    # Nor does a page that returns to it.
    page.set_source(**now)
    expected = hook_values(make_model(), EXAMPLE_INPUTS)[LATENT_LAYER].reshape(12, -1)
    np.testing.assert_allclose(viewer.source.codes, expected, **TOLERANCE)
    assert viewer.get_state()["_source"]["source"]["data"] != now["data"]


def test_a_latent_whose_codes_are_not_finite_any_more_keeps_the_old_ones_and_says_so(
    viewer: Viewer,
) -> None:
    viewer.source = Latent(LATENT_LAYER, EXAMPLE_INPUTS)
    before = viewer.source.codes
    weights = make_model().state_dict()
    weights["encoder.0.weight"] = weights["encoder.0.weight"] * torch.inf
    try:
        with pytest.warns(UserWarning, match="still belong to the previous weights: .*not finite"):
            viewer.load_state_dict(weights)
        np.testing.assert_array_equal(viewer.source.codes, before)
    finally:
        viewer.load_state_dict(make_model().state_dict())


def test_a_page_goes_back_to_the_data_of_a_latent(viewer: Viewer, page: ScriptedPage) -> None:
    labels = np.arange(12) % 3
    viewer.source = Latent(LATENT_LAYER, EXAMPLE_INPUTS, labels, ["a", "b", "c"])
    told = viewer.get_state()["_source"]["source"]
    items = told["items"]
    sent = np.frombuffer(bytes(page.request_blob(f"{items}.0") or b""), np.float32)
    np.testing.assert_array_equal(sent.reshape(EXAMPLE_INPUTS.shape), EXAMPLE_INPUTS)
    own = {name: told[name] for name in ("count", "block_size", "dtype")}
    page.set_source(
        kind="images", input="input", data=items, labels=f"{items}.labels",
        classes=f"{items}.classes", index=4, rate=2.0, **own,
    )  # fmt: skip
    assert isinstance(viewer.source, Images) and viewer.source.data is EXAMPLE_INPUTS
    assert viewer.source.index == 4 and not viewer.network.skipped_keys
    viewer._connection.pages.clear()
    with torch.inference_mode():
        viewer.source = viewer.source.at(5)
        expected = make_model()(torch.from_numpy(EXAMPLE_INPUTS[5:6])).numpy()
    np.testing.assert_allclose(viewer.output, expected, **TOLERANCE)
    assert viewer.get_state()["_source"]["source"]["data"] == items, "sent twice"


class VariationalAutoencoder(torch.nn.Module):
    """Returns the picture, and the mean and deviation from which its code is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.mean = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)
        self.spread, self.decoder = torch.nn.Linear(5, 3), torch.nn.Linear(3, 6)
        self.code = torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        h = torch.relu(self.encoder(x))
        mean, spread = self.mean(h), self.spread(h)
        z = self.code(mean + torch.randn_like(spread) * torch.exp(spread / 2))
        return self.decoder(z), mean, spread


def test_outputs_of_the_skipped_part_are_none_and_their_values_say_why() -> None:
    torch.manual_seed(3)
    vae = VariationalAutoencoder().eval()
    viewer = Viewer(vae, np.ones((1, 6), np.float32))
    assert all(one is not None for one in viewer.output)
    code = np.array([0.5, -1, 2], np.float32)
    viewer.source = Latent("code", code=code)
    picture, mean, spread = viewer.output
    assert mean is None and spread is None
    with torch.inference_mode():
        expected = vae.decoder(torch.from_numpy(code)[None]).numpy()
    np.testing.assert_allclose(picture, expected, **TOLERANCE)
    with pytest.raises(KeyError, match=r"output\[1\].* has no value: an active latent"):
        viewer.activations["output[1]"]
    viewer.source = Latent("mean", code=code)
    assert viewer.output[1] is not None and viewer.output[2] is not None, "the picture needs both"
    viewer.source = None
    assert all(one is not None for one in viewer.output)
    viewer.close()


# Exported pages


@pytest.fixture
def open_offline(exported_page: Callable[..., Page]) -> Callable[..., Page]:
    """`exported_page` with a viewport of 1200×1700."""
    return partial(exported_page, viewport={"width": 1200, "height": 1700})


READ_VALUE_SCRIPT = """async (key) => Array.from(await (await window.nbglcnn).read(key))"""


def test_an_exported_page_has_the_workbench_with_its_codes(
    viewer: Viewer, shape: tuple[int, ...], open_offline: Callable[[Path], Page], tmp_path: Path
) -> None:
    viewer.source = Latent(LATENT_LAYER, EXAMPLE_INPUTS, np.arange(12) % 3, ["a", "b", "c"])
    viewer.source = viewer.source.with_code(viewer.source.codes[7])
    page = open_offline(viewer.to_html(tmp_path / "latent.html"))
    found = np.array(page.evaluate(READ_VALUE_SCRIPT, "output"), np.float32)
    expected = decode(viewer.source.code, shape)
    np.testing.assert_allclose(found, expected.reshape(-1), **TOLERANCE)
    ring = page.locator(".nbg-latent-ring")
    expect(ring).to_be_visible()
    expect(page.locator(".nbg-latent-pad figcaption")).to_contain_text("12 pictures")
    expect(page.locator(".nbg-latent-cells canvas")).to_have_attribute("data-done", "64")
    ring.focus()
    page.keyboard.press("Home")
    expect(ring).to_have_attribute("aria-valuenow", "0")
    mean = np.array(page.evaluate(READ_VALUE_SCRIPT, LATENT_LAYER), np.float32)
    np.testing.assert_allclose(mean, viewer.source.codes.mean(0), rtol=1e-4, atol=1e-5)
    found = np.array(page.evaluate(READ_VALUE_SCRIPT, "output"), np.float32)
    np.testing.assert_allclose(found, decode(mean, shape).reshape(-1), **TOLERANCE)
    page.get_by_role("button", name="Back to data").click()
    expect(ring).to_have_count(0)
    back = np.array(page.evaluate(READ_VALUE_SCRIPT, "encoder.3"), np.float32)
    plain = hook_values(make_model(), viewer.input)["encoder.3"]
    np.testing.assert_allclose(back, plain.reshape(-1), **TOLERANCE)
