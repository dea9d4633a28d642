"""Pictures become a network's input in the page, resampled as by Pillow."""

import base64
import io
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from playwright.sync_api import Error, Page
from torch import nn

import nbglcnn
from assertions import assert_equal
from browsers import serve_files
from bundle import bundle_script
from nbglcnn.plan.schema import Fit
from picture_input import (
    PICTURE_SCRIPT,
    assert_close_pixels,
    encode_picture,
    feed_picture,
    make_random_picture,
    picture_plan,
    resize_with_pillow,
)
from webgl_page import ONE_RENDERER, GlPage, decode, encode

PICTURE_AND_INPUT_SIZES = [
    ((7, 5), (28, 28)),  # enlarged
    ((640, 480), (28, 28)),  # reduced by about 20
    ((560, 560), (28, 28)),  # reduced by 20
    ((101, 67), (33, 51)),
    ((1, 1), (6, 5)),
    ((1, 90), (9, 7)),
    ((90, 2), (7, 1)),
    ((33, 51), (33, 51)),  # unchanged
]
FIT_MODES: list[Fit] = ["crop", "letterbox", "stretch"]
PICTURE_KINDS = ["data", "canvas", "offscreen", "bitmap", "image", "frame"]
SHAPE = (1, 3, 12, 17)
# As on a graphics card: without the canvas that is used if the CPU draws.
PRETEND_HARDWARE_SCRIPT = "() => Object.assign(gl.opened().capabilities, { software: false })"


@ONE_RENDERER
@pytest.mark.parametrize("fit", FIT_MODES)
def test_pictures_of_any_size_are_resampled_as_pillow_does_it(gl: GlPage, fit: Fit) -> None:
    gl.open(picture_plan((1, 1, 2, 2)))  # keeps the programs compiled
    for (width, height), (w, h) in PICTURE_AND_INPUT_SIZES:
        picture = make_random_picture(width, height)
        for channels in (1, 3, 4):
            shape = (1, channels, h, w)
            session = gl.open(picture_plan(shape, fit))
            feed_picture(gl, session, picture)
            assert_close_pixels(gl.read(session, "x"), resize_with_pillow(picture, shape, fit))
            gl.close(session)


@ONE_RENDERER
def test_where_pillow_takes_columns_first_numbers_differ_by_one_step_at_most(gl: GlPage) -> None:
    """Pillow ≥ 13 does so if it is less work; earlier versions, and the page, take rows first."""
    picture = make_random_picture(20, 60)
    session = gl.open(picture_plan(SHAPE, "stretch"))
    feed_picture(gl, session, picture)
    assert_close_pixels(gl.read(session, "x"), resize_with_pillow(picture, SHAPE, "stretch"), 0.6)


@ONE_RENDERER
def test_a_share_of_each_side_stays(gl: GlPage) -> None:
    for fit, share in (("crop", 0.875), ("stretch", 0.875), ("crop", 0.3)):
        for size in ((61, 43), (43, 61)):
            picture = make_random_picture(*size)
            session = gl.open(picture_plan(SHAPE, fit, share))
            feed_picture(gl, session, picture)
            assert_close_pixels(
                gl.read(session, "x"), resize_with_pillow(picture, SHAPE, fit, share)
            )
            gl.close(session)


@ONE_RENDERER
def test_a_mirrored_picture_has_left_and_right_exchanged(gl: GlPage) -> None:
    picture = make_random_picture(64, 31)
    for fit in FIT_MODES:
        session = gl.open(picture_plan(SHAPE, fit))
        feed_picture(gl, session, picture, mirrored=True)
        mirrored = resize_with_pillow(picture, SHAPE, fit, mirrored=True)
        assert_close_pixels(gl.read(session, "x"), mirrored)
        assert (mirrored != resize_with_pillow(picture, SHAPE, fit)).any()
        gl.close(session)


@ONE_RENDERER
@pytest.mark.parametrize("hardware", [False, True], ids=["software", "hardware"])
def test_each_kind_of_picture_gives_the_same(gl: GlPage, hardware: bool) -> None:
    if hardware:
        gl.page.evaluate(PRETEND_HARDWARE_SCRIPT)
    picture = make_random_picture(50, 34)
    session = gl.open(picture_plan(SHAPE))
    for kind in PICTURE_KINDS:
        gl.write(session, "x", np.full(SHAPE, 0.3))
        feed_picture(gl, session, picture, kind)
        # The frame's colours are those of the video.
        assert_close_pixels(gl.read(session, "x"), resize_with_pillow(picture, SHAPE, "crop"))


