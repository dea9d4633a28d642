"""Fashion-MNIST is found, or downloaded, or its absence explained; damaged files are rejected."""

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from nbglcnn import datasets
from nbglcnn.errors import DatasetUnavailable


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


def write_dataset(folder: Path, images: int = 3) -> None:
    folder.mkdir(parents=True)
    pixels = np.arange(images * 28 * 28, dtype=np.uint8).reshape(images, 28, 28)
    for prefix in ("train", "t10k"):
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", pixels)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", np.arange(images, dtype=np.uint8))


@pytest.fixture
def no_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No package installed, an empty cache, an empty PATH; returns the cache's folder."""
    monkeypatch.setattr(datasets, "_INSTALLED_FOLDER", tmp_path / "not-installed")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return datasets.cache_folder() / "fashion-mnist"


@pytest.mark.parametrize("split", ["train", "test"])
def test_both_splits_are_read_from_the_cache(no_dataset: Path, split: str) -> None:
    write_dataset(no_dataset)
    images, labels = datasets.fashion_mnist(split)
    assert images.shape == (3, 28, 28)
    assert images.dtype == np.uint8
    assert images[1, 0, 5] == (28 * 28 + 5) % 256
    assert labels.tolist() == [0, 1, 2]


def test_another_split_is_refused(no_dataset: Path) -> None:
    with pytest.raises(ValueError, match="'train' or 'test', not 'valid'"):
        datasets.fashion_mnist("valid")


def test_without_package_or_apt_the_error_says_how_to_get_it(no_dataset: Path) -> None:
    with pytest.raises(DatasetUnavailable) as error:
        datasets.fashion_mnist()
    assert "apt-get install dataset-fashion-mnist" in str(error.value)
    assert str(no_dataset) in str(error.value)
    assert "t10k-labels-idx1-ubyte.gz" in str(error.value)


def fake_apt(empty_folder: Path, tmp_path: Path, script: str) -> None:
    """A fake apt-get that runs `script`, with the real dpkg-deb."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "apt-get").write_text(f"#!/bin/sh\n{script}\n")
    (bin_folder / "apt-get").chmod(0o755)
    # dpkg-deb calls tar.
    for program in ("dpkg-deb", "tar", "cp", "rm"):
        found = shutil.which(program, path=os.defpath + ":/usr/bin")
        if found is None:
            pytest.skip(f"{program} is Debian's")
        (bin_folder / program).symlink_to(found)


def test_the_package_is_downloaded_and_unpacked_without_root(
    no_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tmp_path / "tree"
    write_dataset(tree / datasets._PACKAGE_FOLDER)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN" / "control").write_text(
        "Package: dataset-fashion-mnist\nVersion: 1\nArchitecture: all\n"
        "Maintainer: nobody <nobody@example.org>\nDescription: three images\n"
    )
    fake_apt(no_dataset, tmp_path, f"cp {tmp_path}/fashion.deb .")
    subprocess.run(["dpkg-deb", "--build", tree, tmp_path / "fashion.deb"], check=True)
    images, _ = datasets.fashion_mnist("test")
    assert len(images) == 3
    assert "apt-get download" in capsys.readouterr().err
    (tmp_path / "bin" / "apt-get").unlink()
    datasets.fashion_mnist("train")  # from the cache
    assert sorted(file.name for file in no_dataset.parent.iterdir()) == ["fashion-mnist"]


def test_what_apt_said_is_in_the_error(no_dataset: Path, tmp_path: Path) -> None:
    fake_apt(no_dataset, tmp_path, "echo 'E: Unable to locate package'; exit 100")
    with pytest.raises(DatasetUnavailable, match="E: Unable to locate package"):
        datasets.fashion_mnist()


DAMAGED_FILES = {
    "not gzip": (b"hello", "cannot be read"),
    "cut gzip": (gzip.compress(bytes(100))[:-10], "cannot be read"),
    "not idx": (gzip.compress(b"hello, world, this is text"), "not an idx file"),
    "floats": (gzip.compress(bytes([0, 0, 13, 3]) + bytes(12)), "not an idx file"),
    "no header": (gzip.compress(bytes([0, 0, 8])), "not an idx file"),
    "another size": (
        gzip.compress(bytes([0, 0, 8, 3]) + np.array([1, 9, 28], ">u4").tobytes()),
        r"\(1, 9, 28\), not \(None, 28, 28\)",
    ),
    "no images": (
        gzip.compress(bytes([0, 0, 8, 3]) + np.array([0, 28, 28], ">u4").tobytes()),
        r"\(0, 28, 28\)",
    ),
    "enormous": (
        gzip.compress(bytes([0, 0, 8, 3]) + np.array([2**32 - 1, 28, 28], ">u4").tobytes()),
        r"\(4294967295, 28, 28\)",
    ),
    "too short": (
        gzip.compress(bytes([0, 0, 8, 3]) + np.array([1, 28, 28], ">u4").tobytes() + bytes(783)),
        "784 bytes of data and has 783",
    ),
    "too long": (
        gzip.compress(bytes([0, 0, 8, 3]) + np.array([1, 28, 28], ">u4").tobytes() + bytes(999)),
        "784 bytes of data and has more",
    ),
}


@pytest.mark.parametrize("damage", DAMAGED_FILES)
def test_a_damaged_file_is_refused(no_dataset: Path, damage: str) -> None:
    write_dataset(no_dataset)
    content, words = DAMAGED_FILES[damage]
    (no_dataset / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(DatasetUnavailable, match=words):
        datasets.fashion_mnist()


def test_a_label_outside_the_classes_is_refused(no_dataset: Path) -> None:
    write_dataset(no_dataset, images=11)
    with pytest.raises(DatasetUnavailable, match="contains the label 10"):
        datasets.fashion_mnist()
