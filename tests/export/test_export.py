"""Exported pages: the whole Viewer in one file, opened from disk with the network off."""

import base64
import hashlib
import html
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from assertions import assert_equal
from exported_html import READ_VALUE_SCRIPT, RUN_INPUT_SCRIPT, read_export
from fashion_autoencoder import load_autoencoder, load_images
from firefox import FirefoxPage, firefox_page, missing_packages
from nbglcnn import InputError, transforms
from nbglcnn.features.edits import records
from nbglcnn.features.export.export import PAGE_SCRIPT_PATH, render_markdown
from picture_input import PICTURE_SCRIPT, encode_picture, make_random_picture, resize_with_pillow
from polling import retry_until_passes
from viewer_models import autoencoder, hook_values, pictures
from webgl_page import ONE_RENDERER
from zoo import ResNet18, UNet

SOURCES_FOLDER = Path(__file__).parents[2] / "js" / "src"
LESSON_STEPS = [
    {"text": "# The picture\n\nwhat goes in", "view": {"layer": "input"}},
    {"text": "## *Filters*", "view": {"layer": "encoder.0", "name": "filters"}},
    {"text": "Why?", "view": {"layer": "encoder.0", "channels": [2], "pixel": [3, 4]}},
]
READ_KEYS_SCRIPT = "async () => (await window.nbglcnn).keys"
SHOWN_LAYER_SCRIPT = """() => document.querySelector('.nbg-layer')?.dataset.layer
  ?? document.querySelector('[data-tab][aria-selected=true]').dataset.tab"""


def read_page_values(page: Page | FirefoxPage) -> dict[str, np.ndarray]:
    """Read every value of an exported page."""
    found = {}
    for key in page.evaluate(READ_KEYS_SCRIPT):
        found[key] = np.frombuffer(
            base64.b64decode(page.evaluate(READ_VALUE_SCRIPT, key)), np.float32
        )
    return found


def torch_layers(model: nn.Module, x: np.ndarray) -> dict[str, np.ndarray]:
    """PyTorch's values of modules that are called once; inputs are not included."""
    calls: Counter[str] = Counter()
    handles = [
        module.register_forward_hook(lambda *_, name=name: calls.update([name]))
        for name, module in model.named_modules()
    ]
    with torch.no_grad():
        model(torch.from_numpy(x))
    for handle in handles:
        handle.remove()
    seen = hook_values(model, x)
    return {k: v for k, v in seen.items() if k == "output" or calls[k] == 1}


def assert_values(
    page: Page | FirefoxPage, expected: dict[str, np.ndarray], rtol: float = 1e-4
) -> None:
    """Check that all values of a page with an expected counterpart equal it."""
    found = read_page_values(page)
    assert found.keys() >= expected.keys()
    for key, array in expected.items():
        assert found[key].size == array.size, key
        assert_equal(found[key].reshape(array.shape), array, rtol=rtol, name=key)


@pytest.fixture
def open_offline(exported_page: Callable[..., Page]) -> Callable[..., Page]:
    """`exported_page` with a viewport of 1200×900."""
    return partial(exported_page, viewport={"width": 1200, "height": 900})


