"""A picture file gives the same numbers everywhere: every file type in every API that takes one."""

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

import nbglcnn
from nbglcnn import Images, InputError, Preprocess, Session, Viewer
from nbglcnn.cli import main
from nbglcnn.features.training.data import open_batches
from nbglcnn.inputs.picture_decoding import picture_array
from picture_files import (
    PictureFile,
    display_p3,
    encode_image,
    orientation_exif,
    picture_files,
    random_pixels,
)

pytestmark = pytest.mark.filterwarnings("ignore:no page:UserWarning")
PICTURE_FILES = picture_files()
# Networks that return pictures; BYTES takes bytes, channels last, as TensorFlow's converters write.
FLOAT_MODEL_TEXT = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,H,W] x) => (float[N,3,H,W] y) '
)
FLOAT_MODEL_TEXT += "{ y = Relu(x) }"
BYTE_MODEL_TEXT = (
    '<ir_version: 8, opset_import: ["" : 17]> g (uint8[N,H,W,3] x) => (float[N,3,H,W] y) '
)
BYTE_MODEL_TEXT += "{ f = Cast<to=1>(x) y = Transpose<perm=[0, 3, 1, 2]>(f) }"


@cache
def parse_model(text: str = FLOAT_MODEL_TEXT) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def open_image(file: Path) -> Image.Image:
    with Image.open(file) as image:
        image.load()
        return image


def viewer_of_other(file: Path, network: onnx.ModelProto) -> Viewer:
    """A Viewer with an input of the picture's size, but other content."""
    shape = Viewer(network, open_image(file)).input.shape
    return Viewer(network, np.zeros(shape, "u1" if shape[3] == 3 else "f4"))


def through_input(file: Path, network: onnx.ModelProto) -> np.ndarray:
    viewer = viewer_of_other(file, network)
    viewer.input = open_image(file)
    return np.asarray(viewer.input)


def through_source(given: Callable[[Path], Any]) -> Callable[[Path, onnx.ModelProto], np.ndarray]:
    def found(file: Path, network: onnx.ModelProto) -> np.ndarray:
        viewer = viewer_of_other(file, network)
        viewer.source = Images(given(file))
        return np.asarray(viewer.input)

    return found


def through_session(file: Path, network: onnx.ModelProto) -> np.ndarray:
    image = open_image(file)
    with Session(nbglcnn.compile(network, image)) as session:
        return session.run(image)["x"]


def through_preprocess(file: Path, network: onnx.ModelProto) -> np.ndarray:
    """Load the picture with a Preprocess of its size."""
    shape = Viewer(network, open_image(file)).input.shape
    size = shape[1:3] if shape[3] == 3 else shape[2:]
    with Session(nbglcnn.compile(network, preprocess=Preprocess(size=size))) as session:
        return session.run(open_image(file))["x"]


def through_record(file: Path, network: onnx.ModelProto) -> np.ndarray:
    group = nbglcnn.record(network, file.parent, ["x"], file.parent / "zarr")
    return np.asarray(group["x"][:])


def through_command(file: Path, network: onnx.ModelProto) -> np.ndarray:
    path, out = file.parent / "model.onnx", file.parent / "out.npz"
    onnx.save(network, path)
    assert main(["run", str(path), str(file), "--layer", "x", "--out", str(out)]) == 0
    with np.load(out) as found:
        return found["x"]


ENTRY_POINTS: dict[str, Callable[[Path, onnx.ModelProto], np.ndarray]] = {
    "Viewer": lambda file, network: np.asarray(Viewer(network, open_image(file)).input),
    "a batch": lambda file, network: np.asarray(Viewer(network, [open_image(file)] * 2).input)[1:],
    "viewer.input": through_input,
    "Session": through_session,
    "Preprocess": through_preprocess,
    "Images of paths": through_source(lambda file: [file]),
    "Images of pictures": through_source(lambda file: [open_image(file)]),
    "Images of a folder": through_source(lambda file: file.parent),
    "record": through_record,
    "the command line": through_command,
}


