"""Each transform on local OpenGL against an independent implementation."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import ndimage
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import Session, transforms
from nbglcnn.codegen.glsl import shader_source
from nbglcnn.features.edits.reference import apply_edits
from nbglcnn.features.edits.shader import SHADER_INSERTS
from nbglcnn.features.edits.transforms import TRANSFORM_KINDS, ellipse_offsets
from nbglcnn.transforms import Transform

VALUE_SHAPES = [(1, 1, 1, 1), (2, 3, 7, 6), (1, 5, 1, 9), (3, 9, 13, 5), (2, 5, 11), (1, 4, 1)]
FeatureMap = np.ndarray  # 2-D

# OpenCV's getStructuringElement(MORPH_ELLIPSE) with sides of 2 radius + 1: the pixels set in each
# row.
ELLIPSE_ROWS = {
    0: [1],
    1: [1, 3, 1],
    2: [1, 5, 5, 5, 1],
    3: [1, 5, 7, 7, 7, 5, 1],
    4: [1, 7, 7, 9, 9, 9, 7, 7, 1],
    5: [1, 7, 9, 11, 11, 11, 11, 11, 9, 7, 1],
    6: [1, 7, 9, 11, 13, 13, 13, 13, 13, 11, 9, 7, 1],
    8: [1, 9, 11, 13, 15, 15, *[17] * 5, 15, 15, 13, 11, 9, 1],
    16: [1, 13, 17, 19, 23, 25, 25, 27, 29, 29, *[31] * 3, *[33] * 7,
         *[31] * 3, 29, 29, 27, 25, 25, 23, 19, 17, 13, 1],
}  # fmt: skip


def footprint(radius: int) -> np.ndarray:
    rows = ELLIPSE_ROWS[radius]
    size = len(rows)
    return np.array([[abs(c - radius) <= n // 2 for c in range(size)] for n in rows])


def erosion(radius: int) -> Callable[[FeatureMap], FeatureMap]:
    return lambda x: ndimage.grey_erosion(
        x, footprint=footprint(radius), mode="constant", cval=np.inf
    )


def dilation(radius: int) -> Callable[[FeatureMap], FeatureMap]:
    return lambda x: ndimage.grey_dilation(
        x, footprint=footprint(radius), mode="constant", cval=-np.inf
    )


def gaussian_blur(sigma: float) -> Callable[[FeatureMap], FeatureMap]:
    return lambda x: ndimage.gaussian_filter(
        x.astype(np.float64), sigma, mode="nearest", truncate=4
    )


def affine_sample(x: FeatureMap, matrix: np.ndarray, offset: np.ndarray) -> FeatureMap:
    """Bilinear samples at matrix · position + offset, (row, column), with zeros outside the map."""
    return ndimage.affine_transform(
        x.astype(np.float64), matrix, offset, order=1, mode="grid-constant", cval=0
    )


def affine_about_center(x: FeatureMap, matrix: np.ndarray) -> FeatureMap:
    middle = (np.array(x.shape) - 1) / 2
    return affine_sample(x, matrix, middle - matrix @ middle)


def rotation(degrees: float) -> Callable[[FeatureMap], FeatureMap]:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return lambda x: affine_about_center(x, np.array([[c, s], [-s, c]]))


def with_pillow(
    image_function: Callable[[Image.Image], Image.Image],
) -> Callable[[FeatureMap], FeatureMap]:
    return lambda x: np.asarray(
        image_function(Image.fromarray(np.ascontiguousarray(x, np.float32)))
    )


def sobel_magnitude(x: FeatureMap) -> FeatureMap:
    along, down = (ndimage.sobel(x.astype(np.float64), axis, mode="nearest") for axis in (1, 0))
    return np.hypot(along, down) / 4


def block_means(size: int) -> Callable[[FeatureMap], FeatureMap]:
    """Replace each pixel by its block's mean: labelled `scipy.ndimage.mean`."""

    def made(x: FeatureMap) -> FeatureMap:
        row, column = np.indices(x.shape) // size
        labels = row * (column.max() + 1) + column
        return ndimage.mean(x.astype(np.float64), labels, np.arange(labels.max() + 1))[labels]

    return made


def pasted_patch(x: float, y: float, size: int, value: float) -> Callable[[FeatureMap], FeatureMap]:
    """A patch pasted by Pillow, its top left corner as in the docstring."""

    def made(map: FeatureMap) -> FeatureMap:
        height, width = map.shape
        at = tuple(int(np.floor(p * s - size / 2 + 0.5)) for p, s in ((x, width), (y, height)))
        picture = Image.fromarray(np.ascontiguousarray(map, np.float32))
        picture.paste(Image.new("F", (size, size), value), at)
        return np.asarray(picture)

    return made


