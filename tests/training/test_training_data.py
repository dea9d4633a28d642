"""Training data: rows as sent to pages, held-out examples, memory, and metadata."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from nbglcnn import InputError
from nbglcnn.errors import DeviceError
from nbglcnn.features.training import live_training, memory, packed_dataset
from nbglcnn.features.training.data import DEFAULT_BATCH_SIZE, Batch, BatchSource, open_batches
from nbglcnn.features.training.live_training import LiveTraining
from nbglcnn.features.training.local_training import compile_training
from nbglcnn.features.training.run import TrainingRun
from nbglcnn.plan.schema import Plan


def compile_case(
    model: nn.Module, data: Any, loss: str, **options: Any
) -> tuple[TrainingRun, BatchSource]:
    """A compiled training and its data."""
    return compile_training(
        model, data, loss, nbglcnn.SGD(0.1), options.pop("batch_size", 4),
        parameters="all", shuffle=False, seed=0, output="output", **options,
    )  # fmt: skip


def column_values(
    data_set: packed_dataset.PackedDataset, name: str, *, held_out: bool = False
) -> np.ndarray:
    """A column of the data set as the network receives it."""
    [column] = [one for one in data_set.columns if one.key == name]
    blob = data_set.blobs[column.held_out if held_out else column.blob]
    stored = np.frombuffer(blob, column.dtype).reshape(-1, *column.shape)
    return stored.astype(np.float32) * np.float32(column.scale)


def assert_near(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal up to the last digit: pages multiply by 1 / 255."""
    np.testing.assert_allclose(found, expected, rtol=2e-7)


def make_data_set(
    run: TrainingRun, data: BatchSource, held_out: float = 0.0
) -> packed_dataset.PackedDataset:
    return packed_dataset.pack_dataset(run, data, held_out, shuffled=False, seed=0)


@pytest.mark.parametrize("last", [False, True])
def test_pictures_of_bytes_travel_as_bytes_and_are_scaled(last: bool) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (6, 3, 5, 4), np.uint8)
    shown = pictures.transpose(0, 2, 3, 1) if last else pictures
    model = nn.Conv2d(3, 3, 1)
    found = make_data_set(*compile_case(model, shown, "mse"), held_out=0.5)
    for name in ("x" if "x" in {one.key for one in found.columns} else "input", "target"):
        [column] = [one for one in found.columns if one.key == name]
        assert (column.dtype, column.shape) == ("uint8", (3, 5, 4))
        assert_near(column_values(found, name), pictures[:3] / np.float32(255))
        assert_near(column_values(found, name, held_out=True), pictures[3:] / np.float32(255))
    batch = packed_dataset.select_batch(found, [2, 0], class_targets=False)
    assert_near(batch.inputs[0], pictures[[2, 0]] / np.float32(255))
    assert batch.target is not None
    np.testing.assert_array_equal(batch.target, batch.inputs[0])


def test_floats_travel_as_they_are() -> None:
    x = np.random.default_rng(1).normal(size=(5, 2)).astype(np.float64) * 300
    y = np.arange(5.0)[:, None]
    found = make_data_set(*compile_case(nn.Linear(2, 1), (x, y), "mse"))
    assert [one.dtype for one in found.columns] == ["float32"] * 2
    assert [one.scale for one in found.columns] == [1, 1]
    np.testing.assert_array_equal(column_values(found, found.columns[0].key), x.astype(np.float32))
    np.testing.assert_array_equal(column_values(found, "target"), y)