def assert_picture(found: np.ndarray, file: PictureFile, entry_point: str) -> None:
    np.testing.assert_allclose(
        found[0], file.expected, rtol=0, atol=file.tolerance_steps / 255, err_msg=entry_point
    )


@pytest.mark.parametrize("name", PICTURE_FILES)
def test_a_picture_file_has_the_same_numbers_at_every_door(name: str, tmp_path: Path) -> None:
    file = PICTURE_FILES[name]
    for number, (entry_point, load_picture) in enumerate(ENTRY_POINTS.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_bytes(file.content)
        if entry_point != "Images of a folder" or not name.endswith(".gif"):  # as in ImageFolder
            assert_picture(load_picture(folder / name, parse_model()), file, entry_point)


@pytest.mark.parametrize("name", ["rgb.png", "rgba.png", "turned 6.jpg", "16 bits.tif", "p3.png"])
def test_an_input_of_bytes_gets_them_in_its_own_layout_at_every_door(
    name: str, tmp_path: Path
) -> None:
    file = PICTURE_FILES[name]
    for number, (entry_point, load_picture) in enumerate(ENTRY_POINTS.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_bytes(file.content)
        found = load_picture(folder / name, parse_model(BYTE_MODEL_TEXT))
        assert found.dtype == np.uint8 and found.shape[3] == 3, entry_point
        wanted = np.rint(255.0 * file.expected).transpose(1, 2, 0)
        np.testing.assert_allclose(
            found[0], wanted, rtol=0, atol=file.tolerance_steps, err_msg=entry_point
        )


@pytest.mark.parametrize("name", ["rgba.png", "palette with alphas.png", "turned 3.jpg", "p3.png"])
def test_items_of_a_dataset_and_examples_of_a_teaching_are_these_numbers(
    name: str, tmp_path: Path
) -> None:
    file = PICTURE_FILES[name]
    image = Image.open(io.BytesIO(file.content))
    [found] = (
        open_batches([(image, 0)], 1, shuffle=False, seed=0, has_model_loss=False)
        .first_batch()
        .inputs
    )
    assert_picture(found, file, "a torch Dataset")
    (tmp_path / name).write_bytes(file.content)
    viewer = Viewer(parse_model(), np.zeros((1, *file.expected.shape), "f4"))
    teaching = viewer.teach(["a", "b"], cut="y")
    teaching.add("a", [tmp_path / name])
    [example] = teaching.examples["a"]
    kept = np.asarray(example, np.float32).transpose(2, 0, 1) / 255
    assert_picture(kept[None], file, "teach")


@pytest.mark.parametrize("channels", [1, 4])
def test_grey_is_made_of_what_is_seen_and_alpha_is_kept_where_the_input_has_it(
    channels: int,
) -> None:
    network = parse_model(FLOAT_MODEL_TEXT.replace("N,3", f"N,{channels}"))
    clear = random_pixels(4)
    image = Image.fromarray(clear, "RGBA")
    given = Viewer(network, image)
    found = np.rint(255 * given.input[0]).astype(int)
    seen = (clear[..., :3].astype(int) * clear[..., 3:] + 127) // 255
    if channels == 1:
        wanted = np.asarray(Image.fromarray(seen.astype(np.uint8)).convert("L"))[None]
    else:
        straight = np.asarray(image.convert("RGBa").convert("RGBA"))
        wanted = straight.transpose(2, 0, 1).astype(int)
        np.testing.assert_array_equal(found[3], clear[..., 3])
    np.testing.assert_array_equal(found, wanted)
    given.source = Images([image])
    np.testing.assert_array_equal(np.rint(255 * given.input[0]), wanted)


def test_colours_are_resampled_before_they_become_grey() -> None:
    """Resample first, as in the page: rounding makes the mean of greys another than theirs."""
    image = Image.fromarray(np.random.default_rng(8).integers(0, 256, (40, 60, 3), np.uint8))
    network = parse_model(FLOAT_MODEL_TEXT.replace("N,3,H,W", "1,1,8,12"))
    viewer = Viewer(network)
    viewer.source = Images([image])
    wanted = image.resize((12, 8), Image.Resampling.BILINEAR).convert("L")
    np.testing.assert_array_equal(np.rint(255 * viewer.input[0, 0]), np.asarray(wanted))


PILLOW_MODE_DTYPES = {"I;16": "<u2", "I;16B": ">u2", "I;16L": "<u2", "I;16N": "=u2", "I": "=i4"}


@pytest.mark.parametrize("mode", PILLOW_MODE_DTYPES)
def test_65535_is_white_in_every_mode_of_16_bits(mode: str) -> None:
    numbers = np.array([[0, 1, 300, 65535]])
    image = Image.frombytes(mode, (4, 1), numbers.astype(PILLOW_MODE_DTYPES[mode]).tobytes())
    wanted = numbers.astype(np.float32) / np.float32(65535)
    viewer = Viewer(parse_model(), image)
    np.testing.assert_array_equal(viewer.input[0], np.stack([wanted] * 3))
    viewer.source = Images([image])
    np.testing.assert_array_equal(viewer.input[0], np.stack([wanted] * 3))


def test_integers_beyond_16_bits_are_refused_with_their_range() -> None:
    signed = Image.fromarray(np.array([[-5, 9]], np.int32))
    large = Image.fromarray(np.array([[0, 70000]], np.int32))
    for image, words in ((signed, "from -5 to 9"), (large, "from 0 to 70000")):
        with pytest.raises(InputError, match=f"mode I has values {words}; .*65535 .white."):
            Viewer(parse_model(), image)
        viewer = Viewer(parse_model(), np.zeros((1, 3, 1, 2), "f4"))
        with pytest.raises(InputError, match=f"values {words}"):
            viewer.source = Images([image])


def test_a_picture_is_turned_and_converted_once_though_it_comes_by_two_doors() -> None:
    image = Image.open(
        io.BytesIO(encode_image(Image.fromarray(random_pixels(3)), "png", exif=orientation_exif(6)))
    )
    first = Viewer(parse_model(), image).input
    np.testing.assert_array_equal(Viewer(parse_model(), image).input, first)
    assert image.size == (12, 8)  # the user's image is unchanged
    p3 = Image.open(io.BytesIO(PICTURE_FILES["p3.png"].content))
    again = np.asarray(Viewer(parse_model(), p3).input)
    np.testing.assert_array_equal(Viewer(parse_model(), p3).input, again)
    assert p3.info["icc_profile"] == display_p3()


ALPHA_IMAGE = Image.fromarray(random_pixels(4), "RGBA")
PILLOW_MODE_IMAGES = {
    "La": (ALPHA_IMAGE.convert("LA").convert("La"), ALPHA_IMAGE.convert("LA")),
    "RGBa": (ALPHA_IMAGE.convert("RGBa"), ALPHA_IMAGE),
    "PA": (ALPHA_IMAGE.quantize(8).convert("PA"), ALPHA_IMAGE.quantize(8).convert("RGBA")),
    "RGBX": (Image.fromarray(random_pixels(3)).convert("RGBX"), Image.fromarray(random_pixels(3))),
    "1": (ALPHA_IMAGE.convert("1"), ALPHA_IMAGE.convert("1").convert("L")),
    "CMYK": (
        Image.fromarray(random_pixels(3)).convert("CMYK"),
        Image.fromarray(random_pixels(3)).convert("CMYK").convert("RGB"),
    ),
}


@pytest.mark.parametrize("mode", PILLOW_MODE_IMAGES)
def test_a_picture_of_another_mode_is_as_one_that_shows_the_same(mode: str) -> None:
    given, same = PILLOW_MODE_IMAGES[mode]
    assert given.mode == mode
    found, wanted = (picture_array(one, 3, "uint8").astype(int) for one in (given, same))
    assert np.abs(found - wanted).max() <= (mode == "La")  # its greys were rounded twice


def test_the_frame_that_is_given_is_taken() -> None:
    image = Image.open(io.BytesIO(PICTURE_FILES["animated.png"].content))
    image.seek(2)
    wanted = random_pixels(3, 6).transpose(2, 0, 1) / np.float32(255)
    np.testing.assert_array_equal(Viewer(parse_model(), image).input[0], wanted)


def test_a_model_of_integers_says_how_a_picture_becomes_them() -> None:
    text = FLOAT_MODEL_TEXT.replace("float[N,3,H,W] x", "int64[N,3,H,W] x").replace(
        "Relu", "Cast<to=1>"
    )
    with pytest.raises(InputError, match=r"int64; .*numpy.asarray\(image\).astype\('int64'"):
        Viewer(parse_model(text), Image.fromarray(random_pixels(3)))


def test_numbers_from_0_to_1_for_an_input_of_bytes_are_not_advised_to_become_zeros() -> None:
    with pytest.raises(InputError, match=r"\(255 \* x\).round\(\).astype\('uint8'\)"):
        Viewer(
            parse_model(BYTE_MODEL_TEXT), np.random.default_rng(0).random((1, 4, 5, 3), np.float32)
        )


def test_steps_of_a_preprocess_are_refused_for_an_input_of_bytes() -> None:
    for step, words in (
        ({"mean": 0.5}, "mean"),
        ({"range": (0, 255)}, "range"),
        ({"channels": "BGR"}, "channels"),
    ):
        with pytest.raises(InputError, match=f"{words}=.* can't be used with the uint8 input"):
            Viewer(parse_model(BYTE_MODEL_TEXT), preprocess=Preprocess(size=8, **step))
    fits = Viewer(parse_model(BYTE_MODEL_TEXT), preprocess=Preprocess(size=8, layout="NHWC"))
    assert fits.input.shape == (1, 8, 8, 3)


@pytest.mark.parametrize("batch", [2, 3, 5])
def test_batches_of_pictures_enter_inputs_of_bytes(batch: int) -> None:
    arrays = np.stack([random_pixels(3, seed) for seed in range(batch)])
    pictures = [Image.fromarray(one) for one in arrays]
    plan = nbglcnn.compile(parse_model(BYTE_MODEL_TEXT), pictures)
    with Session(plan) as session:
        found = session.run(pictures)
        np.testing.assert_array_equal(found["x"], arrays)
        np.testing.assert_array_equal(found["y"], arrays.transpose(0, 3, 1, 2))
        assert nbglcnn.verify(session, parse_model(BYTE_MODEL_TEXT), pictures).ok


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_data_set_of_bytes_is_given_in_either_order_of_axes(layout: str) -> None:
    text = (
        BYTE_MODEL_TEXT
        if layout == "NHWC"
        else BYTE_MODEL_TEXT.replace("N,H,W,3", "N,3,H,W").replace("[0, 3, 1, 2]", "[0, 1, 2, 3]")
    )
    arrays = np.stack([random_pixels(3, seed) for seed in range(3)])
    own = arrays if layout == "NHWC" else arrays.transpose(0, 3, 1, 2)
    viewer = Viewer(parse_model(text), own[:1])
    for given in (arrays, arrays.transpose(0, 3, 1, 2), list(arrays)):
        viewer.source = Images(given, index=2)
        np.testing.assert_array_equal(viewer.input, own[2:])
        assert viewer.input.dtype == np.uint8
    with pytest.raises(InputError, match="has floats, but the input x is uint8; give uint8"):
        viewer.source = Images(own.astype(np.float32))