REFERENCE_FUNCTIONS: list[tuple[Transform, Callable[[FeatureMap], FeatureMap]]] = [
    (transforms.ablate(), np.zeros_like),
    (transforms.invert(), lambda x: 1 - x.astype(np.float64)),
    (transforms.multiply(-1.7), lambda x: x.astype(np.float64) * -1.7),
    (transforms.add(0.3), lambda x: x.astype(np.float64) + 0.3),
    (transforms.clamp(-0.4, 0.6), lambda x: np.clip(x, -0.4, 0.6)),
    (transforms.threshold(0.1), lambda x: np.heaviside(x.astype(np.float64) - 0.1, 0)),
    (transforms.contrast(1.6), lambda x: 1.6 * x.astype(np.float64) + 0.5 * (1 - 1.6)),
    (transforms.edges(), sobel_magnitude),
    *((transforms.pixelate(size), block_means(size)) for size in (1, 2, 4, 64)),
    (transforms.occlude(), pasted_patch(0.5, 0.5, 8, 0)),
    (transforms.occlude(0.3, 0.8, 3, -0.5), pasted_patch(0.3, 0.8, 3, -0.5)),
    (transforms.occlude(-0.1, 1.2, 4, 2), pasted_patch(-0.1, 1.2, 4, 2)),
    (transforms.occlude(0.7, 0.5, 1, 1), pasted_patch(0.7, 0.5, 1, 1)),
    (transforms.blur(0.6), gaussian_blur(0.6)),
    (transforms.blur(2.3), gaussian_blur(2.3)),
    (transforms.sharpen(1.5, 0.9), lambda x: x + 1.5 * (x - gaussian_blur(0.9)(x))),
    (transforms.erode(0), lambda x: x),
    *((transforms.erode(r), erosion(r)) for r in (1, 2, 4)),
    *((transforms.dilate(r), dilation(r)) for r in (1, 3)),
    (
        transforms.translate(0.3, -0.2),
        lambda x: affine_sample(x, np.eye(2), np.array([0.2 * x.shape[0], -0.3 * x.shape[1]])),
    ),
    (transforms.scale(1.7), lambda x: affine_about_center(x, np.eye(2) / 1.7)),
    (transforms.scale(0.6), lambda x: affine_about_center(x, np.eye(2) / 0.6)),
    (transforms.rotate(25), rotation(25)),
    (transforms.rotate(-140), rotation(-140)),
    (transforms.rotate(180), lambda x: x[::-1, ::-1]),
    (transforms.flip_h(), with_pillow(ImageOps.mirror)),
    (transforms.flip_v(), with_pillow(ImageOps.flip)),
]


TESTED_SEPARATELY = {"noise", "saturation", "salt_and_pepper"}  # covered by separate tests


