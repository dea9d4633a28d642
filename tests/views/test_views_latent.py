"""The latent workbench in a browser, by mouse and keyboard, against PyTorch's decoder."""

from __future__ import annotations

import copy
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from accessibility import AXE_SCRIPT
from accessibility import accessibility_violations as axe_faults
from latent_page import (
    CLASS_NAMES,
    current_code,
    decode,
    open_workbench,
    read_output,
    serve_blobs,
    trained_autoencoder_data,
)
from nbglcnn import Latent
from nbglcnn.features.latent import host as latents
from nbglcnn.widget.network import Network
from readability import assert_checks_detect, layout_faults, layout_faults_by_width
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, canvas_pixels, parse_number

PAD, PLANE = ".nbg-latent-ring", ".nbg-latent-plane"
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
GRID_CANVAS_SELECTOR = ".nbg-latent-cells canvas"
# Makes runs beside the network take longer than a frame, as on a slow device.
SLOW_DECODING_SCRIPT = """() => {
  const { forkSession } = views.state;
  views.slow = 100;
  const open = forkSession.value;
  forkSession.value = async () => {
    const session = await open();
    const run = async (options) => {
      await new Promise((done) => setTimeout(done, views.slow));
      return session.run(options);
    };
    return { ...session, run };
  };
}"""
IS_GRID_STARTED_SCRIPT = f"""() => {{
  const now = document.querySelector('{GRID_CANVAS_SELECTOR}')?.dataset.done;
  return now > 0 && now < 64;
}}"""
IS_GRID_DONE_SCRIPT = (
    f"() => document.querySelector('{GRID_CANVAS_SELECTOR}')?.dataset.done === '64'"
)


IS_CODE_CHANGED_SCRIPT = """before => (
  views.state.latentCode.value ?? views.state.source.value.code
).some((one, k) => one !== before[k])"""


def changed_code(page: Page, before: np.ndarray, rests: bool = True) -> np.ndarray:
    """Wait for a code that differs from `before`.

    If it `rests`, wait also until the network has run with it.
    """
    page.wait_for_function(IS_CODE_CHANGED_SCRIPT, arg=before.astype(float).tolist())
    if rests:
        page.evaluate("() => views.quiet()")
    return current_code(page)


