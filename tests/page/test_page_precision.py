"""float16 in the page: Plans compiled for it, and devices that can render to nothing better."""

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference
from nbglcnn.report import RTOL
from picture_input import feed_picture, make_random_picture, picture_plan, resize_with_pillow
from webgl_page import DISABLE_FLOAT32_SCRIPT, ONE_RENDERER, GlPage, bundle_script, decode, encode
from zoo import build

FLOAT16_RTOL = RTOL["float16"]
RGBA32F, RGBA16F, RGBA8 = 0x8814, 0x881A, 0x8058
# Records allocations, and which of them are rendered to.
RECORD_ALLOCATIONS_SCRIPT = """() => {
  const { texStorage3D, bindTexture, framebufferTextureLayer } = WebGL2RenderingContext.prototype;
  const formats = new Map();
  let bound;
  globalThis.stored = () => [...formats.values()];
  Object.assign(WebGL2RenderingContext.prototype, {
    bindTexture(target, texture) {
      bound = texture;
      return bindTexture.call(this, target, texture);
    },
    texStorage3D(target, levels, format, ...size) {
      formats.set(bound, { format, drawn: false });
      return texStorage3D.call(this, target, levels, format, ...size);
    },
    framebufferTextureLayer(target, attachment, texture, ...rest) {
      formats.get(texture).drawn = true;
      return framebufferTextureLayer.call(this, target, attachment, texture, ...rest);
    },
  });
}"""


@pytest.fixture
def half_float_page(gl: GlPage) -> GlPage:
    """A page whose device claims to render to 16-bit floats only."""
    gl.page.evaluate(RECORD_ALLOCATIONS_SCRIPT)
    gl.page.evaluate(DISABLE_FLOAT32_SCRIPT)
    return gl


def allocated_formats(gl: GlPage, *, drawn: bool) -> set[int]:
    """The formats of number textures; pictures are bytes."""
    stored = gl.page.evaluate("stored()")
    return {one["format"] for one in stored if one["drawn"] is drawn} - {RGBA8}


def run_plan(gl: GlPage, plan: nbglcnn.Plan, arrays: tuple[np.ndarray, ...]) -> int:
    session = gl.open(plan)
    for record, array in zip(plan.header.inputs, arrays, strict=True):
        gl.write(session, record.key, array)
    gl.run(session)
    return session


@ONE_RENDERER
@pytest.mark.parametrize("name", ["diffusion block", "segnet"])
def test_a_plan_of_float16_is_right_to_three_digits_and_takes_half(gl: GlPage, name: str) -> None:
    model, inputs = build(name)
    graph, arrays = load(model, inputs)
    expected = compute_reference(model, graph, arrays)
    gl.page.evaluate(RECORD_ALLOCATIONS_SCRIPT)
    plan = lower(graph, precision="float16")
    session = run_plan(gl, plan, arrays)
    for value in plan.values:
        found = gl.read(session, value.key).astype(value.dtype)
        assert_equal(found, expected[value.key], rtol=FLOAT16_RTOL, name=value.key)
        if value.dtype == "float32":
            np.testing.assert_array_equal(found, found.astype(np.float16).astype(np.float32))
    wanted = [texture.format for texture in plan.header.textures].count("rgba16f")
    stored = gl.page.evaluate("stored()")
    assert [one["format"] for one in stored].count(RGBA16F) == wanted
    whole = run_plan(gl, lower(graph), arrays)
    sizes = [gl.page.evaluate("k => gl.the(k).bytes", k) for k in (session, whole)]
    assert sizes[1] - sizes[0] == lower(graph).gpu_bytes - plan.gpu_bytes


