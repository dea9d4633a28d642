"""Errors for files that are not models, for missing paths, and for transposed axes."""

import io
import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import nbglcnn
from nbglcnn import InputError, ModelError
from nbglcnn.cli import main
from nbglcnn.load import wrap_model as as_model
from onnx_models import model_of, node, randn

SAFETENSORS_HEADER = json.dumps(
    {"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
).encode()
FOREIGN_FILES = {
    "safetensors": (
        len(SAFETENSORS_HEADER).to_bytes(8, "little") + SAFETENSORS_HEADER + bytes(4),
        "a safetensors file.*load_model",
    ),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(range(200)), "TensorFlow Lite model: convert it"),
    "ort": (b"\x18\0\0\0ORTM" + bytes(range(200)), "ONNX Runtime's own format"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(99), r"a picture \(PNG\)"),
    "jpeg": (b"\xff\xd8\xff\xe0" + bytes(99), r"a picture \(JPEG\)"),
    "text": (b"hello, this is my model\n" * 10, "text$"),
    "zeros": (bytes(1000), "zeros; download the file again"),
}


@pytest.mark.parametrize("kind", FOREIGN_FILES)
def test_a_file_that_is_no_model_is_told_by_what_it_looks_like(kind: str, tmp_path: Path) -> None:
    data, words = FOREIGN_FILES[kind]
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(ModelError, match=rf"^m\.onnx: not an ONNX model but .*{words}"):
        nbglcnn.compile(tmp_path / "m.onnx")


def relu_model() -> onnx.ModelProto:
    return model_of([node("Relu", ["x"], ["y"])], {"x": (2, 5, 4, 3)}, ["y"])


def test_a_plan_is_told_from_a_model(tmp_path: Path) -> None:
    nbglcnn.compile(relu_model()).save(tmp_path / "a.plan")
    with pytest.raises(ModelError, match=r"a Plan of nbglcnn: read it with nbglcnn\.Plan\.load"):
        nbglcnn.compile(tmp_path / "a.plan")


def test_of_open_files_the_bytes_are_taken() -> None:
    with pytest.raises(ModelError, match=r"BytesIO is not a model: give .* bytes, as file\.read"):
        nbglcnn.compile(io.BytesIO(relu_model().SerializeToString()))


def test_paths_where_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path, words in (
        ("", "^the path of the model is empty$"),
        ("in/nothere.pt", "^file not found: 'in/nothere.pt' in .*"),
        ("~/x.onnx", r"give os\.path\.expanduser\(path\)$"),
    ):
        with pytest.raises(ModelError, match=words):
            nbglcnn.compile(path)


def test_a_link_to_external_data_is_refused_with_what_to_do(tmp_path: Path) -> None:
    model = model_of(
        [node("Add", ["x", "w"], ["y"])], {"x": (5,)}, ["y"], constants={"w": randn(5)}
    )
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    os.rename(tmp_path / "w.bin", tmp_path / "blob")
    os.symlink("blob", tmp_path / "w.bin")
    with pytest.raises(ModelError, match=r"'w\.bin' is a link; links are not followed; copy"):
        nbglcnn.compile(tmp_path / "m.onnx")


def cached_model(path: Path, subfolder: str = "", dropout: bool = False) -> tuple[Path, np.ndarray]:
    """Model in a cache like Hugging Face's (snapshot links to files in `blobs`), and its weight."""
    weight = randn(5)
    nodes = [node("Add", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])]
    if dropout:
        nodes[1:] = [node("Dropout", ["a"], ["d"]), node("Relu", ["d"], ["y"])]
    model = model_of(nodes, {"x": (1, 5)}, ["y"], constants={"w": weight})
    blobs, snapshot = path / "blobs", path / "snapshots" / "3f2a" / subfolder
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    onnx.save(
        model, blobs / "e5f6", save_as_external_data=True, location="model.onnx_data",
        size_threshold=0,
    )  # fmt: skip
    os.rename(blobs / "model.onnx_data", blobs / "0a1b")
    up = Path(*[".."] * (2 + len(Path(subfolder).parts)), "blobs")
    os.symlink(up / "e5f6", snapshot / "model.onnx")
    os.symlink(up / "0a1b", snapshot / "model.onnx_data")
    return snapshot / "model.onnx", weight