@ONE_RENDERER
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_what_is_transparent_is_black_where_the_input_has_no_alpha(
    gl: GlPage, channels: int
) -> None:
    """Pictures with alpha are weighted by it, as in Pillow."""
    shape = (1, channels, 9, 13)
    picture = make_random_picture(57, 38, alpha=True)
    session = gl.open(picture_plan(shape))
    for kind in ("data", "canvas", "bitmap", "bare", "image"):
        feed_picture(gl, session, picture, kind)
        # Browsers store all kinds but data with premultiplied alpha, which rounds once more.
        found, expected = gl.read(session, "x"), resize_with_pillow(picture, shape, "crop")
        assert_close_pixels(found, expected, 0.99 if kind == "data" else 0.9)


@ONE_RENDERER
def test_a_photograph_stands_upright(gl: GlPage) -> None:
    """The picture is rotated by its EXIF orientation."""
    smooth = Image.fromarray(np.random.default_rng(4).integers(0, 256, (3, 4, 3), np.uint8), "RGB")
    lying = smooth.resize((64, 48), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated clockwise
    file = io.BytesIO()
    lying.save(file, "jpeg", quality=95, subsampling=0, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(file))
    assert upright.size == (48, 64)
    session = gl.open(picture_plan(SHAPE, "letterbox"))
    for make in ("image", "bitmap"):
        gl.page.evaluate(
            """async ([session, make, text]) => {
              const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
              const blob = new Blob([bytes], { type: "image/jpeg" });
              const image = new Image();
              image.src = URL.createObjectURL(blob);
              await image.decode();
              const picture = make === "image" ? image : await createImageBitmap(blob);
              gl.the(session).feed("x", picture, false);
              await gl.the(session).run();
            }""",
            [session, make, base64.b64encode(file.getvalue()).decode()],
        )
        expected = resize_with_pillow(upright.convert("RGBA"), SHAPE, "letterbox")
        # JPEG decoders differ by a few steps.
        np.testing.assert_allclose(gl.read(session, "x"), expected / 255, atol=6 / 255)


@ONE_RENDERER
def test_every_example_of_a_batch_gets_the_picture(gl: GlPage) -> None:
    for shape in ((3, 1, 5, 7), (3, 3, 5, 7), (2, 4, 3, 5)):
        picture = make_random_picture(31, 22)
        session = gl.open(picture_plan(shape, "letterbox"))
        feed_picture(gl, session, picture)
        assert_close_pixels(gl.read(session, "x"), resize_with_pillow(picture, shape, "letterbox"))
        gl.close(session)


def test_a_side_of_ten_thousand_pixels_is_taken_whole(gl: GlPage) -> None:
    """Mesa's llvmpipe silently ends a loop after 65,535 iterations."""
    shape = (1, 1, 1, 28)
    pixels = np.asarray(make_random_picture(100, 2)).repeat(80, axis=1)
    pixels = np.roll(pixels, 40, axis=1)  # 8,000 wide: fits SwiftShader unscaled
    picture = Image.fromarray(pixels, "RGBA")
    session = gl.open(picture_plan(shape, "stretch"))
    feed_picture(gl, session, picture)
    assert_close_pixels(gl.read(session, "x"), resize_with_pillow(picture, shape, "stretch"))
    longest = gl.page.evaluate("() => gl.opened().capabilities.target.max_texture_size")
    wide = picture.resize((longest + 1808, 2), Image.Resampling.NEAREST)
    for kind in ("data", "canvas"):
        feed_picture(gl, session, wide, kind)  # downscaled by the browser first
        found = gl.read(session, "x")
        assert np.abs(found - resize_with_pillow(wide, shape, "stretch") / 255).max() < 0.02


FEED_VIDEO_SCRIPT = """
async ([session, mirrored]) => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [96, 64];
  const context = canvas.getContext("2d");
  const colours = context.createLinearGradient(0, 0, 96, 64);
  for (const [k, one] of ["#103060", "#f0c020", "#208040", "#e0e0e0"].entries())
    colours.addColorStop(k / 3, one);
  const draw = (x) => {
    context.fillStyle = colours;
    context.fillRect(0, 0, 96, 64);
    context.fillStyle = "#c01030";
    context.fillRect(x, 8, 24, 16);
  };
  const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: "video/webm" });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const stopped = new Promise((take) => recorder.addEventListener("stop", take));
  recorder.start();
  for (let k = 0; k < 12; k++) {
    draw(6 * k);
    await new Promise((take) => setTimeout(take, 40));
  }
  recorder.stop();
  await stopped;
  const video = document.createElement("video");
  video.muted = true;
  const the = gl.the(session);
  the.feed("x", video, mirrored); // nothing to see yet: what was there stays
  await the.run();
  const before = gl.base64(await the.read("x"));
  const shown = new Promise((take) => video.requestVideoFrameCallback(take));
  video.src = URL.createObjectURL(new Blob(parts, { type: "video/webm" }));
  await shown;
  while (video.readyState < 2) await new Promise((take) => setTimeout(take, 10));
  the.feed("x", video, mirrored);
  await the.run();
  const found = gl.base64(await the.read("x"));
  context.drawImage(video, 0, 0, 96, 64);
  const pixels = context.getImageData(0, 0, 96, 64).data;
  return [before, found, gl.base64(pixels), video.videoWidth, video.videoHeight];
}
"""


@ONE_RENDERER
@pytest.mark.parametrize("hardware", [False, True], ids=["software", "hardware"])
def test_a_films_picture_of_now_goes_in_and_before_its_first_what_was_there_stays(
    gl: GlPage, hardware: bool
) -> None:
    if hardware:
        gl.page.evaluate(PRETEND_HARDWARE_SCRIPT)
    session = gl.open(picture_plan(SHAPE))
    x = np.random.default_rng(1).random(SHAPE, np.float32)
    gl.write(session, "x", x)
    before, found, pixels, width, height = gl.page.evaluate(FEED_VIDEO_SCRIPT, [session, True])
    np.testing.assert_array_equal(decode(before).reshape(SHAPE), x)
    shown = np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(height, width, 4)
    assert shown[..., :3].std() > 30
    expected = resize_with_pillow(Image.fromarray(shown, "RGBA"), SHAPE, "crop", mirrored=True)
    if (
        hardware
    ):  # if a video is uploaded directly to a texture, other browser code converts its colours
        np.testing.assert_allclose(decode(found).reshape(SHAPE), expected / 255, atol=4 / 255)
    else:
        assert_close_pixels(decode(found).reshape(SHAPE), expected)


@ONE_RENDERER
def test_numbers_and_pictures_take_turns(gl: GlPage) -> None:
    session = gl.open(picture_plan(SHAPE))
    first, second = make_random_picture(40, 40), make_random_picture(30, 20)
    x = np.random.default_rng(2).random(SHAPE, np.float32)
    feed_picture(gl, session, first)
    assert_close_pixels(gl.read(session, "x"), resize_with_pillow(first, SHAPE, "crop"))
    gl.write(session, "x", x)
    np.testing.assert_array_equal(gl.read(session, "x"), x)
    feed_picture(gl, session, second)
    gl.run(session)  # with the existing resources
    assert_close_pixels(gl.read(session, "x"), resize_with_pillow(second, SHAPE, "crop"))


@ONE_RENDERER
def test_pictures_of_one_width_and_different_heights_are_taken_whole(gl: GlPage) -> None:
    session = gl.open(picture_plan(SHAPE))
    for height in (30, 60, 20):
        picture = make_random_picture(40, height)
        feed_picture(gl, session, picture)
        # Pillow resamples the columns of a tall picture first.
        assert_close_pixels(gl.read(session, "x"), resize_with_pillow(picture, SHAPE, "crop"), 0.6)


@ONE_RENDERER
def test_a_lost_context_is_survived_between_two_pictures(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]], backend: str
) -> None:
    gl = GlPage(gl_page(backend, allow="CONTEXT_LOST_WEBGL|context lost"), static_site[1])
    session = gl.open(picture_plan(SHAPE))
    first, second = make_random_picture(40, 40), make_random_picture(30, 20)
    gl.page.evaluate(PICTURE_SCRIPT)
    gl.page.evaluate(
        """async ([session, ...given]) => {
          globalThis.kept = fed.kinds.canvas(fed.pixels(...given));
          gl.the(session).feed("x", kept, false);
          await gl.the(session).run();
        }""",
        [session, *encode_picture(first)],
    )
    lose_context(gl)
    # It is still available.
    assert_close_pixels(gl.read(session, "x"), resize_with_pillow(first, SHAPE, "crop"))
    feed_picture(gl, session, second, "bitmap")
    lose_context(gl)
    assert gl.read(session, "x").max() == 0  # the bitmap was closed
    feed_picture(gl, session, first)
    assert_close_pixels(gl.read(session, "x"), resize_with_pillow(first, SHAPE, "crop"))


