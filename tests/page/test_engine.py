"""The page's engine without Python's client: Plan bytes as input, pictures and values as output."""

import base64
import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import Error, Page
from torch import nn

import nbglcnn
from assertions import assert_equal
from engine_page import EnginePage
from nbglcnn import load
from nbglcnn.lowering.lower import lower
from nbglcnn.lowering.weight_patches import changed_elements, make_patches
from nbglcnn.plan.schema import Patch
from picture_input import PICTURE_SCRIPT, encode_picture, make_random_picture, resize_with_pillow
from webgl_page import DRAW_JOB, ONE_RENDERER, decode, encode

IMAGES = np.random.default_rng(2).standard_normal((1, 3, 9, 7)).astype(np.float32)


OBSERVED_KEYS_SCRIPT = "() => page.engine.signals.plan.value.values.map(({ key }) => key)"


def assert_layers_equal(
    engine: EnginePage, model: nn.Sequential, images: np.ndarray = IMAGES
) -> None:
    """Check that every observed layer has PyTorch's values."""
    for name, value in torch_layers(model, images).items():
        if name in engine.page.evaluate(OBSERVED_KEYS_SCRIPT):
            assert_equal(engine.read(name).reshape(value.shape), value, name=name)


@pytest.fixture
def engine(gl_page: Callable[..., Page], backend: str) -> EnginePage:
    return EnginePage(gl_page(backend))


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3)
    ).eval()


def torch_layers(model: nn.Sequential, images: np.ndarray) -> dict[str, np.ndarray]:
    values, x = {}, torch.from_numpy(images.copy())
    with torch.inference_mode():
        for name, layer in model.named_children():
            x = layer(x)
            values[name] = x.numpy()
    return values


def test_plan_bytes_go_in_and_pictures_and_values_come_out(
    engine: EnginePage, model: nn.Sequential
) -> None:
    engine.show(nbglcnn.compile(model, IMAGES), IMAGES)
    assert_layers_equal(engine, model)
    job = DRAW_JOB | {"key": "2", "channels": [1], "colormap": "grey", "range": {"mode": "channel"}}
    drawn = base64.b64decode(engine.page.evaluate("j => page.draw(j)", job))
    channel = torch_layers(model, IMAGES)["2"][0, 1].ravel()
    brightness = np.frombuffer(drawn, np.uint8).reshape(-1, 4)[np.argsort(channel), 0]
    assert (np.diff(brightness.astype(int)) >= 0).all()
    assert (brightness.min(), brightness.max()) == (0, 255)
    assert engine.page.evaluate("() => [page.engine.runCount, page.engine.viewCount]") == [1, 0]


@ONE_RENDERER
def test_pictures_go_in_in_the_place_of_the_contents_input(
    engine: EnginePage, model: nn.Sequential
) -> None:
    """Also on the next Plan; a video without a frame yet leaves the input unchanged."""
    engine.page.evaluate(PICTURE_SCRIPT)
    engine.page.evaluate(
        "() => page.engine.overrideInput("
        "{ key: 'input', picture: document.createElement('video') })"
    )
    engine.show(nbglcnn.compile(model, IMAGES), IMAGES)
    assert_layers_equal(engine, model)
    picture = make_random_picture(30, 25)
    feed = """async (given) => {
      const picture = fed.kinds.canvas(fed.pixels(...given));
      await page.engine.overrideInput({ key: "input", picture, mirrored: true });
    }"""
    engine.page.evaluate(feed, encode_picture(picture))
    x = resize_with_pillow(picture, IMAGES.shape, "crop", mirrored=True).astype(np.float32) / 255
    assert_layers_equal(engine, model, x)
    engine.show(nbglcnn.compile(model, IMAGES, observe=["0", "1", "2"]), -IMAGES)
    assert_layers_equal(engine, model, x)
    engine.page.evaluate("() => page.engine.overrideInput(null)")
    assert_layers_equal(engine, model, -IMAGES)