@pytest.mark.parametrize(
    ("most", "dtype"), [(0, "uint8"), (255, "uint8"), (256, "float32"), (999, "float32")]
)
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint16])
def test_classes_up_to_256_travel_as_bytes_and_more_as_floats(
    most: int, dtype: str, kind: Any
) -> None:
    labels = np.array([0, most, most // 2, 0, most], kind)
    x = np.zeros((5, 2), np.float32)
    found = make_data_set(
        *compile_case(nn.Linear(2, 1000), (x, labels), "cross_entropy"), held_out=0.2
    )
    target = found.columns[-1]
    assert (target.key, target.dtype, target.scale, target.shape) == ("target", dtype, 1, ())
    assert column_values(found, "target").tolist() == labels[:4].tolist()
    assert column_values(found, "target", held_out=True).tolist() == [most]
    batch = packed_dataset.select_batch(found, [1, 3], class_targets=True)
    assert batch.target is not None and batch.target.dtype == np.int64
    assert batch.target.tolist() == [most, 0]


def test_classes_of_bytes_are_numbers_and_no_pictures() -> None:
    labels = np.array([0, 200, 3], np.uint8)
    found = make_data_set(
        *compile_case(nn.Linear(2, 201), (np.zeros((3, 2), "f"), labels), "cross_entropy")
    )
    assert column_values(found, "target").tolist() == [0, 200, 3]


def test_classes_that_are_not_there_are_refused() -> None:
    for wrong in (-1, 10):
        with pytest.raises(InputError, match=f"the class {wrong};"):
            data = (np.zeros((5, 2), "f"), np.array([0, 9, 1, 2, wrong]))
            make_data_set(*compile_case(nn.Linear(2, 10), data, "cross_entropy"))


@pytest.mark.parametrize(
    ("share", "count", "out"),
    [(0, 10, 0), (0.1, 10, 1), (0.14, 10, 1), (0.16, 10, 2), (0.001, 10, 1), (0.999, 10, 9),
     (0.5, 2, 1), (0.9, 1, 0)],
)  # fmt: skip
def test_a_share_is_held_out_at_least_one_and_never_all(share: float, count: int, out: int) -> None:
    x = np.arange(2.0 * count, dtype=np.float32).reshape(count, 2)
    run, data = compile_case(nn.Linear(2, 2), x, "mse", batch_size=1)
    found = make_data_set(run, data, share)
    assert (found.example_count, found.held_out_count) == (count - out, out)
    np.testing.assert_array_equal(column_values(found, found.columns[0].key), x[: count - out])
    assert all(bool(one.held_out) == (out > 0) for one in found.columns)
    shuffled = packed_dataset.pack_dataset(run, data, share, shuffled=True, seed=1)
    both = [column_values(shuffled, found.columns[0].key)]
    both += [column_values(shuffled, found.columns[0].key, held_out=True)] if out else []
    assert sorted(np.concatenate(both)[:, 0].tolist()) == x[:, 0].tolist()


@pytest.mark.parametrize("share", [-0.01, 1, 1.5, "0.1", None])
def test_what_is_no_share_is_refused(share: Any) -> None:
    with pytest.raises(InputError, match="held_out"):
        make_data_set(*compile_case(nn.Linear(2, 2), np.zeros((4, 2), "f"), "mse"), held_out=share)


def test_a_page_takes_a_gibibyte_of_data_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert packed_dataset.MAX_DATASET_BYTES == 2**30
    run, data = compile_case(nn.Linear(2, 2), np.zeros((4, 2), "f"), "mse")
    monkeypatch.setattr(packed_dataset, "MAX_DATASET_BYTES", 2 * 4 * 2 * 4)  # input and target
    make_data_set(run, data)
    monkeypatch.setattr(packed_dataset, "MAX_DATASET_BYTES", 2 * 4 * 2 * 4 - 1)
    with pytest.raises(InputError, match="4 examples of 0 MB; a page takes at most"):
        make_data_set(run, data)


def test_a_batch_of_examples_that_are_not_there_is_refused() -> None:
    found = make_data_set(
        *compile_case(nn.Linear(2, 2), np.zeros((4, 2), "f"), "mse"), held_out=0.25
    )
    assert packed_dataset.select_batch(found, [2], class_targets=False).example_count == 1
    for wrong in ([3], []):
        with pytest.raises(InputError, match="there are 3"):
            packed_dataset.select_batch(found, wrong, class_targets=False)


def test_a_state_is_its_arrays_one_after_the_other() -> None:
    like = {"a": np.zeros((2, 3), "f"), "b": np.zeros((), "f"), "c": np.zeros((0, 4), "f")}
    flat = np.arange(7, dtype=np.float32)
    found = packed_dataset.unpack_state(["a", "c", "b"], memoryview(flat.tobytes()), like)
    np.testing.assert_array_equal(found["a"], flat[:6].reshape(2, 3))
    assert (found["b"], found["c"].shape) == (6, (0, 4))
    found["a"][:] = 0  # the result is a copy
    for size in (6, 8):
        with pytest.raises((InputError, ValueError)):
            packed_dataset.unpack_state(
                ["a", "c", "b"], memoryview(np.zeros(size, "f").tobytes()), like
            )


def test_a_batch_is_filled_with_its_first_example_up_to_its_size() -> None:
    batch = Batch((np.array([[1.0], [2.0]]),), np.array([5, 6]), 2)
    assert batch.padded(2) is batch and batch.padded(1) is batch
    filled = batch.padded(4)
    assert (filled.inputs[0].ravel().tolist(), filled.example_count) == ([1, 2, 1, 1], 2)
    assert filled.target is not None and filled.target.tolist() == [5, 6, 5, 5]
    alone = Batch((np.array([[1.0]]), np.array([[7.0]])), None, 1).padded(3)
    assert [one.ravel().tolist() for one in alone.inputs] == [[1, 1, 1], [7, 7, 7]]
    assert alone.target is None


def test_the_last_batch_of_an_epoch_has_the_examples_that_are_left() -> None:
    def sizes(count: int, size: int | None) -> tuple[int, int, list[int]]:
        x = np.arange(float(count))[:, None]
        data = open_batches(x, size, shuffle=False, seed=0, has_model_loss=False)
        batches = data.batches(0)
        assert data.batches_per_epoch is not None
        found = [next(batches).example_count for _ in range(data.batches_per_epoch + 1)]
        return data.batch_size, data.min_batch_size, found

    assert sizes(7, 3) == (3, 1, [3, 3, 1, 3])
    assert sizes(6, 3) == (3, 3, [3, 3, 3])
    assert sizes(2, 3) == (2, 2, [2, 2])
    assert sizes(DEFAULT_BATCH_SIZE + 1, None) == (
        DEFAULT_BATCH_SIZE,
        1,
        [DEFAULT_BATCH_SIZE, 1, DEFAULT_BATCH_SIZE],
    )
    data = open_batches(np.arange(7.0)[:, None], 3, shuffle=True, seed=4, has_model_loss=False)
    later, first = data.batches(4), data.batches(0)
    skipped = [next(first) for _ in range(5)][4]
    np.testing.assert_array_equal(next(later).inputs[0], skipped.inputs[0])


def memory_plan(size: int) -> Plan:
    """A fake Plan of 100 bytes for any batch, and 10 for each example."""
    textures = (SimpleNamespace(bytes=100), SimpleNamespace(bytes=10 * size))
    header = SimpleNamespace(
        name="net", textures=textures, weights=(SimpleNamespace(texture=0),), carries=()
    )
    return cast(Plan, SimpleNamespace(gpu_bytes=100 + 10 * size, header=header))


def test_a_step_may_take_as_many_bytes_as_are_given_and_a_batch_that_fits_is_named() -> None:
    sizes: list[int] = []

    def compiled_for(size: int) -> Plan:
        sizes.append(size)
        return memory_plan(size)

    memory.check_memory(memory_plan(32), 32, 420, "a GPU", compiled_for)
    memory.check_memory(memory_plan(32), 32, None, "a GPU", compiled_for)  # unknown free memory
    with pytest.raises(DeviceError, match=r"batch_size=32 needs 0.42 kB.*With batch_size=31 it"):
        memory.check_memory(memory_plan(32), 32, 419, "a GPU", compiled_for)
    assert sizes == [31]
    with pytest.raises(DeviceError, match="With batch_size=1 it needs"):
        memory.check_memory(memory_plan(32), 32, 110, "a GPU", compiled_for)
    with pytest.raises(DeviceError, match="are needed for any batch size"):
        memory.check_memory(memory_plan(32), 32, 99, "a GPU", compiled_for)


def test_a_batch_that_fits_is_looked_for_eight_times_at_most() -> None:
    sizes: list[int] = []

    def never(size: int) -> Plan:
        sizes.append(size)
        return memory_plan(1000)

    with pytest.raises(DeviceError, match="Give a smaller batch_size"):
        memory.check_memory(memory_plan(1000), 1000, 10_000, "a GPU", never)
    assert len(sizes) == memory.MAX_COMPILATIONS == 8 and sizes == sorted(sizes, reverse=True)


def make_training() -> LiveTraining:
    return LiveTraining(0.1, 4, lambda **_: None, lambda _: None)


def test_losses_that_follow_what_is_known_are_taken_and_a_gap_is_not() -> None:
    found = make_training()
    rows_of = lambda *losses: np.array([[loss, 0.5] for loss in losses], np.float32)  # noqa: E731
    assert live_training.record_steps(found, 0, rows_of(4, 3), [(0, 9.0, None), (2, 8.0, 0.25)])
    assert not live_training.record_steps(found, 3, rows_of(1))
    assert live_training.record_steps(found, 2, rows_of(2), [(2, 7.0, 0.5), (3, 6.0, 0.75)])
    assert (found.step_count, found.loss) == (3, 2)
    held = found.held_out_losses
    np.testing.assert_array_equal(held, np.array([[0, 9, np.nan], [2, 8, 0.25], [3, 6, 0.75]], "f"))
    # A record from an earlier step replaces all later ones.
    assert live_training.record_steps(found, 1, rows_of(5), [])
    assert found.losses.tolist() == [4, 5]
    np.testing.assert_array_equal(found.held_out_losses[:, 0], [0])
    past = np.frombuffer(live_training.pack_training_history(found, 1), np.float32)
    np.testing.assert_array_equal(past, np.array([1, 1, 4, 0.5, 0, 9, np.nan], "f"))
    live_training.clear_history(found)
    assert (found.step_count, found.losses.tolist()) == (0, [])


@pytest.mark.parametrize(("name", "least"), [("lr", 0.0), ("noise", 0.0), ("batch_size", 1)])
def test_a_setting_of_a_training_is_taken_from_its_least_on(name: str, least: float) -> None:
    asked: list[dict[str, Any]] = []
    found = LiveTraining(0.1, 4, lambda **changes: asked.append(changes), lambda _: None)
    setattr(found, name, type(least)(2))
    setattr(found, name, least)
    for wrong in (least - 1, *([float("nan"), float("inf")] if name != "batch_size" else [])):
        with pytest.raises(InputError, match=name):
            setattr(found, name, wrong)
    assert getattr(found, name) == least
    assert asked == [{name: 2}, {name: least}]
    found.step(1)
    assert asked[-1] == {"state": "running", "pause_at": 1}
    for count in (0, -1, 1.5):
        with pytest.raises(InputError, match="an integer ≥ 1"):
            found.step(cast(int, count))


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
def test_a_training_of_bytes_is_that_of_their_floats(loss: str) -> None:
    """On local OpenGL, compared with PyTorch, with batches of three of seven examples."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 4))
    pictures = np.random.default_rng(0).integers(0, 256, (7, 1, 6, 5), np.uint8)
    labels = np.arange(7) % 4
    target = labels if loss == "cross_entropy" else np.eye(4, dtype=np.float32)[labels]
    options: Any = {"loss": loss, "batch_size": 3, "epochs": 2, "shuffle": False, "progress": False}
    bytes_ = nbglcnn.train(model, (pictures, target), **options)
    floats = nbglcnn.train(model, (pictures / np.float32(255), target), **options)
    np.testing.assert_array_equal(bytes_.losses, floats.losses)
    with torch.no_grad():
        x = torch.from_numpy(pictures[:3]).float() / 255
        right = getattr(nn.functional, loss if loss == "cross_entropy" else "mse_loss")(
            model(x), torch.from_numpy(target[:3])
        )
    np.testing.assert_allclose(bytes_.losses[0], right, rtol=1e-5)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda x: (x, 2.5), "data: targets: 2.5 was given; expected arrays"),
        (lambda x: (x, None), "data: targets: None was given"),
        (lambda x: ((x, np.float32(2)), x), "data: input 1: .*2.0.* was given"),
        (lambda x: ((x, True), x), r"data: input 1: True .*self\.model\(x, constant\)"),
    ],
)
def test_a_number_in_the_place_of_examples_is_named(data: Any, words: str) -> None:
    x = torch.rand(4, 2)
    with pytest.raises(InputError, match=words):
        nbglcnn.train(nn.Linear(2, 2), data(x), steps=1, progress=False)
