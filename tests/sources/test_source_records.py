"""Sources as records: their arguments, dataset items, videos, and bit-exact noise."""

import json
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

import nbglcnn
from nbglcnn import Drawing, Images, InputError, Latent, Noise, Video, Webcam
from nbglcnn.features.sources import input_source, items, records, video
from nbglcnn.features.sources.blocks import MAX_CACHED_BLOCKS, DatasetBlocks
from nbglcnn.features.sources.picture import Picture
from nbglcnn.features.sources.source_kinds import SOURCE_KINDS, Source
from nbglcnn.plan.schema import DERIVED_KEY_SEPARATOR, Input
from nbglcnn.widget.reader import BEFORE_EDITS_PREFIX
from source_references import reference_noise

RANDOM = np.random.default_rng(21)
MP4_BYTES = b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41" + bytes(100)
WEBM_BYTES = (
    b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webm" + bytes(9)
)


def make_input(*shape: int, fit: str = "crop", share: float = 1.0) -> Input:
    """The record of an input of this shape."""
    return msgspec.structs.replace(default_input(), shape=shape, fit=fit, crop_fraction=share)


@cache
def default_input() -> Input:
    return nbglcnn.compile(torch.nn.ReLU(), np.zeros((1, 3, 4, 5), "f4")).inputs[0]


