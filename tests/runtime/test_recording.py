"""Activations of a dataset in Zarr: correct, resumable, computed by workers that may die."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zarr
from distributed import Client, LocalCluster
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, recording
from onnx_models import model_of, node, randn

LAYER_NAMES = ["0", "2"]


def make_network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 2, 3, 2)).eval()


def expected_values(model: nn.Sequential, x: np.ndarray) -> dict[str, np.ndarray]:
    with torch.no_grad():
        first = model[0](torch.from_numpy(x))
        return {"0": first.numpy(), "2": model[2](model[1](first)).numpy()}


class CountingDataset:
    """Examples one by one with labels; records requests, and calls `happens` once, at row `at`."""

    def __init__(self, x: np.ndarray, at: int = -1, happens: Any = None) -> None:
        self.x, self.at, self.happens, self.requested_rows = x, at, happens, []

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        self.requested_rows.append(row)
        if row == self.at and self.happens is not None and self.requested_rows.count(row) == 1:
            self.happens()
        return torch.from_numpy(self.x[row]), row % 10


def test_layers_are_arrays_with_their_names_and_what_pytorch_computes(tmp_path: Path) -> None:
    model, x = make_network(), randn(11, 3, 9, 8)
    group = nbglcnn.record(model, x, LAYER_NAMES, tmp_path / "acts.zarr", batch_size=4)
    for key, true in expected_values(model, x).items():
        array = group[key]
        assert array.chunks == (4, *true.shape[1:])
        assert dict(array.attrs)["name"] == key
        assert dict(array.attrs)["shape"] == [*true.shape[1:]]
        assert_equal(array[:], true)
    assert group.attrs["examples"] == 11
    other = nbglcnn.record(make_network(1), x, LAYER_NAMES, tmp_path / "other.zarr", batch_size=4)
    assert other["0"].attrs["model"] != group["0"].attrs["model"]


def test_an_interrupted_recording_goes_on_where_it_was(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    model, x, path = make_network(), randn(10, 3, 9, 8), tmp_path / "acts.zarr"
    with pytest.raises(KeyboardInterrupt):
        nbglcnn.record(model, CountingDataset(x, 7, interrupt), LAYER_NAMES, path, batch_size=2)
    rest = CountingDataset(x)
    group = nbglcnn.record(model, rest, LAYER_NAMES, path, batch_size=2)
    assert sorted(set(rest.requested_rows)) == [0, 1, 6, 7, 8, 9]  # the first piece, for compiling
    for key, true in expected_values(model, x).items():
        assert_equal(group[key][:], true)
    again = CountingDataset(x)
    nbglcnn.record(model, again, LAYER_NAMES, path, batch_size=2)
    assert set(again.requested_rows) <= {0, 1}


def test_a_piece_whose_writing_was_interrupted_is_recorded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writes = zarr.Array.__setitem__, []

    def interrupted(array: zarr.Array, rows: slice, numbers: Any) -> None:
        if array.attrs.get("name") == "2":
            writes.append(rows)
            if len(writes) == 2:
                raise KeyboardInterrupt
        write(array, rows, numbers)

    model, x, path = make_network(), randn(6, 3, 9, 8), tmp_path / "acts.zarr"
    with monkeypatch.context() as patched:
        patched.setattr(zarr.Array, "__setitem__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            nbglcnn.record(model, x, LAYER_NAMES, path, batch_size=2)
    group = nbglcnn.record(model, x, LAYER_NAMES, path, batch_size=2)
    for key, true in expected_values(model, x).items():
        assert_equal(group[key][:], true)


def test_memory_maps_data_sets_and_folders_are_read_piece_by_piece(tmp_path: Path) -> None:
    model = make_network()
    pixels = np.random.default_rng(0).integers(0, 256, (5, 9, 8, 3), np.uint8)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, one in enumerate(pixels):
        Image.fromarray(one).save(folder / f"{number}.png")
    (folder / "notes.txt").write_text("no picture")
    x = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), np.float32) / np.float32(255)
    np.save(tmp_path / "x.npy", x)
    true = expected_values(model, x)
    for number, data in enumerate(
        (
            folder,
            str(folder),
            np.load(tmp_path / "x.npy", mmap_mode="r"),
            torch.from_numpy(x),
            TensorDataset(torch.from_numpy(x), torch.arange(5)),
            [*x],
        )
    ):
        group = nbglcnn.record(model, data, ["2"], tmp_path / f"{number}.zarr", batch_size=2)
        assert_equal(group["2"][:], true["2"])


def test_a_plan_records_in_pieces_of_its_batch(tmp_path: Path) -> None:
    model, x = make_network(), randn(7, 3, 9, 8)
    plan = nbglcnn.compile(model, x[:3], observe=["0"])
    group = nbglcnn.record(plan, x, ["0"], tmp_path / "acts.zarr")
    assert group["0"].chunks[0] == 3
    assert_equal(group["0"][:], expected_values(model, x)["0"])


def test_names_that_no_file_should_have_are_encoded(tmp_path: Path) -> None:
    names = ["/up/../../out", "..", "a b:c", "ü" * 200]
    nodes = [node("Relu", [a], [b]) for a, b in zip(["x", *names], names, strict=False)]
    model = model_of(nodes, {"x": (2, 3)}, [names[-1]])
    group = nbglcnn.record(model, randn(3, 3), names, tmp_path / "in" / "acts.zarr", batch_size=2)
    assert {a.attrs["name"] for k, a in group.arrays() if k != "_recorded"} == set(names)
    assert [file.name for file in tmp_path.iterdir()] == ["in"]
    assert [file.name for file in (tmp_path / "in").iterdir()] == ["acts.zarr"]


def test_what_cannot_be_recorded_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    model, x, path = make_network(), randn(4, 3, 9, 8), tmp_path / "acts.zarr"
    nbglcnn.record(model, x, ["2"], path, batch_size=2)
    for words, *given in (
        ("is a recording with model", make_network(1), x, ["2"], path),
        ("is a recording with first_example", model, x + 1, ["2"], path),
        ("is a recording with layers", model, x, LAYER_NAMES, path),
        ("exists and is not a Zarr group", model, x, ["2"], tmp_path),
        ("layers is a list of names", model, x, "2", tmp_path / "new"),
        ("has no examples", model, x[:0], ["2"], tmp_path / "new"),
        ("record: folder not found: .*none", model, tmp_path / "none", ["2"], tmp_path / "new"),
        ("record: no pictures in .*acts.zarr", model, path, ["2"], tmp_path / "new"),
        ("data is int; expected", model, 3, ["2"], tmp_path / "new"),
    ):
        with pytest.raises(InputError, match=words):
            nbglcnn.record(*given, batch_size=2)
    zarr.open_group(tmp_path / "theirs", mode="w")["a"] = np.arange(3)
    with pytest.raises(InputError, match="contains other data"):
        nbglcnn.record(model, x, ["2"], tmp_path / "theirs", batch_size=2)
    with pytest.raises(KeyError, match="'3' is not a value"):
        plan = nbglcnn.compile(model, x[:2])
        nbglcnn.record(plan, x, ["3"], tmp_path / "new")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, size in enumerate([(8, 9), (8, 9), (9, 9)]):
        Image.new("RGB", size).save(folder / f"{number}.png")
    with pytest.raises(InputError, match=r"2.png: input: shape \(1, 3, 9, 9\) .* the same size"):
        nbglcnn.record(model, folder, ["2"], tmp_path / "new", batch_size=2)
    assert_equal(zarr.open_group(path, mode="r")["2"][:], expected_values(model, x)["2"])


def test_a_folder_has_the_same_pictures_for_record_and_for_images(tmp_path: Path) -> None:
    """ImageFolder's order: files in class folders, or else those of the folder itself."""
    flat, classes = tmp_path / "flat", tmp_path / "classes"
    rng = np.random.default_rng(5)
    for folder, names in (
        (flat, ["b.png", "a.BMP", "c.gif", "d.ico", ".hidden.png", "note.txt"]),
        (classes, ["one/z.png", "one/deep/y.bmp", "zero/x.png", ".ipynb_checkpoints/w.png"]),
    ):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("txt"):
                (folder / name).write_text("no picture")
            else:
                Image.fromarray(rng.integers(0, 256, (9, 8, 3), np.uint8)).save(folder / name)
    for folder, files in (
        (flat, ["a.BMP", "b.png", "c.gif"]),
        (classes, ["one/z.png", "one/deep/y.bmp", "zero/x.png"]),
    ):
        x = np.stack([np.asarray(Image.open(folder / file).convert("RGB")) for file in files])
        x = x.transpose(0, 3, 1, 2).astype(np.float32) / 255
        model, out = make_network(), tmp_path / f"{folder.name}.zarr"
        group = nbglcnn.record(model, folder, ["input", "2"], out, batch_size=2)
        np.testing.assert_array_equal(group["input"][:], x)
        assert_equal(group["2"][:], expected_values(model, x)["2"])
        assert len(nbglcnn.Images(folder)) == len(files)


