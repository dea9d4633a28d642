"""Lessons without a network: limits on their size, and the changes that pages may make."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nbglcnn import InputError, Viewer
from nbglcnn.features.teaching import Lesson
from nbglcnn.features.teaching.head import Head, held_out_mask
from nbglcnn.features.teaching.records import (
    HELD_OUT_EVERY,
    MAX_CLASSES,
    MAX_EXAMPLES,
    MAX_FEATURES,
    MAX_NAME_LENGTH,
    ClassifierHead,
    FeatureVersion,
    LessonChange,
)

SHAPE, COUNT = (3, 2, 1), 2
FEATURE_VERSION = FeatureVersion("w")


def example_data(number: int = 0, features: Any = (1, 2)) -> bytes:
    """The data of an example, as a page sends it."""
    picture = np.arange(6, dtype=np.uint8) + number % 200
    return np.array(features, np.float32).tobytes() + picture.tobytes()


def make_lesson(*counts: int) -> Lesson:
    """A lesson with these numbers of examples per class."""
    found = Lesson(SHAPE, COUNT)
    for k, count in enumerate(counts):
        found.add_class(f"class {k}", f"c{k}")
        for number in range(count):
            change = LessonChange(
                "example", f"e{k}.{number}", class_id=f"c{k}", version=FEATURE_VERSION
            )
            assert found.apply_change(change, example_data(number, (k, -number)))
    return found


def make_head(taught_lesson: Lesson) -> Head:
    return Head("h", tuple(taught_lesson.class_names_by_id),
        np.ones((len(taught_lesson.class_names_by_id), COUNT), np.float32),
                np.zeros(len(taught_lesson.class_names_by_id), np.float32))  # fmt: skip


def test_twenty_classes_are_possible_and_no_more() -> None:
    found = make_lesson(*[0] * (MAX_CLASSES - 1))
    found.apply_change(LessonChange("class", "last", text="last"), b"")
    assert len(found.class_names_by_id) == MAX_CLASSES == 20
    for add in (
        lambda: found.add_class("more"),
        lambda: found.apply_change(LessonChange("class", "more", text="more"), b""),
    ):
        with pytest.raises(InputError, match="20 classes are supported"):
            add()
    found.apply_change(LessonChange("class", "last", text="renamed"), b"")
    found.remove_class("last")
    found.add_class("more")
    assert len(found.class_names_by_id) == MAX_CLASSES and "last" not in found.class_names_by_id


def test_two_thousand_examples_are_possible_and_no_more() -> None:
    found = make_lesson(1, MAX_EXAMPLES - 1)
    assert len(found.examples) == MAX_EXAMPLES == 2000
    found.check_capacity(0)
    more = LessonChange("example", "more", class_id="c0", version=FEATURE_VERSION)
    with pytest.raises(InputError, match="the limit of 2000"):
        found.apply_change(more, example_data())
    assert found.apply_change(LessonChange("forget", "e0.0"), b"")
    assert found.apply_change(more, example_data())
    with pytest.raises(InputError):
        found.check_capacity(1)


def test_a_file_with_more_examples_than_are_possible_changes_nothing() -> None:
    full = make_lesson(MAX_EXAMPLES)
    file = full.to_safetensors("conv", averaged=False)
    full.examples["more"] = full.example_from_data("more", "c0", example_data(), FEATURE_VERSION)
    over = full.to_safetensors("conv", averaged=False)
    found = make_lesson(1)
    with pytest.raises(InputError, match=r"doesn't fit.*the limit of 2000"):
        found.load_safetensors(over)
    assert len(found.examples) == 1
    found.load_safetensors(file)
    assert len(found.examples) == MAX_EXAMPLES


def test_a_class_is_called_by_1_to_60_letters_and_no_two_alike() -> None:
    found = make_lesson(1, 1)
    assert (
        found.class_names_by_id[found.add_class(f"  {'a' * MAX_NAME_LENGTH} ")]
        == "a" * MAX_NAME_LENGTH
    )
    for name in ("", "  ", "b" * (MAX_NAME_LENGTH + 1), 3, None):
        with pytest.raises(InputError, match="1 to 60 characters"):
            found.add_class(name)
    with pytest.raises(InputError, match="already"):
        found.apply_change(LessonChange("class", "c0", text=" class 1 "), b"")
    assert found.apply_change(LessonChange("class", "c0", text="class 0"), b""), "its own name"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_class_takes_its_examples_and_the_head_that_knows_it_along(place: int) -> None:
    found = make_lesson(2, 3, 1)
    found.head = make_head(found)
    assert found.apply_change(LessonChange("remove", f"c{place}"), b"")
    assert found.head is None and len(found.class_names_by_id) == 2
    assert [one.class_id for one in found.examples.values()] == [
        f"c{k}" for k, count in enumerate((2, 3, 1)) for _ in range(count) if k != place
    ]


def test_a_head_stays_where_a_later_class_goes() -> None:
    found = make_lesson(1, 1)
    found.head = own = make_head(found)
    found.add_class("later", "c2")
    found.remove_class("c2")
    found.remove_class("none")
    assert found.head is own


def test_a_head_of_classes_that_are_there_is_taken() -> None:
    found = make_lesson(1, 1, 1)
    numbers = np.arange(6, dtype=np.float32)
    change = LessonChange("head", "h", head=ClassifierHead("h", ("c2", "c0"), correct=1, count=2))
    assert found.apply_change(change, numbers.tobytes())
    assert found.head is not None
    np.testing.assert_array_equal(found.head.weight, numbers[:4].reshape(2, 2))
    np.testing.assert_array_equal(found.head.bias, numbers[4:])
    assert found.blob("h") == numbers.tobytes()
    with pytest.raises(InputError, match="expected 6 float32 values"):
        found.apply_change(change, numbers[:5].tobytes())
    found.remove_class("c1")
    assert found.head is not None
    gone = LessonChange("head", "i", head=ClassifierHead("i", ("c1", "c0"), 0, 0))
    assert not found.apply_change(gone, numbers.tobytes())


def test_changes_of_what_is_not_there_mean_nothing() -> None:
    found = make_lesson(1)
    for change in (
        LessonChange("example", "e", class_id="none", version=FEATURE_VERSION),
        LessonChange("example", "e", class_id="c0"),
        LessonChange("features", "none", version=FEATURE_VERSION),
        LessonChange("features", "e0.0"),
        LessonChange("forget", "none"),
        LessonChange("head", "h"),
    ):
        assert not found.apply_change(change, example_data())
    assert len(found.examples) == 1


def test_data_of_another_size_or_numbers_that_are_not_finite_are_refused() -> None:
    found = make_lesson(1)
    change = LessonChange("example", "e", class_id="c0", version=FEATURE_VERSION)
    for data in (example_data()[:-1], example_data() + b"0", b"", example_data(features=(1, 2, 3))):
        with pytest.raises(InputError):
            found.apply_change(change, data)
    for number in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="not finite"):
            found.apply_change(change, example_data(features=(1, number)))
    other = FeatureVersion("v", "[]")
    features = np.array([5, 6], np.float32)
    assert found.apply_change(LessonChange("features", "e0.0", version=other), features.tobytes())
    [own] = found.examples.values()
    assert own.version == other and own.features.tolist() == [5, 6]
    np.testing.assert_array_equal(own.picture.reshape(-1), np.arange(6))


def test_a_listing_has_each_network_once_and_the_order_of_examples() -> None:
    found = make_lesson(2, 1)
    other = FeatureVersion("v")
    found.apply_change(
        LessonChange("features", "e0.1", version=other), np.zeros(2, np.float32).tobytes()
    )
    listing = found.snapshot(7, {"page": 3})
    assert listing.versions == (FEATURE_VERSION, other)
    assert [(one.id, one.class_id, one.version) for one in listing.examples] == [
        ("e0.0", "c0", 0),
        ("e0.1", "c0", 1),
        ("e1.0", "c1", 0),
    ]
    assert (listing.sequence, listing.acknowledged, listing.head) == (7, {"page": 3}, None)
    assert {name for name, _ in found.blobs()} == {"e0.0", "e0.1", "e1.0"}
    assert found.blob("none") is None


def test_a_class_of_five_gives_one_to_hold_out_and_one_of_four_none() -> None:
    def held(*counts: int) -> list[int]:
        labels = np.repeat(np.arange(len(counts)), counts)
        return [int(place) for place in np.flatnonzero(held_out_mask(labels))]

    assert held(HELD_OUT_EVERY, HELD_OUT_EVERY) == [4, 9]
    assert held(HELD_OUT_EVERY, 2 * HELD_OUT_EVERY - 1) == [4, 13]
    assert held(HELD_OUT_EVERY, 2 * HELD_OUT_EVERY) == [4, 13, 14]
    assert held(2 * HELD_OUT_EVERY, HELD_OUT_EVERY - 1) == []


def test_a_value_of_4096_numbers_is_taken_whole_and_a_larger_one_averaged() -> None:
    def taught(channels: int, side: int) -> Any:
        model = nn.Sequential(nn.Conv2d(1, channels, 1), nn.ReLU(), nn.Flatten()).eval()
        viewer = Viewer(model, torch.rand(1, 1, side, side))
        return viewer.teach(["a", "b"], cut="1")

    assert MAX_FEATURES == 4096
    whole = taught(4, 32)
    assert (whole.averaged, whole._lesson.feature_count) == (False, MAX_FEATURES)
    averaged = taught(5, 32)
    assert (averaged.averaged, averaged._lesson.feature_count) == (True, 5)
    with pytest.raises(InputError, match=r"4,097 values per picture.*at most 4,096"):
        taught(MAX_FEATURES + 1, 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_examples_of_bytes_and_of_floats_are_the_same(dtype: Any) -> None:
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2)).eval()
    viewer = Viewer(model, torch.rand(1, 3, 6, 5))
    pictures = np.random.default_rng(3).integers(0, 256, (4, 6, 5, 3), np.uint8)
    pictures[:, :, :, 1] //= 8  # channels differ in range
    given = pictures if dtype == np.uint8 else (pictures / 255).astype(dtype).transpose(0, 3, 1, 2)
    teaching = viewer.teach(examples={"a": given})
    np.testing.assert_array_equal(teaching.examples["a"], pictures)
    with torch.no_grad():
        x = torch.from_numpy(pictures).permute(0, 3, 1, 2) / 255
        expected = model[:3](x).numpy()
    np.testing.assert_allclose(teaching.features["a"], expected, atol=1e-5)
