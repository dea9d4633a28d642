"""A camera as the input: the fed frames, the browser's permission prompt, the camera light."""

import time

import numpy as np
import pytest
from playwright.sync_api import expect

from fake_camera import (
    START_LABEL,
    ShowViews,
    last_frame,
    open_camera_page,
    pause_camera,
    start_camera,
)
from source_references import fit_with_pillow
from views_page import canvas_pixels

DATASET_IMAGES = np.random.default_rng(9).integers(0, 256, (50, 1, 20, 26), np.uint8)
TRACK_STATES_SCRIPT = "() => given.tracks.map((track) => track.readyState)"


def test_the_cameras_picture_goes_in_as_pillow_resizes_it(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    start_camera(sourced)
    sourced.wait_input_count(5)
    pause_camera(sourced.page)
    mirrored = sourced.last_input[0, 0]
    frame = last_frame(sourced.page)
    assert frame.size == (640, 480)
    expected = fit_with_pillow(frame, sourced.input_key.shape, mirrored=True)
    assert np.abs(mirrored - expected).max() <= 1.01 / 255
    count = sourced.input_count
    sourced.page.get_by_label("Mirrored").uncheck()
    sourced.wait_input_count(count + 1)
    expected = fit_with_pillow(frame, sourced.input_key.shape, mirrored=False)
    assert np.abs(sourced.last_input[0, 0] - expected).max() <= 1.01 / 255
    assert np.abs(sourced.last_input[0, 0] - mirrored).max() > 0.1
    told = sourced.page.evaluate("() => views.fed.told")
    assert told[-1] is True and not told[0]


@pytest.mark.parametrize("software", [True, False])
def test_the_drawer_shows_the_film_or_on_a_software_renderer_what_went_in(
    show: ShowViews, software: bool
) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    known = sourced.views.get("capabilities")
    sourced.views.set(capabilities={**known, "isSoftware": software})
    start_camera(sourced)
    sourced.wait_input_count(5)
    pause_camera(page)
    kinds = "() => [...document.querySelector('.nbg-source-picture').children].map(e => e.nodeName)"
    assert page.evaluate(kinds) == ["CANVAS" if software else "VIDEO"]
    if software:
        shown = canvas_pixels(page.locator(".nbg-source-picture canvas"))
        np.testing.assert_array_equal(shown, np.asarray(last_frame(page).convert("RGB")))
    else:
        assert page.evaluate(
            "() => views.state.sourceControls.value.video.parentElement.className"
        ).startswith("nbg-source-picture")
    expected = fit_with_pillow(last_frame(page), sourced.input_key.shape, mirrored=True)
    assert np.abs(sourced.last_input[0, 0] - expected).max() <= 1.01 / 255


def test_what_enters_the_network_follows_the_camera_or_says_that_it_is_paused(
    show: ShowViews,
) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    start_camera(sourced)
    entering = page.locator(".nbg-network-input canvas")
    heading = page.locator(".nbg-network-input h3")
    expect(heading).to_have_text("Network input")
    # Chromium's fake camera moves continuously.
    for _ in range(3):
        before = entering.evaluate("(canvas) => canvas.toDataURL()")
        page.wait_for_function(
            "a => document.querySelector('.nbg-network-input canvas').toDataURL() !== a", arg=before
        )
        expect(heading).to_have_text("Network input")
    pause_camera(page)
    expect(heading).to_have_text("Network input · paused")
    sourced.views.wait_idle()
    scale = canvas_pixels(entering).shape[0] // 20
    shown = canvas_pixels(entering)[::scale, ::scale, 0]
    assert np.abs(shown / 255 - sourced.last_input[0, 0]).max() <= 1.01 / 255
    page.get_by_role("button", name="Play the source").click()
    expect(heading).to_have_text("Network input")


def test_frames_are_dropped_and_never_queued_and_python_hears_ten_a_second(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    # Make a run take as long as six frames.
    page.evaluate(
        """() => {
          const feed = views.state.feeder.value.feed;
          globalThis.most = globalThis.now = 0;
          views.state.feeder.value.feed = async (fed) => {
            most = Math.max(most, ++now);
            await new Promise((done) => setTimeout(done, 200));
            await feed(fed);
            now--;
          };
        }"""
    )
    start_camera(sourced)
    begin = time.monotonic()
    sourced.wait_input_count(4)
    pause_camera(page)
    assert page.evaluate("() => most") == 1
    assert sourced.input_count <= (time.monotonic() - begin) / 0.2 + 2
    assert len(page.evaluate("() => views.fed.told")) <= sourced.input_count + 2


def test_python_hears_of_a_fast_source_ten_times_a_second(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    page.evaluate(
        """() => {
          globalThis.heard = [];
          views.state.feeder.value.reportFedInput =
            (still) => heard.push([still, performance.now()]);
        }"""
    )
    sourced.set_source("images", playing=True, rate=60, **sourced.add_dataset(DATASET_IMAGES, 10))
    sourced.wait_input_count(40)
    page.get_by_role("button", name="Pause the source").click()
    page.wait_for_function("() => heard.at(-1)[0]")
    times = [at for still, at in page.evaluate("() => heard") if not still]
    assert len(times) >= 3
    assert np.diff(times).min() >= 99


def test_python_sets_a_camera_and_the_browser_is_asked_after_a_click_only(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    sourced.set_source("webcam", playing=True)
    expect(page.get_by_role("button", name=START_LABEL)).to_be_visible()
    expect(page.locator(".nbg-drawer")).to_contain_text("The browser asks for permission")
    assert page.evaluate("() => given.asked") == []
    assert sourced.input_count == 0
    page.get_by_role("button", name=START_LABEL).click()
    sourced.wait_input_count(2)
    assert sourced.source["owner"] == "here" and sourced.source["playing"]
    assert page.evaluate("() => given.asked") == [{"video": {"facingMode": "user"}, "audio": False}]


@pytest.mark.parametrize("end", ["another source", "off", "the view goes", "the Viewer closes"])
def test_the_light_goes_out_when_the_camera_is_not_wanted(show: ShowViews, end: str) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    start_camera(sourced)
    assert page.evaluate(TRACK_STATES_SCRIPT) == ["live"]
    if end == "another source":
        sourced.set_source("noise")
    elif end == "off":
        page.get_by_role("button", name="Turn off").click()
        assert sourced.views.get("source") is None
    elif end == "the view goes":
        page.evaluate("() => dispose()")
    else:
        page.evaluate("() => stop()")
    page.wait_for_function("() => given.tracks.every((track) => track.readyState === 'ended')")


@pytest.mark.usefixtures("fresh_page")
def test_a_hidden_page_pauses_and_after_a_minute_lets_go_of_the_camera(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    start_camera(sourced)
    page.clock.install()
    page.evaluate(
        """() => {
          globalThis.hide = (hidden) => {
            Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));
          };
          hide(true);
        }"""
    )
    page.clock.run_for(2_000)
    count = sourced.input_count
    page.clock.run_for(20_000)
    assert sourced.input_count <= count + 1
    assert page.evaluate(TRACK_STATES_SCRIPT) == ["live"]
    page.clock.run_for(45_000)
    assert page.evaluate(TRACK_STATES_SCRIPT) == ["ended"]
    page.evaluate("() => hide(false)")
    page.wait_for_function("() => given.tracks.length === 2", polling=100)
    assert page.evaluate(TRACK_STATES_SCRIPT) == ["ended", "live"]
    assert sourced.source["playing"]


def test_out_of_sight_nothing_is_fed(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    start_camera(sourced)
    page.evaluate("() => { document.body.style.paddingTop = '5000px'; }")
    page.wait_for_function("() => [...views.state.viewVisibility.value.values()][0] === false")
    page.wait_for_timeout(200)
    count = sourced.input_count
    page.wait_for_timeout(300)
    assert sourced.input_count == count
    page.evaluate("() => { document.body.style.paddingTop = '0'; }")
    sourced.wait_input_count(count + 3)


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        ("NotFoundError", "No camera found"),
        ("NotAllowedError", "The browser denied access to the camera"),
        ("NotReadableError", "Another program uses the camera"),
    ],
)
def test_each_failure_is_said_and_another_source_stays_usable(
    show: ShowViews, trouble: str, says: str
) -> None:
    sourced = open_camera_page(show, width=848)
    page = sourced.page
    page.evaluate(
        """name => {
          navigator.mediaDevices.getUserMedia =
            () => Promise.reject(new DOMException('no', name));
        }""",
        trouble,
    )
    sourced.open_drawer()
    page.locator("[data-kind=webcam]").click()
    page.get_by_role("button", name=START_LABEL).click()
    alert = page.locator(".nbg-drawer [role=alert]")
    expect(alert).to_contain_text(says)
    expect(alert).to_contain_text("choose another source")
    expect(page.get_by_role("button", name=START_LABEL)).to_be_enabled()
    page.locator("[data-kind=noise]").click()
    sourced.wait_input_count(1)
    expect(page.locator(".nbg-drawer [role=alert]")).to_have_count(0)


def test_a_page_of_plain_http_says_what_cameras_need(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    page.evaluate("() => Object.defineProperty(window, 'isSecureContext', { value: false })")
    sourced.open_drawer()
    page.locator("[data-kind=webcam]").click()
    page.get_by_role("button", name=START_LABEL).click()
    expect(page.locator(".nbg-drawer [role=alert]")).to_contain_text(
        "Cameras need https or localhost"
    )
    assert page.evaluate("() => given.asked") == []


def test_a_frame_that_may_not_have_the_camera_says_so(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    page.evaluate(
        """() => {
          navigator.mediaDevices.getUserMedia = () =>
            Promise.reject(new DOMException('Permissions policy violation', 'NotAllowedError'));
        }"""
    )
    sourced.open_drawer()
    page.locator("[data-kind=webcam]").click()
    page.get_by_role("button", name=START_LABEL).click()
    expect(page.locator(".nbg-drawer [role=alert]")).to_contain_text(
        "The embedding page blocks camera access"
    )


def test_a_camera_that_is_unplugged_is_said_and_can_be_started_again(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    start_camera(sourced)
    page.evaluate("() => given.tracks[0].onended()")
    expect(page.locator(".nbg-drawer [role=alert]")).to_contain_text("The camera stopped")
    assert page.evaluate(TRACK_STATES_SCRIPT) == ["ended"]
    count = sourced.input_count
    page.get_by_role("button", name=START_LABEL).click()
    sourced.wait_input_count(count + 2)


@pytest.mark.usefixtures("fresh_page")
def test_who_wants_little_to_move_gets_one_picture_until_a_click(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    page.emulate_media(reduced_motion="reduce")
    sourced.open_drawer()
    page.locator("[data-kind=webcam]").click()
    expect(page.locator(".nbg-drawer")).to_contain_text("The camera starts paused")
    page.get_by_role("button", name=START_LABEL).click()
    sourced.wait_phase("still")
    page.wait_for_timeout(300)
    assert sourced.input_count == 1 and not sourced.source["playing"]
    page.get_by_role("button", name="Play the source").click()
    sourced.wait_input_count(4)


def test_space_pauses_and_goes_on(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    start_camera(sourced)
    page.locator(".nbglcnn").focus()
    page.keyboard.press("Space")
    sourced.wait_phase("still")
    assert not sourced.source["playing"]
    page.keyboard.press("Space")
    sourced.wait_phase("live")
    assert sourced.source["playing"]


def test_another_pages_camera_leaves_this_one_alone(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    page = sourced.page
    start_camera(sourced)
    sourced.set_source("webcam", owner="another", playing=True)
    sourced.wait_phase("elsewhere")
    assert page.evaluate(TRACK_STATES_SCRIPT) == ["ended"]
    expect(page.locator(".nbg-chosen-source")).to_contain_text("in another page")
    page.get_by_role("button", name="Run it here").click()
    sourced.wait_phase("live")
    assert sourced.source["owner"] == "here"