@pytest.mark.parametrize("broken", ["cut", "empty", "text"])
def test_a_damaged_picture_is_named_by_all_that_read_files(tmp_path: Path, broken: str) -> None:
    folder, model = tmp_path / "pictures", make_network()
    folder.mkdir()
    good, bad = folder / "0.png", folder / "1.png"
    noise = np.random.default_rng(6).integers(0, 256, (9, 8, 3), np.uint8)
    Image.fromarray(noise).save(good)
    data = good.read_bytes()
    bad.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "text": b"text"}[broken])
    words = "cannot be read as a picture" if broken == "cut" else "is not a picture that Pillow can"
    said = rf"{re.escape(str(bad))} {words}"
    with pytest.raises(InputError, match=f"^record: {said}"):
        nbglcnn.record(model, folder, ["2"], tmp_path / "new", batch_size=2)
    with pytest.raises(InputError, match=f"^input: {said}"):
        nbglcnn.compile(model, str(bad))


@pytest.fixture
def dask_client(tmp_path: Path) -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            local_directory=str(tmp_path / "workers"),
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_pieces_of_a_worker_that_dies_are_computed_again(
    dask_client: Client, tmp_path: Path
) -> None:
    def kill() -> None:
        os.kill(next(iter(dask_client.run(os.getpid).values())), signal.SIGKILL)

    model, x = make_network(), randn(24, 3, 9, 8)
    data = CountingDataset(x, 13, kill)
    group = nbglcnn.record(
        model, data, LAYER_NAMES, tmp_path / "acts.zarr", batch_size=2, client=dask_client
    )
    assert 13 in data.requested_rows
    for key, true in expected_values(model, x).items():
        assert_equal(group[key][:], true)