def random_maps(shape: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(4).standard_normal(shape).astype(np.float32)


def map_each(x: np.ndarray, reference: Callable[[FeatureMap], FeatureMap]) -> np.ndarray:
    """Apply `reference` to each map; a signal (examples, channels, length) is a map of one row."""
    shown = x.reshape((*x.shape[:2], *((1,) * (4 - x.ndim)), *x.shape[2:]))
    found = [[reference(one) for one in example] for example in shown]
    return np.array(found, np.float32).reshape(x.shape)


@pytest.fixture(scope="module", params=VALUE_SHAPES, ids=str)
def session(request: pytest.FixtureRequest) -> Any:
    x = torch.zeros(request.param)
    module = nn.Conv1d if x.ndim == 3 else nn.Conv2d
    net = nn.Sequential(nn.Identity(), module(x.shape[1], 2, 1)).eval()
    with Session(nbglcnn.compile(net, x)) as session:
        yield session


def test_a_transform_is_that_of_other_libraries(session: Session) -> None:
    x = random_maps(session.plan.values[0].shape)
    channels = list(range(0, x.shape[1], 2))
    for transform, reference in REFERENCE_FUNCTIONS:
        whole = map_each(x, reference)
        session.bends.clear()
        session.bend("input", transform)
        session.run(x)
        assert_equal(session.read("input"), whole, name=f"{transform}")
        session.bends.clear()
        session.bend("input", transform, channels=channels, mix=0.25)
        session.run(x)
        some = x.copy()
        some[:, channels] = 0.75 * x[:, channels] + 0.25 * whole[:, channels]
        assert_equal(session.read("input"), some, name=f"a quarter of {transform}")
    assert {
        transform.name for transform, _ in REFERENCE_FUNCTIONS
    } == TRANSFORM_KINDS.keys() - TESTED_SEPARATELY


def test_the_texts_of_transforms_have_their_places_in_the_shader() -> None:
    lines = shader_source("bend.glsl").splitlines()
    assert {word: lines.count(word) for word in SHADER_INSERTS} == dict.fromkeys(SHADER_INSERTS, 1)
    kinds = [f"TRANSFORM == {name.upper()}" for name in TRANSFORM_KINDS]
    assert [one for one in kinds if not any(one in text for text in SHADER_INSERTS.values())] == []


def test_numpy_says_the_same_of_each_example(session: Session) -> None:
    x = random_maps(session.plan.values[0].shape)
    for transform, reference in REFERENCE_FUNCTIONS:
        session.bends.clear()
        session.bend("input", transform)
        found = apply_edits(x, session.plan.values[0].nchw, session.bends.store.edits, {})
        assert_equal(found, map_each(x, reference), name=f"{transform}")


def test_the_ellipse_is_opencvs() -> None:
    for radius, rows in ELLIPSE_ROWS.items():
        assert ellipse_offsets(radius) == [
            tuple(at - radius) for at in np.argwhere(footprint(radius))
        ]
        assert sum(rows) == len(ellipse_offsets(radius))
    cv2 = pytest.importorskip("cv2")
    for radius in range(33):
        size = (2 * radius + 1,) * 2
        reference = np.argwhere(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, size)) - radius
        assert ellipse_offsets(radius) == [tuple(at) for at in reference]


def test_noise_is_normal_of_its_own_for_each_element_and_seed(session: Session) -> None:
    shape = session.plan.values[0].shape
    found = []
    for seed in (0, 1):
        session.bends.clear()
        session.bend("input", transforms.noise(2.0, seed))
        session.run(np.zeros(shape, np.float32))
        found.append(session.read("input").ravel() / 2)
    first, second = found
    assert len(np.unique(first)) == len(first)
    assert not np.isin(first, second).any()
    count = len(first)
    assert abs(first.mean()) < 4 / np.sqrt(count)
    if count > 100:
        assert abs(first.std() - 1) < 4 / np.sqrt(2 * count)
        assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 4 / np.sqrt(count)
    session.bends[0].channels = [0]
    session.run(np.zeros(shape, np.float32))
    assert_equal(session.read("input")[:, 0].ravel() / 2, second.reshape(shape)[:, 0].ravel())


def apply_on_opengl(
    shape: Sequence[int], transform: Transform, x: np.ndarray, channels: list[int] | None = None
) -> np.ndarray:
    """Run the transform on local OpenGL, and check that numpy's result is the same."""
    module = nn.Conv1d if x.ndim == 3 else nn.Conv2d
    net = nn.Sequential(nn.Identity(), module(x.shape[1], 2, 1)).eval()
    with Session(nbglcnn.compile(net, torch.zeros(tuple(shape)))) as session:
        session.bend("input", transform, channels=channels)
        session.run(x)
        found = session.read("input")
        [value] = [one for one in session.plan.values if one.key == "input"]
        assert_equal(apply_edits(x, value.nchw, session.edits, {}), found, name=f"{transform}")
        return found


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_saturation_is_pillows(mode: str) -> None:
    """On all channels and on one; Pillow rounds the grey and the result to 1/255."""
    image = np.random.default_rng(1).integers(60, 190, (7, 6, len(mode)), np.uint8)
    x = np.float32(image.transpose(2, 0, 1)[None] / 255)
    x = np.concatenate([x, x[:, :, ::-1]])
    for factor in (0, 0.4, 1.3):
        picture = Image.fromarray(image)
        assert picture.mode == mode
        pillows = np.asarray(ImageEnhance.Color(picture).enhance(factor)).transpose(2, 0, 1) / 255
        found = apply_on_opengl(x.shape, transforms.saturation(factor), x)
        assert np.abs(found[0] - pillows).max() < 1.5 / 255
        np.testing.assert_array_equal(found[1], found[0, :, ::-1])
        if mode == "RGBA":
            np.testing.assert_array_equal(found[:, 3], x[:, 3])
        one = apply_on_opengl(x.shape, transforms.saturation(factor), x, [1])
        np.testing.assert_array_equal(one[:, 1], found[:, 1])
        np.testing.assert_array_equal(one[:, [0, 2]], x[:, [0, 2]])
    signal = random_maps((2, 3, 9))
    grey = np.tensordot([0.299, 0.587, 0.114], signal.astype(np.float64), ([0], [1]))[:, None]
    greys = np.repeat(grey, 3, 1).astype(np.float32)
    assert_equal(apply_on_opengl((2, 3, 9), transforms.saturation(0), signal), greys)
    assert_equal(apply_on_opengl((2, 3, 9), transforms.saturation(1), signal), signal)


