"""Fashion-MNIST as numpy arrays: from Debian's package, from a cache, or downloaded through apt."""

import gzip
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nbglcnn.errors import DatasetUnavailable

FASHION_MNIST_CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)

_PACKAGE = "dataset-fashion-mnist"
_PACKAGE_FOLDER = "usr/share/datasets/fashion-mnist"
_INSTALLED_FOLDER = Path("/", _PACKAGE_FOLDER)
_SPLIT_PREFIXES = {"train": "train", "test": "t10k"}
_FILES = tuple(
    f"{prefix}-{kind}-ubyte.gz"
    for prefix in _SPLIT_PREFIXES.values()
    for kind in ("images-idx3", "labels-idx1")
)


def fashion_mnist(
    split: Literal["train", "test"] = "train",
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Load Fashion-MNIST as numpy arrays.

    The files come from Debian's package `dataset-fashion-mnist` if it is installed, otherwise from
    a cache, otherwise from a download through `apt` without root.

    Args:
        split: `"train"` (default; 60,000 images) or `"test"` (10,000 images).

    Returns:
        A tuple `(images, labels)` of uint8 arrays: images (N, 28, 28) from 0 to 255, and labels
        (N,), indices into `FASHION_MNIST_CLASSES`.

    Raises:
        ValueError: If `split` is neither of these.
        DatasetUnavailable: If the files cannot be found or downloaded, or are damaged.

    Source: Xiao, Rasul and Vollgraf 2017, https://arxiv.org/abs/1708.07747.
    """
    if split not in _SPLIT_PREFIXES:
        raise ValueError(f"fashion_mnist: split is 'train' or 'test', not {split!r}")
    folder = _find_or_download_folder()
    prefix = _SPLIT_PREFIXES[split]
    images = read_idx(folder / f"{prefix}-images-idx3-ubyte.gz", (None, 28, 28))
    labels = read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", (len(images),))
    if labels.max() >= len(FASHION_MNIST_CLASSES):
        raise DatasetUnavailable(
            f"{folder / prefix}-labels-idx1-ubyte.gz contains the label {labels.max()}; "
            f"Fashion-MNIST has 0 to {len(FASHION_MNIST_CLASSES) - 1}. Download the file again."
        )
    return images, labels


def read_idx(path: Path, shape: tuple[int | None, ...]) -> NDArray[np.uint8]:
    """Read a gzipped idx file of bytes; `shape` is the expected shape, None for any size."""
    try:
        with gzip.open(path) as file:
            header = file.read(4 + 4 * len(shape))
            if len(header) < 4 + 4 * len(shape) or header[:4] != bytes([0, 0, 8, len(shape)]):
                raise DatasetUnavailable(
                    f"{path} is not an idx file of bytes with {len(shape)} dimensions: it starts "
                    f"with {header[:4].hex(' ')}. Download the file again."
                )
            found = tuple(int(size) for size in np.frombuffer(header[4:], ">u4"))
            count = math.prod(found)
            # 2**28 is 5 times the largest file of the data set: a wrong header must not exhaust
            # memory.
            if any(e not in (None, f) for e, f in zip(shape, found, strict=True)) or not (
                0 < count <= 2**28
            ):
                raise DatasetUnavailable(
                    f"{path} has the shape {found}, not {shape}. Download the file again."
                )
            data = file.read(count + 1)
    except (OSError, EOFError) as error:
        raise DatasetUnavailable(
            f"{path} cannot be read: {error}. Download the file again."
        ) from error
    if len(data) != count:
        raise DatasetUnavailable(
            f"{path} should have {count} bytes of data and has "
            f"{'more' if len(data) > count else len(data)}. Download the file again."
        )
    return np.frombuffer(data, np.uint8).reshape(found)


def _find_or_download_folder() -> Path:
    cached = cache_folder() / "fashion-mnist"
    for folder in (_INSTALLED_FOLDER, cached):
        if all((folder / name).exists() for name in _FILES):
            return folder
    _download(cached)
    return cached


def cache_folder() -> Path:
    """Return the folder for downloads, by each system's convention."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "nbglcnn"


def _download(folder: Path) -> None:
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or dpkg is None:
        raise DatasetUnavailable(_unavailable_message(folder, "This machine has no apt."))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        _print_progress(
            f"nbglcnn: downloading the package {_PACKAGE} (31 MB) with `apt-get download`"
        )
        # If root runs apt, its sandbox user cannot write into the folder, and apt prints a warning.
        _run_command([apt, "-o", "APT::Sandbox::User=", "download", _PACKAGE], temporary, folder)
        [deb] = Path(temporary).glob("*.deb")
        _print_progress(f"nbglcnn: unpacking it into {folder}")
        _run_command([dpkg, "-x", str(deb), "unpacked"], temporary, folder)
        for name in _FILES:
            source = Path(temporary, "unpacked", _PACKAGE_FOLDER, name)
            if not source.exists():
                raise DatasetUnavailable(
                    _unavailable_message(folder, f"The package {deb.name} does not contain {name}.")
                )
            source.replace(folder / name)


def _run_command(command: list[str], cwd: str, folder: Path) -> None:
    run = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if run.returncode:
        said = run.stdout.strip() or "nothing"
        raise DatasetUnavailable(
            _unavailable_message(folder, f"`{' '.join(command)}` failed: {said}")
        )


def _unavailable_message(folder: Path, reason: str) -> str:
    return (
        f"Fashion-MNIST is not available. {reason}\nOn Debian or Ubuntu: `apt-get update && "
        f"apt-get install {_PACKAGE}`, as root. Anywhere else, put {', '.join(_FILES)} into "
        f"{folder}."
    )


def _print_progress(text: str) -> None:
    sys.stderr.write(text + "\n")