def test_pictures_of_any_size_and_kind_are_recorded_by_a_plan_with_a_preprocess(
    tmp_path: Path,
) -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": ("n", 3, "h", "w")}, ["y"])
    plan = nbglcnn.compile(model, preprocess=nbglcnn.Preprocess(size=(6, 5)))
    pictures = [Image.new("RGB", size, "red") for size in ((9, 7), (5, 6), (20, 3))]
    for number, picture in enumerate([*pictures, Image.new("L", (8, 8), 90)]):
        picture.save(tmp_path / f"{number}.png")
    group = nbglcnn.record(plan, tmp_path, ["y"], tmp_path / "zarr")
    with nbglcnn.Session(plan) as session:
        for number, picture in enumerate([*pictures, Image.new("L", (8, 8), 90)]):
            np.testing.assert_array_equal(group["y"][number], session.run(picture)["y"][0])


def test_a_file_has_the_layers_name_up_to_120_letters() -> None:
    def called(key: str) -> str:
        return recording._array_name(key, 7)

    assert recording.MAX_FILE_NAME_LENGTH == 120
    assert called("a" * 120) == "a" * 120 and called("a" * 121) == "%layer7"
    assert called("ü" * 20) == "%C3%BC" * 20 and called("ü" * 21) == "%layer7"
    assert called("encoder.0") == "encoder.0"
    assert called(recording.RECORDED_FLAGS_NAME) != recording.RECORDED_FLAGS_NAME
    assert called(".hidden") == "%2Ehidden" and called("end.") == "end%2E"


def test_layers_that_are_called_as_other_files_have_files_of_their_own(tmp_path: Path) -> None:
    names = [recording.RECORDED_FLAGS_NAME, "layer1", "l" * 121]
    nodes = [node("Neg", [a], [b]) for a, b in zip(["x", *names], names, strict=False)]
    model, x = model_of(nodes, {"x": (2, 3)}, [names[-1]]), randn(5, 3)
    group = nbglcnn.record(model, x, [names[1], names[2], names[0]], tmp_path / "a", batch_size=2)
    found = {array.attrs.get("name"): array[:] for _, array in group.arrays()}
    assert set(found) == {*names, None}
    for name, sign in zip(names, (-1, 1, -1), strict=True):
        assert_equal(found[name], sign * x)
    assert found[None].all()


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 9])
def test_any_number_of_examples_runs_in_pieces_of_a_plans_batch(count: int, tmp_path: Path) -> None:
    model, x = make_network(), randn(9, 3, 9, 8)
    plan = nbglcnn.compile(model, x[:4], observe=LAYER_NAMES)
    group = nbglcnn.record(plan, x[:count], LAYER_NAMES, tmp_path / "acts.zarr")
    with nbglcnn.Session(plan) as session:
        found = session.run(x[:count])
    for key, true in expected_values(model, x[:count]).items():
        assert_equal(group[key][:], true)
        assert_equal(found[key], true)


def test_a_worker_keeps_the_session_of_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_sessions", {})
    x = randn(2, 3, 9, 8)
    for seed in (0, 0, 1, 0):
        data = nbglcnn.compile(make_network(seed), x).to_bytes()
        found = recording.compute_batch(data, recording.content_hash(data), x, ["2"])
        assert list(found) == ["2"] and len(recording._sessions) == 1
        assert_equal(found["2"], expected_values(make_network(seed), x)["2"])
    for session in recording._sessions.values():
        session.close()