def test_saturation_of_what_is_no_colour_picture_is_refused_by_name() -> None:
    net = nn.Sequential(nn.Conv2d(3, 5, 1)).eval()
    with Session(nbglcnn.compile(net, torch.zeros(1, 3, 4, 4))) as session:
        words = "saturation of 0 mixes red, green and blue.* 3 or 4 channels; this one has 5"
        with pytest.raises(nbglcnn.InputError, match=words):
            session.bend("0", transforms.saturation())
        assert not session.bends
        session.bend("input", transforms.saturation(0.5))


def test_salt_and_pepper_fall_on_the_same_pixels_of_all_channels() -> None:
    shape, share = (2, 5, 41, 63), 0.2
    x = np.full(shape, 0.25, np.float32)
    found = apply_on_opengl(shape, transforms.salt_and_pepper(share, 3), x)
    assert set(np.unique(found)) == {0, 0.25, 1}
    assert (found == found[:, :1]).all(), "the same pixels in all channels"
    first, second = found[:, 0]
    assert (first != second).any(), "other ones in each example"
    assert (apply_on_opengl(shape, transforms.salt_and_pepper(share, 4), x) != found).any()
    np.testing.assert_array_equal(
        apply_on_opengl(shape, transforms.salt_and_pepper(share, 3), x, [1, 3])[:, [1, 3]],
        found[:, [1, 3]],
    )
    pixels = found[:, 0].ravel()
    for value in (0, 1):
        spread = np.sqrt(share / 2 * (1 - share / 2) / len(pixels))
        assert abs((pixels == value).mean() - share / 2) < 4 * spread
    assert (apply_on_opengl(shape, transforms.salt_and_pepper(0), x) == x).all()
    assert set(np.unique(apply_on_opengl(shape, transforms.salt_and_pepper(1), x))) == {0, 1}


def test_brightness_of_pillow_is_multiply() -> None:
    image = np.random.default_rng(1).integers(0, 120, (7, 6), np.uint8)
    x = np.float32(image[None, None] / 255)
    pillows = np.asarray(ImageEnhance.Brightness(Image.fromarray(image)).enhance(1.7)) / 255
    assert (
        np.abs(apply_on_opengl(x.shape, transforms.multiply(1.7), x)[0, 0] - pillows).max()
        < 1.01 / 255
    )


def test_numbers_that_cannot_be_are_refused() -> None:
    for make, words in (
        (lambda: transforms.pixelate(0), "a number ≥ 1"),
        (lambda: transforms.pixelate(257), "a number ≤ 256"),
        (lambda: transforms.pixelate(2.5), "an integer"),
        (lambda: transforms.salt_and_pepper(1.2), "a number ≤ 1"),
        (lambda: transforms.occlude(size=0), "a number ≥ 1"),
        (lambda: transforms.contrast(np.nan), "finite"),
    ):
        with pytest.raises(nbglcnn.InputError, match=words):
            make()


def test_what_is_not_finite_goes_where_the_formula_takes_it() -> None:
    x = np.array([[[[np.nan, 1.0, np.inf, -np.inf]]]], np.float32)
    net = nn.Sequential(nn.Identity(), nn.Conv2d(1, 1, 1)).eval()
    with Session(nbglcnn.compile(net, x)) as session:
        for transform, reference in {
            transforms.ablate: [0, 0, 0, 0],
            transforms.invert: [np.nan, 0, -np.inf, np.inf],
            transforms.flip_h: [-np.inf, np.inf, 1, np.nan],
            transforms.clamp: [np.nan, 1, 1, 0],
            transforms.threshold: [0, 1, 1, 0],
        }.items():
            session.bends.clear()
            session.bend("input", transform())
            session.run(x)
            assert_equal(session.read("input").ravel(), np.array(reference, np.float32))