def test_pictures_and_statistics_of_float16_are_those_of_float32_nearly(gl: GlPage) -> None:
    model, inputs = build("autoencoder")
    graph, arrays = load(model, inputs)
    key = "encoder.0"
    job = {"key": key, "channels": [0, 1, 2], "columns": 3}
    found = []
    for precision in ("float32", "float16"):
        session = run_plan(gl, lower(graph, precision=precision), arrays)
        [pixels] = gl.draw(session, job)
        found.append((pixels.astype(int), gl.statistics(session, key)))
        values = gl.read(session, key)[0].astype(np.float64)
        counted = gl.histogram(session, key, 20)
        assert counted is not None
        counts, _ = np.histogram(values[values != 0], 20, (values.min(), values.max()))
        assert counted["counts"] == counts.tolist()
    (pixels, numbers), (half, rounded) = found
    assert np.unique(pixels.reshape(-1, 4), axis=0).shape[0] > 16
    assert np.abs(pixels - half).max() <= 6
    for name in ("min", "max", "mean", "std"):
        assert rounded["layer"][name] == pytest.approx(
            numbers["layer"][name], rel=FLOAT16_RTOL, abs=1e-3
        )


def test_a_device_without_float32_takes_pictures_all_the_same(half_float_page: GlPage) -> None:
    shape = (2, 3, 9, 7)
    picture = make_random_picture(31, 40)
    session = half_float_page.open(picture_plan(shape))
    feed_picture(half_float_page, session, picture)
    expected = resize_with_pillow(picture, shape, "crop").astype(np.float32) / 255
    np.testing.assert_allclose(half_float_page.read(session, "x"), expected, rtol=FLOAT16_RTOL)


def test_a_device_without_float32_runs_the_same_plan_in_half(half_float_page: GlPage) -> None:
    model, inputs = build("style transfer")
    graph, arrays = load(model, inputs)
    expected = compute_reference(model, graph, arrays)
    plan = lower(graph)
    session = run_plan(half_float_page, plan, arrays)
    capabilities = half_float_page.page.evaluate("gl.opened().capabilities")
    assert capabilities["precision"] == "float16"
    assert capabilities["target"]["float32_render"] is False
    rounded = 0.0
    for value in plan.values:
        found = half_float_page.read(session, value.key)
        assert_equal(found, expected[value.key], rtol=FLOAT16_RTOL, name=value.key)
        np.testing.assert_array_equal(found, found.astype(np.float16).astype(np.float32))
        rounded = max(rounded, float(np.abs(found - expected[value.key]).max()))
    assert rounded > 1e-4
    half_float_page.draw(session, {"key": plan.values[1].key, "channels": [0]})
    assert allocated_formats(half_float_page, drawn=True) == {RGBA16F}
    # Textures that are only uploaded to keep full precision.
    assert RGBA32F in allocated_formats(half_float_page, drawn=False)


def test_a_device_without_float32_counts_and_draws_large_maps_right(
    half_float_page: GlPage,
) -> None:
    x = np.zeros((1, 2, 301, 303), np.float32)
    x[0, 0] = np.linspace(-3, 5, 301 * 303).reshape(301, 303).astype(np.float16)
    x[0, 1, 5, 7], x[0, 1, 8, 9], x[0, 1, 0, 0] = np.nan, np.inf, 60000
    model = nn.Sequential(nn.Identity(), nn.ReLU()).eval()
    plan = nbglcnn.compile(model, x)
    session = run_plan(half_float_page, plan, (x,))
    found = half_float_page.read(session, "input")
    known = np.isfinite(x)
    np.testing.assert_array_equal(np.isfinite(found), known)
    np.testing.assert_array_equal(found[known], x[known])
    first, second = half_float_page.statistics(session, "input")["channels"]
    exact = x[0, 0].astype(np.float64)
    for name, value in (("min", exact.min()), ("max", exact.max()), ("mean", exact.mean())):
        assert first[name] == pytest.approx(value, rel=1e-6)
    assert first["std"] == pytest.approx(exact.std(), rel=1e-6)
    # SwiftShader writes infinity as NaN to 16-bit targets.
    assert (second["nan"] + second["inf"], second["max"]) == (2, 60000)
    assert second["zeroFraction"] == pytest.approx((301 * 303 - 3) / (301 * 303), abs=1e-7)
    counted = half_float_page.histogram(session, "input", 30, 0, 0)
    assert counted is not None
    expected, _ = np.histogram(exact[exact != 0], 30, (exact.min(), exact.max()))
    assert counted["counts"] == expected.tolist()
    drawn = {"key": "input", "channels": [0], "colormap": "grey", "range": {"mode": "channel"}}
    [pixels] = half_float_page.draw(session, drawn)
    assert pixels[0, 0, 0] < 3 and pixels[-1, -1, 0] > 252