def lose_context(gl: GlPage) -> None:
    gl.page.evaluate("() => { globalThis.lost = gl.lose(); lost.loseContext(); }")
    gl.page.wait_for_function("() => gl.events.at(-1) === 'lost'")
    gl.page.evaluate("() => lost.restoreContext()")
    gl.page.wait_for_function("() => gl.events.at(-1) === 'restored'")


@ONE_RENDERER
def test_fed_inputs_leave_nothing_behind_and_the_same_size_makes_nothing_new(gl: GlPage) -> None:
    gl.open(picture_plan((1, 1, 2, 2)))
    before = gl.count_live_objects()
    session = gl.open(picture_plan(SHAPE))
    opened = gl.count_live_objects()
    nothing = gl.page.evaluate("k => gl.the(k).bytes", session)
    for size in ((40, 30), (40, 30), (900, 700), (40, 30)):
        feed_picture(gl, session, make_random_picture(*size))
        assert gl.read(session, "x").any()
    fed, some = gl.count_live_objects(), gl.page.evaluate("k => gl.the(k).bytes", session)
    assert fed["textures"] == opened["textures"] + 5
    assert fed["framebuffers"] >= opened["framebuffers"] + 2
    assert some - nothing >= 40 * 30 * 4
    gl.page.evaluate("() => gl.count()")
    gl.page.evaluate("() => gl.counted()")
    feed_picture(gl, session, make_random_picture(40, 30), "canvas")
    counted = gl.page.evaluate("() => gl.counted()")
    assert not counted.get("createTexture") and not counted.get("texStorage3D")
    assert not counted.get("bufferData") and not counted.get("linkProgram")
    assert counted["drawArrays"] == 4  # three, and the input's own pass
    gl.write(session, "x", np.zeros(SHAPE))
    gl.run(session)  # a numeric input frees the picture resources
    assert gl.count_live_objects()["textures"] == opened["textures"]
    feed_picture(gl, session, make_random_picture(40, 30))
    gl.close(session)
    gl.wait_alive(before)