def choose_axes(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def plane_coordinates(code: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """A code's two principal coordinates, from the Fashion codes or the `known` ones."""
    codes = (trained_autoencoder_data().codes if known is None else known).astype(np.float64)
    mean = codes.mean(0)
    rows = np.linalg.svd(codes - mean, full_matrices=False)[2][:2]
    signs = [np.sign(row[np.abs(row).argmax()]) for row in rows]
    return np.array([sign * row @ (code - mean) for sign, row in zip(signs, rows, strict=True)])


def item_code(item: int) -> np.ndarray:
    """An item's code, bit-identical to the one Python has sent to the page."""
    found = trained_autoencoder_data()
    opened, _ = latents.open_latent(found.network, Latent("encoder.6", found.images))
    return opened.codes[item]


def item_position(
    page: Page, item: int, known_codes: np.ndarray | None = None
) -> tuple[float, float]:
    """The screen position of an item's point, from the axis ends that the ring reports."""
    box = page.locator(PLANE).bounding_box()
    assert box is not None
    known = trained_autoencoder_data().codes if known_codes is None else known_codes
    codes = np.array([plane_coordinates(one, known) for one in known])
    deviations = codes.std(0, ddof=1)
    low = np.minimum(codes.min(0), -2.5 * deviations)
    high = np.maximum(codes.max(0), 2.5 * deviations)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    x, y = (codes[item] - low) / (high - low)
    return box["x"] + 1 + x * (box["width"] - 2), box["y"] + 1 + (1 - y) * (box["height"] - 2)


def test_it_begins_with_the_present_input_and_skips_the_encoder(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page, found = views.page, trained_autoencoder_data()
    np.testing.assert_allclose(current_code(page), found.codes[0], rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(
        read_output(page), decode(found.model, current_code(page)), **TOLERANCE
    )
    head = page.locator(".nbg-latent-head h3")
    expect(head).to_have_text(
        "Latent of encoder.6 · 16 values · drag the ring to decode another code"
    )
    expect(page.locator(".nbg-latent-pad figcaption")).to_contain_text("32 pictures · hover a name")
    expect(page.locator(".nbg-latent-decoded")).to_contain_text("near ankle boot")
    expect(page.locator(".nbg-latent-decoded")).to_contain_text("6 layers before encoder.6 are sk")
    # One pass writes the code, eight belong to the decoder.
    assert views.get("run")["passes"] == 1 + 8
    dimmed = page.locator(".nbg-line canvas[data-skipped]")
    assert {one.get_attribute("data-maps") for one in dimmed.all()} == {"encoder.2", "encoder.5"}
    expect(page.locator(".nbg-stage", has_text="encoder.3–5")).to_contain_text("64×7×7")
    views.set(source=None)
    expect(page.locator(PAD)).to_have_count(0)
    expect(dimmed).to_have_count(0)
    views.wait_idle()
    assert views.get("run")["passes"] == len(trained_autoencoder_data().plan.header.passes)
    assert views.get("status")["phase"] == "ready"


def test_the_panel_of_a_skipped_layer_says_that_it_does_not_run(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page = views.page
    numbers = page.locator(".nbg-panel .nbg-numbers")
    views.set(selected={"layer": "encoder.2", "channel": None})
    expect(numbers).to_have_text("This layer doesn’t run while a latent is active.")
    views.set(selected={"layer": "decoder.1", "channel": None})
    expect(numbers).to_contain_text("mean")
    views.set(selected={"layer": "encoder.2", "channel": None}, source=None)
    expect(numbers).to_contain_text("mean")
    assert "doesn’t run" not in numbers.inner_text()


def test_back_to_data_is_the_latents_own_data_set_with_its_labels(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page, found = views.page, trained_autoencoder_data()
    items = views.get("source")["items"]
    page.get_by_role("button", name="Back to data").click()
    expect(page.locator(PAD)).to_have_count(0)
    source = views.get("source")
    assert (source["kind"], source["data"], source["index"]) == ("images", items, 0)
    assert not source["playing"]
    views.wait_idle()
    with torch.inference_mode():
        expected = found.model(torch.from_numpy(found.images[:1])).numpy()
    page.wait_for_function("() => views.state.inputOverride.value?.kind === 'images'")
    views.wait_idle()
    np.testing.assert_allclose(read_output(page), expected, **TOLERANCE)
    expect(page.locator(".nbg-drawer")).to_contain_text(CLASS_NAMES[found.labels[0]])


def test_the_scatter_is_of_new_codes_once_python_tells_of_them(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page, found = views.page, trained_autoencoder_data()
    points = "canvas => canvas.toDataURL()"
    before = page.locator(".nbg-latent-points").evaluate(points)
    code = current_code(page)
    weights = copy.deepcopy(found.model)
    with torch.no_grad():
        turned = torch.linspace(-2, 2, 16)[:, None, None, None]
        weights.get_submodule("encoder.6").weight.mul_(turned)
    network = Network(weights, found.images[:1], observe="all", precision="float32")
    given = Latent("encoder.6", found.images, found.labels, CLASS_NAMES, code)
    opened, blobs = latents.open_latent(network, given)
    serve_blobs(views, blobs)
    source = msgspec.structs.replace(opened.to_record(given.layer), **blobs.record_fields())
    views.set(source=msgspec.to_builtins(source))
    page.wait_for_function("name => views.fed.asked.includes(name)", arg=source.data)
    views.wait_idle()
    np.testing.assert_array_equal(current_code(page), code)
    assert page.locator(".nbg-latent-points").evaluate(points) != before
    tip = page.locator(".nbg-latent-tip")
    page.mouse.move(*item_position(page, 5, opened.codes))
    expect(tip).to_contain_text(CLASS_NAMES[found.labels[5]])
    with torch.inference_mode():
        item = weights.encoder(torch.from_numpy(found.images[3:4])).numpy().ravel()
    np.testing.assert_allclose(opened.codes[3], item, **TOLERANCE)


def test_without_data_the_way_back_is_the_input_as_it_was(show: Callable[..., ViewsPage]) -> None:
    code = np.zeros(16, np.float32)
    views = open_workbench(show, latent=Latent("encoder.6", code=code))
    views.page.get_by_role("button", name="Back to data").click()
    expect(views.page.locator(PAD)).to_have_count(0)
    assert views.get("source") is None


def test_the_pad_moves_by_mouse_and_the_decoder_draws_that_very_code(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page, found = views.page, trained_autoencoder_data()
    box = page.locator(PLANE).bounding_box()
    assert box is not None
    before = current_code(page)
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.1 * box["height"])
    page.mouse.down()
    first = changed_code(page, before)
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.3 * box["height"], steps=3)
    page.mouse.up()
    second = changed_code(page, first)
    for code in (first, second):
        # On the plane: the code differs from the mean only in its two plane coordinates.
        mean = found.codes.mean(0)
        assert np.linalg.norm(plane_coordinates(code)) == pytest.approx(
            float(np.linalg.norm(code - mean)), rel=1e-4
        )
    assert (plane_coordinates(second) - plane_coordinates(first) < 0).all(), "left and down"
    np.testing.assert_allclose(read_output(page), decode(found.model, second), **TOLERANCE)
    # Python is notified slightly later.
    page.wait_for_function(
        "() => views.state.source.value.code.join() === views.state.latentCode.value.join()"
    )
    ring = page.locator(PAD)
    assert "near" in (ring.get_attribute("aria-valuetext") or "")


def test_a_click_on_a_point_decodes_that_item_and_hovering_shows_it(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page, found = views.page, trained_autoencoder_data()
    points = np.array([item_position(page, item) for item in range(32)])
    apart = [np.sort(np.linalg.norm(points - one, axis=1))[1] for one in points]
    item = int(np.argmax(apart))
    before = current_code(page)
    page.mouse.move(*points[item])
    tip = page.locator(".nbg-latent-tip")
    expect(tip).to_contain_text(f"{CLASS_NAMES[found.labels[item]]}, item {item}")
    small = canvas_pixels(tip.locator("canvas"))[..., 0]
    np.testing.assert_allclose(small, found.images[item, 0] * 255, atol=1)
    page.mouse.click(*points[item])
    known = item_code(item)
    np.testing.assert_array_equal(changed_code(page, before), known)
    np.testing.assert_allclose(known, found.codes[item], rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(read_output(page), decode(found.model, known), **TOLERANCE)
    expect(page.locator(".nbg-latent-pad figcaption")).to_contain_text(
        "distance of the code from this plane"
    )
    # The tooltip of a point in the middle, which has the least space on either side.
    page.set_viewport_size({"width": 848, "height": 1500})
    views.wait_idle()
    box = page.locator(".nbg-latent-plane").bounding_box()
    assert box is not None
    across = np.array([item_position(page, item)[0] for item in range(32)]) - box["x"]
    letters = [len(CLASS_NAMES[label]) for label in found.labels]
    room = np.maximum(across, box["width"] - across) - 7 * np.array(letters)
    page.mouse.move(*item_position(page, int(np.argmin(room))))
    expect(tip).to_be_visible()
    assert layout_faults(page) == []


def test_arrows_move_the_pad_by_steps_and_with_shift_by_ten(show: Callable[..., ViewsPage]) -> None:
    views = open_workbench(show)
    page = views.page
    page.locator(PAD).focus()
    tab, before = views.get("tab"), current_code(page)
    page.keyboard.press("Home")
    home = changed_code(page, before)
    np.testing.assert_allclose(plane_coordinates(home), 0, atol=1e-4)
    steps = {}
    for key in ("ArrowRight", "Shift+ArrowRight", "ArrowUp", "Shift+ArrowDown"):
        start = current_code(page)
        page.keyboard.press(key)
        steps[key] = plane_coordinates(changed_code(page, start)) - plane_coordinates(start)
    assert steps["ArrowRight"][0] > 0 and abs(steps["ArrowRight"][1]) < 1e-4
    np.testing.assert_allclose(steps["Shift+ArrowRight"], 10 * steps["ArrowRight"], atol=1e-3)
    np.testing.assert_allclose(steps["Shift+ArrowDown"], -10 * steps["ArrowUp"], atol=1e-3)
    assert views.get("tab") == tab and views.get("selected") is None, "the arrows are the ring's"
    ring = page.locator(PAD)
    assert parse_number(ring.get_attribute("aria-valuenow") or "") == pytest.approx(
        plane_coordinates(current_code(page))[0], abs=2e-3
    )
    assert (ring.get_attribute("aria-valuetext") or "").startswith("PC 1 ")


def test_sliders_move_one_number_each_and_a_double_click_makes_it_zero(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page, found = views.page, trained_autoencoder_data()
    slider = page.get_by_role("slider", name="Unit 13", exact=True)
    before = current_code(page)
    slider.focus()
    page.keyboard.press("ArrowRight")
    after = changed_code(page, before)
    assert np.flatnonzero(after != before).tolist() == [13] and after[13] > before[13]
    np.testing.assert_allclose(read_output(page), decode(found.model, after), **TOLERANCE)
    slider.dblclick()
    page.wait_for_function("() => views.state.latentCode.value?.[13] === 0")
    row = page.locator(".nbg-latent-number", has=slider)
    expect(row.locator("output")).to_have_text("0")
    low, high = (float(slider.get_attribute(end) or "nan") for end in ("min", "max"))
    mean, std = found.codes[:, 13].mean(), found.codes[:, 13].std()
    # The range includes the initial code, to which Home returns.
    assert high == pytest.approx(max(mean + 3 * std, 0), rel=1e-3)
    assert low == pytest.approx(min(mean - 3 * std, before[13]), rel=1e-3)


def grid_cell(page: Page, column: int, row: int) -> np.ndarray:
    """The 28×28 picture of a cell in the grid."""
    whole = canvas_pixels(page.locator(GRID_CANVAS_SELECTOR))[..., 0]
    return whole[28 * row : 28 * row + 28, 28 * column : 28 * column + 28]


def test_the_grid_has_what_pytorch_makes_of_each_point_of_the_plane(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page, found = views.page, trained_autoencoder_data()
    page.wait_for_function(IS_GRID_DONE_SCRIPT)
    shown = read_output(page)
    runs = page.evaluate("() => views.calls.runs")
    grid = page.locator(".nbg-latent-cells").bounding_box()
    assert grid is not None
    for column, row in ((0, 0), (5, 2), (7, 7)):
        before = current_code(page)
        at = ((column + 0.5) / 8, (row + 0.5) / 8)
        page.mouse.click(grid["x"] + at[0] * grid["width"], grid["y"] + at[1] * grid["height"])
        code = changed_code(page, before)
        expected = decode(found.model, code)[0, 0] * 255
        np.testing.assert_allclose(grid_cell(page, column, row), expected, atol=1.01)
        np.testing.assert_allclose(read_output(page)[0, 0] * 255, expected, atol=1e-2)
        mark = page.locator(".nbg-latent-cell")
        style = mark.get_attribute("style") or ""
        assert f"left: {100 * column / 8:g}%" in style and f"top: {100 * row / 8:g}%" in style
    # The grid was computed without running the displayed network.
    assert page.evaluate("() => views.calls.runs") - runs <= 6
    assert shown.shape == (1, 1, 28, 28)


def test_a_plane_that_comes_again_is_kept_and_a_bend_draws_it_anew(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page, found = views.page, trained_autoencoder_data()
    page.wait_for_function(IS_GRID_DONE_SCRIPT)
    first = canvas_pixels(page.locator(GRID_CANVAS_SELECTOR))
    choose_axes(page, "Between two pictures")
    page.wait_for_function(f"() => !({IS_GRID_DONE_SCRIPT})()")
    page.wait_for_function(IS_GRID_DONE_SCRIPT)
    assert (canvas_pixels(page.locator(GRID_CANVAS_SELECTOR)) != first).any()
    choose_axes(page, "PCA 1, 2")
    assert page.evaluate(IS_GRID_DONE_SCRIPT)
    np.testing.assert_array_equal(canvas_pixels(page.locator(GRID_CANVAS_SELECTOR)), first)
    bend = {
        "layer": "encoder.6", "name": "add", "transform": "add", "parameters": [2.0],
        "channels": [3], "mix": 1, "enabled": True, "source": "",
        "parameter_names": [], "array_hash": "",
        "is_frozen": False, "skips_upstream": False,
    }  # fmt: skip
    views.set(currentEdits={"edits": [bend], "weights": 0})
    page.wait_for_function(f"() => !({IS_GRID_DONE_SCRIPT})()")
    page.wait_for_function(IS_GRID_DONE_SCRIPT)
    before = current_code(page)
    grid = page.locator(".nbg-latent-cells").bounding_box()
    assert grid is not None
    page.mouse.click(grid["x"] + 2, grid["y"] + 2)
    code = changed_code(page, before)
    code[3] += 2
    expected = decode(found.model, code)[0, 0] * 255
    np.testing.assert_allclose(grid_cell(page, 0, 0), expected, atol=1.01)
    np.testing.assert_allclose(read_output(page)[0, 0] * 255, expected, atol=1e-2)


@pytest.mark.usefixtures("fresh_page")
def test_a_grid_that_begins_anew_while_it_is_decoded_ends_with_the_same_pictures(
    show: Callable[..., ViewsPage],
) -> None:
    views = open_workbench(show)
    page = views.page
    page.wait_for_function(IS_GRID_DONE_SCRIPT)
    first = canvas_pixels(page.locator(GRID_CANVAS_SELECTOR))
    page.clock.install()
    page.evaluate(SLOW_DECODING_SCRIPT)
    views.set(currentEdits={"edits": [], "weights": 1})  # everything is decoded again
    for light in (False, True, False, True):
        page.wait_for_function(IS_GRID_STARTED_SCRIPT, polling=20)
        page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", light)
    begun = page.evaluate("() => performance.now()")
    page.evaluate("() => { views.slow = 0; }")
    page.wait_for_function(IS_GRID_DONE_SCRIPT, polling=100)
    np.testing.assert_array_equal(canvas_pixels(page.locator(GRID_CANVAS_SELECTOR)), first)
    # Ten seconds later: the decoder's session is still in use and isn't released.
    passed = page.evaluate("() => performance.now()") - begun
    page.clock.fast_forward(max(0, round(9_000 - passed)))
    page.evaluate("() => { views.slow = 100; }")
    choose_axes(page, "Between two pictures")
    page.wait_for_function(IS_GRID_STARTED_SCRIPT, polling=20)
    page.clock.run_for(2_000)
    page.evaluate("() => { views.slow = 0; }")
    page.wait_for_function(IS_GRID_DONE_SCRIPT, polling=100)


def test_planes_of_two_units_and_between_two_pictures(show: Callable[..., ViewsPage]) -> None:
    views = open_workbench(show)
    page, found = views.page, trained_autoencoder_data()
    choose_axes(page, "Units")
    page.get_by_label("Unit across").fill("4")
    page.get_by_label("Unit up").fill("9")
    page.get_by_label("Unit up").blur()
    before = current_code(page)
    box = page.locator(PLANE).bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 0.93 * box["width"], box["y"] + 0.06 * box["height"])
    after = changed_code(page, before)
    assert set(np.flatnonzero(after != before)) <= {4, 9}
    assert after[4] > before[4] and after[9] > before[9]
    choose_axes(page, "Between two pictures")
    end = page.locator(".nbg-latent-end").nth(1)
    expect(end).to_contain_text("item 1")
    end.get_by_role("button").click()
    before = current_code(page)
    # A point of the current plane: picture 0 is at 0, 0, the ring's Home position.
    page.locator(PAD).focus()
    page.keyboard.press("Home")
    home = changed_code(page, before)
    np.testing.assert_allclose(home, found.codes[0], rtol=1e-4, atol=1e-4)
    expect(end.get_by_role("button")).to_have_attribute("aria-pressed", "true")
    ring = page.locator(PAD).bounding_box()
    assert ring is not None


@pytest.mark.usefixtures("fresh_page")
def test_an_orbit_goes_around_until_somebody_takes_the_ring(show: Callable[..., ViewsPage]) -> None:
    views = open_workbench(show)
    page = views.page
    button = page.locator(".nbg-latent-decoded button").first
    expect(button).to_have_text("Orbit")
    button.click()
    expect(button).to_have_text("Stop")
    seen = {tuple(changed_code(page, current_code(page), rests=False).round(3)) for _ in range(5)}
    assert len(seen) > 3
    page.locator(PAD).focus()
    page.keyboard.press("ArrowLeft")
    expect(button).to_have_text("Orbit")
    still = current_code(page)
    page.wait_for_timeout(200)
    np.testing.assert_array_equal(current_code(page), still)
    # With reduced motion, a click is one step.
    page.emulate_media(reduced_motion="reduce")
    button.click()
    stepped = changed_code(page, still)
    expect(button).to_have_text("Orbit")
    page.wait_for_timeout(150)
    np.testing.assert_array_equal(current_code(page), stepped)


def test_without_data_there_are_units_and_sliders_alone(show: Callable[..., ViewsPage]) -> None:
    views = open_workbench(show, latent=Latent("encoder.6", code=np.arange(16) / 4))
    page, found = views.page, trained_autoencoder_data()
    np.testing.assert_allclose(
        read_output(page), decode(found.model, np.arange(16) / 4), **TOLERANCE
    )
    expect(page.locator(".nbg-latent-axes button")).to_have_count(1)
    expect(page.locator(".nbg-latent-pad figcaption")).to_contain_text(
        'Latent("encoder.6", data=images)'
    )
    expect(page.locator(PAD)).to_have_attribute(
        "aria-label", "Code on the plane of Unit 0 and Unit 1"
    )
    page.wait_for_function(IS_GRID_DONE_SCRIPT)
    button = page.get_by_role("button", name="Back to data")
    button.click()
    assert views.get("source") is None
    expect(page.locator(".nbg-latent")).to_have_count(0)


@pytest.mark.parametrize("light", [True, False])
def test_it_is_legible_at_every_width_in_both_themes(
    show: Callable[..., ViewsPage], sweep_widths: Callable[..., tuple[int, ...]], light: bool
) -> None:
    views = open_workbench(show, 848)
    page = views.page
    page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", light)
    for width in (420, 1200):
        # Everything fits the viewport: the mouse can't reach anything outside.
        page.set_viewport_size({"width": width, "height": 2600 if width < 520 else 1500})
        for name in ("Between two pictures", "Units", "PCA 1, 2"):
            choose_axes(page, name)
            views.wait_idle()
            assert page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
            small = small_buttons(page.locator(".nbg-latent button")) if width < 520 else []
            assert small == []
    for name in ("Between two pictures", "Units", "PCA 1, 2"):
        choose_axes(page, name)
        assert (
            layout_faults_by_width(page, sweep_widths(*((620, 768) if light else (848,)))) == {}
        ), name
    if not light:
        return
    assert_checks_detect(
        page,
        {
            ".nbg-latent-name { top: 60px !important }": "over each other",
            ".nbg-latent-number { margin-top: -16px }": "over each other",
            ".nbg-latent-axes button { width: 24px; overflow: hidden }": "cut off",
            ".nbg-latent-axis { font-size: 9px !important }": "letters of 9.0 px",
        },
    )


def test_each_number_has_a_row_of_its_own_in_the_drawer(show: Callable[..., ViewsPage]) -> None:
    for width, height in ((848, 24), (420, 40)):
        page = open_workbench(show, width).page
        # As in the drawer, where labels are laid out side by side.
        page.evaluate("() => document.querySelector('.nbg-latent').parentElement.classList"
                      ".add('nbg-drawer')")  # fmt: skip
        rows = [one.bounding_box() for one in page.locator(".nbg-latent-number").all()]
        tops = [box["y"] for box in rows if box is not None]
        assert len(tops) == 16
        np.testing.assert_allclose(np.diff(tops), height, atol=0.5)
        # The longest output of `short` isn't clipped, and nothing scrolls horizontally.
        page.evaluate("() => { views.state.latentCode.value = Array(16).fill(-0.00741); }")
        expect(page.locator(".nbg-latent-number output").first).to_have_text("−0.0074")
        wide = page.locator(".nbg-latent-sliders, .nbg-latent-number > output").evaluate_all(
            "all => all.filter((one) => one.scrollWidth > one.clientWidth).length"
        )
        assert wide == 0


def small_buttons(buttons: Locator) -> list[str]:
    boxes = [(one.inner_text(), one.bounding_box()) for one in buttons.all()]
    return [text for text, box in boxes if box is not None and box["height"] < 40]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_breaks_no_serious_rule_of_accessibility(
    show: Callable[..., ViewsPage], theme: str
) -> None:
    views = open_workbench(show)
    page = views.page
    page.add_script_tag(path=str(AXE_SCRIPT))
    page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", theme == "light")
    for name in ("Between two pictures", "Units", "PCA 1, 2"):
        choose_axes(page, name)
        views.wait_idle()
        assert axe_faults(page, theme) == []