@ONE_RENDERER
def test_another_plan_keeps_the_programs_the_weights_and_the_pictures(
    engine: EnginePage, model: nn.Sequential
) -> None:
    engine.show(nbglcnn.compile(model, IMAGES), IMAGES)
    first = engine.take_counters()
    engine.show(nbglcnn.compile(model, IMAGES, observe=["0", "1", "2"]), IMAGES)
    again = engine.take_counters()
    assert first["compiled"] > 10 and again["compiled"] == 0
    assert again["uploaded"] < first["uploaded"] / 2
    assert again["sessions"] == 1
    assert engine.page.evaluate("() => page.gaps.slice(2)") == [False]
    assert_layers_equal(engine, model)
    engine.show(nbglcnn.compile(model, IMAGES, observe=["0", "1", "2"]), -IMAGES)
    assert_layers_equal(engine, model, -IMAGES)  # the weights are still loaded
    assert engine.page.evaluate("() => page.engine.runCount") == 3, "runs of both Plans"


@ONE_RENDERER
def test_another_precision_keeps_the_pictures_until_its_own_are_there(
    engine: EnginePage, model: nn.Sequential
) -> None:
    engine.show(nbglcnn.compile(model, IMAGES), IMAGES)
    assert engine.take_counters()["compiled"] > 10
    engine.show(nbglcnn.compile(model, IMAGES, precision="float16"), IMAGES)
    again = engine.take_counters()
    # The weights are uploaded again, into textures of another format; shaders don't depend on it.
    assert (again["compiled"], again["sessions"]) == (0, 1)
    assert engine.page.evaluate("() => page.gaps.slice(2)") == [False]
    for name, value in torch_layers(model, IMAGES).items():
        assert_equal(engine.read(name).reshape(value.shape), value, rtol=2e-2, name=name)


@ONE_RENDERER
def test_a_plans_shaders_are_compiled_before_its_weights_are_there(
    engine: EnginePage, model: nn.Sequential
) -> None:
    plan = nbglcnn.compile(model, IMAGES)
    content = engine.add_content(plan, IMAGES)
    engine.page.evaluate("a => page.engine.compileAhead('not here')")
    assert engine.take_counters()["compiled"] == 0
    before = engine.page.evaluate("() => page.alive()")
    engine.page.evaluate(
        "async (a) => { for (const _ of [1, 2]) page.engine.compileAhead(a.planHash); "
        "await page.ahead(); }",
        content,
    )
    assert engine.page.evaluate("() => page.engine.signals.plan.value.name") == "Sequential"
    assert engine.page.evaluate("() => page.alive().programs") > len(plan.header.programs)
    early = engine.take_counters()
    assert early["compiled"] > len(plan.header.programs) and early["uploaded"] == 0
    engine.page.evaluate("a => page.engine.show(a)", content)
    assert_layers_equal(engine, model)
    assert engine.take_counters()["compiled"] <= 1, (
        "the vertex shader, or one that only reading needs"
    )
    engine.page.evaluate("() => page.engine.unloadContent()")
    assert engine.page.evaluate("() => page.alive()") == before


@ONE_RENDERER
def test_what_is_wrong_with_a_plan_is_said_when_it_is_shown(engine: EnginePage) -> None:
    engine.add_blob("damaged", b"no Plan at all")
    engine.page.evaluate("() => page.engine.compileAhead('damaged')")
    assert engine.page.evaluate("() => page.engine.signals.plan.value") is None
    with pytest.raises(Error, match="Plan"):
        engine.page.evaluate(
            "() => page.engine.show({ planHash: 'damaged', weightHashes: [], inputHashes: [] })"
        )


@ONE_RENDERER
def test_the_old_network_is_gone_when_another_cannot_be_made(
    engine: EnginePage, model: nn.Sequential
) -> None:
    engine.show(nbglcnn.compile(model, IMAGES), IMAGES)
    other = engine.add_content(nbglcnn.compile(model[:1], IMAGES), IMAGES)
    with pytest.raises(Error, match="its weights or inputs don't belong together"):
        engine.page.evaluate("a => page.engine.show(a)", other | {"weightHashes": []})
    with pytest.raises(Error, match="nothing is shown"):
        engine.read("0")
    assert engine.page.evaluate("() => page.engine.signals.session.value") is None