@pytest.mark.parametrize("below", ["", "onnx", "a/b"])
def test_a_model_in_a_cache_of_links_is_read_with_its_data(tmp_path: Path, below: str) -> None:
    path, weight = cached_model(tmp_path, below)
    x = randn(1, 5)
    with nbglcnn.Session(nbglcnn.compile(path)) as session:
        np.testing.assert_allclose(session.run(x)["y"], np.maximum(x + weight, 0), rtol=1e-6)
        assert nbglcnn.verify(session, path, x).ok
    assert nbglcnn.check(str(path)).ok


def test_every_door_reads_a_cache_of_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, weight = cached_model(tmp_path, dropout=True)
    x = randn(1, 5)
    monkeypatch.chdir(path.parent)
    assert main(["verify", path.name, "--shape", "1x5"]) == 0
    viewer = nbglcnn.Viewer(path, x)
    assert viewer.verify().ok
    viewer.to_onnx(tmp_path / "again.onnx")
    viewer.close()
    with nbglcnn.Session(nbglcnn.compile(tmp_path / "again.onnx")) as session:
        np.testing.assert_allclose(session.run(x)["y"], np.maximum(x + weight, 0), rtol=1e-6)
    assert as_model(path).training_mode().dropouts


@pytest.mark.parametrize("place", ["same folder", "another folder", "both links"])
def test_a_link_to_a_model_finds_the_data_beside_the_model(tmp_path: Path, place: str) -> None:
    weight, x = randn(5), randn(1, 5)
    model = model_of(
        [node("Add", ["x", "w"], ["y"])], {"x": (1, 5)}, ["y"], constants={"w": weight}
    )
    whole = tmp_path / "v2.onnx"
    onnx.save(model, whole, save_as_external_data=True, location="1.bin", size_threshold=0)
    link = tmp_path / "latest.onnx"
    if place == "another folder":
        (tmp_path / "models").mkdir()
        link = tmp_path / "models" / "latest.onnx"
    elif place == "both links":
        (tmp_path / "1.bin").rename(tmp_path / "blob")
        (tmp_path / "1.bin").symlink_to("blob")
    link.symlink_to(whole)
    with nbglcnn.Session(nbglcnn.compile(link)) as session:
        np.testing.assert_allclose(session.run(x)["y"], x + weight, rtol=1e-6)
        assert nbglcnn.verify(session, link, x).ok


@pytest.mark.parametrize("place", ["outside", "below", "hard", "folder", "fifo", "up", "model"])
def test_other_links_in_a_cache_stay_refused(tmp_path: Path, place: str) -> None:
    path, _ = cached_model(tmp_path / "models")
    data, blobs = path.with_name("model.onnx_data"), tmp_path / "models" / "blobs"
    data.unlink()
    if place == "outside":
        (blobs / "0a1b").rename(tmp_path / "secret")
        data.symlink_to(tmp_path / "secret")
    elif place == "below":
        (blobs / "sub").mkdir()
        (blobs / "0a1b").rename(blobs / "sub" / "0a1b")
        data.symlink_to(blobs / "sub" / "0a1b")
    elif place == "hard":
        os.link(blobs / "0a1b", tmp_path / "another")
        data.symlink_to(blobs / "0a1b")
    elif place == "folder":
        data.symlink_to(blobs)
    elif place == "fifo":
        os.mkfifo(blobs / "fifo")
        data.symlink_to(blobs / "fifo")
    elif place == "up":
        data.symlink_to("/etc/passwd")
    else:  # the model's own file is next to the link
        path.unlink()
        (blobs / "e5f6").rename(path)
        data.symlink_to(blobs / "0a1b")
    with pytest.raises(ModelError, match="is a link"):
        nbglcnn.compile(path)


@pytest.mark.parametrize(
    ("shape", "hint", "mend"),
    [
        (
            (2, 3, 5, 4),
            r"channels last: x\.transpose\(0, 2, 3, 1\), ",
            lambda x: x.transpose(0, 2, 3, 1),
        ),
        ((5, 4, 3), "the batch axis is missing: stack 2", lambda x: np.stack([x, x])),
    ],
)
def test_shapes_for_channels_last_are_hinted_at(shape: tuple[int, ...], hint: str, mend) -> None:
    x = np.zeros(shape, np.float32)
    with pytest.raises(InputError, match=hint):
        nbglcnn.compile(relu_model(), x)
    nbglcnn.compile(relu_model(), mend(x))


def test_a_picture_without_batch_is_turned_and_given_one() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": (1, 5, 4, 3)}, ["y"])
    x = np.zeros((3, 5, 4), np.float32)
    with pytest.raises(InputError, match=r"x\.transpose\(1, 2, 0\)\[None\]"):
        nbglcnn.compile(model, x)
    nbglcnn.compile(model, x.transpose(1, 2, 0)[None])