@pytest.fixture(scope="module")
def lesson_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lesson of three steps on a small autoencoder."""
    path = tmp_path_factory.mktemp("lesson") / "lesson.html"
    text = "Two **pictures**, `2×1×22×18`."
    return nbglcnn.export_html(
        autoencoder(3), pictures(3), path, title="A lesson", text=text, steps=LESSON_STEPS
    )


def test_every_value_of_a_page_equals_pytorchs(
    open_offline: Callable[..., Page], lesson_page: Path, backend: str
) -> None:
    page = open_offline(lesson_page, backend)
    model = autoencoder(3)
    assert_values(page, hook_values(model, pictures(3)))
    other = pictures(9)
    text = base64.b64encode(other.tobytes()).decode()
    with torch.no_grad():
        expected = model(torch.from_numpy(other)).numpy()
    np.testing.assert_allclose(
        page.evaluate(RUN_INPUT_SCRIPT, text), expected.reshape(-1)[:5], rtol=1e-4, atol=1e-6
    )
    assert_values(page, hook_values(model, other))


class NoisyConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = self.conv(x)
        return maps + torch.randn_like(maps)


def test_a_model_that_draws_has_its_numbers_in_the_page_and_keeps_them(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    model, x = NoisyConv().eval(), pictures(3)[:, :, :7, :6]
    viewer = nbglcnn.Viewer(model, x)
    noise = viewer.input[1] + 0.5
    viewer.input = (x, noise)
    page = open_offline(viewer.to_html(tmp_path / "sampled.html"))
    assert_values(page, viewer.activations.to_dict())
    viewer.input = x * 2  # since the page takes only the input that isn't noise
    text = base64.b64encode((x * 2).tobytes()).decode()
    assert_equal(
        np.float32(page.evaluate(RUN_INPUT_SCRIPT, text)), viewer.output.reshape(-1)[:5], rtol=1e-4
    )
    assert_values(page, viewer.activations.to_dict())
    assert_equal(viewer.activations["noise"], noise)
    viewer.close()


def test_scripts_run_pictures_of_any_size(
    open_offline: Callable[..., Page], lesson_page: Path
) -> None:
    """Picture becomes every example, resampled as Pillow does, and the input stays in the page."""
    page = open_offline(lesson_page)
    page.evaluate(READ_KEYS_SCRIPT)
    run_pictures(page)
    run_unloaded_image = (
        "async () => (await window.nbglcnn).run(new Image()).catch((error) => error.message)"
    )
    assert "has no size" in page.evaluate(run_unloaded_image)


def test_inputs_that_scripts_have_replaced_leave_the_page(
    open_offline: Callable[..., Page], lesson_page: Path
) -> None:
    page = open_offline(lesson_page)
    page.evaluate(READ_KEYS_SCRIPT)
    held = """() => [...globalThis[Symbol.for("nbglcnn.v1")].values()]
      .flatMap((store) => store.hashes.map((hash) => store.get(hash).byteLength))
      .reduce((sum, bytes) => sum + bytes, 0)"""
    sizes = []
    for seed in range(4):
        page.evaluate(RUN_INPUT_SCRIPT, base64.b64encode(pictures(seed).tobytes()).decode())
        sizes.append(page.evaluate(held))
    assert sizes == sizes[:1] * 4


def run_pictures(page: Page | FirefoxPage) -> None:
    """Run pictures of several types in the lesson's page."""
    page.evaluate(f"() => {{ {PICTURE_SCRIPT} }}")
    picture = make_random_picture(61, 47)
    x = resize_with_pillow(picture, (2, 1, 22, 18), "crop").astype(np.float32) / 255
    model = autoencoder(3)
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy().reshape(-1)[:5]
    for kind in ("canvas", "image", "bitmap", "data"):
        y = page.evaluate(
            """async ([kind, ...given]) => {
              const picture = await fed.kinds[kind](fed.pixels(...given));
              const input = kind === "image" ? { input: picture } : picture;
              const y = await (await window.nbglcnn).run(input);
              picture.close?.();
              return [...y.slice(0, 5)];
            }""",
            [kind, *encode_picture(picture)],
        )
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)
        assert_values(page, hook_values(model, x))