def test_a_device_without_float32_counts_each_example_of_a_batch(half_float_page: GlPage) -> None:
    x = np.random.default_rng(6).standard_normal((3, 2, 4, 5)).astype(np.float16)
    x += np.float16(10) * np.arange(3, dtype=np.float16).reshape(3, 1, 1, 1)
    plan = nbglcnn.compile(nn.Sequential(nn.Identity(), nn.ReLU()).eval(), np.float32(x))
    session = run_plan(half_float_page, plan, (np.float32(x),))
    for image in range(3):
        for channel in (None, 1):
            counted = half_float_page.histogram(session, "input", 5, image, channel)
            own = x[image] if channel is None else x[image, channel]
            expected, _ = np.histogram(own.astype(np.float64), 5)
            assert counted is not None and counted["counts"] == expected.tolist()


def test_a_plan_for_such_a_device_draws_no_float32(half_float_page: GlPage) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.GroupNorm(2, 6), nn.Upsample(scale_factor=2))
    x = torch.randn(1, 1, 14, 17)
    plan = nbglcnn.compile(model.eval(), x, target=nbglcnn.Target(float32_render=False))
    session = run_plan(half_float_page, plan, (x.numpy(),))
    with torch.no_grad():
        assert_equal(half_float_page.read(session, "output"), model(x).numpy(), rtol=FLOAT16_RTOL)
    assert allocated_formats(half_float_page, drawn=True) == {RGBA16F}
    textures = sum(texture.bytes for texture in plan.header.textures)
    assert plan.gpu_bytes == textures + len(plan.uniforms)
    assert half_float_page.page.evaluate("k => gl.the(k).bytes", session) >= plan.gpu_bytes


def test_a_lost_context_without_float32_comes_back_in_half(half_float_page: GlPage) -> None:
    model, inputs = build("autoencoder")
    graph, arrays = load(model, inputs)
    session = run_plan(half_float_page, lower(graph), arrays)
    before = half_float_page.read(session, "output")
    half_float_page.page.evaluate("(globalThis.loss = gl.lose()).loseContext()")
    half_float_page.page.wait_for_function("gl.events.includes('lost')")
    half_float_page.page.evaluate("loss.restoreContext()")
    half_float_page.page.wait_for_function("gl.events.includes('restored')")
    np.testing.assert_array_equal(half_float_page.read(session, "output"), before)
    assert allocated_formats(half_float_page, drawn=True) == {RGBA16F}


@ONE_RENDERER
def test_the_runtime_alone_falls_back_too(
    half_float_page: GlPage, static_site: tuple[str, dict[str, bytes]]
) -> None:
    script = bundle_script("src/runtime.ts", "--format=esm", "--minify")
    static_site[1]["/half.js"] = script
    model, inputs = build("autoencoder")
    graph, arrays = load(model, inputs)
    expected = compute_reference(model, graph, arrays)["output"]
    for precision in ("float32", "float16"):
        plan = lower(graph, observe="outputs", precision=precision)
        url = half_float_page.serve_file(plan.to_bytes())
        found, said, size = half_float_page.page.evaluate(
            """async ([url, x]) => {
              const { load } = await import("/half.js");
              const session = await load(await (await fetch(url)).arrayBuffer());
              const output = await session.run(gl.floats(x));
              session.close();
              return [gl.base64(output), session.precision, session.bytes];
            }""",
            [url, encode(arrays[0])],
        )
        assert said == "float16"
        assert size < plan.gpu_bytes or (precision == "float16" and size == plan.gpu_bytes)
        output = decode(found).reshape(expected.shape)
        assert_equal(output, expected, rtol=FLOAT16_RTOL)
        np.testing.assert_array_equal(output, output.astype(np.float16).astype(np.float32))
    assert allocated_formats(half_float_page, drawn=True) == {RGBA16F}