@ONE_RENDERER
def test_what_cannot_be_taken_is_said_once(gl: GlPage) -> None:
    session = gl.open(picture_plan(SHAPE))
    plain = gl.open(picture_plan(SHAPE, ""))
    with pytest.raises(Error, match='input "x" takes no pictures'):
        feed_picture(gl, plain, make_random_picture(3, 3))
    with pytest.raises(Error, match='no input "y"; this network has "x"'):
        feed_picture(gl, session, make_random_picture(3, 3), key="y")
    picture = make_random_picture(31, 20)
    feed_picture(gl, session, picture)
    file = io.BytesIO()
    picture.save(file, "png")
    tainted = """async ([session, url]) => {
      const image = new Image();
      image.src = url;
      await image.decode();
      gl.the(session).feed("x", image, false);
      await gl.the(session).run();
    }"""
    said = 'PlanError: input "x" cannot take a picture of another origin'
    with serve_files(lambda _: file.getvalue()) as other, pytest.raises(Error, match=said):
        gl.page.evaluate(tainted, [session, f"{other}/other.png"])
    feed_picture(gl, session, picture, "bitmap")
    assert_close_pixels(gl.read(session, "x"), resize_with_pillow(picture, SHAPE, "crop"))


@ONE_RENDERER
def test_the_runtime_alone_takes_pictures(
    gl: GlPage, static_site: tuple[str, dict[str, bytes]]
) -> None:
    """As the only input, or by name with arrays."""
    static_site[1]["/pictures.js"] = bundle_script("src/runtime.ts", "--format=esm")
    torch.manual_seed(3)
    model = TwoPictures().eval()
    shape = (2, 3, 9, 11)
    a, b = (np.random.default_rng(k).random(shape, np.float32) for k in range(2))
    plan = nbglcnn.compile(model, (a, b))
    picture, film = make_random_picture(57, 31), make_random_picture(20, 17)
    gl.page.evaluate(PICTURE_SCRIPT)
    found = gl.page.evaluate(
        """async ([url, one, first, second, b]) => {
          const { load } = await import("/pictures.js");
          const bytes = async (from) => new Uint8Array(await (await fetch(from)).arrayBuffer());
          const carried = await load(await bytes(one));
          const alone = await carried.run(fed.kinds.canvas(fed.pixels(...first)));
          const never = await carried.run(new Image()).catch((error) => `${error}`);
          const twice = await load(await bytes(url));
          const both = await twice.run({ a: fed.pixels(...first), b: gl.floats(b) });
          const bitmap = await createImageBitmap(fed.pixels(...second));
          const again = await twice.run({ a: bitmap });
          carried.close();
          twice.close();
          return [alone, both, again].map(gl.base64).concat(never);
        }""",
        [
            gl.serve_file(plan.to_bytes()),
            gl.serve_file(picture_plan(shape, "letterbox").to_bytes()),
            encode_picture(picture),
            encode_picture(film),
            encode(b),
        ],
    )
    assert_close_pixels(
        decode(found[0]).reshape(shape), resize_with_pillow(picture, shape, "letterbox")
    )
    for text, shown in zip(found[1:3], (picture, film), strict=True):
        x = resize_with_pillow(shown, shape, "crop").astype(np.float32) / 255
        with torch.inference_mode():
            y = model(torch.from_numpy(x), torch.from_numpy(b)).numpy()
        assert_equal(decode(text).reshape(y.shape), y)
    assert 'PlanError: the picture for input "x" has no size' in found[3]


class TwoPictures(nn.Module):
    """A network with two picture inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(a)) - self.conv(b)