def join_blocks(blocks: DatasetBlocks) -> np.ndarray:
    """All items, joined from blocks as in a page."""
    fields = blocks.record_fields()
    parts = [
        blocks.blob(f"{fields['data']}.{k}")
        for k in range(-(-fields["count"] // fields["block_size"]))
    ]
    assert all(
        part is not None and part.nbytes <= max(records.BLOCK_BYTES, blocks.item_bytes)
        for part in parts
    )
    assert [f"{fields['data']}.{k}" for k in range(len(parts))] == list(blocks.blob_names())[
        : len(parts)
    ]
    whole = np.concatenate(
        [np.frombuffer(part, fields["dtype"]) for part in parts if part is not None]
    )
    return whole.reshape(fields["count"], *blocks.shape)


class CountingDataset(Dataset[Any]):
    """Pictures with labels; records the requested items."""

    def __init__(self, pictures: Any, labels: Any = None) -> None:
        self.pictures, self.item_labels = pictures, labels
        self.requested: list[int] = []

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Any:
        self.requested.append(index)
        found = self.pictures[index]
        return found if self.item_labels is None else (found, self.item_labels[index])


# Records


def test_records_say_what_they_are_and_are_not_changed_in_place() -> None:
    assert repr(Webcam()) == "Webcam()"
    assert (
        repr(Webcam("environment", mirrored=False)) == "Webcam(faces='environment', mirrored=False)"
    )
    assert repr(Noise(3, std=0.5)) == "Noise(seed=3, std=0.5)"
    assert repr(Noise(input="noise")) == "Noise(input='noise')"
    assert repr(Drawing()) == "Drawing()" and repr(Picture("a.png")) == "Picture(title='a.png')"
    assert Webcam() == Webcam() and Webcam() != Webcam(playing=False)
    with pytest.raises(AttributeError):
        Webcam().mirrored = False  # type: ignore[misc]
    images = Images(np.zeros((12, 5, 4), np.uint8), np.arange(12) % 3, ["a", "b", "c"], rate=4)
    assert repr(images) == "Images(12 items of 5×4 uint8, labels of 3 classes, index=0, rate=4.0)"
    assert repr(Images(np.zeros((1, 3, 5, 4), "f8"))) == "Images(1 item of 3×5×4 float64, index=0)"
    assert repr(Video(MP4_BYTES, title="a.mp4")) == "Video('a.mp4', 0.0 MiB of video/mp4)"


def test_each_kind_of_source_is_a_record_and_a_class_of_that_name() -> None:
    assert [records.kind_of(record) for record in get_args(Source)] == list(SOURCE_KINDS)
    for name, kind in SOURCE_KINDS.items():
        record = kind.record_type(input="x")
        sent = msgspec.to_builtins(record)
        assert list(sent)[:3] == ["kind", "input", "owner"] and sent["kind"] == name
        assert msgspec.convert(sent, Source) == record  # type: ignore[arg-type]
        if kind.pages_can_start:
            assert kind.from_record(record).to_record("x") == record, "a page may begin it"


def test_a_record_with_a_field_of_another_kind_is_refused() -> None:
    for kind, field in (("noise", "faces"), ("webcam", "seed"), ("drawing", "data")):
        with pytest.raises(msgspec.ValidationError, match=f"unknown field `{field}`"):
            msgspec.convert({"kind": kind, "input": "x", field: ""}, Source)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Webcam("front"), r"Webcam: faces='front'; expected \"user\" or \"environment\""),
        (lambda: Webcam(mirrored=1), "Webcam: mirrored=1; expected True or False"),
        (lambda: Noise(-1), "Noise: seed=-1; expected an integer from 0 to 2147483648"),
        (lambda: Noise(1.5), "Noise: seed=1.5; expected an integer"),
        (lambda: Noise(True), "Noise: seed=True; expected an integer"),
        (lambda: Noise(std=-1), "Noise: std=-1.0; expected a number ≥ 0"),
        (lambda: Noise(mean=np.nan), "Noise: mean=nan; expected a finite number"),
        (lambda: Noise(mean="1"), "Noise: mean='1'; expected a finite number"),
        (lambda: Images(np.zeros((2, 3), "u1")), r"shape \(2, 3\); .* give array\[None\]"),
        (lambda: Images(np.zeros((0, 4, 4), "u1")), "with at least one item"),
        (
            lambda: Images(np.zeros((2, 3, 4), "i8")),
            r"dtype int64; expected uint8 .*astype\('uint8'\)",
        ),
        (lambda: Images([]), "an empty list"),
        (lambda: Images([1, 2]), "item 0 is int; give an array of uint8"),
        (lambda: Images(7), "Images: int was given; give an array"),
        (lambda: Images({"a": 1}), "Images: dict was given"),
        (lambda: Images(Image.new("L", (3, 3))), "one PIL image .* a list of images"),
        (lambda: Images("https://example.org/a.zip"), "is a URL, which nbglcnn does not download"),
        (lambda: Images(["a.png", "http://example.org/b.png"]), "does not download"),
        (lambda: Images("no/such/folder"), "folder not found: no/such/folder"),
        (lambda: Images(__file__), r"test_source_records.py is a file; give its folder"),
        (lambda: Images(iter([1])), "has no length"),
        (lambda: Images(np.zeros((3, 4, 4), "u1"), [0, 1]), "2 labels were given for 3 items"),
        (lambda: Images(np.zeros((2, 4, 4), "u1"), [0, 0.5]), r"labels\[1\] is 0.5; expected int"),
        (lambda: Images(np.zeros((2, 4, 4), "u1"), [0, -2]), r"labels\[1\] is -2"),
        (lambda: Images(np.zeros((2, 4, 4), "u1"), "ab"), "labels is str; expected a list"),
        (lambda: Images(np.zeros((2, 4, 4), "u1"), [0, 2], ["a", "b"]),
         r"labels\[1\] is 2; there are 2 classes"),
        (lambda: Images(np.zeros((2, 4, 4), "u1"), index=2), "index=2; there are 2 items, counted"),
        (lambda: Images(np.zeros((2, 4, 4), "u1")).at(-3), r"at\(-3\); there are 2 items, counted"),
        (lambda: Images(np.zeros((2, 4, 4), "u1")).at(2), r"at\(2\); there are 2 items, counted"),
        (lambda: Images(np.zeros((2, 4, 4), "u1")).at("a"), r"at\('a'\); there are 2 items"),
        (lambda: Images(np.zeros((2, 4, 4), "u1"), rate=0), "rate=0; expected more than 0"),
        (lambda: Images([Image.new("L", (3, 3)), np.zeros((1, 3, 3), "f4")]),
         "item 1 has floats, item 0 is a picture"),
        (lambda: Video("https://example.org/a.mp4"), "is a URL, which nbglcnn does not download"),
        (lambda: Video("no.mp4"), "no.mp4 does not exist"),
        (lambda: Video(b"\x89PNG\r\n\x1a\n" + bytes(20)),
         "begins with 89 50 4e 47 0d 0a 1a 0a; expected a video"),
        (lambda: Video(b""), "is empty; expected a video"),
        (lambda: Video(3), "int was given; expected the path of a video file"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named_with_what_is_needed(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


# Noise


@pytest.mark.parametrize("source", [Noise(), Noise(1), Noise(2**31, -3.7, 1e-3), Noise(9, 0, 1)])
def test_noise_is_its_formula_to_the_bit(source: Noise) -> None:
    record = make_input(1, 3, 7, 5)
    found = source.current_input_array(record, None)
    assert found.dtype == np.float32 and found.shape == (1, 3, 7, 5)
    expected = reference_noise(105, source.seed, source.mean, source.std)
    np.testing.assert_array_equal(found.ravel().view(np.uint32), expected.view(np.uint32))


def test_noise_is_nearly_normal_and_another_for_each_seed() -> None:
    record = make_input(1, 3, 100, 100)
    first, second = (Noise(seed).current_input_array(record, None).ravel() for seed in (0, 1))
    for found in (first, second):
        assert abs(found.mean() - 0.5) < 0.01 and abs(found.std() - 0.25) < 0.01
        assert 0.94 < ((found > 0) & (found < 1)).mean() < 0.97
        within = (np.abs(found - 0.5) < 0.25).mean()
        assert 0.67 < within < 0.70
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02


# Arrays


@pytest.mark.parametrize("dtype", ["u1", "f4", "f2", "f8"])
@pytest.mark.parametrize("layout", ["hw", "chw", "hwc"])
def test_arrays_of_the_inputs_shape_travel_as_they_are(layout: str, dtype: str) -> None:
    channels = 1 if layout == "hw" else 3
    own = RANDOM.integers(0, 256, (1500, channels, 28, 26)).astype(dtype)
    if dtype != "u1":
        own = (own / 7 - 3).astype(dtype)
        own[3, 0, 1, 1:3] = np.nan, -np.inf
    array = {"hw": own[:, 0], "chw": own, "hwc": own.transpose(0, 2, 3, 1)}[layout]
    images = Images(array)
    blocks = images.open_blobs(make_input(1, channels, 28, 26))
    found = join_blocks(blocks)
    whole = own if dtype == "u1" else own.astype(np.float32)
    assert found.dtype == whole.dtype and blocks.record_fields()["block_size"] < 1500
    np.testing.assert_array_equal(found, whole)
    tensor = images.at(3).current_input_array(blocks.model_input, blocks)
    np.testing.assert_array_equal(tensor, whole[3:4].astype("f4") / (255 if dtype == "u1" else 1))
    assert tensor.dtype == np.float32 and tensor.flags.c_contiguous


def test_a_tensor_is_as_good_as_an_array() -> None:
    tensor = torch.rand(5, 3, 6, 7, dtype=torch.bfloat16)
    found = join_blocks(Images(tensor).open_blobs(make_input(1, 3, 6, 7)))
    np.testing.assert_array_equal(found, tensor.float().numpy())


def test_sixty_thousand_pictures_are_47_megabytes_and_not_copied() -> None:
    array = np.zeros((60_000, 28, 28), np.uint8)
    blocks = Images(array).open_blobs(make_input(1, 1, 28, 28))
    assert blocks.nbytes == 60_000 * 784 < 60 * 2**20
    for k in (0, 1, 44):
        part = blocks.blob(f"{blocks.name}.{k}")
        assert part is not None and np.shares_memory(np.frombuffer(part, np.uint8), array)
    assert blocks.blob(f"{blocks.name}.45") is None
    for wrong in (
        "",
        blocks.name,
        "other.0",
        f"{blocks.name}.-1",
        f"{blocks.name}.x",
        f"{blocks.name}.labels",
        f"{blocks.name}.²",
    ):
        assert blocks.blob(wrong) is None


def test_floats_of_another_shape_are_refused_and_channels_that_no_picture_has() -> None:
    for shape, said in (
        ((4, 1, 10, 10), "1×10×10"),
        ((4, 20, 20), "20×20"),
        ((4, 3, 10, 9), "3×10×9"),
    ):
        with pytest.raises(InputError, match=rf"floats of {said}; .* input's shape \(3, 10, 10\)"):
            Images(np.zeros(shape, "f4")).open_blobs(make_input(1, 3, 10, 10))
    five = RANDOM.integers(0, 256, (3, 5, 6, 7), np.uint8)
    np.testing.assert_array_equal(
        join_blocks(Images(five).open_blobs(make_input(1, 5, 6, 7, fit=""))), five
    )
    with pytest.raises(InputError, match="uint8 of 5×6×7; a picture has 1, 3 or 4 channels"):
        Images(five).open_blobs(make_input(1, 3, 4, 4))
    with pytest.raises(InputError, match="the input input has 5 channels"):
        Images(five[:, :3]).current_input_array(make_input(1, 5, 6, 7, fit=""), None)


# Pictures of other sizes, compared with Pillow


def random_picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    channels = len(mode)
    shape = (height, width) if channels == 1 else (height, width, channels)
    return Image.fromarray(RANDOM.integers(0, 256, shape, np.uint8))


Box = tuple[float, float, float, float]


def resize_rows_first(
    picture: Image.Image, size: tuple[int, int], box: Box | None = None
) -> Image.Image:
    """Resample rows first, as pages do; Pillow ≥ 13 takes columns first if that is less work.

    Pillow's own result differs by one step at most.
    """
    bilinear = Image.Resampling.BILINEAR
    left, top, right, bottom = box or (0, 0, *picture.size)
    narrow = picture.resize((size[0], picture.height), bilinear, (left, 0, right, picture.height))
    found = narrow.resize(size, bilinear, (0, top, size[0], bottom))
    apart = np.asarray(found).astype(int) - np.asarray(picture.resize(size, bilinear, box))
    assert np.abs(apart).max() <= 1
    return found


def test_a_picture_is_cut_set_in_black_or_stretched_as_pillow_does() -> None:
    wide, tall = random_picture(40, 20), random_picture(16, 48)
    black = Image.new("RGB", (10, 10))
    boxed = black.copy()
    boxed.paste(resize_rows_first(wide, (10, 5)), (0, 2))
    tall_boxed = black.copy()
    tall_boxed.paste(resize_rows_first(tall, (3, 10)), (4, 0))  # as ImageOps.pad rounds 3.5
    expected = {
        ("crop", 1.0): (resize_rows_first(wide, (10, 10), (10, 0, 30, 20)),
                        resize_rows_first(tall, (10, 10), (0, 16, 16, 32))),
        ("crop", 0.5): (resize_rows_first(wide, (10, 10), (15, 5, 25, 15)),
                        resize_rows_first(tall, (10, 10), (4, 20, 12, 28))),
        ("stretch", 1.0): (resize_rows_first(wide, (10, 10)), resize_rows_first(tall, (10, 10))),
        ("letterbox", 1.0): (boxed, tall_boxed),
    }  # fmt: skip
    for (fit, share), pictures in expected.items():
        record = make_input(1, 3, 10, 10, fit=fit, share=share)
        found = join_blocks(Images([wide, tall]).open_blobs(record))
        for one, other in zip(found, pictures, strict=True):
            np.testing.assert_array_equal(one, np.asarray(other).transpose(2, 0, 1), err_msg=fit)


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("RGBA", 4)])
def test_pictures_get_the_inputs_channels(mode: str, channels: int) -> None:
    pictures = [random_picture(6, 6, own) for own in ("L", "RGB", "RGBA")]
    palette = pictures[1].quantize(16)
    found = join_blocks(Images([*pictures, palette]).open_blobs(make_input(1, channels, 6, 6)))
    for one, picture in zip(found, [*pictures, palette], strict=True):
        if picture.mode == "RGBA" and channels < 4:
            black = Image.new("RGBA", picture.size, "black")
            picture = Image.alpha_composite(black, picture).convert("RGB")
        if picture.mode == "RGBA":  # colours are only as precise as alpha
            picture = picture.convert("RGBa").convert("RGBA")
        expected = np.asarray(picture.convert(mode)).reshape(6, 6, channels).transpose(2, 0, 1)
        np.testing.assert_array_equal(one, expected)
    arrays = Images([np.asarray(picture) for picture in pictures]).open_blobs(
        make_input(1, channels, 6, 6)
    )
    np.testing.assert_array_equal(join_blocks(arrays)[:2], found[:2])
    # An array of the input's shape is fed unchanged.
    own = np.asarray(pictures[2]).transpose(2, 0, 1) if channels == 4 else found[2]
    np.testing.assert_array_equal(join_blocks(arrays)[2], own)


def test_pictures_of_16_bits_and_of_floats_keep_their_greys() -> None:
    deep = Image.fromarray(np.array([[0, 1000, 65535]], np.uint16))
    floats = Image.fromarray(np.array([[0, 0.5, 2]], np.float32))
    found = join_blocks(Images([deep, floats]).open_blobs(make_input(1, 1, 1, 3)))
    wanted = np.array([[0, 1000 / 65535, 1], [0, 0.5, 2]], np.float32)
    np.testing.assert_array_equal(found.reshape(2, 3), wanted)


# Folders


@pytest.fixture
def class_folder(tmp_path: Path) -> Path:
    """Three classes, one of them empty, with files that are no pictures and a Jupyter folder."""
    root = tmp_path / "animals"
    for name, count in (("dog", 3), ("cat", 2), ("Eel", 0), (".ipynb_checkpoints", 1)):
        (root / name).mkdir(parents=True)
        for k in range(count):
            random_picture(9 + k, 8).save(root / name / f"{10 - k}.png")
    (root / "cat" / "deep").mkdir()
    random_picture(8, 8).save(root / "cat" / "deep" / "1.BMP")
    (root / "dog" / "notes.txt").write_text("no picture")
    (root / "dog" / ".hidden.png").write_text("")
    random_picture(8, 8).save(root / "outside.png")
    return root


def test_a_folder_of_folders_has_classes_as_image_folder_counts_them(class_folder: Path) -> None:
    images = Images(class_folder)
    blocks = images.open_blobs(make_input(1, 3, 8, 8))
    fields = blocks.record_fields()
    assert json.loads(bytes(blocks.blob(fields["classes"]))) == ["Eel", "cat", "dog"]
    assert json.loads(bytes(blocks.blob(fields["labels"]))) == [1, 1, 1, 2, 2, 2]
    assert images.title == "animals" and repr(images).startswith(
        f"Images(6 items in {class_folder}, lab"
    )
    assert images.labels == (1, 1, 1, 2, 2, 2) and images.classes == ("Eel", "cat", "dog")
    assert images.at(2).image_set is images.image_set and images.at(2).labels is images.labels
    other = replace(images, data=np.zeros((2, 4, 4), "u1"))
    assert other.labels is None and other.classes is None
    assert replace(images, labels=[0] * 6).classes == ("Eel", "cat", "dog")
    files = ["cat/10.png", "cat/9.png", "cat/deep/1.BMP", "dog/10.png", "dog/8.png", "dog/9.png"]
    expected = [np.asarray(Image.open(class_folder / one).convert("RGB")) for one in files]
    found = join_blocks(blocks)
    for one, picture, file in zip(found, expected, files, strict=True):
        if picture.shape == (8, 8, 3):
            np.testing.assert_array_equal(one, picture.transpose(2, 0, 1), err_msg=file)
        else:  # 9 or 10 wide: centred
            left = (picture.shape[1] - 8) / 2
            cut = Image.fromarray(picture).resize(
                (8, 8), Image.Resampling.BILINEAR, (left, 0, left + 8, 8)
            )
            np.testing.assert_array_equal(one, np.asarray(cut).transpose(2, 0, 1), err_msg=file)
    assert [images.image_set.items.item_name(k) for k in range(6)] == files


def test_a_flat_folder_is_in_the_order_of_names_and_has_no_labels(tmp_path: Path) -> None:
    for name in ("b.png", "a.jpg", "c.webp", "readme.md"):
        if name.endswith("md"):
            (tmp_path / name).write_text("x")
        else:
            random_picture(8, 8).save(tmp_path / name)
    images = Images(str(tmp_path))
    assert [images.image_set.items.item_name(k) for k in range(3)] == ["a.jpg", "b.png", "c.webp"]
    assert len(images) == 3 and images.image_set.labels is None
    listed = Images([tmp_path / "c.webp", str(tmp_path / "b.png")])
    np.testing.assert_array_equal(
        join_blocks(listed.open_blobs(make_input(1, 3, 8, 8))),
        join_blocks(images.open_blobs(make_input(1, 3, 8, 8)))[[2, 1]],
    )
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no pictures in .*empty .*\.jpg, \.jpeg"):
        Images(tmp_path / "empty")


def test_a_photograph_lies_as_its_camera_said(tmp_path: Path) -> None:
    picture = random_picture(8, 6)
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees
    picture.save(tmp_path / "a.png", exif=exif)
    [found] = join_blocks(Images(tmp_path).open_blobs(make_input(1, 3, 8, 6)))
    turned = np.rot90(np.asarray(picture), -1)
    np.testing.assert_array_equal(found, turned.transpose(2, 0, 1))


def test_a_damaged_file_is_named_when_it_is_met_and_the_others_stay(
    class_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = (class_folder / "cat" / "10.png").read_bytes()
    (class_folder / "cat" / "10.png").write_bytes(whole[:60])
    images, record = Images(class_folder), make_input(1, 3, 8, 8)
    blocks = images.open_blobs(record)
    with caplog.at_level(logging.WARNING, "nbglcnn"):
        found, again = join_blocks(blocks), join_blocks(blocks)
        blocks._block_cache.clear()  # recomputed, as after requests for other blocks
        join_blocks(blocks)
    assert not found[0].any() and all(one.any() for one in found[1:])
    np.testing.assert_array_equal(found, again)
    assert [
        r.getMessage().startswith("nbglcnn: Images: cat/10.png is not available (")
        for r in caplog.records
    ] == [True]
    with pytest.raises(InputError, match=r"Images: cat/10.png is not available \("):
        images.current_input_array(record, blocks)
    assert images.at(1).current_input_array(record, blocks).any()


# Datasets


def test_a_dataset_is_asked_for_what_is_looked_at_and_no_more() -> None:
    pictures = [random_picture(256, 256) for _ in range(MAX_CACHED_BLOCKS + 3)] * 4
    data = CountingDataset(pictures, list(range(len(pictures))))
    images = Images(data)
    assert data.requested == [0]  # to inspect an item
    blocks = images.open_blobs(make_input(1, 3, 256, 256))
    assert blocks.items_per_block == 5 and data.requested == [0]
    blocks.input_array(17)
    assert data.requested == [0, 17]
    data.requested.clear()
    blocks.blob(f"{blocks.name}.1")
    assert data.requested == [5, 6, 7, 8, 9]
    blocks.blob(f"{blocks.name}.1")
    blocks.input_array(6)
    assert data.requested == [5, 6, 7, 8, 9]  # cached, to resend lost chunks
    for k in (0, 2, 3, 4):
        blocks.blob(f"{blocks.name}.{k}")
    data.requested.clear()
    assert len(blocks._block_cache) == MAX_CACHED_BLOCKS
    blocks.blob(f"{blocks.name}.1")
    assert data.requested == [5, 6, 7, 8, 9]  # evicted: only a few blocks stay in memory
    data.requested.clear()
    blocks.blob(f"{blocks.name}.5")
    assert data.requested == [25, 26, 27]  # the last block ends with the dataset


def test_items_may_be_pictures_tensors_and_arrays_of_the_inputs_shape() -> None:
    floats = torch.rand(4, 1, 5, 6)
    np.testing.assert_array_equal(
        join_blocks(Images(CountingDataset(floats)).open_blobs(make_input(1, 1, 5, 6))),
        floats.numpy(),
    )
    flat = Images(CountingDataset(floats[:, 0].numpy().astype("f8")))
    np.testing.assert_array_equal(
        join_blocks(flat.open_blobs(make_input(1, 1, 5, 6))), floats.numpy()
    )
    pictures = [random_picture(6, 5, "L") for _ in range(3)]
    mixed = Images(CountingDataset([floats[0], *pictures[:1], np.asarray(pictures[1])]))
    found = join_blocks(mixed.open_blobs(make_input(1, 1, 5, 6)))
    assert found.dtype == np.float32
    for one, picture in zip(found[1:], pictures, strict=False):
        np.testing.assert_array_equal(one[0], np.asarray(picture, np.float32) / np.float32(255))
    with pytest.raises(
        InputError, match=r"item 1 of CountingDataset: floats of 1×5×5; .* input's shape"
    ):
        Images(CountingDataset([floats[0], floats[1, :, :, :5]])).at(1).current_input_array(
            make_input(1, 1, 5, 6), None
        )
    with pytest.raises(
        InputError, match="item 1 of CountingDataset has floats, but the first item is a"
    ):
        Images(CountingDataset([pictures[0], floats[1]])).at(1).current_input_array(
            make_input(1, 1, 5, 6), None
        )


def test_an_error_of_the_datasets_own_code_names_its_item() -> None:
    class Broken(CountingDataset):
        def __getitem__(self, index: int) -> Any:
            if index == 2:
                raise RuntimeError("no such patient")
            return super().__getitem__(index)

    images = Images(Broken([random_picture(4, 4)] * 4))
    with pytest.raises(InputError, match=r"item 2 of Broken is not available \(RuntimeError: no"):
        images.at(2).current_input_array(make_input(1, 3, 4, 4), None)
    found = join_blocks(images.open_blobs(make_input(1, 3, 4, 4)))
    assert [bool(one.any()) for one in found] == [True, True, False, True]


@pytest.mark.parametrize("count", [items.MAX_LABEL_READS, items.MAX_LABEL_READS + 1])
def test_labels_of_items_alone_are_read_of_so_many_items_and_no_more(count: int) -> None:
    numbers = [k % 7 for k in range(count)]
    blocks = Images(CountingDataset([random_picture(4, 4)] * count, numbers)).open_blobs(
        make_input(1, 3, 4, 4)
    )
    name = blocks.record_fields()["labels"]
    assert bool(name) == (count == items.MAX_LABEL_READS)
    if name:
        assert json.loads(bytes(blocks.blob(name))) == numbers


def test_labels_come_from_where_a_dataset_has_them() -> None:
    pictures, record = [random_picture(4, 4)] * 5, make_input(1, 3, 4, 4)

    def told(data: Any, **given: Any) -> tuple[Any, Any]:
        blocks = Images(data, **given).open_blobs(record)
        names = blocks.record_fields()
        return tuple(
            json.loads(bytes(blocks.blob(names[name]))) if names[name] else None
            for name in ("labels", "classes")
        )  # type: ignore[return-value]

    data = CountingDataset(pictures)
    assert told(data) == (None, None)
    data.targets, data.classes = torch.tensor([4, 3, 2, 1, 0]), list("abcde")  # type: ignore[attr-defined]
    assert told(data) == ([4, 3, 2, 1, 0], list("abcde"))
    data.requested.clear()
    subset: Any = Subset(data, [3, 1])
    assert told(subset) == ([1, 3], list("abcde")) and data.requested == [3]
    assert told(data, labels=np.array([0, 0, 1, 1, -1], np.int32), classes=["x", "y"]) == (
        [0, 0, 1, 1, -1],
        ["x", "y"],
    )
    x = torch.randint(0, 256, (5, 3, 4, 4), dtype=torch.uint8)
    assert told(TensorDataset(x, torch.arange(5))) == ([0, 1, 2, 3, 4], None)
    assert told(TensorDataset(x, torch.rand(5)))[0] == [-1] * 5  # regression: no labels
    pairs = CountingDataset(pictures, [torch.tensor(2), 1, np.int64(0), "?", 1])
    assert told(pairs) == ([2, 1, 0, -1, 1], None)
    many = CountingDataset(
        pictures * (1 + items.MAX_LABEL_READS // 5), [0] * (5 + items.MAX_LABEL_READS)
    )
    assert told(many) == (None, None) and many.requested == [0]


def test_what_has_no_length_or_makes_batches_is_refused_with_what_to_give() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            yield torch.zeros(3, 4, 4)

    for data, words in (
        (Stream(), "Stream has no length, so its items have no index"),
        (
            torch.utils.data.DataLoader(CountingDataset([random_picture(4, 4)])),
            "DataLoader yields batches; give its .dataset",
        ),
        (CountingDataset(["a"]), "item 0 of CountingDataset is str; expected a PIL image"),
        (CountingDataset([]), "CountingDataset has no item"),
    ):
        with pytest.raises(InputError, match=words):
            Images(data)


def test_another_item_or_setting_opens_nothing_again(class_folder: Path) -> None:
    images = Images(class_folder)
    (class_folder / "cat" / "11.png").write_bytes(b"")  # added later
    for other in (
        images.at(4),
        images.at(-1),
        replace(images, playing=True),
        replace(images.at(2), rate=9),
    ):
        assert other.image_set is images.image_set and len(other) == 6
    assert images.at(-1).index == 5 and replace(images, index=0) == images != images.at(1)
    assert images.at(3).open_blobs(
        make_input(1, 3, 8, 8), images.open_blobs(make_input(1, 3, 9, 8))
    ).shape == (
        3,
        8,
        8,
    )
    blocks = images.open_blobs(make_input(1, 3, 8, 8))
    assert images.at(3).open_blobs(make_input(1, 3, 8, 8), blocks) is blocks
    fresh = Images(class_folder)
    assert len(fresh) == 7 and fresh.open_blobs(make_input(1, 3, 8, 8), blocks) is not blocks
    labelled = replace(images, labels=[0] * 6)
    assert len(labelled) == 6 and labelled != images
    assert labelled.open_blobs(make_input(1, 3, 8, 8), blocks) is not blocks


# Videos


def test_a_film_is_told_by_its_bytes_and_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content, mime in (
        (MP4_BYTES, "video/mp4"), (WEBM_BYTES, "video/webm"), (b"OggS" + bytes(20), "video/ogg"),
        (b"\0\0\0\x14ftypqt  " + bytes(20), "video/quicktime"),
        (b"\x1aE\xdf\xa3" + bytes(60), "video/x-matroska"),
    ):  # fmt: skip
        assert Video(content).mime == mime
    path = tmp_path / "film.mp4"
    path.write_bytes(MP4_BYTES)
    film = Video(path, mirrored=True)
    path.unlink()
    other = replace(film, playing=False)
    assert film.title == "film.mp4" and repr(other).endswith(", playing=False)")
    blobs = other.open_blobs(make_input(1, 3, 4, 4))
    assert blobs is film.open_blobs(make_input(1, 3, 4, 4)) and blobs is not None
    assert (
        bytes(blobs.blob(blobs.record_fields()["data"])) == MP4_BYTES
        and blobs.blob("other") is None
    )  # type: ignore[arg-type]
    assert list(blobs.blob_names()) == [blobs.record_fields()["data"]] and blobs.nbytes == len(
        MP4_BYTES
    )
    assert video.MAX_VIDEO_BYTES == 256 * 2**20
    monkeypatch.setattr(video, "MAX_VIDEO_BYTES", 100)
    path.write_bytes(MP4_BYTES)
    with pytest.raises(InputError, match=r"film.mp4 has 0 MiB; at most 0 MiB are supported"):
        Video(path)


def test_the_input_that_a_source_feeds_is_the_first_that_takes_it() -> None:
    picture, plain = make_input(1, 3, 4, 4), make_input(1, 10, fit="")
    plain = msgspec.structs.replace(plain, key="code")
    whole = msgspec.structs.replace(plain, key="tokens", dtype="int64")
    inputs = (whole, plain, picture)
    for source, key in ((Webcam(), "input"), (Noise(), "input"), (Noise(input="code"), "code")):
        assert input_source.find_input(source, inputs).key == key
    assert input_source.find_input(Noise(), (whole, plain)).key == "code"
    with pytest.raises(
        InputError,
        match=r"Webcam needs an input that takes pictures: .*tokens is int64 of \(1, 10\), code is",
    ):
        input_source.find_input(Webcam(), (whole, plain))
    with pytest.raises(
        InputError, match=r"no input 'cod' \(near: code\); the network takes tokens, code, input"
    ):
        input_source.find_input(Noise(input="cod"), inputs)
    with pytest.raises(
        InputError, match="Noise needs an input that takes float32; tokens is int64"
    ):
        input_source.find_input(Noise(input="tokens"), inputs)


def test_pages_name_values_before_their_edits_as_python_does() -> None:
    text = (Path(__file__).parents[2] / "js/src/plan/derived_values.ts").read_text("utf-8")
    assert "`${kind}${DERIVED_KEY_SEPARATOR}${key}`" in text and 'deriveKey("before", key)' in text
    assert f"before{DERIVED_KEY_SEPARATOR}" == BEFORE_EDITS_PREFIX


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Noise(), "input mean owner seed std"),
        (
            Images(np.zeros((3, 4, 4), np.uint8)),
            "at classes data index input labels owner playing rate seed shuffled title",
        ),
        (
            Latent("encoder.2"),
            "classes code codes data input items known labels layer owner with_code",
        ),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else "",
)
def test_a_notebook_completes_what_is_for_people(source: object, words: str) -> None:
    assert dir(source) == words.split()
    assert {*dir(source)} <= {*object.__dir__(source)}


@pytest.mark.parametrize(
    ("make", "right", "wrong"),
    [
        (lambda n: Noise(seed=n), (0, 2**31), (-1, 2**31 + 1, True, 1.5)),
        (lambda n: Noise(std=n), (0, 2.5), (-1e-9, math.nan, math.inf, "1")),
        (lambda n: Images(np.zeros((3, 2, 2), np.uint8), rate=n), (1e-3, 1000),
         (0, -1, 1000.001, math.nan)),
        (lambda n: Images(np.zeros((3, 2, 2), np.uint8), index=n), (0, 2), (-1, 3)),
        (lambda n: Images(np.zeros((3, 2, 2), np.uint8)).at(n), (-3, 2), (-4, 3)),
        (lambda n: Images(np.zeros((3, 2, 2), np.uint8), labels=[0, 1, n]), (-1, 2**31 - 1),
         (-2, 2**31, True, 0.5)),
    ],
    ids=["seed", "std", "rate", "index", "at", "label"],
)  # fmt: skip
def test_a_number_of_a_source_is_taken_at_its_bounds_and_not_beyond(
    make: Callable[[Any], Any], right: tuple[Any, ...], wrong: tuple[Any, ...]
) -> None:
    for number in right:
        make(number)
    for number in wrong:
        with pytest.raises(InputError):
            make(number)


def test_a_block_has_as_many_items_as_fit_and_one_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = make_input(1, 1, 4, 4)
    for size, block in ((16, 1), (15, 1), (31, 1), (32, 2), (1, 1)):
        monkeypatch.setattr("nbglcnn.features.sources.blocks.BLOCK_BYTES", size)
        assert Images(np.zeros((5, 4, 4), np.uint8)).open_blobs(record).items_per_block == block
    monkeypatch.setattr("nbglcnn.features.sources.blocks.BLOCK_BYTES", 2 * 64)
    floats = Images(np.zeros((5, 4, 4), np.float64)).open_blobs(record)
    assert (floats.items_per_block, floats.item_bytes) == (2, 64), (
        "of four bytes each, as they travel"
    )
    assert [len(bytes(floats.blob(name) or b"")) for name in floats.blob_names()] == [128, 128, 64]
    assert floats.blob(f"{floats.name}.3") is None


@pytest.mark.parametrize("kind", [np.uint8, np.float16, np.float32, np.float64])
def test_an_item_of_any_numbers_is_the_same_whether_its_block_is_made_or_not(kind: Any) -> None:
    array = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 6), np.uint8)
    array[:, 1] //= 16  # channels differ in range
    given = array if kind == np.uint8 else (array / 255).astype(kind)
    expected = (array / np.float32(255)) if kind == np.uint8 else given.astype(np.float32)
    record = make_input(2, 3, 4, 6)
    for data in (given, list(given)):
        blocks = Images(data).open_blobs(record)
        for index in (0, 4, 2):
            found = blocks.input_array(index)
            assert found.shape == (2, 3, 4, 6) and found.dtype == np.float32
            for example in found:
                np.testing.assert_array_equal(example, expected[index])
            block = blocks.blob(f"{blocks.name}.0")
            assert block is not None and len(bytes(block)) == 5 * blocks.item_bytes
            assert blocks.item(index).nbytes == blocks.item_bytes
        found[:] = 0  # a copy
        np.testing.assert_array_equal(blocks.input_array(2)[0], expected[2])