def test_bends_and_injected_arrays_go_along_and_can_be_changed(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    viewer = nbglcnn.Viewer(autoencoder(5), pictures(5))
    plain = viewer.activations.to_dict()
    viewer.inject("encoder.4", np.random.default_rng(1).normal(size=plain["encoder.4"].shape))
    viewer.bend("decoder.1", transforms.rotate(30), channels=[0, 2], mix=0.5)
    viewer.bend("decoder.3", transforms.glsl("y = sin(x * p0);", p0=3.0))
    viewer.set_weight("decoder.3.bias", 0, 0.5)
    page = open_offline(viewer.to_html(tmp_path / "bent.html"))
    assert_values(page, viewer.activations.to_dict())
    edit = """async (edits) => {
      const page = await window.nbglcnn;
      return await page.edit(edits).then(() => "taken", (error) => error.message);
    }"""
    bent = records.edits_to_dicts(viewer.edits)
    viewer.bends[0].degrees = -45
    viewer.release("encoder.4")
    assert page.evaluate(edit, records.edits_to_dicts(viewer.edits)) == "taken"
    now = viewer.activations.to_dict()
    assert_values(page, now)
    # Invalid edits return a message and change nothing.
    assert "encoder.9" in page.evaluate(edit, [{**bent[1], "layer": "encoder.9"}])
    wrong = {**bent[2], "name": "wrong", "source": "y = nothing(x);"}
    assert "nothing" in page.evaluate(edit, [*bent, wrong])
    assert_values(page, now)
    assert page.evaluate(edit, []) == "taken"
    viewer.bends.clear()
    assert_values(page, viewer.activations.to_dict())
    viewer.close()


def test_a_wrong_input_is_refused_and_the_page_goes_on(
    open_offline: Callable[..., Page], lesson_page: Path
) -> None:
    page = open_offline(lesson_page)
    refused = page.evaluate(
        """async () => {
          const page = await window.nbglcnn;
          const said = (error) => error.message;
          return [await page.run(new Float32Array(3)).catch(said),
            await page.run({ picture: new Float32Array(3) }).catch(said),
            await page.read('encoder.9').catch(said)];
        }"""
    )
    assert refused[0] == "input input takes 792 values (2×1×22×18), not 3 values"
    assert refused[1] == "there is no input picture; there are input"
    assert "encoder.9" in refused[2]
    with pytest.raises(Exception, match=r"no layer encoder\.9"):
        page.evaluate("async () => (await window.nbglcnn).show({ layer: 'encoder.9' })")
    assert_values(page, hook_values(autoencoder(3), pictures(3)))


def export_network(name: str, path: Path) -> dict[str, np.ndarray]:
    """Write a network's page; return PyTorch's values."""
    if name == "comparison":
        a, b, x = autoencoder(3), autoencoder(3), pictures(3)
        with torch.no_grad():
            b.encoder[0].weight.mul_(1.5)
        comparison = nbglcnn.compare(a, b, x)
        comparison.to_html(path)
        comparison.close()
        of_a, of_b = hook_values(a, x), hook_values(b, x)
        names = ["encoder.0", "encoder.4", "decoder.0", "decoder.4"]
        return {f"A.{key}": of_a[key] for key in names} | {f"B.{key}": of_b[key] for key in names}
    torch.manual_seed(1)
    generator = np.random.default_rng(1)
    if name == "fashion":
        model, x = load_autoencoder(), load_images()[0][:4]
    elif name == "unet":
        model, x = UNet().eval(), generator.random((1, 3, 40, 32), np.float32)
    else:
        model, x = ResNet18().eval(), generator.random((1, 3, 224, 224), np.float32)
    nbglcnn.export_html(model, x, path)
    return torch_layers(model, x) | {"x": x}


NETWORKS = ["fashion", "unet", "comparison", pytest.param("resnet18", marks=pytest.mark.sweep)]
TOLERANCE_BY_NETWORK = {"resnet18": 1e-3}  # rounding errors grow through random weights


@ONE_RENDERER
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_the_notebook_pass_in_pages(
    open_offline: Callable[..., Page], tmp_path: Path, name: str, backend: str
) -> None:
    path = tmp_path / "page.html"
    expected = export_network(name, path)
    assert_values(open_offline(path, backend), expected, TOLERANCE_BY_NETWORK.get(name, 1e-4))


@pytest.mark.sweep
def test_pages_pass_in_firefox(tmp_path: Path, lesson_page: Path) -> None:
    if missing := missing_packages():
        pytest.skip(f"apt-get install {' '.join(missing)}")
    with firefox_page(tmp_path / "profile") as page:
        page.goto(lesson_page.as_uri())
        assert_values(page, hook_values(autoencoder(3), pictures(3)))
        run_pictures(page)
        for name in ("fashion", "unet", "comparison", "resnet18"):
            path = tmp_path / f"{name}.html"
            expected = export_network(name, path)
            page.goto(path.as_uri())
            assert_values(page, expected, TOLERANCE_BY_NETWORK.get(name, 1e-4))


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_page_is_as_large_as_what_it_holds(tmp_path: Path, precision: Any) -> None:
    torch.manual_seed(0)
    model, x = UNet().eval(), np.random.default_rng(0).random((1, 3, 64, 64), np.float32)
    path = nbglcnn.export_html(model, x, tmp_path / "page.html", precision=precision)
    plan = nbglcnn.compile(model, x, precision=precision)
    exported, [file, given, samples] = read_export(path)
    packed = sum(len(zlib.compress(data)) for data in (plan.to_bytes(), x.tobytes(), samples))
    expected = (
        PAGE_SCRIPT_PATH.stat().st_size
        + packed * 4 / 3
        + len(json.dumps(exported["parity_samples"]))
    )
    assert abs(path.stat().st_size - expected) < 0.02 * expected
    assert file == plan.to_bytes() and np.array_equal(np.frombuffer(given, np.float32), x.ravel())


def test_half_precision_halves_the_weights(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(64, 128, 3), nn.Conv2d(128, 128, 3)).eval()
    x = np.zeros((1, 64, 9, 9), np.float32)
    single, half = (
        nbglcnn.export_html(model, x, tmp_path / f"{p}.html", precision=p).stat().st_size
        for p in ("float32", "float16")
    )
    weights = sum(blob.nbytes for blob in nbglcnn.compile(model, x).blobs.values())
    assert single - half == pytest.approx(weights / 2 * 4 / 3, rel=0.15)  # both compressed


def test_a_page_in_half_precision_is_right_to_three_digits(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    model, x = autoencoder(3), pictures(3)
    path = nbglcnn.export_html(model, x, tmp_path / "page.html", precision="float16")
    assert_values(open_offline(path), hook_values(model, x), rtol=2e-2)


def test_all_views_are_in_the_page(open_offline: Callable[..., Page], lesson_page: Path) -> None:
    page = open_offline(lesson_page)
    page.evaluate(READ_KEYS_SCRIPT)
    page.get_by_role("tab", name="Profile").click()
    expect(page.locator(".nbg-profile")).to_be_visible()
    for name, seen in (
        ("maps", ".nbg-grid"), ("filters", ".nbg-filters"), ("explain", ".nbg-explain"),
    ):  # fmt: skip
        page.evaluate(
            "async (name) => (await window.nbglcnn).show({ name, layer: 'encoder.0' })", name
        )
        expect(page.locator(seen).first).to_be_visible()
    page.evaluate("async () => (await window.nbglcnn).show({ name: 'network' })")
    expect(page.locator(".nbg-picture").first).to_be_visible()
    expect(page.locator("body")).not_to_contain_text("from Python.")


def test_a_page_is_bent_by_clicks_as_in_the_notebook(
    open_offline: Callable[..., Page], lesson_page: Path
) -> None:
    page = open_offline(lesson_page)
    page.evaluate("async () => (await window.nbglcnn).show({ name: 'bend', layer: 'encoder.1' })")
    model, x = autoencoder(3), pictures(3)
    before = hook_values(model, x)

    def holds(factors: dict[int, float]) -> None:
        """Check that encoder.1 is multiplied per channel by `factors`, and later layers follow."""
        bent = before["encoder.1"].copy()
        for channel, factor in factors.items():
            bent[:, channel] *= factor
        with torch.no_grad():
            behind = model.encoder[2:](torch.from_numpy(bent))
            output = model.decoder(behind).numpy()
        expected = {"encoder.1": bent, "encoder.4": behind.numpy(), "output": output}
        retry_until_passes(page, lambda: assert_values(page, expected))

    for channel in (1, 6):
        page.locator(f"[data-pick='{channel}']").click()
    page.locator("[data-transform='multiply']").click()
    row = page.locator("[data-bend='multiply']")
    field = row.get_by_role("textbox", name="Multiply: factor")
    field.fill("-2,5")
    field.press("Enter")
    holds({1: -2.5, 6: -2.5})
    slider = row.get_by_role("slider", name="Multiply: mix")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=6)
    page.mouse.up()
    mix = float(slider.input_value())
    assert 0.3 < mix < 0.7
    mixed = {1: 1 - 3.5 * mix, 6: 1 - 3.5 * mix}
    holds(mixed)
    page.locator("[data-pick='4']").click(modifiers=["Alt"])
    holds({**mixed, 4: 0})
    for expected in (mixed, {1: -2.5, 6: -2.5}):  # undo the mute, then the whole drag
        page.get_by_role("button", name="Undo", exact=True).click()
        holds(expected)
    status = page.locator(".nbg-status")
    expect(status).to_contain_text("bent")
    status.get_by_role("button", name="Remove all").click()
    holds({})
    expect(status).not_to_contain_text("bent")
    page.keyboard.press("Control+z")
    holds({1: -2.5, 6: -2.5})


def test_a_lesson_turns_the_viewer(open_offline: Callable[..., Page], lesson_page: Path) -> None:
    page = open_offline(lesson_page)
    page.evaluate(READ_KEYS_SCRIPT)
    back, next_ = (page.get_by_role("button", name=name, exact=True) for name in ("Back", "Next"))
    expect(page.get_by_role("heading", name="The picture")).to_be_visible()
    expect(back).to_be_disabled()
    next_.click()
    expect(page.get_by_role("heading", name="Filters")).to_be_visible()
    expect(page.get_by_role("heading", name="The picture")).not_to_be_visible()
    expect(page.locator(".nbg-filters").first).to_be_visible()
    next_.click()
    expect(next_).to_be_disabled()
    assert page.url.endswith("#3")
    expect(page.locator(".nbg-explain")).to_contain_text("y 3, x 4")
    page.go_back()
    expect(page.locator(".nbg-filters").first).to_be_visible()
    page.get_by_role("link", name="1", exact=True).click()
    expect(page.get_by_role("heading", name="The picture")).to_be_visible()
    # A URL with a step opens at that step.
    page.goto(f"{lesson_page.as_uri()}#3")
    page.reload()
    page.evaluate(READ_KEYS_SCRIPT)
    expect(page.locator(".nbg-explain")).to_contain_text("y 3, x 4")


def test_the_page_begins_as_its_viewer_was(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    viewer = nbglcnn.Viewer(autoencoder(3), pictures(3))
    viewer.colormap, viewer.example = "viridis", 1
    viewer.show("encoder.1", [4])
    page = open_offline(viewer.to_html(tmp_path / "page.html"))
    viewer.close()
    page.evaluate(READ_KEYS_SCRIPT)
    assert page.evaluate(SHOWN_LAYER_SCRIPT) == "encoder.1"
    expect(page.get_by_label("Example", exact=True)).to_have_value("1")
    expect(page.locator("main h1")).to_have_count(0)
    assert page.title() == "Sequential"


def test_a_viewers_weights_of_now_are_in_its_page(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    model = autoencoder(3)
    viewer = nbglcnn.Viewer(model, pictures(3))
    state = {k: v * 1.25 if v.dtype.is_floating_point else v for k, v in model.state_dict().items()}
    viewer.load_state_dict(state)
    viewer.input = pictures(5)
    path = viewer.to_html(tmp_path / "page.html")
    viewer.close()
    model.load_state_dict(state)
    assert_values(open_offline(path), hook_values(model, pictures(5)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_follows_the_readers_theme(
    open_offline: Callable[..., Page], lesson_page: Path, scheme: str
) -> None:
    page = open_offline(lesson_page, color_scheme=scheme)
    page.evaluate(READ_KEYS_SCRIPT)
    assert page.locator(".nbglcnn").get_attribute("data-theme") == scheme
    shot = np.array(Image.open(io.BytesIO(page.screenshot())).convert("L"))
    assert (shot[5, 5] > 200) == (scheme == "light")


def test_names_and_texts_with_markup_are_text(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    evil = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module(
                "a<script>window['pwned']=3<" + chr(0x2F) + "script>", nn.Conv2d(1, 2, 1)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return next(self.children())(x)

    path = nbglcnn.export_html(
        Net().eval(),
        np.zeros((1, 1, 4, 4), np.float32),
        tmp_path / "page.html",
        title=evil,
        text=f"{evil}\n\n[a](javascript:window.pwned=4) ![b](https://example.org/b.png)\n\n{evil}",
        steps=[{"text": evil}],
        classes=[evil, "b"],
    )
    page = open_offline(path)
    keys = page.evaluate(READ_KEYS_SCRIPT)
    assert any("<script>" in key for key in keys)
    page.wait_for_timeout(300)
    assert page.evaluate("window.pwned") is None
    assert page.title() == evil
    expect(page.locator("h1")).to_have_text(evil)
    assert page.locator("script").count() == 2  # the JSON and the page's script
    assert page.locator("main img").count() == 0


def test_the_policy_stops_scripts_and_requests(
    new_page: Callable[..., Page], lesson_page: Path
) -> None:
    page = new_page("llvmpipe", offline=True)
    page.goto(lesson_page.as_uri())
    page.evaluate(READ_KEYS_SCRIPT)
    blocked = page.evaluate(
        """async () => {
          const blocked = [];
          const note = (event) => blocked.push(event.effectiveDirective);
          document.addEventListener('securitypolicyviolation', note);
          const script = document.createElement('script');
          script.textContent = 'window.pwned = 1';
          document.body.append(script);
          const image = new Image();
          image.src = 'http://127.0.0.1:9/x.png';
          await fetch('http://127.0.0.1:9/').catch(() => undefined);
          await new Promise((done) => setTimeout(done)); // what is evaluated from outside may eval
          try { new Function('window.pwned = 2')(); } catch {}
          await new Promise((done) => setTimeout(done, 200));
          return [window.pwned ?? null, ...blocked.sort()];
        }"""
    )  # fmt: skip
    assert blocked[0] is None
    assert set(blocked[1:]) >= {"connect-src", "img-src", "script-src-elem", "script-src"}


def test_the_page_works_in_a_frame(open_offline: Callable[..., Page], lesson_page: Path) -> None:
    frame = lesson_page.with_name("around.html")
    frame.write_text(
        f'<!doctype html><iframe src="{html.escape(lesson_page.name)}" width=900 '
        "height=600></iframe>"
    )
    page = open_offline(frame)
    inner = page.frames[1]
    found = np.frombuffer(
        base64.b64decode(inner.evaluate(READ_VALUE_SCRIPT, "encoder.0")), np.float32
    )
    expected = hook_values(autoencoder(3), pictures(3))["encoder.0"]
    assert_equal(found.reshape(expected.shape), expected, rtol=1e-4)


def test_a_page_without_webgl_shows_pythons_picture(
    new_page: Callable[..., Page], lesson_page: Path
) -> None:
    page = new_page("llvmpipe", offline=True)
    page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null;"
                         "OffscreenCanvas.prototype.getContext = () => null;")  # fmt: skip
    page.goto(lesson_page.as_uri())
    expect(page.locator(".nbg-message")).to_contain_text("no WebGL 2")
    expect(page.locator(".nbg-snapshot img")).to_be_visible()
    expect(page.locator(".nbg-message")).not_to_contain_text("viewer.activations")


def test_a_damaged_page_says_so(new_page: Callable[..., Page], lesson_page: Path) -> None:
    broken = lesson_page.with_name("broken.html")
    text = lesson_page.read_text("utf-8")
    at = text.index('data-nbglcnn="deflate">') + 40_000
    broken.write_text(text[:at] + ("B" if text[at] != "B" else "C") + text[at + 1 :], "utf-8")
    page = new_page("llvmpipe", offline=True)
    page.goto(broken.as_uri())
    expect(page.locator(".nbg-message")).to_contain_text("this page is damaged")


def test_a_browser_that_cannot_unpack_the_page_says_so(
    new_page: Callable[..., Page], lesson_page: Path
) -> None:
    page = new_page("llvmpipe", offline=True)
    page.add_init_script("delete globalThis.DecompressionStream")
    page.goto(lesson_page.as_uri())
    expect(page.locator(".nbg-message")).to_contain_text("it needs Chrome 80, Firefox 113")


def test_a_lost_context_comes_back_in_a_page(
    new_page: Callable[..., Page], lesson_page: Path
) -> None:
    page = new_page("swiftshader", offline=True)
    page.add_init_script(
        "const get = OffscreenCanvas.prototype.getContext;"
        "OffscreenCanvas.prototype.getContext = function (...a) {"
        " return (window.gl = get.apply(this, a)); };"
    )
    page.goto(lesson_page.as_uri())
    page.evaluate(READ_KEYS_SCRIPT)
    page.evaluate(
        """async () => {
          const lose = window.gl.getExtension('WEBGL_lose_context');
          lose.loseContext();
          await new Promise((done) => setTimeout(done, 300));
          lose.restoreContext();
        }"""
    )
    expect(page.locator(".nbg-phase-ready")).to_be_visible()
    assert_values(page, hook_values(autoencoder(3), pictures(3)))


def reachable_files(*entries: Path) -> set[str]:
    """The files of js/src that these import, directly or not, including themselves."""
    found: set[Path] = set()
    pending = list(entries)
    while pending:
        file = pending.pop()
        if file in found or file.suffix not in (".ts", ".tsx"):
            continue
        found.add(file)
        names = re.findall(r'(?:from|import) "(\.[^"]+)"', file.read_text("utf-8"))
        pending += [(file.parent / name).resolve() for name in names]
    return {str(file.relative_to(SOURCES_FOLDER)) for file in found}


def test_a_page_has_the_notebooks_engine_and_views_and_no_other() -> None:
    notebook = reachable_files(SOURCES_FOLDER / "widget.ts")
    page = reachable_files(SOURCES_FOLDER / "page.ts")
    assert {"engine/engine.ts", "views/app.tsx", "webgl/session.ts"} <= page & notebook
    own = {file for file in page - notebook if not file.startswith(("page.ts", "page/"))}
    assert own == {"named_arrays.ts"}  # runtime.js uses it, too
    assert not {file for file in page if file.startswith("comm/")}, "Python's client is not in it"


def test_markdown_is_structure_and_text() -> None:
    assert (
        render_markdown("# A\n\n*b* `c<d`") == "<h1>A</h1>\n<p><em>b</em> <code>c&lt;d</code></p>"
    )
    assert render_markdown("<b>x</b>") == "<p>&lt;b&gt;x&lt;/b&gt;</p>"
    assert render_markdown("![alt](https://a.b/c.png)") == "<p>alt</p>"
    assert 'src="data:image/png;base64,AA"' in render_markdown("![alt](data:image/png;base64,AA)")
    assert "javascript:" not in re.sub(
        r"<p>.*?</p>", "", render_markdown("[x](javascript:alert(1))")
    )
    assert 'href="javascript' not in render_markdown("[x](javascript:alert(1))")
    assert "<table>" in render_markdown("|a|b|\n|-|-|\n|1|2|")


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"view": {"layer": "encoder.9"}}, "step 1: no layer 'encoder.9'"),
        ({"view": {"name": "video"}}, "step 1: unknown view 'video'"),
        ({"view": {"layer": "encoder.0", "pixel": [99, 0]}}, "11×9 pixels"),
        ({"words": "x"}, "step 1: a step has text and view, not words"),
        ({"text": 3}, "step 1: text: expected a string, not int"),
        ("hello", "step 1: expected a dict with text and view, not 'hello'"),
    ],
)
def test_a_step_that_is_none_is_refused(tmp_path: Path, step: Any, words: str) -> None:
    path = tmp_path / "page.html"
    with pytest.raises(InputError, match="title=3; expected a string"):
        nbglcnn.export_html(autoencoder(3), pictures(3), path, title=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=re.escape(words)):
        nbglcnn.export_html(autoencoder(3), pictures(3), path, steps=[step])
    assert not list(tmp_path.iterdir())


def test_a_page_says_what_policy_it_has(lesson_page: Path) -> None:
    text = lesson_page.read_text("utf-8")
    script = re.findall(r"<script>(.*)</script>", text, re.DOTALL)[-1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.findall(r'Security-Policy" content="([^"]*)"', text)[0]
    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{digest}'; ")
    assert "unsafe-eval" not in policy and "http" not in policy