@ONE_RENDERER
def test_another_input_in_the_place_of_a_fed_one_runs_nothing(
    engine: EnginePage, model: nn.Sequential
) -> None:
    plan = nbglcnn.compile(model, IMAGES)
    engine.show(plan, IMAGES)
    feed = """([key, text]) => page.engine.overrideInput(text && {
      key, data: new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer),
    })"""
    key = plan.header.inputs[0].key
    engine.page.evaluate(feed, [key, encode(-IMAGES)])
    assert_layers_equal(engine, model, -IMAGES)
    frames = engine.page.evaluate("() => page.engine.runCount")
    engine.show(plan, 2 * IMAGES)  # as Python does when it adopts the fed input
    assert engine.page.evaluate("() => page.engine.runCount") == frames
    assert_layers_equal(engine, model, -IMAGES)
    engine.page.evaluate(feed, [key, None])
    assert_layers_equal(engine, model, 2 * IMAGES)


@ONE_RENDERER
def test_weights_that_change_in_one_network_stay_in_another(
    engine: EnginePage, model: nn.Sequential
) -> None:
    plan = nbglcnn.compile(model, IMAGES)
    engine.show(plan, IMAGES)
    content = engine.add_content(plan, IMAGES)
    engine.take_counters()
    engine.page.evaluate(
        "async (a) => { page.second = page.makeEngine(); await page.second.show(a); }", content
    )
    assert engine.take_counters()["uploaded"] < sum(blob.nbytes for blob in plan.blobs.values())
    changed = copy.deepcopy(model)
    with torch.no_grad():
        changed[0].weight.mul_(-2)
    new = engine.add_content(nbglcnn.compile(changed, IMAGES))[
        "weightHashes"
    ]  # for the current Plan
    engine.page.evaluate("a => page.engine.show(a)", content | {"weightHashes": new})
    assert_layers_equal(engine, changed)
    other = engine.add_content(plan, -IMAGES)
    engine.page.evaluate("a => page.second.show(a)", other)
    kept = decode(engine.page.evaluate("() => page.read('3', page.second)"))
    expected = torch_layers(model, -IMAGES)["3"]
    assert_equal(kept.reshape(expected.shape), expected)


def test_a_lost_context_comes_back_without_a_client(
    engine: EnginePage, model: nn.Sequential
) -> None:
    engine.show(nbglcnn.compile(model, IMAGES), IMAGES)
    engine.page.evaluate("() => { page.lost = page.lose(); page.lost.loseContext(); }")
    engine.page.wait_for_function("() => page.told.includes('lost')")
    assert engine.page.evaluate("() => page.engine.currentContent === undefined")
    plan = engine.page.evaluate("() => page.engine.loadedContent.planHash")
    assert plan == nbglcnn.compile(model, IMAGES).hash, "what is loaded stays"
    engine.page.evaluate("() => page.lost.restoreContext()")
    engine.page.wait_for_function("() => page.engine.currentContent !== undefined")
    assert_layers_equal(engine, model)


@ONE_RENDERER
def test_nothing_stays_on_the_device_when_an_engine_is_closed(
    engine: EnginePage, model: nn.Sequential
) -> None:
    before = engine.page.evaluate("() => page.alive()")
    engine.show(nbglcnn.compile(model, IMAGES), IMAGES)
    engine.show(nbglcnn.compile(model, IMAGES, observe="outputs"), IMAGES)
    engine.page.evaluate("() => page.engine.dispose()")
    after = engine.page.evaluate("() => page.alive()")
    assert {k: after[k] - n for k, n in before.items() if k != "programs"} == dict.fromkeys(
        before.keys() - {"programs"}, 0
    )