def test_blocks_that_were_made_are_kept_until_four_others_were() -> None:
    pictures = [random_picture(256, 256) for _ in range(6)] * 4
    made = CountingDataset(pictures, [0] * len(pictures))
    blocks = Images(made).open_blobs(make_input(1, 3, 256, 256))
    assert (MAX_CACHED_BLOCKS, blocks.items_per_block) == (4, 5)

    def asked(block: int) -> bool:
        before = len(made.requested)
        blocks.blob(f"{blocks.name}.{block}")
        return len(made.requested) > before

    assert [asked(k) for k in (0, 1, 2, 3, 0)] == [True] * 4 + [False]
    assert asked(4), "the fifth takes the place of the one that was used longest ago"
    assert not asked(0)
    assert asked(1)


def test_blocks_serve_another_source_of_the_same_set_and_input_alone() -> None:
    images = Images(np.zeros((4, 3, 8, 8), np.uint8), labels=[0, 1, 0, 1])
    record = make_input(1, 3, 8, 8)
    blocks = images.open_blobs(record)
    assert images.at(2).open_blobs(record, blocks) is blocks
    assert replace(images, playing=True).open_blobs(record, blocks) is blocks
    others = [
        (images, make_input(1, 3, 9, 8)),
        (replace(images, labels=[1, 1, 1, 1]), record),
        (replace(images, classes=["a", "b"]), record),
        (Images(np.zeros((4, 3, 8, 8), np.uint8), labels=[0, 1, 0, 1]), record),
        (images, msgspec.structs.replace(record, fit="stretch")),
        (images, msgspec.structs.replace(record, crop_fraction=0.5)),
    ]
    for other, taken in others:
        assert other.open_blobs(taken, blocks) is not blocks


def test_other_names_of_a_data_sets_own_classes_reach_pages() -> None:
    class Data:
        targets, classes = (0, 1), ("cat", "dog")

        def __len__(self) -> int:
            return 2

        def __getitem__(self, at: int) -> tuple[np.ndarray, int]:
            return np.zeros((3, 8, 8), np.uint8), self.targets[at]

    images, record = Images(Data()), make_input(1, 3, 8, 8)
    blocks = images.open_blobs(record)
    assert replace(images, playing=True).open_blobs(record, blocks) is blocks
    renamed = replace(images, classes=["Katze", "Hund"]).open_blobs(record, blocks)
    data = renamed.blob(renamed.record_fields()["classes"])
    assert json.loads(bytes(data or b"")) == ["Katze", "Hund"]