def test_a_patch_uploads_its_rectangle_and_survives_all_that_weights_do(
    gl_page: Callable[..., Page], backend: str, model: nn.Sequential
) -> None:
    engine = EnginePage(gl_page(backend, allow="CONTEXT_LOST_WEBGL|context lost"))
    graph, _ = load.load(model, IMAGES)
    plan = lower(graph)
    content = engine.add_content(plan, IMAGES)
    engine.page.evaluate("a => page.engine.show(a)", content)
    changed = copy.deepcopy(model)

    def change(index: tuple[int, ...], number: float) -> None:
        nonlocal graph
        with torch.no_grad():
            changed[3].weight[index] = number
        old, graph = graph, load.replace_elements(graph, "3.weight", index, number)
        found = make_patches(plan, old, graph, changed_elements(old, graph))
        assert found is not None and len(found) == 1
        engine.take_counters()
        engine.patch(content, found)
        assert_layers_equal(engine, changed)

    change((1, 2, 0, 1), 5.0)
    did = engine.take_counters()
    assert did == {"uploaded": 0, "patched": 16, "compiled": 0, "sessions": 0}
    change((3, 5, 2, 2), -4.0)
    assert engine.take_counters()["patched"] == 16

    # A lost context, and a network that is released and shown again.
    engine.page.evaluate("() => { page.lost = page.lose(); page.lost.loseContext(); }")
    engine.page.wait_for_function("() => page.told.includes('lost')")
    engine.page.evaluate("() => page.lost.restoreContext()")
    engine.page.wait_for_function("() => page.engine.currentContent !== undefined")
    assert_layers_equal(engine, changed)
    engine.page.evaluate(
        "() => { page.all = page.engine.currentContent; page.engine.unloadContent(); }"
    )
    engine.page.evaluate("() => page.engine.show(page.all)")
    assert_layers_equal(engine, changed)

    # Other inputs keep the patch; the earlier weights undo it.
    other = IMAGES[:, :, ::-1].copy()
    content["inputHashes"] = engine.add_content(plan, other)["inputHashes"]
    engine.patch(content, [])
    assert_layers_equal(engine, changed, other)
    engine.page.evaluate("a => page.engine.show(a)", content)
    assert_layers_equal(engine, model, other)


@ONE_RENDERER
def test_a_patch_is_not_shared_with_another_engine_of_these_weights(
    engine: EnginePage, model: nn.Sequential
) -> None:
    graph, _ = load.load(model, IMAGES)
    plan = lower(graph)
    content = engine.add_content(plan, IMAGES)
    engine.page.evaluate("a => page.engine.show(a)", content)
    engine.page.evaluate("a => (page.second = page.makeEngine()).show(a)", content)
    after = load.replace_elements(graph, "3.weight", (0, 0, 0, 0), 9.0)
    engine.take_counters()
    engine.patch(content, make_patches(plan, graph, after, changed_elements(graph, after)) or [])
    [texture] = {w.texture for w in plan.header.weights if "3.weight" in w.recipe.sources}
    [whole] = [plan.blobs[w.hash].nbytes for w in plan.header.weights if w.texture == texture]
    assert engine.take_counters() == {"uploaded": whole, "patched": 0, "compiled": 0, "sessions": 0}
    changed = copy.deepcopy(model)
    with torch.no_grad():
        changed[3].weight[0, 0, 0, 0] = 9.0
    assert_layers_equal(engine, changed)
    engine.page.evaluate("a => page.second.show(a, { rerun: true })", content)
    second = decode(engine.page.evaluate("k => page.read(k, page.second)", "3"))
    assert_equal(second.reshape(1, 4, 7, 5), torch_layers(model, IMAGES)["3"])


@ONE_RENDERER
def test_a_patch_that_does_not_fit_is_refused(engine: EnginePage, model: nn.Sequential) -> None:
    plan = nbglcnn.compile(model, IMAGES)
    content = engine.add_content(plan, IMAGES)
    engine.page.evaluate("a => page.engine.show(a)", content)
    weight = plan.header.weights[0].texture
    size = plan.header.textures[weight]
    one = np.zeros((1, 1, 4), np.float32)
    for wrong in (
        Patch(weight, 0, size.width, 0, one),
        Patch(weight, 0, 0, size.height, one),
        Patch(weight, size.layers, 0, 0, one),
    ):
        with pytest.raises(Error, match="does not fit into weight texture"):
            engine.patch(content, [wrong])
    with pytest.raises(Error, match="holds no weight"):
        engine.patch(content, [Patch(10_000, 0, 0, 0, one)])
    engine.page.evaluate("a => page.engine.show(a)", content)
    assert_layers_equal(engine, model)
